"""The working set: segments, and all that is kept about them so that no question looks at all.

Each operation makes a change, applies it and returns it; `apply` is the only way into a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, assert_never

from jaato.errors import UsageError
from jaato.moments import moment
from jaato.segments.changes import (
    Change,
    Configured,
    Focus,
    Focused,
    Linked,
    Pinned,
    Placed,
    Removed,
    Survived,
    TaskSet,
    Touched,
    focus_from_dict,
    focus_to_dict,
)
from jaato.segments.codec import VERSION, check_version, segment_from_dict, segment_to_dict
from jaato.segments.config import SegmentConfig, config_from_dict, config_to_dict
from jaato.segments.graph import Graph
from jaato.segments.places import Places
from jaato.segments.segment import (
    DEFAULT_PROJECT,
    ContextSegment,
    Link,
    SegmentError,
    count,
    name,
)
from jaato.segments.totals import Totals

_NEARBY: Final = 1_000


class UnknownSegmentError(UsageError):
    """No live segment has this id."""

    def __init__(self, segment_id: object, known: Iterable[str]) -> None:
        near = get_close_matches(str(segment_id)[:200], list(islice(known, _NEARBY)), n=1)
        super().__init__(
            f"no segment {segment_id!r:.200} in the working set",
            hint=f"did you mean {near[0]!r}?" if near else "it may be stashed: retrieve it first",
        )
        self.segment_id = segment_id


class DuplicateSegmentError(UsageError):
    """A segment with this id is there already."""

    def __init__(self, segment_id: str) -> None:
        super().__init__(
            f"segment {segment_id!r:.200} is there already",
            hint="update it, or give the new one an id of its own",
        )
        self.segment_id = segment_id


class WorkingSet:
    """The live segments of one project, their totals, task and focus."""

    def __init__(
        self, project: str = DEFAULT_PROJECT, *, config: SegmentConfig | None = None
    ) -> None:
        self.project = name(project, "project")
        self.places = Places(config or SegmentConfig())
        self.step = 0
        """Grows with each change of what the context says; age counts it."""

    # Reading

    @property
    def config(self) -> SegmentConfig:
        """The settings that hold."""
        return self.places.config

    @property
    def task_id(self) -> str | None:
        """The current task."""
        return self.places.task_id

    @property
    def focus(self) -> Focus:
        """What the host has open."""
        return self.places.focus

    @property
    def collections(self) -> int:
        """How many full collections took something and spared the rest."""
        return self.places.collections

    @property
    def totals(self) -> Totals:
        """Sums by type, task and pin. O(1)."""
        return self.places.totals

    def __len__(self) -> int:
        return len(self._graph)

    def __contains__(self, segment_id: str) -> bool:
        return self._graph.number(segment_id) is not None

    def __getitem__(self, segment_id: str) -> ContextSegment:
        return self.places.shown(self._known(segment_id))

    def __iter__(self) -> Iterator[str]:
        return (self._graph.ids[number] for number in self._graph.live())

    def segments(self) -> Iterator[ContextSegment]:
        """The live segments, in no order that means something."""
        return (self.places.shown(number) for number in self._graph.live())

    @property
    def _graph(self) -> Graph:
        return self.places.graph

    @property
    def tokens(self) -> int:
        """The tokens of all live segments. O(1)."""
        return self.totals.tokens

    def references(self, segment_id: str) -> frozenset[str]:
        """The ids that a segment links to, there or not."""
        out = self._graph.out[self._known(segment_id)]
        return frozenset(self._graph.ids[number] for number in out)

    def backrefs(self, segment_id: str) -> frozenset[str]:
        """The live segments that link to it."""
        into = self._graph.into[self._known(segment_id)] or ()
        return frozenset(self._graph.ids[number] for number in into)

    def ids_in_task(self, task_id: str) -> list[str]:
        """The live segments of a task, sorted."""
        return self._sorted(self._graph.tasks.get(task_id, ()))

    def ids_sharing(self, kind: str, key: str) -> list[str]:
        """The live segments with the same `file`, `tag` or `topic`, sorted."""
        return self._sorted(self._graph.members(kind, key))

    # Operations: each returns the change that it made

    def add(self, segments: Iterable[ContextSegment]) -> Placed:
        """Put new segments in, as touched now."""
        step = self.step + 1
        coming: dict[str, ContextSegment] = {}
        for segment in segments:
            if segment.segment_id in coming or segment.segment_id in self:
                raise DuplicateSegmentError(segment.segment_id)
            if segment.project != self.project:
                raise UsageError(
                    f"segment {segment.segment_id!r:.200} belongs to project {segment.project!r}",
                    hint=f"this working set is of project {self.project!r}",
                )
            created = step if segment.created_step is None else min(segment.created_step, step)
            coming[segment.segment_id] = replace(
                segment, created_step=created, last_touched_step=step
            )
        change = Placed(step=step, segments=tuple(coming.values()))
        self.apply(change)
        return change

    def update(self, segment_id: str, /, *, at: datetime, **fields: Any) -> Placed:
        """Let a segment say something else; it keeps its id, its project and what it earned."""
        fixed = {"segment_id", "project"}.intersection(fields)
        if fixed:
            raise UsageError(f"{', '.join(sorted(fixed))} of a segment cannot change")
        known = self[segment_id]
        step = self.step + 1
        if unknown := [field for field in fields if not hasattr(known, field)]:
            raise UsageError(f"a segment has no {', '.join(unknown)}")
        touched = max(known.last_touched_at, moment(at))
        fields = {"last_touched_at": touched, "last_touched_step": step, **fields}
        change = Placed(step=step, segments=(replace(known, **fields),))
        self.apply(change)
        return change

    def touch(self, ids: Iterable[str], *, at: datetime, retrieved: bool = False) -> Touched:
        """Say that segments were used; what is retrieved is worth one reference more."""
        change = Touched(
            step=self.step + 1, ids=self._all_known(ids), at=moment(at), retrieved=retrieved
        )
        self.apply(change)
        return change

    def pin(self, ids: Iterable[str]) -> Pinned:
        """Keep segments whatever happens."""
        change = Pinned(step=self.step, ids=self._all_known(ids))
        self.apply(change)
        return change

    def unpin(self, ids: Iterable[str]) -> Pinned:
        """Let the score decide again."""
        change = Pinned(step=self.step, ids=self._all_known(ids), pinned=False)
        self.apply(change)
        return change

    def link(self, segment_id: str, link: Link) -> Linked:
        """Let a segment lead to another, which may come later."""
        self._known(segment_id)
        change = Linked(step=self.step + 1, segment_id=segment_id, link=link)
        self.apply(change)
        return change

    def unlink(self, segment_id: str, link: Link) -> Linked:
        """Let a segment lead there no longer."""
        self._known(segment_id)
        change = Linked(step=self.step + 1, segment_id=segment_id, link=link, holds=False)
        self.apply(change)
        return change

    def remove(self, ids: Iterable[str], *, why: str = "") -> Removed:
        """Take segments out, roots too; whoever wants them back has stashed them before."""
        change = Removed(step=self.step, ids=self._all_known(ids), why=why)
        self.apply(change)
        return change

    def set_task(self, task_id: str | None) -> TaskSet:
        """Make another task the current one; None: none."""
        if task_id is not None:
            name(task_id, "task_id")
        change = TaskSet(step=self.step + 1, task_id=task_id)
        self.apply(change)
        return change

    def set_focus(self, focus: Focus) -> Focused:
        """Say what the host has open."""
        change = Focused(step=self.step, focus=focus)
        self.apply(change)
        return change

    def configure(self, **changes: Any) -> Configured:
        """Change settings. Costs one pass over everything."""
        change = Configured(step=self.step, config=self.config.changed(**changes))
        self.apply(change)
        return change

    # The one way in

    def apply(self, change: Change) -> None:  # noqa: C901 -- one case for each kind
        """Carry a change out; ids that are not there are passed over: they left before it came."""
        self.step = max(self.step, change.step)
        match change:
            case Placed(segments=segments):
                self.places.place(segments)
            case Touched():
                self._touch(change)
            case Pinned(ids=ids, pinned=pinned):
                for number in self._numbers(ids):
                    changed = replace(self._graph.segment(number), pinned=pinned)
                    self.places.swap(number, changed)
            case Linked():
                self._link(change)
            case Removed(ids=ids):
                self.places.remove(self._numbers(ids))
            case Survived(ids=ids):
                self.places.spare(None if ids is None else self._numbers(ids))
            case TaskSet(task_id=task_id):
                self.places.set_task(task_id)
            case Focused(focus=focus):
                self.places.set_focus(focus)
            case Configured(config=config):
                self.places.set_config(config)
            case _:
                assert_never(change)

    def to_dict(self) -> dict[str, Any]:
        """The whole state as a JSON object: equal states give equal objects."""
        shown = sorted(self.segments(), key=lambda segment: segment.segment_id)
        return {
            "version": VERSION,
            "project": self.project,
            "step": self.step,
            "collections": self.collections,
            "task_id": self.task_id,
            "focus": focus_to_dict(self.focus),
            "config": config_to_dict(self.config),
            "segments": [segment_to_dict(segment) for segment in shown],
        }

    @classmethod
    def from_dict(cls, document: object) -> WorkingSet:
        """The state that `to_dict` wrote."""
        if not isinstance(document, Mapping):
            raise SegmentError(f"a working set is an object, not {document!r:.60}", field="")
        check_version(document)
        if missing := [field for field in ("project", "step", "segments") if field not in document]:
            raise SegmentError(f"a working set lacks {', '.join(missing)}", field=missing[0])
        working = cls(document["project"], config=config_from_dict(document.get("config") or {}))
        working.step = count(document["step"], "step")
        places = working.places
        places.collections = count(document.get("collections", 0), "collections")
        task_id = document.get("task_id")
        places.set_task(None if task_id is None else name(task_id, "task_id"))
        places.set_focus(focus_from_dict(document.get("focus") or {}))
        places.place(tuple(map(segment_from_dict, document["segments"])))
        return working

    def _touch(self, change: Touched) -> None:
        for number in self._numbers(change.ids):
            if change.retrieved:
                self.places.earn(number)
            segment = self._graph.segment(number)
            touched = replace(
                segment,
                last_touched_at=max(segment.last_touched_at, change.at),
                last_touched_step=max(segment.last_touched_step or 0, change.step),
            )
            self.places.swap(number, touched)

    def _link(self, change: Linked) -> None:
        for number in self._numbers((change.segment_id,)):
            segment = self.places.shown(number)
            links = tuple(link for link in segment.links if link != change.link)
            if change.holds:
                links = (*links, change.link)
            self.places.place((replace(segment, links=links),))

    def _numbers(self, ids: Iterable[str]) -> list[int]:
        numbers = map(self._graph.number, dict.fromkeys(ids))
        return [number for number in numbers if number is not None]

    def _known(self, segment_id: str) -> int:
        number = self._graph.number(segment_id)
        if number is None:
            raise UnknownSegmentError(segment_id, filter(None, self._graph.ids))
        return number

    def _all_known(self, ids: Iterable[str]) -> tuple[str, ...]:
        if isinstance(ids, str):
            raise UsageError(f"ids are a list, not the text {ids!r:.60}", hint="write [id]")
        wanted = tuple(dict.fromkeys(ids))
        for segment_id in wanted:
            self._known(segment_id)
        return wanted

    def _sorted(self, numbers: Iterable[int]) -> list[str]:
        return sorted(self._graph.ids[number] for number in numbers)
