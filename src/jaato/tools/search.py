"""Finding tools by words: ranked, forgiving about endings and typing errors. No model, no index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from jaato.words import words

_SHORTEST_TYPO = 4
_SHORTEST_STEM = 3
_LONGEST_ENDING = 3
_LIKENESS = 0.75

IN_NAME, IN_DESCRIPTION = 4.0, 1.0
WHOLE, BEGINNING, WITHIN, LIKE = 1.0, 0.7, 0.4, 0.5


@dataclass(frozen=True, slots=True)
class Entry:
    """What can be found, by its name and its description."""

    name: str
    description: str = ""


def ranked(query: str, entries: Sequence[Entry]) -> list[Entry]:
    """Those entries that the query speaks of, best first; of equals, the earlier one.

    A query that is a name finds it first. Without any word in it, all are found.
    """
    asked = list(dict.fromkeys(words(query)))
    if not asked:
        return list(entries)
    pages = [_Page.of(entry) for entry in entries]
    known = Counter(word for page in pages for word in page.words)
    meant = [_Asked.of(word, known) for word in asked]
    scores = [sum(one.weight * one.worth(page) for one in meant) for page in pages]
    order = sorted(
        (at for at, score in enumerate(scores) if score > 0),
        key=lambda at: (entries[at].name != query.strip(), -scores[at], at),
    )
    return [entries[at] for at in order]


@dataclass(frozen=True, slots=True)
class _Page:
    """The words of one entry, and where they stand."""

    name: frozenset[str]
    description: frozenset[str]
    text: str

    @classmethod
    def of(cls, entry: Entry) -> _Page:
        text = f"{entry.name}\n{entry.description}".lower()
        return cls(frozenset(words(entry.name)), frozenset(words(entry.description)), text)

    @property
    def words(self) -> frozenset[str]:
        return self.name | self.description


@dataclass(frozen=True, slots=True)
class _Asked:
    """One word of a query. `like`: the words that may have been meant, where nobody has it."""

    word: str
    like: frozenset[str]
    weight: float

    @classmethod
    def of(cls, word: str, known: Counter[str]) -> _Asked:
        matching = [count for one, count in known.items() if _fit(word, one)]
        like: Iterable[str] = ()
        if not matching and len(word) >= _SHORTEST_TYPO:
            like = get_close_matches(word, known, n=4, cutoff=_LIKENESS)
        # A word that every tool has says little about which one is meant.
        spread = sum(matching) or 1
        return cls(word, frozenset(like), 1 + math.log1p(len(known) / spread))

    def worth(self, page: _Page) -> float:
        """How much a page says of it."""
        worth = IN_NAME * self._best(page.name) + IN_DESCRIPTION * self._best(page.description)
        # Scripts without spaces have no words to begin with.
        return worth or (WITHIN if not self.word.isascii() and self.word in page.text else 0.0)

    def _best(self, there: frozenset[str]) -> float:
        if not there:
            return 0.0
        fit = max(_fit(self.word, one) for one in there)
        return fit or (LIKE if self.like & there else 0.0)


def _fit(word: str, other: str) -> float:
    """How well a word of the query fits a word of an entry: `resizing` and `files` nearly do."""
    if word == other:
        return WHOLE
    same = next(
        (at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b),
        min(len(word), len(other)),
    )
    shorter, longer = sorted((len(word) - same, len(other) - same))
    if same == len(word):
        return BEGINNING if same > 1 else 0.0
    # `read-ing`, `log-s`; `resiz-ing` and `resiz-e`.
    is_ending = longer <= _LONGEST_ENDING and shorter <= 1 and same >= _SHORTEST_STEM + shorter
    return BEGINNING if is_ending else 0.0
