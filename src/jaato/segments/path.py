"""How the roots lead to a segment: the answer to "why is this still here?"."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jaato.segments.places import Places
from jaato.segments.reach import Roots


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A segment on the way, and what led there: a root's kind, `link`, or what is shared."""

    segment_id: str
    by: str


def path_to(places: Places, roots: Roots, number: int, *, visits: int) -> tuple[Hop, ...]:
    """A way from a root to this segment, root first; empty where none was found in so many visits.

    It has the fewest implicit hops, and among those the fewest links.
    """
    back = _Back(places, number, visits)
    for hops_left in range(places.config.implicit_hops, -1, -1):
        for at in back.by_links():
            start = roots.why(at) or (roots.nearness(at) if hops_left else None)
            if start is not None:
                return back.way(at, start)
        back.by_sharing()
    return ()


class _Back:
    """A walk against the links; what it met knows where it came from."""

    def __init__(self, places: Places, number: int, visits: int) -> None:
        self._graph = places.graph
        self._most = min(places.config.group_limit, visits)
        self._visits = visits
        self._ahead: dict[int, tuple[int, str] | None] = {number: None}
        self._level = [number]

    def by_links(self) -> Iterator[int]:
        """This level and all that leads to it, as far as the visits go."""
        waiting = deque(self._level)
        self._level = []
        while waiting and len(self._ahead) <= self._visits:
            at = waiting.popleft()
            self._level.append(at)
            yield at
            into = self._graph.into[at] or ()
            if len(into) <= self._visits:
                waiting.extend(self._new(into, at, "link"))

    def by_sharing(self) -> None:
        """The next level: what shares something with this one."""
        sharing: list[int] = []
        for at in self._level:
            for group in self._graph.groups_of[at]:
                if len(group.members) <= self._most and len(self._ahead) <= self._visits:
                    sharing += self._new(group.members, at, " ".join(group.key))
        self._level = sharing

    def way(self, at: int, start: str) -> tuple[Hop, ...]:
        """From here forward to where the walk began."""
        ids = self._graph.ids
        hops = [Hop(segment_id=ids[at], by=start)]
        while (step := self._ahead[at]) is not None:
            at, by = step
            hops.append(Hop(segment_id=ids[at], by=by))
        return tuple(hops)

    def _new(self, numbers: Collection[int], at: int, by: str) -> list[int]:
        found = [number for number in numbers if number not in self._ahead]
        found.sort(key=self._graph.ids.__getitem__)
        self._ahead.update(dict.fromkeys(found, (at, by)))
        return found
