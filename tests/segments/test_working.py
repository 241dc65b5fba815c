"""A working set keeps what it could count, and is the sum of its changes."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.segments.working_sets import (
    BARE,
    LAW,
    NOW,
    configs,
    operations,
    programs,
    run,
    segment,
    working_set,
    working_sets,
)

from jaato.errors import UsageError
from jaato.segments import (
    Change,
    DuplicateSegmentError,
    Focus,
    Link,
    SegmentConfig,
    UnknownSegmentError,
    WorkingSet,
    carry_out,
    change_from_dict,
    change_to_dict,
    plan_collection,
)
from jaato.segments.newest import Newest
from jaato.segments.places import TYPE_NUMBER
from jaato.segments.roots import held_as


@LAW
@given(working=working_sets())
def test_totals_equal_a_fresh_count(working: WorkingSet) -> None:
    everything, totals = list(working.segments()), working.totals
    assert working.tokens == sum(one.tokens for one in everything)
    assert totals.segments == len(everything) == len(working)
    assert totals.pinned_segments == sum(one.pinned for one in everything)
    assert totals.pinned_tokens == sum(one.tokens for one in everything if one.pinned)
    assert totals.segments_by_type == Counter(one.type for one in everything)
    assert totals.segments_by_task == Counter(one.task_id for one in everything)
    for kept, name in ((totals.tokens_by_type, "type"), (totals.tokens_by_task, "task_id")):
        counted: Counter[Any] = Counter()
        for one in everything:
            counted[getattr(one, name)] += one.tokens
        assert dict(kept) == dict(counted)


@LAW
@given(config=configs, program=st.lists(operations, min_size=10, max_size=30))
def test_replaying_the_changes_gives_an_equal_state(
    config: SegmentConfig, program: list[tuple[Any, ...]]
) -> None:
    working, again = WorkingSet(config=config), WorkingSet(config=config)
    for change in run(working, program):
        again.apply(change_from_dict(json.loads(json.dumps(change_to_dict(change)))))
    assert again.to_dict() == working.to_dict()


@LAW
@given(working=working_sets(), program=programs)
def test_what_was_written_goes_on_like_what_was_not(
    working: WorkingSet, program: list[tuple[Any, ...]]
) -> None:
    again = WorkingSet.from_dict(json.loads(json.dumps(working.to_dict())))
    assert again.to_dict() == working.to_dict()
    run(working, program)
    run(again, program)
    assert again.to_dict() == working.to_dict()


@LAW
@given(working=working_sets())
def test_queues_and_roots_follow_from_the_segments(working: WorkingSet) -> None:
    places = working.places
    waiting: list[int] = []
    for kin, heap in places.queues.heaps.items():
        waiting += heap
        order = [(places.keys[number], places.graph.ids[number]) for number in heap]
        assert all(order[(at - 1) // 2] < order[at] for at in range(1, len(order)))
        for number in heap:
            one = places.shown(number)
            assert kin[0] == TYPE_NUMBER[one.type]
            assert kin[1] == min(one.refcount, working.config.references_for_full)
            assert (kin[2] == 0) == (one.generation == "old")
    assert sorted(waiting) == sorted(set(waiting))
    for number in places.graph.live():
        held = held_as(
            places.graph.segment(number),
            task_id=working.task_id,
            focus=working.focus,
            config=working.config,
        )
        assert places.held.get(number) == held
        assert (number in waiting) == (held is None)


@LAW
@given(working=working_sets())
def test_links_are_those_of_the_segments(working: WorkingSet) -> None:
    everything = {one.segment_id: one for one in working.segments()}
    for one in everything.values():
        wanted = {link.to for link in one.links} - {one.segment_id}
        assert working.references(one.segment_id) == wanted
        linking = {
            other.segment_id
            for other in everything.values()
            if other is not one and one.segment_id in {link.to for link in other.links}
        }
        assert working.backrefs(one.segment_id) == linking
        assert one.refcount >= len(linking)


@LAW
@given(working=working_sets())
def test_removing_everything_leaves_nothing_behind(working: WorkingSet) -> None:
    working.remove([one.segment_id for one in working.segments()])
    graph = working.places.graph
    assert (len(working), working.tokens, graph.groups, graph.tasks) == (0, 0, {}, {})
    assert not graph._number_of
    assert sorted(graph._free) == list(range(len(graph.ids)))
    assert not working.places.queues.heaps
    assert not working.places.held


def test_a_reference_counts_when_it_comes_and_no_longer_when_it_goes() -> None:
    working = working_set(segment("a"), segment("b", to=["a"]))
    assert working["a"].refcount == 1
    working.link("a", Link(to="b"))
    assert working["b"].refcount == 1
    working.remove(["b"])
    assert working["a"].refcount == 0
    working.touch(["a"], at=NOW, retrieved=True)
    assert working["a"].refcount == 1


def test_a_link_to_what_is_not_there_counts_once_it_comes() -> None:
    working = working_set(segment("b", to=["a"]))
    working.add([segment("a")])
    assert working["a"].refcount == 1
    assert working.backrefs("a") == {"b"}


def test_what_comes_back_from_the_stash_is_not_counted_twice() -> None:
    working = working_set(segment("a"), segment("b", to=["a"]), segment("c", to=["a"]))
    gone = working["a"]
    working.remove(["a"])
    working.add([gone])
    assert working["a"].refcount == 2


def test_touching_moves_time_and_step_forward_only() -> None:
    working = working_set(segment("a"))
    working.touch(["a"], at=NOW - timedelta(days=1))
    assert working["a"].last_touched_at == NOW
    assert working["a"].last_touched_step == 2
    working.touch(["a"], at=NOW + timedelta(days=1))
    assert working["a"].last_touched_at == NOW + timedelta(days=1)


def test_survivors_grow_old() -> None:
    working = working_set(*(segment(f"s{number}") for number in range(5)), promote_after=2)
    working.pin(["s4"])
    for target, generation in ((40, "young"), (30, "old"), (20, "old")):
        carry_out(working, plan_collection(working, now=NOW, target_tokens=target))
        assert {one.generation for one in working.segments()} == {generation}
    assert {one.gc_survival_count for one in working.segments()} == {3}


def test_what_is_old_stays_old_when_settings_change() -> None:
    working = working_set(segment("a"), segment("b"), promote_after=1)
    carry_out(working, plan_collection(working, now=NOW, target_tokens=10))
    working.configure(promote_after=9)
    assert [one.generation for one in working.segments()] == ["old"]


def test_updating_keeps_what_was_earned_and_the_links_of_others() -> None:
    working = working_set(segment("a", refcount=2), segment("b", to=["a"]))
    working.update("a", at=NOW, text="shorter", tokens=1)
    assert (working["a"].text, working["a"].refcount, working.tokens) == ("shorter", 3, 11)


@pytest.mark.parametrize(
    ("operation", "hint"),
    [
        pytest.param(lambda w: w["sessoin"], "did you mean 'session'", id="a typo"),
        pytest.param(lambda w: w.pin(["gone"]), "stashed", id="what is not there"),
        pytest.param(lambda w: w.pin("session"), r"write \[id\]", id="a text for a list"),
        pytest.param(lambda w: w.add([segment("session")]), "update it", id="an id twice"),
        pytest.param(
            lambda w: w.add([segment("x"), segment("x")]), "own", id="an id twice in one call"
        ),
        pytest.param(
            lambda w: w.add([segment("x", project="p")]), "'default'", id="another project"
        ),
        pytest.param(lambda w: w.update("session", at=NOW, colour=1), "colour", id="no such field"),
        pytest.param(
            lambda w: w.update("session", at=NOW, segment_id="y"), "cannot", id="another id"
        ),
        pytest.param(lambda w: w.set_task("a\nb"), "line breaks", id="a line break in a task"),
        pytest.param(
            lambda w: w.configure(half_live_steps=3), "half_life_steps", id="a mistyped key"
        ),
    ],
)
def test_a_wrong_operation_says_what_to_do_and_changes_nothing(operation: Any, hint: str) -> None:
    working = working_set(segment("session"))
    before = working.to_dict()
    with pytest.raises(UsageError, match=hint):
        operation(working)
    assert working.to_dict() == before


def test_errors_carry_their_data() -> None:
    working = working_set(segment("a"))
    with pytest.raises(UnknownSegmentError) as unknown:
        working.remove(["b"])
    with pytest.raises(DuplicateSegmentError) as twice:
        working.add([segment("a")])
    assert (unknown.value.segment_id, twice.value.segment_id) == ("b", "a")


def test_changes_of_another_process_may_find_nothing_to_change() -> None:
    ours, theirs = working_set(segment("a")), working_set(segment("a"))
    changes: list[Change] = [
        theirs.pin(["a"]),
        theirs.touch(["a"], at=NOW),
        theirs.link("a", Link(to="z")),
        theirs.remove(["a"]),
    ]
    ours.remove(["a"])
    for change in changes:
        ours.apply(change)
    assert len(ours) == 0


def test_a_focus_that_moves_changes_which_segments_are_held() -> None:
    working = working_set(
        segment("a", file_path="a.py", line_range=(1, 5)),
        segment("b", file_path="a.py", line_range=(900, 950)),
    )
    working.set_focus(Focus(file_path="a.py", line=3))
    assert [working.places.graph.ids[one] for one in working.places.held] == ["a"]
    working.set_focus(Focus(file_path="a.py"))
    assert len(working.places.held) == 2
    working.set_focus(Focus())
    assert not working.places.held


def test_the_newest_few_survive_losses_beyond_the_reserve() -> None:
    members = {number: ((float(number),), str(number), number) for number in range(100)}
    newest = Newest(3, members.values)
    for entry in members.values():
        newest.add(entry)
    for number in range(99, 5, -1):
        del members[number]
        newest.discard(number)
        assert newest.numbers() == [number - 1, number - 2, number - 3]


def test_the_newest_few_are_not_mistaken_after_losses() -> None:
    members = {number: ((float(number),), str(number), number) for number in range(50)}
    newest = Newest(2, members.values)
    for entry in members.values():
        newest.add(entry)
    for number in (49, 48, 47, 46, 45, 44, 43):
        del members[number]
        newest.discard(number)
    members[99] = ((1.5,), "99", 99)
    newest.add(members[99])
    assert newest.numbers() == [42, 41]


def test_the_goal_of_a_task_that_is_over_is_held_no_longer() -> None:
    working = working_set(segment("g", "note", task_id="t", tags=["goal"]))
    for task_id, held in (("t", 1), ("other", 0), ("t", 1), (None, 0)):
        working.set_task(task_id)
        assert len(working.places.held) == held


def test_an_empty_set_without_limits_is_written_short() -> None:
    assert WorkingSet(config=BARE).to_dict()["config"] == {"recent_messages": 0, "recent_edits": 0}


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"version": 99}, {"project": "p", "step": -1, "segments": []},
     {"project": "", "step": 1, "segments": []}, {"project": "p", "step": 1, "segments": [{}]},
     {"project": "p", "step": 1, "segments": [], "config": {"colour": 1}}],
)  # fmt: skip
def test_a_damaged_state_is_told(document: object) -> None:
    with pytest.raises(UsageError):
        WorkingSet.from_dict(document)
