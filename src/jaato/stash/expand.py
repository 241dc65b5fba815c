"""What a word of a query may have meant: other endings, longer words, typing errors. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from jaato.stash.parts import Part

SAME, ENDING, BEGINNING, LIKE = 1.0, 0.8, 0.6, 0.5
_ENDINGS: Final = ("", "s", "es", "ed", "d", "ing", "e", "er", "y", "ies", "ion", "ions", "ly")
_SHORTEST_STEM: Final = 3
_SHORTEST_BEGINNING: Final = 3
_SHORTEST_TYPO: Final = 4
_SHORTEST_TWO_TYPOS: Final = 7
_MOST_BEGINNINGS: Final = 16
_MOST_LOOKED_AT: Final = 2_000
_FEW_LOOKED_AT: Final = 200
_MOST_LIKE: Final = 4
_LIKENESS: Final = 0.75
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789_"


def meanings(
    word: str, parts: Sequence[Part], *, is_optional: bool
) -> tuple[list[tuple[str, float]], int]:
    """The terms that a word may mean, likeliest first, each with its worth, and their texts."""
    found = existing(parts, [word, *_other_endings(word)])
    worth = {term: SAME if term == word else ENDING for term in found}
    if len(word) >= (_SHORTEST_BEGINNING if word.isascii() else 1):
        most = _FEW_LOOKED_AT if found else _MOST_LOOKED_AT
        longer = _together(parts, lambda part: part.beginning(word, most))
        for term in heapq.nlargest(_MOST_BEGINNINGS, longer, key=longer.__getitem__):
            worth.setdefault(term, BEGINNING)
            found[term] = longer[term]
    # The whole of an identifier only adds to what its parts find.
    if not found and not is_optional and len(word) >= _SHORTEST_TYPO:
        found = Counter(_misspelt(word, parts))
        worth = dict.fromkeys(found, LIKE)
    order = sorted(worth, key=lambda term: (-worth[term], -found[term], term))
    return [(term, worth[term]) for term in order], sum(found[term] for term in order)


def existing(parts: Sequence[Part], terms: Iterable[str]) -> Counter[str]:
    """Those terms that are in the index, and how many texts have each."""
    asked = list(terms)
    return _together(parts, lambda part: part.existing(asked))


def _together(parts: Sequence[Part], ask: Callable[[Part], dict[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(ask(part))
    return counts


def _other_endings(word: str) -> set[str]:
    """`queries` for `query`, `resize` for `resizing`."""
    if not word.isascii() or not word.isalpha():
        return set()
    forms: set[str] = set()
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if word.endswith(ending) and len(stem) >= _SHORTEST_STEM:
            forms.update(stem + other for other in _ENDINGS)
    forms.discard(word)
    return forms


def _misspelt(word: str, parts: Sequence[Part]) -> dict[str, int]:
    """Terms that are one letter away; else, for a long word, a few that are much like it."""
    near = existing(parts, _one_away(word))
    if not near and len(word) >= _SHORTEST_TWO_TYPOS:
        start = word[:_SHORTEST_STEM]
        starting = _together(parts, lambda part: part.beginning(start, _MOST_LOOKED_AT))
        like = [term for term in starting if abs(len(term) - len(word)) <= 2]  # noqa: PLR2004
        close = get_close_matches(word, like, n=_MOST_LIKE, cutoff=_LIKENESS)
        near = Counter({term: starting[term] for term in close})
    return dict(near.most_common(_MOST_LIKE))


def _one_away(word: str) -> set[str]:
    """One letter missing, too many, another one, or two swapped."""
    forms: set[str] = set()
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        forms.update(before + letter + after for letter in _LETTERS)
        if after:
            forms.add(before + after[1:])
            forms.update(before + letter + after[1:] for letter in _LETTERS)
            forms.add(before + after[1:2] + after[:1] + after[2:])
    forms.discard(word)
    return forms
