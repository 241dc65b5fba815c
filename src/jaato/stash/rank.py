"""Which texts speak most of what a query asks for: BM25 over the largest postings. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from jaato.stash.expand import meanings
from jaato.stash.parts import Part
from jaato.stash.terms import LEVEL_SHIFT, LEVELS, NUMBER_MASK, query_terms

MOST_POSTINGS: Final = 6_000
"""Of each word, the largest are looked at: those of the best texts, and of equals the newest."""
_FEWEST_POSTINGS: Final = 64
MOST_WORDS: Final = 32
_SHARES: Final = tuple((level + 0.5) / LEVELS for level in range(LEVELS))
_MOST_SHOWN: Final = 4
_DIGITS: Final = 3
_SAME: Final = 0.001
Scores = dict[int, float]


def best_rows(
    query: str,
    parts: Sequence[Part],
    *,
    meant: AbstractSet[int] | None,
    gone: AbstractSet[int],
    total: int,
    limit: int,
) -> tuple[list[tuple[int, float]], frozenset[str]]:
    """The rows of the best texts with their scores, and the terms that were looked for.

    `meant`: the rows that may be found; None are all but those that are gone. `total`: how many
    texts there are.
    """
    scores: Scores = {}
    terms: set[str] = set()
    for word, is_optional in query_terms(query)[:MOST_WORDS]:
        likely, texts = meanings(word, parts, is_optional=is_optional)
        if not likely:
            continue
        terms.update(term for term, _ in likely[:_MOST_SHOWN])
        texts = min(texts, total)
        # A word that every text has says little about which one is meant.
        weight = math.log1p((total - texts + 0.5) / (texts + 0.5))
        said = _said(likely, parts, weight, meant)
        if scores:
            for row, score in said.items():
                scores[row] = scores.get(row, 0.0) + score
        else:
            scores = said
    for row in gone & scores.keys():
        del scores[row]
    last = min(heapq.nlargest(limit, scores.values()), default=0.0)
    # Scores that differ by less are equal: then the newer one goes first.
    rounded = (
        (round(score, _DIGITS), row) for row, score in scores.items() if score >= last - _SAME
    )
    return [(row, score) for score, row in sorted(rounded, reverse=True)[:limit]], frozenset(terms)


def _said(
    likely: Sequence[tuple[str, float]],
    parts: Sequence[Part],
    weight: float,
    meant: AbstractSet[int] | None,
) -> Scores:
    """What each text says of one word: of its meanings the likeliest counts."""
    chosen: list[tuple[int, list[float], Sequence[int]]] = []
    left = MOST_POSTINGS
    for term, worth in likely:
        shares = [weight * worth * share for share in _SHARES]
        most = max(left // len(parts), _FEWEST_POSTINGS)
        for part in parts:
            postings = part.postings(term)
            if meant is None:
                postings = postings[:most]
                left -= len(postings)
            chosen.append((part.base, shares, postings))
    said: Scores = {}
    for base, shares, postings in reversed(chosen):
        said.update({base + (one & NUMBER_MASK): shares[one >> LEVEL_SHIFT] for one in postings})
    return said if meant is None else {row: said[row] for row in said.keys() & meant}
