"""An answer of Chat Completions, whole or in chunks, as what a session understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from jaato.history import FunctionCall, Message, Part, Role
from jaato.history.message import NOTHING
from jaato.wire.foreign import an_object, as_text, beyond, noting, read_arguments, whole_number
from jaato.wire.openai_chat_messages import THOUGHT_FIELDS
from jaato.wire.openai_content import CHAT

_STOPS = {
    "stop": StopReason.END,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSED,
}


def decode_answer(body: Mapping[str, Any], *, replay_thoughts: bool = False) -> Finished:
    """The answer in a body that was not streamed."""
    answer = ChatAnswer(replay_thoughts=replay_thoughts)
    choice = _first_choice(an_object(body, "the answer"))
    answer.feed({**body, "choices": [{**choice, "delta": choice.get("message")}]})
    return answer.finished()


def decode_usage(usage: object) -> Usage:
    """What a call took, as far as the server says it."""
    if not isinstance(usage, Mapping):
        return Usage()
    prompt = _mapping(usage.get("prompt_tokens_details"))
    output = _mapping(usage.get("completion_tokens_details"))
    cached = whole_number(prompt.get("cached_tokens"))
    if cached is None:
        cached = whole_number(usage.get("prompt_cache_hit_tokens"))
    return Usage(
        input_tokens=whole_number(usage.get("prompt_tokens")),
        output_tokens=whole_number(usage.get("completion_tokens")),
        cached_tokens=cached,
        cache_write_tokens=whole_number(prompt.get("cache_write_tokens")),
        thinking_tokens=whole_number(output.get("reasoning_tokens")),
    )


@dataclass(slots=True)
class _Call:
    """A tool call that is being written."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)


class ChatAnswer:
    """Takes the chunks of one answer, gives events, and at the end the whole message.

    With `replay_thoughts` a thought notes where it stood, and is encoded again: some servers refuse
    a step without the thoughts that led to it.
    """

    def __init__(self, *, replay_thoughts: bool = False) -> None:
        self._replay = replay_thoughts
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[_Call] = []
        self._places: dict[int, int] = {}
        self._usage = Usage()
        self._reason: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the model has said why it stopped; a stream that ends before broke off."""
        return self._reason is not None

    def feed(self, chunk: Mapping[str, Any]) -> list[StreamEvent]:
        """What a chunk brings. Fields that are missing, null or of odd types bring nothing."""
        events: list[StreamEvent] = []
        choice = _first_choice(chunk)
        delta = _mapping(choice.get("delta"))
        events += self._thought(delta)
        events += self._text(delta)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            events += self._call(_mapping(call))
        # llama_cpp.server writes each piece in the old form as well.
        if not calls and isinstance(delta.get("function_call"), Mapping):
            events += self._call({"index": 0, "function": delta["function_call"]})
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = decode_usage(chunk["usage"])
            events.append(UsageSeen(self._usage))
        return events

    def finished(self) -> Finished:
        """The whole answer, as it must be replayed."""
        parts: list[Part] = []
        if self._thoughts:
            note = noting(CHAT, field=self._thought_field) if self._replay else NOTHING
            parts.append(Part(thought="".join(self._thoughts), extra=note))
        if self._texts:
            parts.append(Part(text="".join(self._texts)))
        if self._refusals:
            extra = noting(CHAT, refusal="field")
            parts.append(Part(text="".join(self._refusals), extra=extra))
        parts += [_part(call, number) for number, call in enumerate(self._calls)]
        return Finished(Message(Role.MODEL, parts), self._usage, self._stop())

    def _stop(self) -> StopReason:
        stop = _STOPS.get(self._reason or "", StopReason.OTHER)
        if stop is StopReason.END and self._calls:
            return StopReason.TOOL_CALLS
        return StopReason.REFUSED if stop is StopReason.END and self._refusals else stop

    def _thought(self, delta: Mapping[str, Any]) -> list[StreamEvent]:
        for name in THOUGHT_FIELDS:
            # Servers that know both names write the same into both.
            if isinstance(delta.get(name), str) and delta[name]:
                self._thought_field = self._thought_field or name
                self._thoughts.append(delta[name])
                return [ThoughtDelta(delta[name])]
        return []

    def _text(self, delta: Mapping[str, Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for key, texts in (("content", self._texts), ("refusal", self._refusals)):
            text = delta.get(key)
            if isinstance(text, list):
                # Some servers write content in parts here too.
                said = (_mapping(part).get("text") for part in text)
                text = "".join(piece for piece in said if isinstance(piece, str))
            if isinstance(text, str) and text:
                texts.append(text)
                events.append(TextDelta(text))
        return events

    def _call(self, delta: Mapping[str, Any]) -> list[StreamEvent]:
        index, begun = self._place(delta)
        call = self._calls[index]
        function = _mapping(delta.get("function"))
        name, arguments = function.get("name"), function.get("arguments")
        call.more |= beyond(delta, ("index", "id", "type", "function"))
        if isinstance(delta.get("id"), str):
            call.call_id = call.call_id or delta["id"]
        piece = "" if arguments is None else as_text(arguments)
        call.arguments.append(piece)
        if isinstance(name, str) and name and not call.name:
            call.name = name
            return [CallDelta(index, name, piece)]
        return [CallDelta(index, None, piece)] if piece or begun else []

    def _place(self, delta: Mapping[str, Any]) -> tuple[int, bool]:
        """Which call a piece belongs to, and whether it begins there."""
        index, call_id = whole_number(delta.get("index")), delta.get("id")
        named = _mapping(delta.get("function")).get("name")
        if index is None:
            begins = not self._calls or bool(call_id) or bool(named)
        else:
            place = self._places.get(index)
            # Some servers write each of several calls under index 0.
            other = place is not None and bool(call_id) and bool(named)
            begins = place is None or (other and self._calls[place].call_id not in {"", call_id})
        if begins:
            self._calls.append(_Call())
            if index is not None:
                self._places[index] = len(self._calls) - 1
            return len(self._calls) - 1, True
        return (len(self._calls) - 1 if index is None else self._places[index]), False


def _part(call: _Call, number: int) -> Part:
    # No arguments at all are no object; some servers refuse to read that back.
    args, text = read_arguments("".join(call.arguments) or "{}")
    made = FunctionCall(call.call_id or f"call_{number}", call.name, args)
    return Part(function_call=made, extra=noting(CHAT, arguments=text, more=call.more))


def _first_choice(document: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = document.get("choices")
    each = map(_mapping, choices if isinstance(choices, list) else ())
    return next((choice for choice in each if not choice.get("index")), NOTHING)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else NOTHING
