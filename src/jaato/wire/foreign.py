"""What codecs of foreign JSON share: clear errors, notes in `extra`, arguments, ids and media."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from typing import Any

from jaato.errors import UsageError
from jaato.history import Media, Message, Part
from jaato.history.message import NOTHING

INVALID_ARGUMENTS = "jaato.invalid_arguments"
"""The only key of a call's `args` where its arguments are no JSON object; its value is their text.

The text is counted, shown and sent back as it came, and whoever runs the call sees why it cannot.
"""

OPAQUE_MIME = "application/vnd.jaato.opaque"
"""How the mime types of media begin that are JSON which only its own codec understands."""

_DATA_URI = re.compile(r"data:(?P<mime>[^,]*);base64,(?P<data>.*)", re.DOTALL)


class MalformedError(UsageError):
    """Foreign JSON that cannot be read; `at` says where."""

    def __init__(self, at: str, fact: str, *, hint: str | None = None) -> None:
        super().__init__(f"{at} {fact}", hint=hint)
        self.at = at


def an_object(value: object, at: str) -> Mapping[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, Mapping):
        raise MalformedError(at, f"is {_named(value)}", hint="it is an object")
    return value


def a_list(value: object, at: str) -> list[Any]:
    """The value, which must be a JSON array."""
    if not isinstance(value, (list, tuple)):
        raise MalformedError(at, f"is {_named(value)}", hint="it is an array")
    return list(value)


def a_text(document: Mapping[str, Any], key: str, at: str) -> str:
    """The string under a key."""
    if key not in document:
        raise MalformedError(f"{at}.{key}", "is missing", hint="it is a string")
    value = document[key]
    if not isinstance(value, str):
        raise MalformedError(f"{at}.{key}", f"is {_named(value)}", hint="it is a string")
    return value


def whole_number(value: object) -> int | None:
    """The value if it is an integer, as counts of tokens are; else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def beyond(document: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields that nobody here understands."""
    return {key: value for key, value in document.items() if key not in known}


def noting(codec: str, **facts: Any) -> Mapping[str, Any]:
    """An `extra` with what a codec must remember; without facts that say nothing."""
    said = {
        key: value
        for key, value in facts.items()
        if value is not None and value is not False and value not in ({}, [])
    }
    return {codec: said} if said else NOTHING


def noted(extra: Mapping[str, Any], codec: str) -> Mapping[str, Any]:
    """What a codec has noted in an `extra`."""
    note = extra.get(codec)
    return note if isinstance(note, Mapping) else NOTHING


def as_text(value: object) -> str:
    """What a model reads of a result or of arguments: a string as it is, else compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return _spelled(value)


def read_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments in a text, and the text where they would be written in another way.

    Replayed as it came, an answer still is a prefix that the provider has cached.
    """
    args = _arguments(text)
    if args is None or INVALID_ARGUMENTS in args:
        return {INVALID_ARGUMENTS: text}, None
    return args, None if as_text(args) == text else text


def write_arguments(args: Mapping[str, Any], text: str | None = None) -> str:
    """The text of arguments: the one they came in as long as it still says the same."""
    invalid = args.get(INVALID_ARGUMENTS)
    if isinstance(invalid, str) and len(args) == 1:
        return invalid
    if text is not None and _same(_arguments(text), args):
        return text
    return as_text(args)


def data_uri(media: Media) -> str:
    """The bytes with their type as one URI."""
    return f"data:{media.mime_type};base64,{base64_of(media.data)}"


def media_of_uri(uri: str, name: str | None = None) -> Media | None:
    """The bytes in a data URI; None where `data_uri` would write it in another way."""
    match = _DATA_URI.fullmatch(uri)
    data = None if match is None else bytes_of(match["data"])
    return None if match is None or data is None else Media(match["mime"], data, name)


def base64_of(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def bytes_of(text: str) -> bytes | None:
    """The bytes in base64; None where `base64_of` would write them in another way."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64_of(data) == text else None


def opaque(codec: str, document: Mapping[str, Any], extra: Mapping[str, Any] = NOTHING) -> Part:
    """A part that holds foreign JSON as it is: counted by its length, read by its codec only."""
    data = json.dumps(document).encode("ascii")
    return Part(inline_data=Media(f"{OPAQUE_MIME}+{codec}", data), extra=extra)


def opaque_in(codec: str, media: Media) -> dict[str, Any] | None:
    """What `opaque` of this codec holds; None for every other medium."""
    if media.mime_type != f"{OPAQUE_MIME}+{codec}":
        return None
    held: dict[str, Any] = json.loads(media.data)
    return held


def is_opaque(media: Media) -> bool:
    """Whether only one codec, this one or another, understands it."""
    return media.mime_type.startswith(OPAQUE_MIME)


def readable(text: str) -> str:
    """The text as UTF-8 can carry it: halves of surrogate pairs become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class CallIds:
    """Gives each call an id that a provider takes, and each result that of its call.

    An id is kept unless it is empty, too long, or used before: in the same message, or anywhere
    if `across` messages ids must differ.
    """

    def __init__(self, longest: int, *, across: bool = False) -> None:
        self._longest = longest
        self._across = across
        self._used: set[str] = set()
        self._given: defaultdict[str, deque[str]] = defaultdict(deque)

    def of_calls(self, message: Message, position: int) -> list[str]:
        """One id per call of a message, in order; `position` makes invented ones distinct."""
        if message.function_calls:
            # What waits until now is answered no more.
            self._given.clear()
        if not self._across:
            self._used.clear()
        return [
            self._of_call(call.id, f"call_{position}_{number}")
            for number, call in enumerate(message.function_calls)
        ]

    def of_result(self, call_id: str) -> str:
        """The id of the call that is answered; the id as it is where no call waits for it."""
        given = self._given.get(call_id)
        return given.popleft() if given else call_id

    def _of_call(self, call_id: str, invented: str) -> str:
        fit = call_id and len(call_id) <= self._longest and call_id not in self._used
        given = call_id if fit else invented
        while given in self._used:
            given += "_"
        self._used.add(given)
        self._given[call_id].append(given)
        return given


def said_in(content: object) -> str:
    """What a content says, be it a text or an array of parts of any kind."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    said = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in said if isinstance(text, str))


def _arguments(text: str) -> dict[str, Any] | None:
    if not text:
        # Models that call a tool without arguments write nothing as often as `{}`.
        return {}
    try:
        value = json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_json(constant: str) -> None:
    raise ValueError(constant)


def _same(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


def _named(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", dict: "an object"}
    return names.get(type(value)) or ("a number" if isinstance(value, (int, float)) else "an array")


def _spelled(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return object.__repr__(value)
