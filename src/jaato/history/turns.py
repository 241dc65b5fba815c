"""Turns and steps: where a history may be cut, and what belongs together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaato.history.message import Kind, Message, Role


@dataclass(frozen=True, slots=True)
class Span:
    """Messages `start` up to, not including, `stop`: one turn, or one summary."""

    start: int
    stop: int
    is_summary: bool = False

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


def span_starts(history: Sequence[Message]) -> list[int]:
    """Where a turn or a summary begins. One look at each message.

    What comes before the first user message is a span of its own, as is what follows a
    summary without a user message. A notice opens nothing: it belongs to no one.
    """
    starts = [
        at
        for at, message in enumerate(history)
        if message.opens_turn or message.kind is Kind.SUMMARY
    ]
    if history and (not starts or starts[0] != 0):
        starts.insert(0, 0)
    orphaned = [
        at + 1
        for at in starts
        if history[at].kind is Kind.SUMMARY
        and at + 1 < len(history)
        and not history[at + 1].opens_turn
        and history[at + 1].kind is not Kind.SUMMARY
    ]
    return sorted([*starts, *orphaned]) if orphaned else starts


@dataclass(frozen=True, slots=True)
class Outline:
    """The spans of one history."""

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, history: Sequence[Message]) -> Outline:
        """Read the spans off a history."""
        starts = span_starts(history)
        stops = [*starts[1:], len(history)]
        summary = Kind.SUMMARY
        return cls(
            tuple(
                Span(start, stop, history[start].kind is summary)
                for start, stop in zip(starts, stops, strict=True)
            )
            if starts
            else ()
        )

    @property
    def turns(self) -> tuple[Span, ...]:
        """The spans that are turns, oldest first."""
        return tuple(span for span in self.spans if not span.is_summary)

    def at(self, position: int) -> Span:
        """The span that holds a position."""
        return self.spans[bisect_right([span.start for span in self.spans], position) - 1]


def steps(history: Sequence[Message], span: Span) -> Iterator[Span]:
    """The steps of a turn: each model message with its calls and all their results.

    User messages and notices between steps belong to none.
    """
    start: int | None = None
    for at in span:
        message = history[at]
        opens = message.role is Role.MODEL
        if start is not None and (opens or not message.result_ids):
            yield Span(start, at)
            start = None
        if opens:
            start = at
    if start is not None:
        yield Span(start, span.stop)
