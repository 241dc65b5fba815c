"""Where every live segment stands: in the graph, in the totals, among the roots or in a queue.

All of it follows from the segments and from configuration, task and focus; this is the one place
that keeps it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from jaato.segments.changes import Focus
from jaato.segments.config import SegmentConfig
from jaato.segments.graph import Graph
from jaato.segments.queues import Kin, Queues
from jaato.segments.roots import RootKind, held_as
from jaato.segments.segment import SEGMENT_TYPES, ContextSegment, Generation
from jaato.segments.totals import Totals
from jaato.segments.windows import Windows

TYPE_NUMBER: Final[Mapping[str, int]] = {kind: at for at, kind in enumerate(SEGMENT_TYPES)}
# From an eighth of all on, one sort of everything is cheaper than so many single moves.
_MANY: Final = 8


class Places:
    """The live segments by number, and what is kept about each."""

    def __init__(self, config: SegmentConfig) -> None:
        self.config = config
        self.task_id: str | None = None
        self.focus = Focus()
        self.collections = 0
        self.totals = Totals()
        self.graph = Graph()
        self.held: dict[int, RootKind] = {}
        """The roots that are roots by themselves; they wait in no queue."""
        self.keys: list[float] = []
        """By number: the last touch, in steps or seconds."""
        self.queues = Queues(self.graph.ids, self.keys)
        self._earned: list[int] = []  # References beyond the live links.
        self._born: list[int] = []  # The collection before its first.
        self._windows = Windows(self.graph, config)

    def shown(self, number: int) -> ContextSegment:
        """The live segment of this number with what it earned since it was placed."""
        segment = self.graph.segment(number)
        refcount = self.refcount(number)
        survivals = self.collections - self._born[number]
        generation: Generation = "old" if self.old_at(number, segment) == 0 else "young"
        if (segment.refcount, segment.gc_survival_count, segment.generation) == (
            refcount,
            survivals,
            generation,
        ):
            return segment
        return replace(
            segment, refcount=refcount, gc_survival_count=survivals, generation=generation
        )

    def refcount(self, number: int) -> int:
        """What it earned, and the live segments that link to it. O(1)."""
        return self._earned[number] + self.graph.incoming(number)

    def old_at(self, number: int, segment: ContextSegment) -> int:
        """The collection at which it will be old; 0 if it is."""
        if segment.generation == "old":
            return 0
        due = self._born[number] + self.config.promote_after
        return due if due > self.collections else 0

    def recent_roots(self) -> dict[int, RootKind]:
        """The roots that move with every message: the last messages and edits. O(1)."""
        return self._windows.roots()

    def place(self, segments: tuple[ContextSegment, ...]) -> None:
        """Put segments in; one that is there is replaced, and keeps what it earned."""
        coming = {segment.segment_id: segment for segment in segments}
        bulk = len(coming) > len(self.graph) // _MANY + _MANY
        changed: set[int] = set()
        placed: list[int] = []
        for segment in coming.values():
            known = self.graph.number(segment.segment_id)
            if known is not None:
                self.queues.take(known)
                changed.update(self._displace(known))
            changed.update(self.graph.place(segment))
            number = self.graph.number(segment.segment_id)
            assert number is not None
            if len(self.keys) < len(self.graph.ids):
                self._widen()
            self._born[number] = self.collections - segment.gc_survival_count
            self.keys[number] = self._key(segment)
            self.totals.add(segment)
            self._windows.enter(number, segment)
            placed.append(number)
        for number in placed:
            segment = self.graph.segment(number)
            self._earned[number] = max(segment.refcount - self.graph.incoming(number), 0)
        if bulk:
            self._refill()
        else:
            self.requeue(changed.union(placed))

    def swap(self, number: int, segment: ContextSegment) -> None:
        """Replace a value by one with the same links, groups and task."""
        self.queues.take(number)
        self.totals.add(self.graph.segment(number), -1)
        self.graph.segments[number] = segment
        self.totals.add(segment)
        self.keys[number] = self._key(segment)
        self._windows.enter(number, segment)
        self.requeue((number,))

    def remove(self, numbers: list[int]) -> None:
        """Take segments out."""
        bulk = len(numbers) > len(self.graph) // _MANY + _MANY
        changed: set[int] = set()
        for number in numbers:
            if not bulk:
                self.queues.take(number)
            changed.update(self._displace(number))
        if bulk:
            self._refill()
        else:
            self.requeue(changed)

    def spare(self, numbers: Iterable[int] | None) -> None:
        """Count a collection that these survived; None: all, at the cost of those it makes old."""
        if numbers is None:
            self.collections += 1
            self.queues.promote(self.collections)
            return
        spared = list(numbers)
        for number in spared:
            self._born[number] -= 1
        self.requeue(spared)

    def earn(self, number: int) -> None:
        """One reference more, for a retrieval; whoever calls it swaps the segment next."""
        self._earned[number] += 1

    def set_task(self, task_id: str | None) -> None:
        """Let other segments be goals."""
        old, self.task_id = self.task_id, task_id
        self.requeue(self._goals(old) | self._goals(task_id))

    def set_focus(self, focus: Focus) -> None:
        """Let other segments be of the active file."""
        old, self.focus = self.focus, focus
        self.requeue(self._in_file(old) | self._in_file(focus))

    def set_config(self, config: SegmentConfig) -> None:
        """Let other settings hold. What is old stays old. Costs one pass."""
        for number in list(self.graph.live()):
            segment = self.graph.segment(number)
            if segment.generation == "young" and not self.old_at(number, segment):
                self.graph.segments[number] = replace(segment, generation="old")
        self.config = config
        for number in self.graph.live():
            self.keys[number] = self._key(self.graph.segment(number))
        self._windows = Windows(self.graph, config)
        self._refill()

    def _displace(self, number: int) -> tuple[int, ...]:
        segment = self.graph.segment(number)
        self.totals.add(segment, -1)
        self._windows.leave(number, segment)
        self.held.pop(number, None)
        return self.graph.displace(number)

    def _goals(self, task_id: str | None) -> set[int]:
        found: set[int] = set()
        if task_id is None:
            return found
        of_task = self.graph.tasks.get(task_id, set())
        for tag in self.config.goal_tags:
            tagged = self.graph.members("tag", tag)
            found |= of_task & tagged
        return found

    def _in_file(self, focus: Focus) -> set[int]:
        path = focus.file_path
        return set() if path is None else self.graph.members("file", path)

    def requeue(self, numbers: Iterable[int]) -> None:
        """Let segments wait where they belong now."""
        for number in numbers:
            segment = self.graph.segments[number]
            kin = None
            if segment is not None:
                held = held_as(segment, task_id=self.task_id, focus=self.focus, config=self.config)
                if held is None:
                    self.held.pop(number, None)
                    kin = self.kin(number, segment)
                else:
                    self.held[number] = held
            if kin != self.queues.kin(number):
                self.queues.take(number)
                if kin is not None:
                    self.queues.put(number, kin)

    def _refill(self) -> None:
        """Let everything wait where it belongs, at the cost of one sort."""
        self.held.clear()
        waiting: list[tuple[int, Kin]] = []
        task_id, focus, config = self.task_id, self.focus, self.config
        for number, segment in enumerate(self.graph.segments):
            if segment is None:
                continue
            held = held_as(segment, task_id=task_id, focus=focus, config=config)
            if held is None:
                waiting.append((number, self.kin(number, segment)))
            else:
                self.held[number] = held
        self.queues.fill(waiting, len(self.graph.ids))

    def kin(self, number: int, segment: ContextSegment) -> Kin:
        """The class of equal static score to which a segment belongs."""
        counted = min(self.refcount(number), self.config.references_for_full)
        return TYPE_NUMBER[segment.type], counted, self.old_at(number, segment)

    def _key(self, segment: ContextSegment) -> float:
        if self.config.counts_time:
            return segment.last_touched_at.timestamp()
        return segment.last_touched_step or 0

    def _widen(self) -> None:
        missing = len(self.graph.ids) - len(self.keys)
        self.keys.extend([0] * missing)
        self._earned.extend([0] * missing)
        self._born.extend([0] * missing)
