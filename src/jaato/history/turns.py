"""Turns and steps: where a history may be cut, and what belongs together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from jaato.history.message import ANSWERS, FROM_MODEL, MARKED, OPENS, THINKS, Message


def mask(*bits: int) -> bytes:
    """A table for `bytes.translate` that keeps the shapes with all of these bits."""
    wanted = sum(bits)
    return bytes(shape & wanted == wanted for shape in range(256))


_OPENS = mask(OPENS)
_SUMMARY = mask(OPENS, MARKED)
_THINKS = mask(THINKS)
_MARKED = mask(MARKED)


def shapes_of(history: Sequence[Message]) -> bytes:
    """The shapes of all messages: one look at each."""
    return bytes([message.shape for message in history])


def has(shapes: bytes, table: bytes) -> bool:
    """Whether a mask keeps any of the shapes."""
    return shapes.translate(table).count(1) > 0


def positions(shapes: bytes, table: bytes) -> Iterator[int]:
    """Where the shapes are that a mask keeps."""
    kept = shapes.translate(table)
    at = kept.find(1)
    while at >= 0:
        yield at
        at = kept.find(1, at + 1)


def thinking(shapes: bytes) -> Iterator[int]:
    """Where messages with thoughts are."""
    return positions(shapes, _THINKS)


def notices(shapes: bytes) -> Iterator[int]:
    """Where notices are."""
    return (at for at in positions(shapes, _MARKED) if not shapes[at] & OPENS)


Span = range
"""Consecutive positions: one turn, one summary, or loose notices."""


def span_starts(history: Sequence[Message]) -> list[int]:
    """Where a turn or a summary begins.

    What comes before the first user message is a span of its own, as is what follows a summary
    without a user message.
    """
    return _starts(shapes_of(history))


def _starts(shapes: bytes) -> list[int]:
    starts = list(positions(shapes, _OPENS))
    if shapes and (not starts or starts[0] != 0):
        starts.insert(0, 0)
    if not has(shapes, _SUMMARY):
        return starts
    headless = [
        at + 1
        for at in positions(shapes, _SUMMARY)
        if at + 1 < len(shapes) and not shapes[at + 1] & OPENS
    ]
    return sorted([*starts, *headless])


class Outline(Sequence[Span]):
    """The spans of one history, made when they are asked for."""

    def __init__(self, shapes: bytes) -> None:
        starts = self._starts = _starts(shapes)
        self._stops = [*starts[1:], len(shapes)]
        # A notice opens nothing: in a turn it is part of it, alone it belongs to no one.
        at_marks: list[int] = []
        if has(shapes, _MARKED):
            at_marks = [index for index, at in enumerate(starts) if shapes[at] & MARKED]
        self._summaries = [index for index in at_marks if shapes[starts[index]] & OPENS]
        self._others = frozenset(
            index
            for index in at_marks
            if shapes[starts[index]] & OPENS or all(shapes[at] & MARKED for at in self[index])
        )

    @classmethod
    def of(cls, history: Sequence[Message]) -> Outline:
        """Read the spans off a history."""
        return cls(shapes_of(history))

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Span:  # type: ignore[override]  # spans are never sliced
        return range(self._starts[index], self._stops[index])

    def is_turn(self, index: int) -> bool:
        """Whether a span is a turn, rather than a summary or a loose notice."""
        return index not in self._others

    def index_at(self, position: int) -> int:
        """The index of the span that holds a position."""
        return bisect_right(self._starts, position) - 1

    def turns(self) -> list[int]:
        """The indices of the spans that are turns, oldest first."""
        others = self._others
        every = range(len(self._starts))
        return [index for index in every if index not in others] if others else list(every)

    def summaries(self) -> list[int]:
        """The indices of the spans that are summaries, oldest first."""
        return list(self._summaries)


def steps(history: Sequence[Message], span: Span) -> Iterator[Span]:
    """The steps of a turn: each model message with its calls and all their results.

    User messages and notices between steps belong to none.
    """
    start: int | None = None
    for at in span:
        shape = history[at].shape
        if start is not None and (shape & FROM_MODEL or not shape & ANSWERS):
            yield range(start, at)
            start = None
        if shape & FROM_MODEL:
            start = at
    if start is not None:
        yield range(start, span.stop)
