"""An answer of Responses, whole or in events, as what a session understands."""

from __future__ import annotations

from collections.abc import Mapping
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
from jaato.history.message import NOTHING
from jaato.wire.foreign import an_object, noted, whole_number
from jaato.wire.openai_inputs import RESPONSES
from jaato.wire.openai_items import BETWEEN_THOUGHTS, decode_said

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ARGUMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CALLS = ("function_call", "custom_tool_call")
_INCOMPLETE = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
}


def decode_answer(body: Mapping[str, Any]) -> Finished:
    """The answer in a body that was not streamed."""
    body = an_object(body, "the answer")
    output = body.get("output")
    items = [item for item in output if isinstance(item, Mapping)] if output else []
    return _finished(body, items)


def error_in(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What went wrong, if an event or a body says that something did."""
    kind = document.get("type")
    inner = document.get("error")
    if isinstance(inner, Mapping) and inner:
        return inner
    if kind == "error":
        return document
    response = _mapping(document.get("response"))
    failed = kind == "response.failed" or document.get("status") == "failed"
    return _mapping(response.get("error")) if failed else None


def decode_usage(usage: object) -> Usage:
    """What a call took, as far as the server says it."""
    if not isinstance(usage, Mapping):
        return Usage()
    prompt = _mapping(usage.get("input_tokens_details"))
    output = _mapping(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=whole_number(usage.get("input_tokens")),
        output_tokens=whole_number(usage.get("output_tokens")),
        cached_tokens=whole_number(prompt.get("cached_tokens")),
        cache_write_tokens=whole_number(prompt.get("cache_write_tokens")),
        thinking_tokens=whole_number(output.get("reasoning_tokens")),
    )


class ResponsesAnswer:
    """Takes the events of one answer, gives ours, and at the end the whole message.

    Events that say what went wrong are for `error_in`; here they bring nothing.
    """

    def __init__(self) -> None:
        self._items: dict[int, Mapping[str, Any]] = {}
        self._calls: dict[int | None, int] = {}
        self._thinking: dict[int | None, tuple[object, ...]] = {}
        self._response: Mapping[str, Any] | None = None

    @property
    def complete(self) -> bool:
        """Whether the response has ended; a stream that ends before broke off."""
        return self._response is not None

    def feed(self, event: Mapping[str, Any]) -> list[StreamEvent]:
        """What an event brings. Fields that are missing, null or of odd types bring nothing."""
        kind = event.get("type")
        text = event.get("delta")
        events: list[StreamEvent] = []
        if not isinstance(kind, str):
            return events
        if isinstance(text, str) and text:
            events = self._delta(kind, text, event)
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            events = self._item(event, _mapping(event.get("item")), done=kind.endswith("done"))
        elif kind in _ENDS:
            self._response = _mapping(event.get("response"))
            usage = self._response.get("usage")
            events = [UsageSeen(decode_usage(usage))] if isinstance(usage, Mapping) else []
        return events

    def finished(self) -> Finished:
        """The whole answer, as it must be replayed."""
        response = self._response or NOTHING
        if not self._items:
            return decode_answer(response)
        return _finished(response, [self._items[at] for at in sorted(self._items)])

    def _delta(self, kind: str, text: str, event: Mapping[str, Any]) -> list[StreamEvent]:
        at = whole_number(event.get("output_index"))
        if kind in _TEXTS:
            return [TextDelta(text)]
        if kind in _THOUGHTS:
            place = (kind, event.get("summary_index"), event.get("content_index"))
            begun = self._thinking.get(at, place)
            self._thinking[at] = place
            return [ThoughtDelta(text if begun == place else f"{BETWEEN_THOUGHTS}{text}")]
        if kind in _ARGUMENTS:
            index = self._calls.setdefault(at, len(self._calls))
            return [CallDelta(index, None, text)]
        return []

    def _item(
        self, event: Mapping[str, Any], item: Mapping[str, Any], *, done: bool
    ) -> list[StreamEvent]:
        at = whole_number(event.get("output_index"))
        if done:
            self._items[len(self._items) if at is None else at] = item
            return []
        if item.get("type") not in _CALLS:
            return []
        index = self._calls.setdefault(at, len(self._calls))
        name = item.get("name")
        return [CallDelta(index, name if isinstance(name, str) else None)]


def _finished(response: Mapping[str, Any], items: list[Mapping[str, Any]]) -> Finished:
    parts = [part for number, item in enumerate(items) for part in _parts(item, number)]
    usage = decode_usage(response.get("usage"))
    return Finished(Message(Role.MODEL, parts), usage, _stop(response, parts))


def _parts(item: Mapping[str, Any], number: int) -> list[Part]:
    if item.get("arguments") == "":
        # No arguments at all are no object; some servers refuse to read that back.
        item = {**item, "arguments": "{}"}
    parts = decode_said(item, f"output[{number}]")
    if item.get("type") == "reasoning" and not (
        item.get("encrypted_content") or item.get("content")
    ):
        # But the id of something that the provider did not store: it would refuse it.
        return [Part(thought=part.thought) for part in parts]
    return parts


def _stop(response: Mapping[str, Any], parts: list[Part]) -> StopReason:
    if response.get("status") == "incomplete":
        details = _mapping(response.get("incomplete_details"))
        return _INCOMPLETE.get(str(details.get("reason")), StopReason.OTHER)
    if any(part.function_call is not None for part in parts):
        return StopReason.TOOL_CALLS
    if any(noted(part.extra, RESPONSES).get("refusal") for part in parts):
        return StopReason.REFUSED
    done = response.get("status") in {"completed", None}
    return StopReason.END if done else StopReason.OTHER


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else NOTHING
