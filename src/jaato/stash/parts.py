"""The parts of an index: one that grows in memory, and finished ones that are only read. Pure.

A finished part is one run of bytes (in memory, or a mapped file): sorted terms in blocks, and the
postings of each, largest first. Parts that stand side by side merge into one.
"""

from __future__ import annotations

import heapq
import json
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, Literal, Protocol

from jaato.stash.terms import NUMBER_MASK, postings_of

VERSION: Final = 1
BLOCK: Final = 64
"""Terms that are looked through one by one."""
_HEADER_BYTES: Final = 256
_SECTIONS: Final[tuple[tuple[str, Literal["Q", "I"]], ...]] = (
    ("places", "Q"),
    ("starts", "Q"),
    ("blocks", "Q"),
    ("postings", "I"),
)
_LAST_CHAR: Final = chr(sys.maxunicode)


class PartError(ValueError):
    """Bytes that are no part of an index, or not of this one."""


class Part(Protocol):
    """Where postings are found."""

    base: int
    """The row of its first text."""

    def existing(self, terms: Iterable[str]) -> dict[str, int]:
        """Those terms that are there, and how many texts have each."""
        ...

    def beginning(self, start: str, most: int) -> dict[str, int]:
        """Terms that begin so, no more than about `most`."""
        ...

    def postings(self, term: str) -> Sequence[int]:
        """The postings of a term, largest first."""
        ...


class GrowingPart:
    """Takes texts in; a search looks through all its terms."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.rows = 0
        self._postings: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))
        self._sorted: list[str] = []

    def add(self, counts: Counter[str]) -> None:
        """Take in the terms of the next row."""
        postings = self._postings
        for term, posting in postings_of(counts, self.rows):
            postings[term].append(posting)
        self.rows += 1

    def existing(self, terms: Iterable[str]) -> dict[str, int]:
        """Those terms that are there, and how many texts have each."""
        there = self._postings
        return {term: len(there[term]) for term in terms if term in there}

    def beginning(self, start: str, most: int) -> dict[str, int]:
        """Terms that begin so."""
        terms, postings = self._sorted, self._postings
        if len(terms) < len(postings):
            terms += islice(postings, len(terms), None)
            terms.sort()
        first = bisect_left(terms, start)
        last = bisect_right(terms, start + _LAST_CHAR, first, min(first + most, len(terms)))
        return {term: len(postings[term]) for term in terms[first:last]}

    def postings(self, term: str) -> Sequence[int]:
        """The postings of a term, largest first."""
        there: Sequence[int] = self._postings.get(term, ())
        return there if len(there) < 2 else sorted(there, reverse=True)  # noqa: PLR2004 -- in order

    def finished(self, places: array[int], log: str) -> bytes:
        """Its bytes as a finished part. `places`: where its texts stand in the log of that name."""
        terms = sorted(self._postings)
        return _encoded(self.base, places, log, ((term, self.postings(term)) for term in terms))


class FinishedPart:
    """Reads the bytes of a part."""

    def __init__(self, data: Any) -> None:
        """`data`: bytes, or a mapped file. Raises `PartError`."""
        view = memoryview(data)
        header = _header(view)
        self.base: int = header["base"]
        self.log: str = header["log"]
        self.rows: int = header["counts"]["places"]
        sections: dict[str, memoryview[int]] = {}
        at = _HEADER_BYTES
        for name, kind in _SECTIONS:
            end = at + header["counts"][name] * array(kind).itemsize
            sections[name] = view[at:end].cast(kind)
            at = end
        self.places, self._starts = sections["places"], sections["starts"]
        self._blocks, self._postings = sections["blocks"], sections["postings"]
        self._blob = view[at:]
        self._counts = header["counts"]
        self._behind_places = view[_HEADER_BYTES + self.places.nbytes :]
        self.size = len(view)
        # The first term of each block, in memory: the rest is looked up where it is.
        self._fence = [self._terms_of(block)[0] for block in range(len(self._blocks) - 1)]

    def existing(self, terms: Iterable[str]) -> dict[str, int]:
        """Those terms that are there, and how many texts have each."""
        found: dict[str, int] = {}
        open_block, block_terms = -1, [""]
        for term in sorted(terms):
            block = bisect_right(self._fence, term) - 1
            if block < 0:
                continue
            if block != open_block:
                open_block, block_terms = block, self._terms_of(block)
            if term in block_terms:
                found[term] = self._count(block * BLOCK + block_terms.index(term))
        return found

    def beginning(self, start: str, most: int) -> dict[str, int]:
        """Terms that begin so, no more than about `most`."""
        first = max(bisect_right(self._fence, start) - 1, 0)
        last = bisect_right(self._fence, start + _LAST_CHAR)
        found: dict[str, int] = {}
        for block in range(first, last):
            for at, term in enumerate(self._terms_of(block), start=block * BLOCK):
                if term.startswith(start):
                    found[term] = self._count(at)
            if len(found) >= most:
                break
        return found

    def postings(self, term: str) -> Sequence[int]:
        """The postings of a term, largest first."""
        block = bisect_right(self._fence, term) - 1
        if block < 0:
            return ()
        terms = self._terms_of(block)
        return self._postings_at(block * BLOCK + terms.index(term)) if term in terms else ()

    def everything(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Each term and its postings, in the order of the terms."""
        for block in range(len(self._fence)):
            for at, term in enumerate(self._terms_of(block), start=block * BLOCK):
                yield term, self._postings_at(at)

    def moved(self, base: int, places: array[int], log: str) -> bytes:
        """The bytes of the same part in another log, where all its texts stand elsewhere."""
        return _framed(base, log, self._counts, places.tobytes() + self._behind_places)

    def _count(self, at: int) -> int:
        return self._starts[at + 1] - self._starts[at]

    def _postings_at(self, at: int) -> Sequence[int]:
        return self._postings[self._starts[at] : self._starts[at + 1]]

    def _terms_of(self, block: int) -> list[str]:
        return str(self._blob[self._blocks[block] : self._blocks[block + 1]], "utf-8").split("\n")


