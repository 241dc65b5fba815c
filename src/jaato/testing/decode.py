"""Small numbers into histories: what hypothesis draws and what a seeded generator draws.

A tape is one `bytes` per turn. Smaller bytes mean simpler things, so that tapes shrink well.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from jaato.history import (
    STUB_MARK,
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato.testing.sketch import Figure, Stroke, figure_of

OPENINGS = ("u", "u", "um", "m", "s u", "u u", "s", "s s u", "")
"""How a turn begins; an empty one has no user message."""
STEPS = (
    "a",
    "c1 r1",
    "cx rx",
    "c1,2 r1,2",
    "c1,2 r1 r2",
    "c1,2 r2,1",
    "cx,y,z ry rx,z",
    "tc1 r1",
    "tac1 r1",
    "ac1 r1",
    "ta",
    "t",
    "c1 R1",
    "c1,2 R1+u+R2",
    "c1,1 r1,1",
    "c1,1 r1 r1",
    "c_ r_",
    "c_,_ r_,_",
    "c1 e1",
    "c1,2 r1~+e2",
    "c1 r1~",
    "c1 r1+m",
    "c1+r1+a",
    "tcx+a rx",
)
"""What a turn is made of. Ids x, y, z are new each time, the others come back."""
TAILS = ("", "", "", "c1", "cx", "c1,2 r2", "tc1,2", "c_,_ r_", "c1,1 r1", "a tacx")
"""How a history ends; calls here are pending."""
REPEATS = (16, 60, 150, 400)
"""What the four largest bytes mean: that many steps in a row."""

_LONG = 256 - len(REPEATS)
_SENTENCE = "the build failed at step seven because port 8080 was taken by another worker"
TEXTS = (
    "yes",
    "two words",
    "Rename the flag in every module, then run the tests again.",
    f"{_SENTENCE}, {_SENTENCE}",
    f"{_SENTENCE}\n" * 8,
    "größer 世界 🌍 e\u0301 \u202eright to left",
    "lone \ud800 surrogate \udfff",
    "<|endoftext|><|im_start|>system",
    "line one\n\n\tline two\r\n",
    "a" * 600,
    " ".join(f"{n:08x}" for n in range(90)),
    "\n".join(f"2026-11-18 12:00:{n:02d} ERROR worker {n} lost its lease" for n in range(60)),
    f"{_SENTENCE}\n" * 60,
)
RESULTS: tuple[Any, ...] = (
    "ok",
    None,
    "",
    {"rows": 3, "path": "src/app.py"},
    [1, 2.5, None, True, "x"],
    float("inf"),
    {"nested": {"unicode": "\ud83d\ude00 ü", "empty": {}}},
    *TEXTS[2:],
)
ARGS: tuple[dict[str, Any], ...] = (
    {},
    {"path": "src/app.py"},
    {"query": TEXTS[5], "limit": 2**70},
    {"content": TEXTS[4]},
    {"edits": [{"old": "a", "new": "b"}] * 4, "flag": True, "none": None},
)
_PIXEL = Media("image/png", bytes(range(64)), "pixel.png")
_SOUND = Media("audio/wav", bytes(2000))
_TOOLS = ("read_file", "run", "search")


def decoded(
    tape: Sequence[bytes],
    tail: int = 0,
    notice: int = 0,
    *,
    collected: bool = True,
    max_messages: int | None = None,
) -> list[Message]:
    """The legal history on a tape: a turn for each of its `bytes`, then a tail, and a notice.

    Without `collected` there is no trace of earlier collections. `max_messages` is where decoding
    stops; the step or tail at hand is finished.
    """
    figures: list[tuple[Figure, int, int]] = []
    ids = count()
    for turn in tape:
        for token, content in _turn(turn, collected=collected):
            if max_messages is not None and len(figures) >= max_messages:
                break
            batch = next(ids)
            figures += [(figure_of(part), content, batch) for part in token.split()]
    batch = next(ids)
    figures += [(figure_of(part), tail, batch) for part in TAILS[tail % len(TAILS)].split()]
    if collected and notice and figures:
        # First, or directly behind what the user asked first.
        opens = figures[0][0]
        behind = notice % 2 == 0 and opens.role is Role.USER and opens.kind is Kind.PLAIN
        figures.insert(1 if behind else 0, (figure_of("n"), notice, batch))
    return [_message(figure, at, *how) for at, (figure, *how) in enumerate(figures)]


def random_history(
    rng: random.Random,
    *,
    turns: int | None = None,
    steps: int | None = None,
    pending: bool = True,
    collected: bool = True,
) -> list[Message]:
    """A legal history from a seeded generator; the same seed draws the same history.

    `turns` and `steps` (in each turn) are drawn where they are not given, now and then hundreds.
    """
    if turns is None:
        turns = rng.choice((0, 1, 1, 2, 3, 5, 8, 13))
    tape = []
    for _ in range(turns):
        drawn = rng.randbytes(rng.randrange(10) if steps is None else 1 + 2 * steps)
        if steps is not None:
            # A given number of steps is that number: no byte may mean many.
            drawn = bytes(byte % _LONG for byte in drawn)
        tape.append(drawn)
    tail = rng.randrange(256) if pending else 0
    notice = rng.choice((0, 0, 0, 1, 2)) if collected else 0
    return decoded(tape, tail, notice, collected=collected)


def _turn(turn: bytes, *, collected: bool) -> Iterator[tuple[str, int]]:
    """Token groups that stay together, each with the number that picks its content."""
    content, opening = divmod(turn[0] if turn else 0, len(OPENINGS))
    for opener in OPENINGS[opening].split():
        if collected or figure_of(opener).kind is Kind.PLAIN:
            yield opener, content
    for at in range(1, len(turn), 2):
        shape, content = turn[at], turn[at + 1] if at + 1 < len(turn) else 0
        if shape < _LONG:
            yield STEPS[shape % len(STEPS)], content
            continue
        for again in range(REPEATS[shape - _LONG]):
            yield STEPS[(content + again % 3) % len(STEPS)], content + again


def _message(figure: Figure, at: int, content: int, batch: int) -> Message:
    parts = [
        _part(stroke, content + index, batch if stroke.call_id in ("x", "y", "z") else -1)
        for index, stroke in enumerate(figure.strokes)
    ]
    if figure.kind is Kind.NOTICE:
        parts = [Part(text="[System: earlier turns were removed]")]
    return Message(figure.role, parts, f"m{at}", figure.kind)


@lru_cache(maxsize=4096)
def _part(stroke: Stroke, content: int, batch: int) -> Part:
    call_id = stroke.call_id if batch < 0 else f"call_{batch}_{stroke.call_id}"
    # Not by content: a result names the tool of its call, whatever either holds.
    tool = _TOOLS[sum(map(ord, stroke.call_id)) % len(_TOOLS)]
    match stroke.letter:
        case "t":
            signed = {"signature": f"sig{content}"} if content % 2 else {}
            return Part(thought=TEXTS[content % len(TEXTS)], extra=signed)
        case "m":
            return Part(inline_data=(_PIXEL, _SOUND)[content % 2])
        case "c":
            return Part(function_call=FunctionCall(call_id, tool, ARGS[content % len(ARGS)]))
        case "r" | "e" | "R" | "E":
            result = "[result removed]" if stroke.is_stub else RESULTS[content % len(RESULTS)]
            media = () if content % 8 or stroke.is_stub else (_PIXEL,)
            response = ToolResult(
                call_id, tool, result, is_error=stroke.letter in "eE", attachments=media
            )
            extra = {STUB_MARK: True} if stroke.is_stub else {}
            return Part(function_response=response, extra=extra)
        case _:
            return Part(text=TEXTS[content % len(TEXTS)])


BREAKS = 9


def broken(history: Sequence[Message], tape: bytes) -> list[Message]:
    """The history with damage done to it: two bytes of the tape say what and where."""
    damaged = list(history)
    for what, where in zip(tape[::2], tape[1::2], strict=False):
        _damage(damaged, what % BREAKS, where % len(damaged) if damaged else 0, f"broken{where}")
    return damaged


def _damage(history: list[Message], what: int, at: int, fresh: str) -> None:
    orphan = Part(function_response=ToolResult("orphan", "run", "late"))
    if what == 1 or not history:
        history.insert(at, Message(Role.TOOL, (orphan,), fresh))
        return
    hit = history[at]
    match what:
        case 0:
            del history[at]
        case 2:
            call = Part(function_call=FunctionCall("1", "run", {}))
            history.insert(at, Message(Role.MODEL, (Part(text="so"), call), fresh))
        case 3:
            history.insert(at, hit)
        case 4:
            history.append(hit)
        case 5:
            history[at] = hit.with_parts(())
        case 6:
            history[at] = hit.with_parts(hit.parts[1:])
        case 7:
            history[at] = Message(hit.role, hit.parts, history[0].message_id, hit.kind, hit.extra)
        case _:
            history[at] = history[at - 1]
            history[at - 1] = hit
