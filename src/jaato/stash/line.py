"""One record as one line of JSON that carries its own checksum. Pure.

The text stands behind everything that lists and filters need, so that a list reads no texts.
"""

from __future__ import annotations

import json
from base64 import b32hexencode
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, Final

from jaato.errors import UsageError
from jaato.history.message import NOTHING
from jaato.kept import About, Fate, Record, is_handle

HANDLE_LENGTH: Final = 10
_SUM_BYTES: Final = 8
LINE_START: Final = b'{"sum":"'
_SUM_END: Final = len(LINE_START) + 2 * _SUM_BYTES
_REST_AT: Final = _SUM_END + len(b'",')
_YEAR_1: Final = -62_135_596_800
_END: Final = 253_402_300_800
_LARGEST: Final = 2**62
_TEXT_MARK: Final = b',"text":"'
_ABOUT: Final = tuple(field.name for field in fields(About))
_DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: field.default for field in fields(About) if field.name not in {"type", "created_at"}
}
_LISTS: Final = ("message_ids", "files", "tags")
_WHOLE: Final = ("turn", "step", "tokens")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class LineError(ValueError):
    """A line that is not what was written."""


def body_of(record: Record) -> bytes:
    """Everything a record holds, as the inside of a JSON object. The same for equal records."""
    body: dict[str, Any] = {"type": record.type, "created_at": float(record.created_at)}
    for name, default in _DEFAULTS.items():
        value = getattr(record, name)
        if value != default:
            body[name] = value
    body["text"] = record.text
    if record.extra:
        body["extra"] = dict(record.extra)
    try:
        # Lone surrogates come back as they were, and so do pairs of them that make a character.
        return _encode(body)[1:-1].encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"a record that cannot be JSON: {error}", hint="text is a str, `extra` plain JSON"
        ) from error


def handle_for(body: bytes, key: bytes, length: int = HANDLE_LENGTH) -> str:
    """A name for a record: made of its content, and not to be guessed without the stash's key."""
    digest = blake2b(body, digest_size=40, key=key).digest()
    # Five bytes are eight digits.
    return b32hexencode(digest[: -(-length // 8) * 5])[:length].decode().lower()


def record_line(handle: str, body: bytes) -> bytes:
    """The line of a record."""
    return checked_line(b'"id":"%b",%b}' % (handle.encode(), body))


def gone_line(handle: str, fate: Fate) -> bytes:
    """The line that says that a handle has no record any more."""
    return checked_line(_encode({"gone": handle, "fate": fate})[1:].encode())


def checked_line(rest: bytes) -> bytes:
    """A line around what stands behind the opening brace of a JSON object."""
    return b'%b%b",%b\n' % (LINE_START, _sum(rest), rest)


def is_whole(line: bytes) -> bool:
    """Whether a line (with its line feed) is what was written."""
    return (
        line.startswith(LINE_START)
        and line.endswith(b"}\n")
        and line[_SUM_END:_REST_AT] == b'",'
        and line[len(LINE_START) : _SUM_END] == _sum(line[_REST_AT:-1])
    )


def head_of(line: bytes) -> dict[str, Any]:
    """What a whole line holds in front of its text, as JSON."""
    end = line.find(_TEXT_MARK)
    head = line if end < 0 else line[:end] + b"}"
    document: dict[str, Any] = json.loads(head.decode("utf-8", "surrogatepass"))
    return document


def about_of(head: Mapping[str, Any]) -> About:
    """What a head says of its record."""
    known = {name: head[name] for name in _DEFAULTS if name in head}
    for name in _LISTS:
        if name in known:
            known[name] = tuple(known[name])
    return About(type=head["type"], created_at=head["created_at"], **known)


def about_of_record(record: Record) -> About:
    """A record without its text."""
    return About(**{name: getattr(record, name) for name in _ABOUT})


def record_of(line: bytes) -> tuple[str, Record]:
    """The handle and the record of a line. Raises `LineError` unless it is what was written."""
    if not is_whole(line):
        raise LineError("the checksum does not match")
    try:
        document = json.loads(line.decode("utf-8", "surrogatepass"))
        about = about_of(document)
        extra = document.get("extra", NOTHING)
        known = {name: getattr(about, name) for name in _ABOUT}
        return document["id"], Record(text=document["text"], extra=extra, **known)
    except (ValueError, KeyError, TypeError) as error:
        raise LineError(f"not a record: {error}") from error


def checked(record: Record) -> Record:
    """A record whose fields are what they should be, lists as tuples. Raises `UsageError`."""
    lists = {name: _texts(record, name) for name in _LISTS}
    for name in ("text", "type", "session", "tool", "label"):
        if not isinstance(getattr(record, name), str):
            raise _wrong(record, name, "a text")
    for name in _WHOLE:
        value = getattr(record, name)
        if value is not None and not _is_whole_number(value):
            raise _wrong(record, name, "a whole number, or None")
    if not _is_time(record.created_at):
        raise _wrong(record, "created_at", "seconds since 1970, between the years 1 and 9999")
    files, tags, ids = lists["files"], lists["tags"], lists["message_ids"]
    if (files, tags, ids) != (record.files, record.tags, record.message_ids):
        return replace(record, files=files, tags=tags, message_ids=ids)
    return record


def checked_handle(handle: object) -> str:
    """A name that may be a handle. Raises `UsageError`."""
    if not isinstance(handle, str) or not is_handle(handle):
        raise UsageError(
            f"{handle!r:.80} cannot be a handle",
            hint="letters, digits, '-', '_' and '.', at most 64, not starting with a sign",
        )
    return handle


def _texts(record: Record, name: str) -> tuple[str, ...]:
    value = getattr(record, name)
    if value == ():
        return ()
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise _wrong(record, name, "a tuple of texts")
    return tuple(value)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _YEAR_1 <= value < _END


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _wrong(record: Record, name: str, what: str) -> UsageError:
    return UsageError(f"{name!r} is {getattr(record, name)!r:.80}", hint=f"it is {what}")


def _sum(rest: bytes) -> bytes:
    return blake2b(rest, digest_size=_SUM_BYTES).hexdigest().encode()
