"""What happens to records before they are written: secrets go, each gets its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jaato.errors import UsageError
from jaato.kept import LONGEST_HANDLE, Record
from jaato.stash.line import HANDLE_LENGTH, body_of, checked, checked_handle, handle_for

Redact = Callable[[str], str]
"""Takes the secrets out of a text. What it raises fails the put: then nothing is kept."""
KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record that is about to be written."""

    record: Record
    body: bytes
    wish: str | None


def prepared(
    records: Iterable[Record], handles: Sequence[str | None], redact: Redact | None
) -> list[Prepared]:
    """Records as they will be kept. Raises `UsageError` where one cannot be."""
    asked = [checked(record) for record in records]
    if handles and len(handles) != len(asked):
        raise UsageError(
            f"{len(handles)} handles for {len(asked)} records", hint="one for each, or none at all"
        )
    wishes = [None if wish is None else checked_handle(wish) for wish in handles]
    kept = asked if redact is None else [redacted(record, redact) for record in asked]
    return [
        Prepared(record, body_of(record), wish)
        for record, wish in zip(kept, wishes or [None] * len(kept), strict=True)
    ]


def redacted(record: Record, redact: Redact) -> Record:
    """A record without secrets, wherever a caller's text stands in it."""
    return replace(
        record,
        text=redact(record.text),
        label=redact(record.label),
        files=tuple(redact(path) for path in record.files),
        tags=tuple(redact(tag) for tag in record.tags),
        extra=_redacted(record.extra, redact),
    )


def named(
    many: Iterable[Prepared],
    key: bytes,
    is_taken: Callable[[str], bool],
    body_under: Callable[[str], bytes | None],
) -> list[tuple[str, Prepared | None]]:
    """The handle of each record, and the record unless it is kept already.

    `is_taken`: whether a handle has or had a meaning. `body_under`: the body of its record, if any.
    """
    named_now: dict[str, bytes] = {}
    answer: list[tuple[str, Prepared | None]] = []
    for one in many:
        for handle in _names(one, key):
            known = named_now.get(handle)
            if known is None:
                if not is_taken(handle):
                    named_now[handle] = one.body
                    answer.append((handle, one))
                    break
                known = body_under(handle)
            if known == one.body:
                answer.append((handle, None))
                break
    return answer


def _names(one: Prepared, key: bytes) -> Iterable[str]:
    """The wish, then names made of the content, each longer than the one before."""
    if one.wish is not None:
        yield one.wish
    for length in range(HANDLE_LENGTH, LONGEST_HANDLE + 1):
        yield handle_for(one.body, key, length)
    raise AssertionError("two records with the same digest")


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {_redacted(name, redact): _redacted(inner, redact) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(inner, redact) for inner in value]
    return value
