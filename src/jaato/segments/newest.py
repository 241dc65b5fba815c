"""The newest few of many, kept without keeping the order of all."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Final

Entry = tuple[tuple[float, ...], str, int]
"""What makes it new, id, number."""

_RESERVE: Final = 4


class Newest:
    """The last `wanted` of a stream that also loses members.

    It keeps four times as many, so that it must look at all of them only after so many losses.
    """

    def __init__(self, wanted: int, everything: Callable[[], Iterable[Entry]]) -> None:
        self.wanted = wanted
        self._everything = everything
        self._room = wanted * _RESERVE
        self._kept: list[Entry] = []
        self._numbers: set[int] = set()
        self._more = False  # Whether there are members that are not kept.

    def add(self, entry: Entry) -> None:
        """A member came. O(1) at any number of members."""
        if not self.wanted or (self._more and (not self._kept or entry < self._kept[0])):
            self._more = True
            return
        insort(self._kept, entry)
        self._numbers.add(entry[2])
        if len(self._kept) > self._room:
            self._numbers.discard(self._kept.pop(0)[2])
            self._more = True

    def discard(self, number: int) -> None:
        """A member left, if it was one."""
        if number in self._numbers:
            self._numbers.discard(number)
            self._kept = [entry for entry in self._kept if entry[2] != number]

    def numbers(self) -> list[int]:
        """The newest, newest first."""
        if self._more and len(self._kept) < self.wanted:
            self.refill()
        return [entry[2] for entry in reversed(self._kept[-self.wanted :])] if self.wanted else []

    def refill(self) -> None:
        """Look at all members anew."""
        ordered = sorted(self._everything())
        self._more = len(ordered) > self._room
        self._kept = ordered[-self._room :] if self._room else []
        self._numbers = {entry[2] for entry in self._kept}
