"""What is kept in a stash and how it is asked for: values that every stash speaks; its errors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from jaato import moments
from jaato.errors import JaatoError
from jaato.history.message import NOTHING

LONGEST_HANDLE: Final = 64
_HANDLE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_HANDLE - 1}}}")
_DATE_ONLY: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}|\d{4}-?W\d{2}-?\d")

Fate = Literal["removed", "damaged"]
"""What became of a handle that once had a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a text that is kept, beside the text."""

    type: str = "message"
    """`message`, `code`, `log`, `note`, `decision`, `summary`, or a name of the caller's."""
    session: str = ""
    turn: int | None = None
    step: int | None = None
    message_ids: tuple[str, ...] = ()
    tool: str = ""
    files: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tokens: int | None = None
    created_at: float = 0.0
    """Seconds since 1970, UTC."""
    label: str = ""
    """One line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(About):
    """A text that is kept. Two that are equal are one record, under one handle."""

    text: str
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """JSON of the caller's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records are meant; what is None (or empty) does not matter.

    `file`: a path, the end of one (`b.py` is `src/a/b.py`), or with `/` at its end a folder.
    `tags`: the record has all of them. `since` and `until`: any ISO 8601 form, or seconds since
    1970; without a zone it is UTC, and `until` a mere date includes the day.
    """

    session: str | None = None
    turn: int | None = None
    type: str | None = None
    tool: str | None = None
    file: str | None = None
    tags: tuple[str, ...] = ()
    since: str | float | datetime | None = None
    until: str | float | datetime | None = None

    @property
    def period(self) -> tuple[float, float]:
        """The seconds from which on, and before which, a record was made."""
        begin = -math.inf if self.since is None else moment(self.since)
        if self.until is None:
            return begin, math.inf
        end = moment(self.until)
        if isinstance(self.until, str) and _DATE_ONLY.fullmatch(self.until.strip()):
            end += timedelta(days=1).total_seconds()
        return begin, end


ANYTHING: Final = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record in a list: everything but its text."""

    handle: str
    about: About
    chars: int
    """How long the text is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that was found, and the lines that speak of what was asked."""

    entry: Entry
    score: float
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Something that could not be read, and where it was set aside."""

    what: str
    handle: str | None = None
    set_aside_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a look at every record found."""

    records: int
    bytes: int
    damages: tuple[Damage, ...] = ()
    durability: str = "durable on return"
    """What surviving a power cut depends on, where it is not the stash alone."""

    @property
    def is_sound(self) -> bool:
        """Whether every record is whole."""
        return not self.damages


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction gave back."""

    records: int
    bytes_before: int
    bytes_after: int


def moment(when: str | float | datetime) -> float:
    """Seconds since 1970 of a time in any ISO 8601 form. Without a zone it is UTC."""
    if isinstance(when, int | float) and not isinstance(when, bool):
        return float(when)
    return moments.moment(when.strip() if isinstance(when, str) else when).timestamp()


def is_handle(text: str) -> bool:
    """Whether a text could be a handle: a short plain name."""
    return _HANDLE.fullmatch(text) is not None


class StashError(JaatoError):
    """Something is wrong with a stash."""


class UnknownHandleError(StashError, KeyError):
    """No record has this handle. `fate`: whether one had it once."""

    def __init__(self, handle: str, fate: Fate | None = None) -> None:
        fact = "was removed" if fate else "is not in the stash"
        super().__init__(f"{handle!r:.80} {fact}", hint="search the stash, or list its records")
        self.handle = handle
        self.fate = fate

    def __reduce__(self) -> tuple[type[UnknownHandleError], tuple[object, ...]]:
        return type(self), (self.handle, self.fate)


class DamagedRecordError(StashError):
    """There was such a record, and its content is not what was written."""

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"the record {handle!r:.80} is damaged",
            hint="`verify` says where it is set aside; `remove` forgets it",
        )
        self.handle = handle

    def __reduce__(self) -> tuple[type[DamagedRecordError], tuple[str]]:
        return type(self), (self.handle,)


class StashWriteError(StashError):
    """Nothing was kept: the stash could not be written."""


class StashFullError(StashWriteError):
    """Nothing was kept: there is no room (disk, quota, or memory of the server)."""


class StashBusyError(StashError):
    """Another process holds the stash, and does not let go."""


class StashClosedError(StashError):
    """The stash was closed, or gave up after a failed sync."""


class StashUnavailableError(StashError):
    """The server of a stash cannot be reached. A put may have been kept or not: put again."""


class StashFormatError(StashError):
    """What stands there is not a stash that this version reads."""
