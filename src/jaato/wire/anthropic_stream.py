"""Answers of the Messages API: whole ones, and streamed ones put together event by event. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

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
from jaato.wire.anthropic_blocks import is_call, part_of

BROKEN_ARGUMENTS = "INVALID_JSON"
"""The one argument of a call whose arguments are no JSON object: what came in their place.

No tool knows it, so the model is told. The API's own documentation gives it this name.
"""

_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    # The window was full before the answer was complete.
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
    # Sent back as it is, the request goes on.
    "pause_turn": StopReason.PAUSED,
    "compaction": StopReason.PAUSED,
}


def decode_answer(answer: Mapping[str, Any]) -> Finished:
    """The answer to a request that was not streamed."""
    content = answer.get("content")
    return _finished(
        content if isinstance(content, list) else [],
        answer.get("usage"),
        answer.get("stop_reason"),
    )


def usage_of(figures: Any) -> Usage:
    """What the API says a call took. A figure that is missing or null stays unknown.

    The API tells the prompt in three parts; ours is the whole. Where it ran the model several
    times in one call, the prompt is that of the last run: the others are over.
    """
    figures = figures if isinstance(figures, Mapping) else {}
    prompt = _last_run(figures.get("iterations")) or figures
    fresh = _figure(prompt, "input_tokens")
    read = _figure(prompt, "cache_read_input_tokens")
    written = _figure(prompt, "cache_creation_input_tokens")
    details = figures.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=_figure(figures, "output_tokens"),
        cached_tokens=read,
        cache_write_tokens=written,
        thinking_tokens=_figure(details, "thinking_tokens"),
    )


def _last_run(iterations: Any) -> Mapping[str, Any] | None:
    runs = iterations if isinstance(iterations, list) else []
    return next(
        (
            run
            for run in reversed(runs)
            if isinstance(run, Mapping) and run.get("type") == "message"
        ),
        None,
    )


def _figure(figures: Any, name: str) -> int | None:
    figure = figures.get(name) if isinstance(figures, Mapping) else None
    return figure if isinstance(figure, int) and not isinstance(figure, bool) else None


class AnswerBuilder:
    """Puts a streamed answer together: events in as the API sends them, ours out.

    Events it does not know, `ping` and `error` among them, it passes over: an error is for the
    caller to raise.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._usage: dict[str, Any] = {}
        self._stop: Any = None
        self.is_finished = False

    def feed(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """What an event means, as far as it means something."""
        match event.get("type"):
            case "message_start":
                message = event.get("message")
                yield from self._saw(message.get("usage") if isinstance(message, Mapping) else None)
            case "content_block_start":
                yield from self._start(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._grow(event["index"], event["delta"])
            case "message_delta":
                delta = event.get("delta")
                if isinstance(delta, Mapping) and delta.get("stop_reason") is not None:
                    self._stop = delta["stop_reason"]
                yield from self._saw(event.get("usage"))
            case "message_stop":
                self.is_finished = True
                blocks = [self._whole(index) for index in sorted(self._blocks)]
                yield _finished(blocks, self._usage, self._stop)
            case _:
                pass

    def _saw(self, figures: Any) -> Iterator[StreamEvent]:
        if isinstance(figures, Mapping):
            self._usage |= {key: value for key, value in figures.items() if value is not None}
            yield UsageSeen(usage_of(self._usage))

    def _start(self, index: int, block: Mapping[str, Any]) -> Iterator[StreamEvent]:
        self._blocks[index] = dict(block)
        match block.get("type"):
            case "text" if block.get("text"):
                yield TextDelta(block["text"])
            case "thinking" if block.get("thinking"):
                yield ThoughtDelta(block["thinking"])
            case "tool_use":
                self._calls[index] = len(self._calls)
                yield CallDelta(self._calls[index], block.get("name"))
            case _:
                pass

    def _grow(self, index: int, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                yield TextDelta(self._piece(index, delta["text"]))
            case "thinking_delta":
                yield ThoughtDelta(self._piece(index, delta["thinking"]))
            case "input_json_delta":
                piece = self._piece(index, delta["partial_json"])
                if index in self._calls:
                    yield CallDelta(self._calls[index], arguments=piece)
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case _:
                # A signature, or a compaction: the fields of its block in one piece.
                block |= {key: value for key, value in delta.items() if key != "type"}

    def _piece(self, index: int, piece: str) -> str:
        self._pieces.setdefault(index, []).append(piece)
        return piece

    def _whole(self, index: int) -> dict[str, Any]:
        """The block as an answer that was not streamed would hold it."""
        block = self._blocks[index]
        pieces = "".join(self._pieces.get(index, ()))
        field = block.get("type")
        if field in {"text", "thinking"}:
            return {**block, field: (block.get(field) or "") + pieces}
        if pieces:
            return {**block, "input": _arguments(pieces)}
        return {"input": {}, **block} if is_call(field) else block


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {BROKEN_ARGUMENTS: text}


def _finished(blocks: list[Any], figures: Any, stop: Any) -> Finished:
    names: dict[str, str] = {}
    parts: list[Part] = []
    for block in blocks:
        part = _answer_part(block, names)
        if part.function_call is not None:
            names[part.function_call.id] = part.function_call.name
        parts.append(part)
    # An answer can be empty; a message never is.
    message = Message(Role.MODEL, parts or [Part(text="")])
    return Finished(message, usage_of(figures), _STOPS.get(str(stop), StopReason.OTHER))


def _answer_part(block: Any, names: Mapping[str, str]) -> Part:
    if not isinstance(block, Mapping):
        return part_of(block, names)
    # Answers say null of what they do not have; a request says nothing.
    block = {key: value for key, value in block.items() if value is not None}
    if block.get("type") == "thinking" and not block.get("signature"):
        # Cut off before it was signed, so the API would not take it back.
        return Part(thought=str(block.get("thinking", "")))
    return part_of(block, names)
