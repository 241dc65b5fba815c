"""What stands in a user's message or a tool's output of Responses: text, images, files, sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaato.history import Media, Part
from jaato.history.message import NOTHING
from jaato.wire.foreign import (
    an_object,
    base64_of,
    beyond,
    bytes_of,
    data_uri,
    is_opaque,
    media_of_uri,
    noted,
    noting,
    opaque,
    opaque_in,
)
from jaato.wire.openai_content import REMOTE, file_name, placeholder, sound_format, sound_type

RESPONSES = "openai.responses"
"""Where the codec of Responses keeps its notes in `extra`."""


def decode_input(document: object, at: str, *, shown: bool = False) -> Part:
    """One content part, or one that a tool has `shown`.

    One that is not understood, or would be written in another way, is kept as an opaque medium.
    """
    document = an_object(document, at)
    part = _understood(document)
    if part is None or encode_input(part, shown=shown) != document:
        return opaque(RESPONSES, document)
    return part


def encode_input(part: Part, *, shown: bool = False) -> dict[str, Any]:
    """A text or a medium as a content part; what a tool has `shown` is never sound to the API."""
    note = noted(part.extra, RESPONSES)
    more = note.get("more", NOTHING)
    if part.text is not None:
        return {**more, "type": "input_text", "text": part.text}
    media = part.inline_data
    assert media is not None, "content is text or media"
    held = opaque_in(RESPONSES, media)
    return {**more, **_medium(media, note, shown=shown)} if held is None else held


def _medium(media: Media, note: Mapping[str, Any], *, shown: bool) -> dict[str, Any]:
    if is_opaque(media):
        return {"type": "input_text", "text": placeholder(media)}
    elsewhere = note.get("elsewhere")
    kind = media.mime_type.lower().partition("/")[0]
    if kind == "image":
        url = {} if elsewhere else {"image_url": note.get("url") or data_uri(media)}
        return {"type": "input_image", **url}
    if kind == "audio" and not shown:
        sound = {"data": base64_of(media.data), "format": sound_format(media)}
        return {"type": "input_audio", "input_audio": {**note.get("inner", NOTHING), **sound}}
    file = {"filename": file_name(media), "file_data": data_uri(media)}
    if elsewhere:
        file = {"filename": media.name} if media.name else {}
    return {"type": "input_file", **file}


def _understood(document: Mapping[str, Any]) -> Part | None:
    kind = document.get("type")
    if kind == "input_text" and isinstance(document.get("text"), str):
        more = beyond(document, ("type", "text"))
        return Part(text=document["text"], extra=noting(RESPONSES, more=more))
    if kind == "input_image":
        return _image(document)
    if kind == "input_file":
        return _file(document)
    if kind == "input_audio" and isinstance(document.get("input_audio"), Mapping):
        return _sound(document, document["input_audio"])
    return None


def _image(document: Mapping[str, Any]) -> Part:
    url = document.get("image_url")
    if not isinstance(url, str):
        more = beyond(document, ("type",))
        return Part(inline_data=REMOTE, extra=noting(RESPONSES, more=more, elsewhere=True))
    more = beyond(document, ("type", "image_url"))
    media = media_of_uri(url)
    if media is not None and media.mime_type.startswith("image/"):
        return Part(inline_data=media, extra=noting(RESPONSES, more=more))
    return Part(inline_data=REMOTE, extra=noting(RESPONSES, more=more, url=url))


def _file(document: Mapping[str, Any]) -> Part:
    text, name = document.get("file_data"), document.get("filename")
    name = name if isinstance(name, str) else None
    media = media_of_uri(text, name) if isinstance(text, str) else None
    if media is not None:
        more = beyond(document, ("type", "filename", "file_data"))
        return Part(inline_data=media, extra=noting(RESPONSES, more=more))
    more = beyond(document, ("type", "filename"))
    media = Media("application/octet-stream", b"", name)
    return Part(inline_data=media, extra=noting(RESPONSES, more=more, elsewhere=True))


def _sound(document: Mapping[str, Any], inner: Mapping[str, Any]) -> Part | None:
    text, sound = inner.get("data"), inner.get("format")
    data = bytes_of(text) if isinstance(text, str) else None
    if data is None or not isinstance(sound, str):
        return None
    more = beyond(document, ("type", "input_audio"))
    rest = beyond(inner, ("data", "format"))
    media = Media(sound_type(sound), data)
    return Part(inline_data=media, extra=noting(RESPONSES, more=more, inner=rest))
