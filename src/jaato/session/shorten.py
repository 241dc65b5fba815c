"""A result that is too large for the window: head, tail, and the handle of the whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.gc.fitting import fit
from jaato.history import STUB_MARK, Message, Part, ToolResult
from jaato.ports import TokenCounter
from jaato.tokens import as_text

SHORTENED_MARK = "jaato.shortened"
"""Key in `Part.extra` of a result that was cut; its value is the handle of the whole."""
SMALLEST_KEPT = 64
"""A shorter result is left as it is: the line that says what is missing needs as much."""
HEAD_SHARE = 0.6
"""Of what is shown, this much is from the beginning: commands name what they do there."""


def shortened_text(text: str, *, counter: TokenCounter, limit: int, handle: str) -> str:
    """Head and tail of a text in at most so many tokens, and what is missing between."""

    def compose(room: int) -> str:
        head = int(room * HEAD_SHARE)
        tail = room - head
        missing = len(text) - room
        line = f'[{missing:,} characters left out: recall("{handle}")]'
        ending = text[len(text) - tail :] if tail else ""
        return f"{text[:head]}\n{line}\n{ending}"

    found = fit(compose, counter=counter, limit=limit, most=len(text))
    return compose(0) if found is None else found[1]


def stub_text(name: str, tokens: int, handle: str, *, is_error: bool) -> str:
    """The line that a stubbed result leaves behind."""
    what = f"{name} error" if is_error else f"{name} result"
    return f'[{what}, {tokens:,} tokens, left the window: recall("{handle}")]'


def result_parts(message: Message) -> list[int]:
    """The positions of the results in a message that can still be made smaller."""
    return [
        at
        for at, part in enumerate(message.parts)
        if part.function_response is not None and STUB_MARK not in part.extra
    ]


def with_result(part: Part, text: str, mark: str, handle: str) -> Part:
    """The part with another text as its result; attachments go with the full text."""
    old = part.function_response
    assert old is not None
    result = ToolResult(old.call_id, old.name, text, old.is_error)
    return Part(function_response=result, extra={**part.extra, mark: handle})


def result_text(part: Part) -> str:
    """What the model reads of a result."""
    assert part.function_response is not None
    return as_text(part.function_response.result)


def lowest_cap(sizes: Sequence[int], need: int, floor: int) -> int:
    """The largest size to which all are cut so that `need` is freed; `floor` if nothing is enough.

    Cutting the largest first, to a common size, takes least from each.
    """
    if sum(max(size - floor, 0) for size in sizes) <= need:
        return floor
    low, high = floor, max(sizes, default=floor)
    while high - low > 1:
        middle = (low + high) // 2
        if sum(max(size - middle, 0) for size in sizes) >= need:
            low = middle
        else:
            high = middle
    return low
