"""What stands in a message of Chat Completions: text, refusals, images, sound and files, as parts.

Whatever is not understood, or would be written in another way than it came, is kept as an opaque
medium: it is counted by its length and goes back as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaato.history import STUB_MARK, Media, Part
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

CHAT = "openai.chat"
"""Where the codec of Chat Completions keeps its notes in `extra`."""

REMOTE = Media("image/*", b"")
"""An image that only its address is known of."""

_SOUND_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_SOUND_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-ndjson")
_ENDINGS = {"text/plain": "txt", "text/markdown": "md", "text/x-python": "py"}


def decode_part(document: object, at: str) -> Part:
    """One content part of a user's or tool's message."""
    document = an_object(document, at)
    part = _understood(document)
    if part is None or encode_part(part) != document:
        return opaque(CHAT, document)
    return part


def encode_part(part: Part) -> dict[str, Any]:
    """A text or a medium as a content part."""
    note = noted(part.extra, CHAT)
    more = note.get("more", NOTHING)
    if part.text is not None:
        return {**more, "type": "text", "text": part.text}
    media = part.inline_data
    assert media is not None, "content is text or media"
    held = opaque_in(CHAT, media)
    if held is not None:
        return held
    kind, inner = _medium(media, note)
    if kind == "text":
        return {"type": "text", "text": inner}
    return {**more, "type": kind, kind: {**note.get("inner", NOTHING), **inner}}


def placeholder(media: Media) -> str:
    """What stands for a medium where only text may."""
    kind = "content" if is_opaque(media) else media.mime_type
    return f"[{kind}: {media.name}]" if media.name else f"[{kind}]"


def file_name(media: Media) -> str:
    """The name a file goes by, which the provider wants to see an ending of."""
    if media.name:
        return media.name
    mime = media.mime_type.partition(";")[0].strip().lower()
    return f"file.{_ENDINGS.get(mime) or mime.rpartition('/')[2]}"


def sound_format(media: Media) -> str:
    """The name that the provider has for a type of sound."""
    mime = media.mime_type.partition(";")[0].strip().lower()
    return _SOUND_FORMATS.get(mime) or mime.rpartition("/")[2]


def sound_type(sound: str) -> str:
    """The mime type of such a name."""
    return _SOUND_TYPES.get(sound) or f"audio/{sound}"


def in_form(
    content: list[dict[str, Any]],
    note: Mapping[str, Any],
    *,
    empty: str | None,
    kind: str = "text",
    key: str = "content",
) -> dict[str, Any]:
    """The field `key` with these parts, in the form that is noted, or in the plainest.

    A lone text of type `kind` is plainest as a string; no parts are written as `empty`.
    """
    form = note.get("form")
    if not content:
        if form == "absent":
            return {}
        return {key: {"null": None, "empty": "", "list": []}.get(str(form), empty)}
    only = content[0] if len(content) == 1 and form != "list" else {}
    if only.keys() == {"type", "text"} and only["type"] == kind:
        return {key: only["text"]}
    return {key: content}


def form_of(
    document: Mapping[str, Any], written: Mapping[str, Any], key: str = "content"
) -> str | None:
    """How a field came, where it would be written in another way."""
    if key not in document:
        return "absent"
    came = document[key]
    if written[key] == came:
        return None
    if came is None:
        return "null"
    return "list" if isinstance(came, list) else "empty"


def sizes_of(parts: Sequence[Part], codec: str) -> list[list[Any]]:
    """What a result must remember of its content parts: how long each text is, and its notes.

    The result holds the texts run together, and media as attachments; those have the size -1.
    """
    return [
        [-1 if part.text is None else len(part.text), dict(noted(part.extra, codec))]
        for part in parts
    ]


def pieces_of(part: Part, text: str, codec: str) -> list[Part]:
    """The content parts that a result came in, if they still are what it says."""
    result = part.function_response
    sizes = noted(part.extra, codec).get("pieces", ())
    lengths = [size for size, _ in sizes if size >= 0]
    if result is None or STUB_MARK in part.extra or sum(lengths) != len(text):
        return []
    if len(sizes) - len(lengths) != len(result.attachments):
        return []
    at, media, parts = 0, iter(result.attachments), []
    for size, inner in sizes:
        extra = {codec: inner} if inner else NOTHING
        if size < 0:
            parts.append(Part(inline_data=next(media), extra=extra))
        else:
            parts.append(Part(text=text[at : at + size], extra=extra))
            at += size
    return parts


def _medium(media: Media, note: Mapping[str, Any]) -> tuple[str, Any]:
    mime = media.mime_type.lower()
    kind = mime.partition("/")[0]
    if is_opaque(media):
        return "text", placeholder(media)
    if "url" in note:
        return str(note.get("kind", "image_url")), {"url": note["url"]}
    if kind in {"image", "video"}:
        return f"{kind}_url", {"url": data_uri(media)}
    if kind == "audio":
        return "input_audio", {"data": base64_of(media.data), "format": sound_format(media)}
    # As a file the API takes PDF only, and refuses the whole request over anything else.
    if mime.startswith(_TEXT_TYPES) and "file" not in note:
        return "text", media.data.decode("utf-8", "replace")
    return "file", _file_of(media, note)


def _file_of(media: Media, note: Mapping[str, Any]) -> dict[str, Any]:
    if note.get("file") == "elsewhere":
        return {"filename": media.name} if media.name else {}
    return {"filename": file_name(media), "file_data": data_uri(media)}


def _understood(document: Mapping[str, Any]) -> Part | None:
    kind = document.get("type")
    inner = document.get(kind) if isinstance(kind, str) else None
    more = beyond(document, ("type", str(kind)))
    part = None
    if kind == "text" and isinstance(inner, str):
        part = Part(text=inner, extra=noting(CHAT, more=more))
    elif isinstance(inner, Mapping):
        if kind in {"image_url", "video_url"} and isinstance(inner.get("url"), str):
            part = _at_url(str(kind), inner, more)
        elif kind == "input_audio":
            part = _sound(inner, more)
        elif kind == "file":
            part = _file(inner, more)
    return part


def _at_url(kind: str, inner: Mapping[str, Any], more: Mapping[str, Any]) -> Part:
    url = inner["url"]
    rest = beyond(inner, ("url",))
    media = media_of_uri(url)
    if media is not None and media.mime_type.startswith(f"{kind[:5]}/"):
        return Part(inline_data=media, extra=noting(CHAT, more=more, inner=rest))
    where = REMOTE if kind == "image_url" else Media("video/*", b"")
    return Part(inline_data=where, extra=noting(CHAT, more=more, inner=rest, url=url, kind=kind))


def _sound(inner: Mapping[str, Any], more: Mapping[str, Any]) -> Part | None:
    text, sound = inner.get("data"), inner.get("format")
    data = bytes_of(text) if isinstance(text, str) else None
    if data is None or not isinstance(sound, str):
        return None
    rest = beyond(inner, ("data", "format"))
    media = Media(sound_type(sound), data)
    return Part(inline_data=media, extra=noting(CHAT, more=more, inner=rest))


def _file(inner: Mapping[str, Any], more: Mapping[str, Any]) -> Part:
    text, name = inner.get("file_data"), inner.get("filename")
    name = name if isinstance(name, str) else None
    media = media_of_uri(text, name) if isinstance(text, str) else None
    if media is not None:
        rest = beyond(inner, ("filename", "file_data"))
        return Part(inline_data=media, extra=noting(CHAT, more=more, inner=rest, file="here"))
    rest = beyond(inner, ("filename",))
    media = Media("application/octet-stream", b"", name)
    return Part(inline_data=media, extra=noting(CHAT, more=more, inner=rest, file="elsewhere"))
