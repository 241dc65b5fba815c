"""Group commit: what several threads hand in while one writes is written at once by the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True)
class _Ticket(Generic[Item]):
    item: Item
    answer: Any = None
    error: BaseException | None = None
    is_done: bool = False


class GroupCommit(Generic[Item]):
    """Calls `write` with one item or more, one call at a time."""

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Any]], lock: Any) -> None:
        """`write` answers each item; what it raises, all of them raise. It runs under `lock`."""
        self._write = write
        self._writing = lock
        self._waiting: list[_Ticket[Item]] = []
        self._queue = threading.Lock()

    def submit(self, item: Item) -> Any:
        """The answer to an item, once it is written."""
        ticket = _Ticket(item)
        with self._queue:
            self._waiting.append(ticket)
        with self._writing:
            if not ticket.is_done:
                self._lead()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def _lead(self) -> None:
        with self._queue:
            tickets, self._waiting = self._waiting, []
        try:
            answers = self._write([ticket.item for ticket in tickets])
            for ticket, answer in zip(tickets, answers, strict=True):
                ticket.answer = answer
        except BaseException as error:
            for ticket in tickets:
                ticket.error = error
            raise
        finally:
            for ticket in tickets:
                ticket.is_done = True
