"""Values as a backend can take them: no odd types, no lone surrogates, nothing huge."""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

Scalar = str | bool | int | float
Attribute = Scalar | tuple[Scalar, ...]

LONGEST: Final = 1_024
"""Characters of an attribute that is no content."""
_MOST: Final = 64
_INT64: Final = 2**63


def clean_text(text: str, limit: int = LONGEST) -> str:
    """The text, cut to a limit; a lone surrogate becomes U+FFFD.

    An exporter that cannot encode one text loses the whole batch it stands in.
    """
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return str.__str__(text)


def clean(value: object) -> Attribute | None:
    """The value as an attribute; None for None and for what is empty.

    What is neither a number, a text nor a flat collection of those is named by its type: its own
    `str` may fail, or hold what must not be recorded.
    """
    if isinstance(value, list | tuple | set | frozenset):
        found = [_scalar(item) for item in list(value)[:_MOST]]
        items = [item for item in found if item is not None]
        # A backend takes arrays of one type only.
        mixed = len({type(item) for item in items}) > 1
        return tuple(str(item) for item in items) if mixed else tuple(items) or None
    return _scalar(value)


def number(value: object) -> int | float | None:
    """The value, where a metric can take it: a finite number that is not below zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _scalar(value: object) -> Scalar | None:
    if isinstance(value, Enum):
        value = value.value
    match value:
        case None:
            return None
        case bool():
            return value
        case int():
            return int(value) if -_INT64 <= value < _INT64 else _floated(value)
        case float():
            return float(value)
        case str():
            return clean_text(value)
        case _:
            return f"<{type(value).__qualname__}>"


def _floated(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
