"""Histories as JSON: versioned, lossless, and every version ever written still loads."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from jaato.errors import UsageError
from jaato.history.message import FunctionCall, Kind, Media, Message, Part, Role, ToolResult

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
    try:
        return Message(
            Role(document["role"]),
            [_part_from_dict(part) for part in document["parts"]],
            document["id"],
            Kind(document.get("kind", Kind.PLAIN)),
            document.get("extra", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(
            f"not a message: {type(error).__name__}: {error}",
            hint="a message has role, id and parts, as `jaato.history.codec.to_dict` writes them",
        ) from error


def history_to_dict(history: Iterable[Message]) -> dict[str, Any]:
    """A whole history as one JSON object that carries its version."""
    return {"version": VERSION, "messages": [to_dict(message) for message in history]}


def history_from_dict(document: Mapping[str, Any]) -> list[Message]:
    """The history that `history_to_dict` wrote."""
    version = document.get("version")
    if version != VERSION:
        raise CodecError(
            f"a history of version {version!r} cannot be read",
            hint=f"this jaato reads version {VERSION}; a newer one may have written it",
        )
    return [from_dict(message) for message in document["messages"]]


def _media_to_dict(media: Media) -> dict[str, Any]:
    document = {
        "mime_type": media.mime_type,
        "data": base64.b64encode(media.data).decode("ascii"),
    }
    return document if media.name is None else {**document, "name": media.name}


def _media_from_dict(document: Mapping[str, Any]) -> Media:
    return Media(
        document["mime_type"],
        base64.b64decode(document["data"], validate=True),
        document.get("name"),
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


def _part_from_dict(document: Mapping[str, Any]) -> Part:
    extra = document.get("extra", {})
    if "call" in document:
        call = document["call"]
        return Part(function_call=FunctionCall(call["id"], call["name"], call["args"]), extra=extra)
    if "result" in document:
        found = document["result"]
        result = ToolResult(
            found["call_id"],
            found["name"],
            found["result"],
            found.get("is_error", False),
            tuple(_media_from_dict(media) for media in found.get("attachments", ())),
        )
        return Part(function_response=result, extra=extra)
    if "media" in document:
        return Part(inline_data=_media_from_dict(document["media"]), extra=extra)
    return Part(text=document.get("text"), thought=document.get("thought"), extra=extra)
