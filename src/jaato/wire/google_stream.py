"""Answers of Gemini: whole ones, and streamed ones put together chunk by chunk. Pure.

Calls that the API gave no id get one of ours (`call_1`, …), which no other call of the message has,
and which is never sent: the part says so, and the codec sends their results without one too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count, pairwise
from typing import Any, Final

from jaato.exchange import (
    CallDelta,
    Finished,
    StopReason,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    Usage,
    UsageSeen,
)
from jaato.history import Message, Part, Role
from jaato.history.message import NOTHING
from jaato.wire.foreign import whole_number
from jaato.wire.google_parts import KEY, WITHOUT, decode_part, kept, spelled_part

STOP_KEY: Final = "google.stop"
"""Key in the `extra` of a message that ended in no usual way: what the API says of the reason."""

_STOPS: Final = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    "CONTINUATION": StopReason.PAUSED,
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "ESCALATION",
            "PUP_LIMITED_DISABLED",
            "MODEL_ARMOR",
        ),
        StopReason.REFUSED,
    ),
}
"""All others, calls that cannot be read among them, are `OTHER`."""
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_VALUES = ("stringValue", "numberValue", "boolValue")


def decode_answer(answer: Mapping[str, Any]) -> Finished:
    """The answer to a request that was not streamed."""
    builder = AnswerBuilder()
    for _ in builder.feed(answer):
        pass
    return builder.finished()


def usage_of(figures: Mapping[str, Any]) -> Usage:
    """What `usageMetadata` says a call took. A figure that is missing or null stays unknown."""
    said = {name: whole_number(value) for name, value in figures.items()}
    answer, thinking = said.get("candidatesTokenCount"), said.get("thoughtsTokenCount")
    return Usage(
        input_tokens=said.get("promptTokenCount"),
        output_tokens=None if answer is thinking is None else (answer or 0) + (thinking or 0),
        cached_tokens=said.get("cachedContentTokenCount"),
        thinking_tokens=thinking,
    )


class AnswerBuilder:
    """Puts an answer together from its chunks, and tells what each of them brings.

    Texts and thoughts run together until a part comes that carries more than its text: a signature
    belongs to its own part, be that empty, and is replayed there.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._run: list[str] = []
        self._run_thinks = False
        self._calls = 0
        self._partial: dict[str, Any] | None = None
        self._figures: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the API said that the answer ends here."""
        return bool(self._stop)

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """What a chunk of the answer brings."""
        candidate = _first(chunk.get("candidates"))
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, Mapping) else None
        for wire in parts if isinstance(parts, list) else ():
            if isinstance(wire, Mapping) and wire:
                yield from self._take(spelled_part(wire))
        self._stop |= _named(candidate, "finishReason", "finishMessage")
        self._stop |= _named(chunk.get("promptFeedback"), "blockReason", "blockReasonMessage")
        figures = chunk.get("usageMetadata")
        if isinstance(figures, Mapping):
            self._figures |= {name: one for name, one in figures.items() if one is not None}
            usage = usage_of(self._figures)
            if usage != Usage():
                yield UsageSeen(usage)

    def finished(self) -> Finished:
        """The end: the whole message, as it must be replayed."""
        self._close_run()
        parts = _with_ids(self._parts)
        blocked = "blockReason" in self._stop
        stop = _STOPS.get(self._stop.get("finishReason", ""), StopReason.OTHER)
        if blocked:
            stop = StopReason.REFUSED
        elif stop is StopReason.END and self._calls:
            stop = StopReason.TOOL_CALLS
        usual = stop in (StopReason.END, StopReason.TOOL_CALLS, StopReason.LENGTH)
        extra = NOTHING if usual or not self._stop else {STOP_KEY: self._stop}
        return Finished(Message(Role.MODEL, parts, extra=extra), usage_of(self._figures), stop)

    def _take(self, wire: dict[str, Any]) -> Iterator[StreamEvent]:
        call = wire.get("functionCall")
        if isinstance(call, Mapping):
            yield from self._take_call(wire, call)
            return
        part = decode_part(wire, answer=True)
        if part.thought is not None:
            if part.thought:
                yield ThoughtDelta(part.thought)
            self._join(part, part.thought, thinks=True)
        elif part.text is not None:
            if part.text:
                yield TextDelta(part.text)
            self._join(part, part.text, thinks=False)
        else:
            self._append(part)

    def _take_call(self, wire: dict[str, Any], call: Mapping[str, Any]) -> Iterator[StreamEvent]:
        whole = self._partial
        if whole is None:
            yield CallDelta(self._calls, name=str(call.get("name") or ""))
            whole = wire
        else:
            whole |= _but(wire, "functionCall")
        pieces = call.get("partialArgs") or ()
        if pieces or call.get("willContinue") or self._partial is not None:
            # Arguments come in pieces where the request asked for that (Vertex AI only).
            named = whole["functionCall"]
            args = dict(named.get("args") or {})
            for piece in pieces:
                _put(args, piece)
            whole["functionCall"] = {**_but(named, "partialArgs", "willContinue"), "args": args}
            self._partial = whole if call.get("willContinue") else None
            if self._partial is not None:
                return
        part = decode_part(whole, answer=True)
        assert part.function_call is not None
        self._append(part)
        yield CallDelta(self._calls, arguments=json.dumps(part.function_call.args))
        self._calls += 1

    def _join(self, part: Part, text: str, *, thinks: bool) -> None:
        if part.extra:
            self._append(part)
        elif text:
            if thinks is not self._run_thinks:
                self._close_run()
            self._run_thinks = thinks
            self._run.append(text)

    def _append(self, part: Part) -> None:
        self._close_run()
        self._parts.append(part)

    def _close_run(self) -> None:
        text = "".join(self._run)
        self._run.clear()
        if text:
            self._parts.append(Part(thought=text) if self._run_thinks else Part(text=text))


def _first(candidates: Any) -> Mapping[str, Any]:
    """The first of several answers, or nothing."""
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, Mapping) else NOTHING


def _but(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _named(fields: Any, *names: str) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        return {}
    return {name: fields[name] for name in names if fields.get(name)}


def _with_ids(parts: list[Part]) -> list[Part]:
    """The parts with an id for each call, marked where it is ours."""
    taken = {part.function_call.id for part in parts if part.function_call is not None}
    names = (f"call_{number}" for number in count(1))
    free = (name for name in names if name not in taken)
    return [
        _with_id(part, next(free))
        if part.function_call is not None and not part.function_call.id
        else part
        for part in parts
    ]


def _with_id(part: Part, call_id: str) -> Part:
    assert part.function_call is not None
    over = dict(kept(part.extra) or {})
    inner = dict(over.get("functionCall", {}))
    over["functionCall"] = {**inner, WITHOUT: [*inner.get(WITHOUT, ()), "id"]}
    return replace(part, function_call=replace(part.function_call, id=call_id), extra={KEY: over})


def _put(args: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a streamed piece of arguments where its path says; pieces of a text run together."""
    path = [
        int(index) if index else name or single or double
        for name, index, single, double in _PATH.findall(str(piece.get("jsonPath")))
    ]
    value = next((piece[name] for name in _VALUES if piece.get(name) is not None), None)
    if not path:
        return
    inside: Any = args
    for step, after in pairwise(path):
        inside = _opened(inside, step, [] if isinstance(after, int) else {})
    before = _opened(inside, path[-1], None)
    inside[path[-1]] = (
        before + value if isinstance(before, str) and isinstance(value, str) else value
    )


def _opened(inside: Any, step: Any, empty: Any) -> Any:
    """What is at a step of a path, made `empty` if there is nothing yet."""
    if isinstance(inside, list):
        inside += [None] * (step + 1 - len(inside))
    elif step not in inside:
        inside[step] = None
    if inside[step] is None:
        inside[step] = empty
    return inside[step]
