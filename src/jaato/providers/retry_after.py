"""How long a server asks a refused client to wait, as its headers say it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """The seconds that a refused client is asked to wait; None where it was not told."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    told = headers.get("retry-after")
    seconds = _number(told)
    if seconds is not None or told is None:
        return seconds
    try:
        moment = parsedate_to_datetime(told).timestamp()
    except ValueError:
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
