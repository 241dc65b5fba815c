"""Who leads to whom: explicit links between numbered ids, and groups of what shares something.

An id has its number as long as it is live or something live links to it, so a link may point at
what is not there, and removing a hub costs nothing for those that link to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jaato.segments.segment import ContextSegment

NONE: Final[tuple[int, ...]] = ()


class Group:
    """The live segments that share a file, a tag or a topic."""

    __slots__ = ("key", "members")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.members: set[int] = set()


class Graph:
    """Links and groups of the live segments, by number."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.segments: list[ContextSegment | None] = []
        """By number; None for what is only linked to, or for a number that is free."""
        self.out: list[tuple[int, ...]] = []
        self.into: list[set[int] | None] = []
        self.groups_of: list[tuple[Group, ...]] = []
        self.groups: dict[tuple[str, str], Group] = {}
        self.tasks: dict[str, set[int]] = {}
        self._number_of: dict[str, int] = {}
        self._free: list[int] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def live(self) -> Iterator[int]:
        """The numbers of the live segments, in no order that means something."""
        return (number for number, segment in enumerate(self.segments) if segment is not None)

    def number(self, segment_id: str) -> int | None:
        """The number of a live segment."""
        number = self._number_of.get(segment_id)
        return None if number is None or self.segments[number] is None else number

    def segment(self, number: int) -> ContextSegment:
        """The live segment of this number."""
        segment = self.segments[number]
        assert segment is not None
        return segment

    def incoming(self, number: int) -> int:
        """How many live segments link to it. O(1)."""
        linking = self.into[number]
        return 0 if linking is None else len(linking)

    def members(self, kind: str, key: str) -> set[int]:
        """The live segments of a file, tag or topic: not a copy."""
        group = self.groups.get((kind, key))
        return group.members if group is not None else set()

    def place(self, segment: ContextSegment) -> tuple[int, ...]:
        """Put a segment in, which must not be live; returns the numbers that it links to."""
        number = self._numbered(segment.segment_id)
        assert self.segments[number] is None
        self.segments[number] = segment
        self._live += 1
        if segment.links:
            targets = dict.fromkeys(self._numbered(link.to) for link in segment.links)
            targets.pop(number, None)
            out = self.out[number] = tuple(targets)
            for target in out:
                linking = self.into[target]
                if linking is None:
                    self.into[target] = {number}
                else:
                    linking.add(number)
        self.groups_of[number] = tuple(
            self._joined(kind, key, number) for kind, key in shared_keys(segment)
        )
        if segment.task_id is not None:
            self.tasks.setdefault(segment.task_id, set()).add(number)
        return self.out[number]

    def displace(self, number: int) -> tuple[int, ...]:
        """Take a live segment out; returns the live numbers that it linked to."""
        segment = self.segment(number)
        self.segments[number] = None
        self._live -= 1
        for group in self.groups_of[number]:
            group.members.discard(number)
            if not group.members:
                del self.groups[group.key]
        self.groups_of[number] = ()
        if segment.task_id is not None:
            members = self.tasks[segment.task_id]
            members.discard(number)
            if not members:
                del self.tasks[segment.task_id]
        targets, self.out[number] = self.out[number], NONE
        for target in targets:
            linking = self.into[target]
            assert linking is not None
            linking.discard(number)
            if not linking:
                self.into[target] = None
                self._forget(target)
        self._forget(number)
        return tuple(target for target in targets if self.segments[target] is not None)

    def _numbered(self, segment_id: str) -> int:
        number = self._number_of.get(segment_id)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self.ids[number] = segment_id
        else:
            number = len(self.ids)
            self.ids.append(segment_id)
            self.segments.append(None)
            self.out.append(NONE)
            self.into.append(None)
            self.groups_of.append(())
        self._number_of[segment_id] = number
        return number

    def _forget(self, number: int) -> None:
        if self.segments[number] is None and self.into[number] is None:
            del self._number_of[self.ids[number]]
            self.ids[number] = ""
            self._free.append(number)

    def _joined(self, kind: str, key: str, number: int) -> Group:
        group = self.groups.get((kind, key))
        if group is None:
            group = self.groups[kind, key] = Group((kind, key))
        group.members.add(number)
        return group


def shared_keys(segment: ContextSegment) -> Iterator[tuple[str, str]]:
    """What links it implicitly to whatever has the same. A function is a tag."""
    if segment.file_path is not None:
        yield "file", segment.file_path
    for tag in segment.tags:
        yield "tag", tag
    if segment.topic_id is not None:
        yield "topic", segment.topic_id
