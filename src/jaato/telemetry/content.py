"""What was said, in the JSON of the GenAI conventions. Used only where content is wanted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaato.history import Message, Role
from jaato.history.message import Part
from jaato.telemetry.attributes import Attribute, clean_text
from jaato.telemetry.conventions import (
    FINISH_REASONS,
    INPUT_MESSAGES,
    MESSAGES_OMITTED,
    OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
    TOOL_ARGUMENTS,
    TOOL_DEFINITIONS,
    TOOL_RESULT,
)

LONGEST_TEXT: Final = 16_384
"""Characters of one text."""
LONGEST_CONTENT: Final = 262_144
"""Characters of one attribute, about: as much as backends take."""
_DEEPEST: Final = 12
_WIDEST_INTEGER: Final = 1_024
_SPEAKERS: Final = {Role.USER: "user", Role.MODEL: "assistant", Role.TOOL: "tool"}


def content_attributes(
    fact: str, value: object, known: Mapping[str, Attribute], *, prefix: str
) -> dict[str, Attribute]:
    """The attributes of a fact that holds content. `known` are those that the span has already."""
    room = _Room()
    match fact, value:
        case "messages", [*messages]:
            found = _input(room, messages)
        case (("prompt" | "task"), str()):
            found = _input(room, [Message.from_text(Role.USER, value)])
        case (("answer" | "text"), (str() | Message())):
            found = {OUTPUT_MESSAGES: _output(room, value, known.get(FINISH_REASONS))}
        case "system", str():
            found = {SYSTEM_INSTRUCTIONS: _json([{"type": "text", "content": room.text(value)}])}
        case "tools", [*schemas]:
            found = {TOOL_DEFINITIONS: _json([_definition(room, schema) for schema in schemas])}
        case (("arguments" | "result"), _):
            name = TOOL_ARGUMENTS if fact == "arguments" else TOOL_RESULT
            found = {name: _json(room.plain(value))}
        case _:
            text = value if isinstance(value, str) else _json(room.plain(value))
            found = {f"{prefix}{fact}": clean_text(text, LONGEST_TEXT)}
    return found


class _Room:
    """Makes values plain, until the room of one attribute is used up; then they are `…`."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = LONGEST_CONTENT

    def is_full(self) -> bool:
        return self._left <= 0

    def text(self, text: str) -> str:
        cut = clean_text(text, max(min(LONGEST_TEXT, self._left), 1))
        self._left -= len(cut) + 3
        return cut

    def plain(self, value: object, depth: int = 0) -> Any:
        """The value in what JSON knows: cut where it is long or deep, other things by type."""
        if self.is_full() or (depth == _DEEPEST and isinstance(value, Mapping | list | tuple)):
            return self.text("…")
        self._left -= 4
        if isinstance(value, Mapping):
            pairs: dict[str, Any] = {}
            for key, item in value.items():
                pairs[self.text(key if isinstance(key, str) else str(_scalar(key)))] = self.plain(
                    item, depth + 1
                )
                if self.is_full():
                    break
            return pairs
        if isinstance(value, list | tuple | set | frozenset):
            items: list[Any] = []
            for item in value:
                items.append(self.plain(item, depth + 1))
                if self.is_full():
                    break
            return items
        return self.text(value) if isinstance(value, str) else _scalar(value)


def _input(room: _Room, messages: Sequence[object]) -> dict[str, Attribute]:
    """The newest messages that fit, and how many were left out."""
    kept: list[dict[str, Any]] = []
    for message in reversed(messages):
        if room.is_full():
            break
        if isinstance(message, Message):
            kept.append(_message(room, message))
    attributes: dict[str, Attribute] = {INPUT_MESSAGES: _json(kept[::-1])}
    if len(kept) < len(messages):
        attributes[MESSAGES_OMITTED] = len(messages) - len(kept)
    return attributes


def _output(room: _Room, answer: str | Message, finish: Attribute | None) -> str:
    message = Message.from_text(Role.MODEL, answer) if isinstance(answer, str) else answer
    if isinstance(finish, tuple) and finish:
        reason = str(finish[0])
    else:
        reason = "tool_call" if message.function_calls else "stop"
    return _json([{**_message(room, message), "finish_reason": reason}])


def _message(room: _Room, message: Message) -> dict[str, Any]:
    parts = [_part(room, part) for part in message.parts]
    return {"role": _SPEAKERS[message.role], "parts": parts}


def _part(room: _Room, part: Part) -> dict[str, Any]:
    call, result, media = part.function_call, part.function_response, part.inline_data
    if call is not None:
        named = {"id": room.text(call.id), "name": room.text(call.name)}
        return {"type": "tool_call", **named, "arguments": room.plain(call.args)}
    if result is not None:
        answered = {"id": room.text(result.call_id), "response": room.plain(result.result)}
        return {"type": "tool_call_response", **answered}
    if media is not None:
        # Megabytes of base64 help nobody who reads a trace.
        return {"type": "media", "mime_type": room.text(media.mime_type), "bytes": len(media.data)}
    if part.thought is not None:
        return {"type": "reasoning", "content": room.text(part.thought)}
    return {"type": "text", "content": room.text(part.text or "")}


def _definition(room: _Room, schema: object) -> object:
    return {
        "type": "function",
        "name": room.plain(getattr(schema, "name", "")),
        "description": room.plain(getattr(schema, "description", "")),
        "parameters": room.plain(getattr(schema, "parameters", {})),
    }


def _scalar(value: object) -> str | int | float | None:
    match value:
        case None | bool():
            plain: str | float | None = value
        case int() if value.bit_length() <= _WIDEST_INTEGER:
            plain = value
        case float():
            # JSON has no NaN.
            plain = value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            plain = f"<{len(value)} bytes>"
        case _:
            plain = f"<{type(value).__qualname__}>"
    return plain


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
