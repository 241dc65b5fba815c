"""What the lines of a log say, damaged ones included: what can be saved of them is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from jaato.kept import Fate
from jaato.stash.line import LINE_START, head_of, is_whole

_ID_START: Final = b'"id":"'


@dataclass(frozen=True, slots=True)
class Kept:
    """A record."""

    handle: str
    head: Mapping[str, Any]
    place: int
    length: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A handle has no record any more."""

    handle: str
    fate: Fate


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that are not what was written. `handle`: as far as it can still be read."""

    place: int
    raw: bytes
    handle: str | None


@dataclass(frozen=True, slots=True)
class Torn:
    """A last line that was never finished."""

    place: int
    raw: bytes


Seen = Kept | Gone | Broken | Torn


def seen_in(lines: Iterable[tuple[int, bytes]]) -> Iterator[Seen]:
    """What each line says."""
    for place, line in lines:
        if is_whole(line):
            yield from _said(place, line)
        elif line.endswith(b"\n"):
            yield from _saved(place, line)
        else:
            yield Torn(place, line)


def _said(place: int, line: bytes) -> Iterator[Seen]:
    try:
        head = head_of(line)
        if "id" in head:
            yield Kept(head["id"], head, place, len(line))
        elif "gone" in head:
            yield Gone(head["gone"], head["fate"])
        elif "jaato_stash" not in head:
            yield Broken(place, line, None)
    except (ValueError, KeyError):
        yield Broken(place, line, None)


def _saved(place: int, line: bytes) -> Iterator[Seen]:
    """Lines that ran together because the line feed between them is lost."""
    # Quotes inside a text are escaped: where this stands, a line begins.
    starts = [0, *_places(line, LINE_START), len(line)]
    for begin, end in pairwise(starts):
        piece = line[begin:end]
        if is_whole(piece.rstrip(b"\n") + b"\n"):
            yield from _said(place + begin, piece)
        else:
            yield Broken(place + begin, piece, _handle_in(piece))


def _places(line: bytes, mark: bytes) -> Iterator[int]:
    at = line.find(mark, 1)
    while at >= 0:
        yield at
        at = line.find(mark, at + 1)


def _handle_in(piece: bytes) -> str | None:
    """The handle that stands at the beginning of a line, if it is still there."""
    begin = piece.find(_ID_START, 0, 64) + len(_ID_START)
    end = piece.find(b'"', begin, begin + 80)
    if begin < len(_ID_START) or end < 0:
        return None
    return piece[begin:end].decode("ascii", "replace")
