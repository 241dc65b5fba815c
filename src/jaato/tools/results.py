"""What a tool returned, as plain data that can be sent: never raises, whatever it is given."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from datetime import date, time
from enum import Enum
from typing import Any

from jaato.exchange import ToolOutput
from jaato.history import Media

_DEEPEST = 100
# Python refuses to spell longer integers in decimals.
_MOST_BITS = 14_000
_SCALARS = (str, int, float, date, time)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}


def output_of(value: object) -> ToolOutput:
    """A returned value as an output: data as JSON-able data, bytes and media as attachments."""
    reader = _Reader()
    if isinstance(value, ToolOutput):
        result = reader.read(value.result)
        return replace(value, result=result, attachments=(*value.attachments, *reader.attachments))
    result = reader.read(value)
    return ToolOutput(result=result, attachments=tuple(reader.attachments))


def failure(error: BaseException) -> ToolOutput:
    """An exception as an output: its type and its text, without a traceback."""
    text = spelled(error).strip()
    name = type(error).__name__
    return ToolOutput(result=f"{name}: {text}" if text else name, is_error=True)


def refusal(text: str) -> ToolOutput:
    """An error in words for the model."""
    return ToolOutput(result=clean(text), is_error=True)


def clean(text: str) -> str:
    """The same text, or where it has surrogates, one that every encoder takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return str.__str__(text)


def spelled(value: object) -> str:
    """What `str` says of a value; where that fails, what Python says of it."""
    try:
        return clean(str(value))
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return object.__repr__(value)


def attached(media: Media) -> str:
    """What stands in the result where a medium was."""
    name = f"{media.name}: " if media.name else ""
    return f"({name}{media.mime_type}, {len(media.data)} bytes, attached)"


def mime_type_of(data: bytes) -> str:
    """The type of some bytes, by how they begin; text where they are UTF-8."""
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    for magic, mime_type in _MAGIC:
        if data.startswith(magic):
            return mime_type
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


class _Reader:
    """Reads one value; what cannot be JSON becomes an attachment or words."""

    def __init__(self) -> None:
        self.attachments: list[Media] = []
        self._open: set[int] = set()

    def read(self, value: object, depth: int = 0) -> Any:
        try:
            return self._read(value, depth)
        except Exception:  # noqa: BLE001 -- foreign containers may raise anything
            return spelled(value)

    def _read(self, value: object, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.read(value.value, depth + 1)
        if value is None or isinstance(value, _SCALARS):
            return _scalar(value)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            return self._attach(Media(mime_type_of(data), data))
        if isinstance(value, Media):
            return self._attach(value)
        return self._enter(value, depth)

    def _enter(self, value: object, depth: int) -> Any:
        """What a container holds, unless it holds itself."""
        if id(value) in self._open:
            return "(a cycle)"
        if depth > _DEEPEST:
            return "(nested too deep)"
        self._open.add(id(value))
        try:
            held = _opened(value)
            if isinstance(held, Mapping):
                return {_key(key): self.read(one, depth + 1) for key, one in held.items()}
            if isinstance(held, AbstractSet):
                return [self.read(one, depth + 1) for one in _ordered(held)]
            if isinstance(held, Sequence | ValuesView) and not isinstance(held, _SCALARS):
                return [self.read(one, depth + 1) for one in held]
            return spelled(value) if held is value else self.read(held, depth + 1)
        finally:
            self._open.discard(id(value))

    def _attach(self, media: Media) -> str:
        self.attachments.append(media)
        return attached(media)


def _opened(value: Any) -> Any:
    """A dataclass, a model or a named tuple as what it holds; anything else as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if hasattr(type(value), "model_dump"):
        # Not in JSON mode, which refuses what this can read.
        return value.model_dump(warnings=False)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    return value


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        # NaN is no JSON; "nan" would be a word of Python.
        number = float(value)
        return number if math.isfinite(number) else json.dumps(number)
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _MOST_BITS else hex(number)
    return value.isoformat()


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return clean(key)
    if key is None or isinstance(key, bool | float):
        return json.dumps(key)
    return spelled(key)


def _ordered(values: AbstractSet[Any]) -> list[Any]:
    """The members of a set in an order that does not change from run to run."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=spelled)
