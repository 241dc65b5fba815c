"""Edits as values, and the only function that applies them to a history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from jaato.history.message import Message
from jaato.history.turns import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Messages that leave."""

    span: Span
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """A message whose tool output becomes a short line; the pair stays."""

    at: int
    into: Message
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Spans that become one summary, which stands in front of the message at `at`."""

    at: int
    spans: tuple[Span, ...]
    into: Message
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """A line for the model, in front of the message at this position."""

    at: int
    message: Message


Edit = Drop | Stub | Fold | Notify


def edit_point(edits: Iterable[Edit]) -> int | None:
    """The earliest position that changes: the prompt cache holds up to here."""
    return min((_position(edit) for edit in edits), default=None)


def _position(edit: Edit) -> int:
    match edit:
        case Drop(span=span):
            return span.start
        case Fold(at=at, spans=spans):
            return min(at, spans[0].start)
        case Stub(at=at) | Notify(at=at):
            return at
        case _:
            assert_never(edit)


def applied(history: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """The history after the edits; what no edit names is the same object as before.

    Positions are those of `history`. A notice comes before a summary at the same place.
    """
    after = list(history)
    changes: list[tuple[int, int, int, list[Message]]] = []  # start, rank, stop, what comes in
    for edit in edits:
        match edit:
            case Stub(at=at, into=into):
                after[at] = into
            case Notify(at=at, message=message):
                changes.append((at, 0, at, [message]))
            case Fold(at=at, spans=spans, into=into):
                changes.append((at, 1, at, [into]))
                changes.extend((span.start, 2, span.stop, []) for span in spans)
            case Drop(span=span):
                changes.append((span.start, 2, span.stop, []))
            case _:
                assert_never(edit)
    if not changes:
        return after
    changes.sort(key=lambda change: change[:3])
    result: list[Message] = []
    done = 0
    for start, _, stop, coming in changes:
        result += after[done:start]
        result += coming
        done = max(done, stop)
    result += after[done:]
    return result
