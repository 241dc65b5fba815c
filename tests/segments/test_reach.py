"""Forwards, backwards and by definition: the same segments can be reached."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from tests.segments.working_sets import (
    LAW,
    NOW,
    reachable_by_definition,
    segment,
    working_set,
    working_sets,
)

from jaato.segments import (
    ContextSegment,
    Focus,
    Hints,
    Hop,
    Link,
    LinkKind,
    Standing,
    WorkingSet,
    analyze,
    explain,
    hints_from,
    plan_step,
)
from jaato.segments.path import path_to
from jaato.segments.reach import Doubts, Roots, mark


def marked_ids(working: WorkingSet, hints: Hints | None = None) -> set[str]:
    marked = mark(working.places, Roots(working.places, hints or Hints()))
    return {working.places.graph.ids[number] for number, one in enumerate(marked) if one}


@LAW
@given(working=working_sets())
def test_marking_finds_what_can_be_reached_by_definition(working: WorkingSet) -> None:
    assert marked_ids(working) == reachable_by_definition(working)


@LAW
@given(working=working_sets())
def test_asking_backwards_agrees_with_marking_forwards(working: WorkingSet) -> None:
    places, reachable = working.places, marked_ids(working)
    doubts = Doubts(places, Roots(places), visits=10**9)
    for number in places.graph.live():
        assert doubts.is_unreachable(number) == (places.graph.ids[number] not in reachable)


@LAW
@given(working=working_sets())
def test_a_small_budget_may_leave_doubt_but_never_lies(working: WorkingSet) -> None:
    places, reachable = working.places, marked_ids(working)
    doubts = Doubts(places, Roots(places), visits=12)
    for number in places.graph.live():
        if doubts.is_unreachable(number):
            assert places.graph.ids[number] not in reachable


GOAL = segment("goal", "note", pinned=True, to=["x"], tags=["ui"], file_path="a.py")


@pytest.mark.parametrize(
    ("segments", "reached"),
    [
        pytest.param([segment("x")], "x", id="an explicit link"),
        pytest.param([segment("x", to=["y"]), segment("y")], "x y", id="links go on"),
        pytest.param([segment("y", to=["goal"])], "", id="a link leads one way"),
        pytest.param([segment("y", tags=["ui"])], "y", id="a shared tag"),
        pytest.param([segment("y", file_path="a.py")], "y", id="a shared file"),
        pytest.param(
            [segment("y", tags=["ui", "db"]), segment("z", tags=["db"])], "y z", id="two hops"
        ),
        pytest.param(
            [
                segment("y", tags=["ui", "db"]),
                segment("z", tags=["db", "os"]),
                segment("w", tags=["os"]),
            ],
            "y z",
            id="three hops are too far",
        ),
        pytest.param(
            [segment(f"y{number}", tags=["ui"]) for number in range(4)],
            "",
            id="a tag on everything says nothing",
        ),
        pytest.param(
            [segment("x", to=[Link(to="y", kind=LinkKind.REPLY_TO)]), segment("y")],
            "x y",
            id="a reply leads to what it answers",
        ),
    ],
)
def test_what_leads_where(segments: list[ContextSegment], reached: str) -> None:
    working = working_set(GOAL, *segments, group_limit=4)
    assert marked_ids(working) == {"goal", *reached.split()}


def test_the_current_task_is_reached_and_its_goal_is_a_root() -> None:
    working = working_set(
        segment("g", "note", task_id="t", tags=["goal"]),
        segment("a", task_id="t"),
        segment("b", task_id="other"),
    )
    assert marked_ids(working) == set()
    working.set_task("t")
    assert marked_ids(working) == {"g", "a"}
    assert explain(working, "g", now=NOW).standing is Standing.ROOT
    assert explain(working, "a", now=NOW).path == (Hop(segment_id="a", by="current task"),)


@LAW
@given(working=working_sets())
def test_whatever_can_be_reached_has_a_path_that_holds(working: WorkingSet) -> None:
    reachable, roots = marked_ids(working), Roots(working.places)
    for one in working.segments():
        number = working.places.graph.number(one.segment_id)
        assert number is not None
        path = path_to(working.places, roots, number, visits=10**6)
        assert bool(path) == (one.segment_id in reachable)
        for hop, after in pairwise(path):
            if after.by == "link":
                assert after.segment_id in working.references(hop.segment_id)
            else:
                kind, key = after.by.split(" ", 1)
                sharing = working.ids_sharing(kind, key)
                assert {hop.segment_id, after.segment_id} <= set(sharing)


def test_what_one_question_cleared_holds_for_so_many_hops_only() -> None:
    working = working_set(
        *(segment(f"s{at}", tags=[f"e{at}", f"e{at + 1}"], pinned=not at) for at in range(4))
    )
    places = working.places
    doubts = Doubts(places, Roots(places), visits=10**6)
    asked = {}
    for segment_id in ("s3", "s2", "s1"):
        number = places.graph.number(segment_id)
        assert number is not None
        asked[segment_id] = doubts.is_unreachable(number)
    assert [one for one, unreachable in asked.items() if not unreachable] == ["s2", "s1"]


def test_a_path_reads_from_the_root() -> None:
    working = working_set(
        segment("g", "note", pinned=True, to=["a"]),
        segment("a", tags=["bug"]),
        segment("b", tags=["bug"]),
    )
    told = explain(working, "b", now=NOW)
    assert told.standing is Standing.REACHABLE
    assert told.reason.startswith("reachable from the roots: g (pinned) > a (link) > b (tag bug);")


def test_hints_hold_for_one_question() -> None:
    working = working_set(
        segment("a"),
        segment("b", "code", file_path="b.py"),
        segment("c", task_id="t", tags=["goal"]),
        segment("d", file_path="d.py"),
    )
    hints = Hints(
        segment_ids=("a", "nowhere"),
        task_id="t",
        focus=Focus(file_path="b.py", recent_files=("d.py",)),
    )
    before = working.to_dict()
    assert marked_ids(working, hints) == {"a", "b", "c", "d"}
    assert analyze(working, now=NOW, hints=hints).unreachable_segments == 0
    assert marked_ids(working) == set()
    assert working.to_dict() == before


def test_descriptors_give_hints_and_nonsense_gives_none() -> None:
    found = hints_from(
        {
            "current_file": {"path": "src/a.py", "current_line": 40},
            "recent_files": ["b.py", {"path": "c.py"}, 7],
            "task_info": {"task_id": "t", "segment_ids": ["s1", None]},
            "active_segment_ids": ["s2", "s1"],
            "segment_summaries": [{"segment_id": "s9"}],
        }
    )
    assert found == Hints(
        segment_ids=("s1", "s2"),
        task_id="t",
        focus=Focus(file_path="src/a.py", line=40, recent_files=("b.py", "c.py")),
    )
    assert hints_from({"current_file": "a.py", "task_info": [], "recent_files": 3}) == Hints()


@pytest.mark.parametrize("pinned", [True, False], ids=["from a root", "from nowhere"])
def test_a_chain_of_a_hundred_thousand_does_not_recurse(pinned: bool) -> None:
    length = 100_000
    working = working_set(soft_limit_tokens=0)
    working.add(
        segment(f"c{at}", to=[f"c{(at + 1) % length}"], pinned=pinned and at == 0)
        for at in range(length)
    )
    assert len(marked_ids(working)) == (length if pinned else 0)
    assert len(explain(working, "c7", now=NOW).path) == (8 if pinned else 0)
    assert explain(working, "c99000", now=NOW).standing is Standing.UNPROVEN
    places = working.places
    number = places.graph.number("c7")
    assert number is not None
    doubts = Doubts(places, Roots(places), visits=10**7)
    assert doubts.is_unreachable(number) == (not pinned)
    assert len(plan_step(working, now=NOW).ids) == 10
