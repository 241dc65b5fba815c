"""What a text can be found by: its words, its identifiers and their parts, with weights. Pure.

A posting is one number: how much a text speaks of a term (0 to 15) above the text's number. So the
largest postings of a term are the best texts, and of equals the newest.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from jaato.kept import About
from jaato.words import words

LEVELS: Final = 16
LEVEL_SHIFT: Final = 24
NUMBER_MASK: Final = (1 << LEVEL_SHIFT) - 1
LONGEST_TERM: Final = 48
_TOKEN: Final = re.compile(r"\w+")
# For ASCII four times as fast as the expression.
_ONLY_TOKENS: Final = "".join(
    chr(code) if chr(code).isalnum() or chr(code) == "_" else " " for code in range(128)
)
# Written without spaces: any two neighbours may be asked for.
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
_SHORTEST_HEX: Final = 8
_HEX: Final = re.compile(r"(?=[a-f]*\d)[0-9a-f]+")
_USUAL_LENGTH: Final = 300
"""Terms of a usual text: the length at which BM25 takes nothing and adds nothing."""
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.4
_ABOUT_COUNTS: Final = 4
"""A word of the label or of a path counts like so many in the text."""
_MOST_REMEMBERED: Final = 200_000


class Terms(dict[str, tuple[str, ...]]):
    """Splits texts. Remembers how each token came apart, since tokens repeat."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        """The terms of a token that was not met yet."""
        if len(self) > _MOST_REMEMBERED:
            self.clear()
        parts = self[token] = token_terms(token)
        return parts

    def counts(self, text: str, about: About) -> Counter[str]:
        """Each term of a record, and how often it says it."""
        counts = Counter(chain.from_iterable(map(self.__getitem__, tokens_of(text))))
        told = tokens_of("\n".join((about.label, about.tool, *about.files, *about.tags)))
        for term in chain.from_iterable(map(self.__getitem__, told)):
            counts[term] += _ABOUT_COUNTS
        return counts


def postings_of(counts: Counter[str], number: int) -> Iterator[tuple[str, int]]:
    """Each term of a text with its posting. `number`: the text's place in the part."""
    length = counts.total()
    stretch = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / _USUAL_LENGTH)
    postings = {
        count: int(LEVELS * count / (count + stretch)) << LEVEL_SHIFT | number
        for count in set(counts.values())
    }
    return zip(counts, map(postings.__getitem__, counts.values()), strict=True)


def tokens_of(text: str) -> list[str]:
    """The runs of letters, digits and `_` of a text."""
    return text.translate(_ONLY_TOKENS).split() if text.isascii() else _TOKEN.findall(text)


def token_terms(token: str) -> tuple[str, ...]:
    """The terms of one token: itself, and its parts where it has some."""
    if not token.isascii():
        return tuple(dict.fromkeys(_foreign_terms(token)))
    whole = token.strip("_").lower()
    if not whole:
        return ()
    if whole == token and (whole.isalpha() or whole.isdigit()):
        return (whole[:LONGEST_TERM],)
    if len(whole) > LONGEST_TERM or (len(whole) >= _SHORTEST_HEX and _HEX.fullmatch(whole)):
        return (whole[:LONGEST_TERM],)
    parts = words(token)
    return (whole,) if parts == [whole] else tuple(dict.fromkeys((whole, *parts)))


def query_terms(query: str) -> list[tuple[str, bool]]:
    """What a query asks for, and of each whether only its parts have to be found."""
    asked: dict[str, bool] = {}
    for token in tokens_of(query):
        terms = token_terms(token)
        for term in terms:
            is_optional = len(terms) > 1 and term == terms[0] and token.isascii()
            asked[term] = asked.get(term, True) and is_optional
    return list(asked.items())


def _foreign_terms(token: str) -> Iterator[str]:
    token = folded(token)
    if token.isascii():
        yield from token_terms(token)
        return
    for run in _UNSPACED.findall(token):
        yield from (run[at : at + 2] for at in range(len(run)))
    rest = words(_UNSPACED.sub(" ", token))
    whole = "".join(rest)
    if whole:
        yield whole[:LONGEST_TERM]
        yield from (part[:LONGEST_TERM] for part in rest)


def folded(text: str) -> str:
    """A text without accents, wide letters and ligatures."""
    apart = unicodedata.normalize("NFKD", text)
    marks: Iterable[str] = (char for char in apart if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(marks))
