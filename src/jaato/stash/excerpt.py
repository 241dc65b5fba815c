"""The line of a text that speaks most of what was asked, for a list of hits. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

EXCERPT_CHARS: Final = 200
_MOST_PLACES: Final = 8
_LEAD: Final = 60


def excerpt(text: str, terms: Iterable[str]) -> str:
    """The best line, cut to `EXCERPT_CHARS`; the first one where none of the terms stands."""
    small = text.lower()
    # Some letters grow when they are made small: then places would not be the same.
    if len(small) != len(text):
        small = text
    sought = sorted(terms)
    begin, end, place, most = _line_at(small, 0), _line_end(small, 0), 0, 0
    for term in sought:
        at = small.find(term)
        for _ in range(_MOST_PLACES):
            if at < 0:
                break
            first, last = _line_at(small, at), _line_end(small, at)
            there = sum(small.find(one, first, last) >= 0 for one in sought)
            if there > most:
                begin, end, place, most = first, last, at, there
            at = small.find(term, last)
    begin = max(begin, min(place - _LEAD, end - EXCERPT_CHARS))
    return text[begin:end][:EXCERPT_CHARS].strip()


def _line_at(text: str, at: int) -> int:
    return max(text.rfind("\n", max(at - EXCERPT_CHARS, 0), at) + 1, at - EXCERPT_CHARS, 0)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at, at + EXCERPT_CHARS)
    return min(at + EXCERPT_CHARS, len(text)) if end < 0 else end
