"""What can be reached from the roots: forwards for all, or backwards for a few within a budget."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jaato.segments.graph import Graph, Group
from jaato.segments.places import Places
from jaato.segments.roots import NO_HINTS, Hints, RootKind, held_as


class Roots:
    """The roots of a places set as one question sees it, by number and why."""

    def __init__(self, places: Places, hints: Hints = NO_HINTS) -> None:
        self._graph = places.graph
        self._held = places.held
        self.task_id = places.task_id if hints.task_id is None else hints.task_id
        self.focus = places.focus if hints.focus is None else hints.focus
        self._passing = places.recent_roots()
        self._passing.update(self._hinted(places, hints))

    def why(self, number: int) -> RootKind | None:
        """Why this one is a root; None if it is not. O(1)."""
        return self._held.get(number) or self._passing.get(number)

    def all(self) -> dict[int, RootKind]:
        """Every root, and why."""
        return {**self._passing, **self._held}

    def nearness(self, number: int) -> str | None:
        """Why it is one hop from the roots; None if it is not."""
        segment = self._graph.segment(number)
        if segment.task_id is not None and segment.task_id == self.task_id:
            return "current task"
        if segment.file_path is not None and segment.file_path in self.focus.recent_files:
            return "recent file"
        return None

    def near(self) -> set[int]:
        """All that have a `nearness`."""
        found: set[int] = set()
        if self.task_id is not None:
            found |= self._graph.tasks.get(self.task_id, set())
        for path in self.focus.recent_files:
            found |= self._graph.members("file", path)
        return found

    def _hinted(self, places: Places, hints: Hints) -> dict[int, RootKind]:
        numbers = map(self._graph.number, hints.segment_ids)
        found = {number: RootKind.HINT for number in numbers if number is not None}
        if hints.task_id is None and hints.focus is None:
            return found
        candidates: set[int] = set()
        if hints.focus is not None and hints.focus.file_path is not None:
            candidates |= self._graph.members("file", hints.focus.file_path)
        for tag in places.config.goal_tags:
            candidates |= self._graph.members("tag", tag)
        for number in candidates:
            kind = held_as(
                self._graph.segment(number),
                task_id=self.task_id,
                focus=self.focus,
                config=places.config,
            )
            if kind is not None:
                found[number] = kind
        return found


def mark(places: Places, roots: Roots) -> bytearray:
    """One byte for each number: whether it can be reached. O(segments + links + memberships)."""
    graph, config = places.graph, places.config
    out, segments, groups_of = graph.out, graph.segments, graph.groups_of
    marked = bytearray(len(segments))
    opened: set[int] = set()
    waiting = list(roots.all())
    for hops_left in range(config.implicit_hops, -1, -1):
        level: list[int] = []
        while waiting:
            number = waiting.pop()
            if marked[number] or segments[number] is None:
                continue
            marked[number] = 1
            level.append(number)
            targets = out[number]
            if targets:
                waiting.extend(targets)
        if hops_left:
            if hops_left == config.implicit_hops:
                waiting.extend(roots.near())
            groups = {id(group): group for number in level for group in groups_of[number]}
            for at, group in groups.items():
                if at not in opened and len(group.members) <= config.group_limit:
                    waiting.extend(group.members)
            opened.update(groups)
    return marked


class Doubts:
    """Whether segments can be reached, asked backwards; the questions share one budget of visits.

    What one question cleared, the next does not visit again.
    """

    def __init__(self, places: Places, roots: Roots, *, visits: int) -> None:
        self._graph: Graph = places.graph
        self._roots = roots
        self._hops = places.config.implicit_hops
        self._group_limit = places.config.group_limit
        self._visits = visits
        # Cleared: nothing that leads there within so many hops starts at a root.
        self._cleared: dict[int, int] = {}
        self._cleared_groups: dict[int, int] = {}

    def is_unreachable(self, number: int) -> bool:
        """Whether it is proven that no root leads there; False also if the budget was too small."""
        seen: dict[int, int] = {}
        opened: dict[int, int] = {}
        waiting = [number]
        for hops_left in range(self._hops, -1, -1):
            level = self._level(waiting, hops_left, seen)
            if level is None:
                return False
            if hops_left:
                sharing = self._sharing(level, hops_left - 1, opened)
                if sharing is None:
                    return False
                waiting = sharing
        _keep_most(self._cleared, seen)
        _keep_most(self._cleared_groups, opened)
        return True

    def _level(self, waiting: list[int], hops_left: int, seen: dict[int, int]) -> list[int] | None:
        """All that leads there by links alone; None if a root does, or the budget is spent."""
        level: list[int] = []
        while waiting:
            number = waiting.pop()
            if seen.get(number, -1) >= hops_left or self._cleared.get(number, -1) >= hops_left:
                continue
            if self._roots.why(number) or (hops_left and self._roots.nearness(number)):
                return None
            seen[number] = hops_left
            level.append(number)
            into = self._graph.into[number] or ()
            if not self._can_afford(into):
                return None
            waiting.extend(into)
        return level

    def _sharing(
        self, level: Iterable[int], hops_left: int, opened: dict[int, int]
    ) -> list[int] | None:
        found: list[int] = []
        for number in level:
            for group in self._graph.groups_of[number]:
                at = id(group)
                if self._is_closed(group, hops_left, opened.get(at, -1)):
                    continue
                if not self._can_afford(group.members):
                    return None
                opened[at] = hops_left
                found.extend(group.members)
        return found

    def _is_closed(self, group: Group, hops_left: int, opened: int) -> bool:
        return (
            opened >= hops_left
            or self._cleared_groups.get(id(group), -1) >= hops_left
            or len(group.members) > self._group_limit
        )

    def _can_afford(self, coming: Collection[int]) -> bool:
        # One visit more than comes, so that looking at a segment with no links has its price too.
        self._visits -= len(coming) + 1
        return self._visits >= 0


def _keep_most(known: dict[int, int], more: dict[int, int]) -> None:
    for key, hops_left in more.items():
        if known.get(key, -1) < hops_left:
            known[key] = hops_left
