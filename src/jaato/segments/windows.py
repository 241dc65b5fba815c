"""The last messages and the last edits, as they come and go."""

from __future__ import annotations

from collections.abc import Iterator

from jaato.segments.config import SegmentConfig
from jaato.segments.graph import Graph
from jaato.segments.newest import Entry, Newest
from jaato.segments.roots import RootKind
from jaato.segments.segment import ContextSegment


class Windows:
    """Messages are new by when they came, code by when it was touched."""

    def __init__(self, graph: Graph, config: SegmentConfig) -> None:
        self._graph = graph
        messages = Newest(config.recent_messages, lambda: self._entries("message"))
        edits = Newest(config.recent_edits, lambda: self._entries("code"))
        self._by_type = {"message": messages, "code": edits}
        for window in self._by_type.values():
            window.refill()

    def enter(self, number: int, segment: ContextSegment) -> None:
        """A segment came, or was touched."""
        window = self._by_type.get(segment.type)
        if window is not None:
            window.discard(number)
            window.add(_entry(number, segment))

    def leave(self, number: int, segment: ContextSegment) -> None:
        """A segment left."""
        window = self._by_type.get(segment.type)
        if window is not None:
            window.discard(number)

    def roots(self) -> dict[int, RootKind]:
        """What is new enough to be a root."""
        found = dict.fromkeys(self._by_type["code"].numbers(), RootKind.RECENT_EDIT)
        messages = self._by_type["message"].numbers()
        return found | dict.fromkeys(messages, RootKind.RECENT_MESSAGE)

    def _entries(self, kind: str) -> Iterator[Entry]:
        for number in self._graph.live():
            segment = self._graph.segment(number)
            if segment.type == kind:
                yield _entry(number, segment)


def _entry(number: int, segment: ContextSegment) -> Entry:
    if segment.type == "message":
        new = (segment.created_step or 0, segment.created_at.timestamp())
    else:
        new = (segment.last_touched_step or 0, segment.last_touched_at.timestamp())
    return new, segment.segment_id, number