def merged(parts: Sequence[FinishedPart], log: str) -> bytes:
    """Parts that stand side by side, as one."""
    places = array("Q")
    for part in parts:
        places.frombytes(part.places.tobytes())
    base = parts[0].base
    streams = [_from(part, part.base - base) for part in parts]
    together = groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0))
    return _encoded(base, places, log, ((term, _joined(several)) for term, several in together))


def thinned(
    part: FinishedPart, base: int, numbers: Sequence[int], places: array[int], log: str
) -> bytes:
    """A part for another log, in which some of its texts are no more.

    `numbers`: the new number of each text, in the same order; -1 for one that is gone.
    """
    if len(places) == part.rows:
        return part.moved(base, places, log)

    def kept() -> Iterator[tuple[str, Sequence[int]]]:
        for term, postings in part.everything():
            left = [
                one & ~NUMBER_MASK | numbers[one & NUMBER_MASK]
                for one in postings
                if numbers[one & NUMBER_MASK] >= 0
            ]
            if left:
                yield term, left

    return _encoded(base, places, log, kept())


def _from(part: FinishedPart, shift: int) -> Iterator[tuple[str, int, Sequence[int]]]:
    for term, postings in part.everything():
        yield term, shift, postings


def _joined(several: Iterable[tuple[str, int, Sequence[int]]]) -> Sequence[int]:
    together: list[int] = []
    # Later parts first: of equal levels their postings are larger, so most is in order already.
    for _, shift, postings in reversed(list(several)):
        together += [posting + shift for posting in postings]
    together.sort(reverse=True)
    return together


def _encoded(
    base: int, places: array[int], log: str, terms: Iterable[tuple[str, Sequence[int]]]
) -> bytes:
    starts, blocks, postings = array("Q", [0]), array("Q", [0]), array("I")
    blob = bytearray()
    block: list[str] = []
    for term, there in terms:
        if len(block) == BLOCK:
            blob += "\n".join(block).encode()
            blocks.append(len(blob))
            block = []
        block.append(term)
        postings.extend(there)
        starts.append(len(postings))
    if block:
        blob += "\n".join(block).encode()
        blocks.append(len(blob))
    columns = {"places": places, "starts": starts, "blocks": blocks, "postings": postings}
    body = b"".join([*(columns[name].tobytes() for name, _ in _SECTIONS), blob])
    counts = {name: len(column) for name, column in columns.items()}
    return _framed(base, log, counts, body)


def _framed(base: int, log: str, counts: Mapping[str, int], body: bytes) -> bytes:
    header = {
        "jaato_stash_index": VERSION,
        "order": sys.byteorder,
        "log": log,
        "base": base,
        "counts": counts,
        "crc": zlib.crc32(body),
        "bytes": len(body),
    }
    return json.dumps(header).encode().ljust(_HEADER_BYTES - 1) + b"\n" + body


def _header(view: memoryview) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(bytes(view[:_HEADER_BYTES]))
        is_ours = header["jaato_stash_index"] == VERSION and header["order"] == sys.byteorder
        body = view[_HEADER_BYTES:]
        if is_ours and header["bytes"] == len(body) and header["crc"] == zlib.crc32(body):
            return header
    except (ValueError, KeyError, TypeError) as error:
        raise PartError(f"not a part of an index: {error}") from error
    raise PartError("a part of another version, or a damaged one")
