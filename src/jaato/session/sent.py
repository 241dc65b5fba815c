"""The messages of a request: the history as it is now, with what enrichers said, without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from jaato.history import Message, Part
from jaato.session.window import Window


class SentMessages(Sequence[Message]):
    """A history up to its present end, with one message that is sent otherwise than it is kept.

    A history is only ever appended to or replaced, so this stays what it is. A copy for each step
    would make a long session slower step by step.
    """

    __slots__ = ("_at", "_enriched", "_history", "_length")

    def __init__(
        self, history: Sequence[Message], at: int | None = None, enriched: Message | None = None
    ) -> None:
        self._history = history
        self._length = len(history)
        self._at = at
        self._enriched = enriched

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        at = range(self._length)[index]
        if self._enriched is not None and at == self._at:
            return self._enriched
        return self._history[at]

    def __iter__(self) -> Iterator[Message]:
        for at, message in enumerate(islice(self._history, self._length)):
            if self._enriched is not None and at == self._at:
                yield self._enriched
            else:
                yield message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self._length, self._at))

    def __repr__(self) -> str:
        return f"SentMessages({list(self)!r})"


def sent_messages(window: Window) -> SentMessages:
    """The messages as they are sent: what enrichers said stands in front of the turn's prompt."""
    history, at = window.history, window.turn_at
    if not window.enrichment or at is None:
        return SentMessages(history)
    context = "\n\n".join(window.enrichment.values())
    enriched = history[at].with_parts([Part(text=context), *history[at].parts])
    return SentMessages(history, at, enriched)


def marks_in(window: Window) -> tuple[int, ...]:
    """Where the prompt is stable: its end (the next step appends), and the end of the turn before.

    The request that opened the session stays for ever, so the prefix up to it survives every
    collection.
    """
    marks = [len(window.history) - 1, 0, (window.turn_at or 0) - 1]
    return tuple(dict.fromkeys(at for at in marks if at >= 0))
