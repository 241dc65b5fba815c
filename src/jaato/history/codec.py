"""Histories as JSON: versioned, lossless, and every version ever written still loads."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from jaato.errors import UsageError
from jaato.history.message import (
    NOTHING,
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)

VERSION = 1


class CodecError(UsageError):
    """A document that is not a history we wrote."""


def to_dict(message: Message) -> dict[str, Any]:
    """One message as a JSON object; defaults are left out."""
    document: dict[str, Any] = {
        "role": message.role.value,
        "id": message.message_id,
        "parts": [_part_to_dict(part) for part in message.parts],
    }
    if message.kind is not Kind.PLAIN:
        document["kind"] = message.kind.value
    if message.extra:
        document["extra"] = dict(message.extra)
    return document


def from_dict(document: Mapping[str, Any]) -> Message:
    """The message that `to_dict` wrote."""
    document = _object(document, "a message")
    message_id = _text(document, "id")
    if not message_id:
        raise CodecError("a message with an empty id", hint="every message keeps its own id")
    return Message(
        _member(Role, document, "role"),
        [_part_from_dict(_object(part, "a part")) for part in _field(document, "parts", list)],
        message_id,
        _member(Kind, document, "kind", Kind.PLAIN),
        _extra(document),
    )


def history_to_dict(history: Iterable[Message]) -> dict[str, Any]:
    """A whole history as one JSON object that carries its version."""
    return {"version": VERSION, "messages": [to_dict(message) for message in history]}


def history_from_dict(document: Mapping[str, Any]) -> list[Message]:
    """The history that `history_to_dict` wrote."""
    version = _object(document, "a history").get("version")
    if version != VERSION:
        raise CodecError(
            f"a history of version {version!r} cannot be read",
            hint=f"this jaato reads version {VERSION}; a newer one may have written it",
        )
    return [from_dict(message) for message in _field(document, "messages", list)]


def _media_to_dict(media: Media) -> dict[str, Any]:
    document = {
        "mime_type": media.mime_type,
        "data": base64.b64encode(media.data).decode("ascii"),
    }
    return document if media.name is None else {**document, "name": media.name}


def _media_from_dict(document: Mapping[str, Any]) -> Media:
    text = _text(document, "data")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CodecError(
            f"media that is not base64: {error}",
            hint="the bytes were changed since they were written",
        ) from error
    name = document.get("name")
    return Media(
        _text(document, "mime_type"), data, None if name is None else _text(document, "name")
    )


def _part_to_dict(part: Part) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if part.text is not None:
        document["text"] = part.text
    elif part.thought is not None:
        document["thought"] = part.thought
    elif part.function_call is not None:
        call = part.function_call
        document["call"] = {"id": call.id, "name": call.name, "args": call.args}
    elif part.function_response is not None:
        document["result"] = _result_to_dict(part.function_response)
    elif part.inline_data is not None:
        document["media"] = _media_to_dict(part.inline_data)
    if part.extra:
        document["extra"] = dict(part.extra)
    return document


def _result_to_dict(result: ToolResult) -> dict[str, Any]:
    document: dict[str, Any] = {
        "call_id": result.call_id,
        "name": result.name,
        "result": result.result,
    }
    if result.is_error:
        document["is_error"] = True
    if result.attachments:
        document["attachments"] = [_media_to_dict(media) for media in result.attachments]
    return document


_HOLDS = ("text", "thought", "call", "result", "media")


def _part_from_dict(document: Mapping[str, Any]) -> Part:
    held = [key for key in _HOLDS if key in document]
    if len(held) != 1:
        raise CodecError(
            f"a part that holds {' and '.join(held) or 'nothing'}",
            hint=f"exactly one of {', '.join(_HOLDS)}",
        )
    extra = _extra(document)
    if held == ["text"]:
        return Part(text=_text(document, "text"), extra=extra)
    if held == ["thought"]:
        return Part(thought=_text(document, "thought"), extra=extra)
    inner = _object(document[held[0]], f"a {held[0]}")
    if held == ["media"]:
        return Part(inline_data=_media_from_dict(inner), extra=extra)
    name = _text(inner, "name")
    if held == ["call"]:
        call = FunctionCall(_text(inner, "id"), name, dict(_field(inner, "args", Mapping)))
        return Part(function_call=call, extra=extra)
    return Part(
        function_response=ToolResult(
            _text(inner, "call_id"),
            name,
            _field(inner, "result", object),
            _field(inner, "is_error", bool, default=False),
            tuple(
                _media_from_dict(_object(media, "an attachment"))
                for media in _field(inner, "attachments", list, default=())
            ),
        ),
        extra=extra,
    )


_ABSENT: Any = object()
_M = TypeVar("_M", Role, Kind)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CodecError(
            f"{what} that is a {type(value).__name__}",
            hint="read what `jaato.history.codec` wrote, unchanged",
        )
    return value


def _field(document: Mapping[str, Any], key: str, kind: Any, *, default: Any = _ABSENT) -> Any:
    value = document.get(key, default)
    if value is _ABSENT:
        raise CodecError(f"{key!r} is missing", hint=f"there are {', '.join(map(str, document))}")
    if value is not default and not isinstance(value, kind):
        raise CodecError(f"{key!r} is a {type(value).__name__}", hint=f"it is a {kind.__name__}")
    return value


def _text(document: Mapping[str, Any], key: str) -> str:
    return str(_field(document, key, str))


def _member(kind: type[_M], document: Mapping[str, Any], key: str, default: Any = _ABSENT) -> _M:
    value = _field(document, key, str, default=default)
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(kind)
        raise CodecError(f"{key!r} is {value!r}", hint=f"one of {known}") from error


def _extra(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(_field(document, "extra", Mapping, default={})) or NOTHING
