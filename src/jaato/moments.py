"""Moments: any ISO form comes in, aware datetimes in UTC go on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from jaato.errors import UsageError


class TimeError(UsageError):
    """A value that is no moment."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"{value!r:.60} is no time",
            hint="an ISO form such as 2026-05-04T10:00:00Z, 2026-05-04T12:00+02:00 or 2026-05-04",
        )


_MONTH: Final = re.compile(r"(\d{4})(?:-(\d{2}))?")
_DAY_OF_YEAR: Final = re.compile(r"(\d{4})-?(\d{3})((?:[T ].*)?)")


def moment(value: object) -> datetime:
    """The moment that a datetime or an ISO text names, in UTC; without a zone it is read as UTC."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    try:
        found = value if isinstance(value, datetime) else _read(value)
        if found.tzinfo is None or found.utcoffset() is None:
            return found.replace(tzinfo=UTC)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise TimeError(value) from None


def _read(value: object) -> datetime:
    if not isinstance(value, str):
        raise TimeError(value)
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return _read_rare(value.strip().upper())


def _read_rare(text: str) -> datetime:
    """The forms that Python does not read: a year, a month, a day of the year, small letters."""
    if short := _MONTH.fullmatch(text):
        return datetime(int(short[1]), int(short[2] or 1), 1, tzinfo=UTC)
    if ordinal := _DAY_OF_YEAR.fullmatch(text):
        first, day = datetime(int(ordinal[1]), 1, 1, tzinfo=UTC), int(ordinal[2])
        date = (first + timedelta(days=day - 1)).date()
        if day < 1 or date.year != first.year:
            raise TimeError(text)
        return datetime.fromisoformat(date.isoformat() + ordinal[3])
    return datetime.fromisoformat(text)
