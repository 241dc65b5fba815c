"""Segments and working sets for tests: made by hand, drawn, and counted anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from jaato.segments import (
    SEGMENT_TYPES,
    Change,
    ContextSegment,
    Focus,
    Hints,
    Link,
    LinkKind,
    SegmentConfig,
    WorkingSet,
    carry_out,
    plan_collection,
    plan_step,
)
from jaato.segments.reach import Roots

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
# Windows of none, so that a handful of segments is not all roots.
BARE = SegmentConfig(recent_messages=0, recent_edits=0)

# The machine may be busy: how long an example takes is no law.
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

IDS = [f"s{number}" for number in range(14)]
FILES = ["a.py", "b.py", "c.py"]
TAGS = ["bug", "ui", "db", "os", "goal", "invariant"]
TASKS = ["t1", "t2"]


def segment(segment_id: str, kind: str = "log", **fields: Any) -> ContextSegment:
    """A segment of this type, created and touched at NOW."""
    default: dict[str, Any] = {"created_at": NOW, "last_touched_at": NOW, "tokens": 10}
    fields = default | {"text": segment_id} | fields
    links = tuple(one if isinstance(one, Link) else Link(to=one) for one in fields.pop("to", ()))
    return ContextSegment(segment_id=segment_id, type=kind, links=links, **fields)  # type: ignore[arg-type]


def working_set(*segments: ContextSegment, **config: Any) -> WorkingSet:
    """A set whose only roots are those that a test asks for; each segment came in a step."""
    working = WorkingSet(config=BARE.changed(**config))
    for one in segments:
        working.add([one])
    return working


def age(working: WorkingSet, steps: int) -> None:
    """Let steps go by that change nothing else."""
    for _ in range(steps):
        working.set_task(working.task_id)


segments = st.builds(
    segment,
    st.sampled_from(IDS),
    st.sampled_from(SEGMENT_TYPES),
    tokens=st.integers(0, 50),
    to=st.lists(
        st.builds(Link, to=st.sampled_from(IDS), kind=st.sampled_from(LinkKind)), max_size=2
    ),
    file_path=st.sampled_from([None, None, *FILES]),
    line_range=st.sampled_from([None, (1, 10), (900, 950)]),
    tags=st.lists(st.sampled_from(TAGS), max_size=2),
    topic_id=st.sampled_from([None, None, "top", "sub"]),
    task_id=st.sampled_from([None, *TASKS]),
    pinned=st.sampled_from([False, False, False, True]),
    refcount=st.integers(0, 7),
    gc_survival_count=st.integers(0, 3),
    generation=st.sampled_from(["young", "young", "old"]),
    last_touched_at=st.integers(0, 500).map(lambda hours: NOW - timedelta(hours=hours)),
)

configs = st.builds(
    SegmentConfig,
    recent_messages=st.integers(0, 2),
    recent_edits=st.integers(0, 2),
    implicit_hops=st.integers(0, 3),
    group_limit=st.sampled_from([2, 1_000]),
    half_life_steps=st.sampled_from([1.0, 20.0]),
    half_life_hours=st.sampled_from([None, 24.0]),
    promote_after=st.integers(1, 3),
    step_batch=st.integers(1, 3),
    step_looks=st.integers(3, 8),
)

ids = st.sampled_from(IDS)
operations = st.one_of(
    st.tuples(st.just("put"), segments),
    st.tuples(st.just("put"), segments),
    st.tuples(st.just("touch"), st.lists(ids, max_size=3), st.booleans()),
    st.tuples(st.sampled_from(["pin", "unpin", "remove"]), st.lists(ids, max_size=2)),
    st.tuples(st.sampled_from(["link", "unlink"]), ids, ids),
    st.tuples(st.just("task"), st.sampled_from([None, *TASKS])),
    st.tuples(st.just("focus"), st.sampled_from([None, *FILES]), st.sampled_from([None, 5])),
    st.tuples(st.just("collect"), st.integers(0, 400)),
    st.tuples(st.just("step"), st.integers(100, 400)),
    st.tuples(st.just("configure"), configs),
)
programs = st.lists(operations, max_size=12)


def run(working: WorkingSet, program: Iterable[tuple[Any, ...]]) -> list[Change]:
    """Do it, and return what happened."""
    changes: list[Change] = []
    for operation in program:
        changes += _do(working, operation)
    return changes


def _do(  # noqa: C901, PLR0911 -- one case for each operation
    working: WorkingSet, operation: tuple[Any, ...]
) -> Iterable[Change]:
    match operation:
        case ("put", ContextSegment() as one):
            if one.segment_id not in working:
                return [working.add([one])]
            fields = {"text": "again", "tokens": one.tokens, "tags": one.tags, "links": one.links}
            return [working.update(one.segment_id, at=NOW, **fields)]
        case ("touch", list() as wanted, bool() as retrieved):
            return [working.touch(known(working, wanted), at=NOW, retrieved=retrieved)]
        case ("pin" | "unpin" | "remove" as what, list() as wanted):
            return [getattr(working, what)(known(working, wanted))]
        case ("link" | "unlink" as what, str() as source, str() as target):
            if source in working:
                return [getattr(working, what)(source, Link(to=target))]
        case ("task", task_id):
            return [working.set_task(task_id)]
        case ("focus", path, line):
            return [working.set_focus(Focus(file_path=path, line=line))]
        case ("collect", int() as target):
            return carry_out(working, plan_collection(working, now=NOW, target_tokens=target))
        case ("step", int() as limit):
            configured = working.configure(soft_limit_tokens=limit)
            return [configured, *carry_out(working, plan_step(working, now=NOW))]
        case ("configure", SegmentConfig() as config):
            fields = {key: getattr(config, key) for key in ("promote_after", "half_life_hours")}
            return [working.configure(**fields)]
        case _:
            raise AssertionError(operation)
    return []


def known(working: WorkingSet, wanted: Iterable[str]) -> list[str]:
    return [one for one in wanted if one in working]


@st.composite
def working_sets(draw: st.DrawFn) -> WorkingSet:
    """A working set that things happened to: some segments first, so that they find each other."""
    working = WorkingSet(config=draw(configs))
    least = draw(st.sampled_from([0, 6, 10]))
    for one in draw(
        st.lists(segments, min_size=least, max_size=14, unique_by=lambda one: one.segment_id)
    ):
        working.add([one])
    working.set_task(draw(st.sampled_from([None, *TASKS])))
    run(working, draw(programs))
    return working


def root_ids(working: WorkingSet, hints: Hints | None = None) -> set[str]:
    """The ids of all roots."""
    roots = Roots(working.places, hints or Hints())
    return {working.places.graph.ids[number] for number in roots.all()}


def reachable_by_definition(working: WorkingSet) -> set[str]:
    """What can be reached, by the slowest way: relax every link until nothing changes."""
    config, hops = working.config, dict.fromkeys(root_ids(working), 0)
    live = {one.segment_id: one for one in working.segments()}
    if config.implicit_hops:
        for one in live.values():
            if one.task_id is not None and one.task_id == working.task_id:
                hops.setdefault(one.segment_id, 1)
    sizes = Counter(key for one in live.values() for key in keys_of(one))
    changed = True
    while changed:
        changed = False
        for source, used in list(hops.items()):
            for target, cost in [
                *((link.to, 0) for link in live[source].links),
                *(
                    (other.segment_id, 1)
                    for other in live.values()
                    if any(
                        sizes[key] <= config.group_limit
                        for key in keys_of(other) & keys_of(live[source])
                    )
                ),
            ]:
                total = used + cost
                if (
                    target in live
                    and total <= config.implicit_hops
                    and total < hops.get(target, 99)
                ):
                    hops[target] = total
                    changed = True
    return set(hops)


def keys_of(one: ContextSegment) -> set[tuple[str, str]]:
    found = {("tag", tag) for tag in one.tags}
    if one.file_path is not None:
        found.add(("file", one.file_path))
    if one.topic_id is not None:
        found.add(("topic", one.topic_id))
    return found


def with_id(one: ContextSegment, segment_id: str) -> ContextSegment:
    return replace(one, segment_id=segment_id)
