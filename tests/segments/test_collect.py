"""Collections: the order in which segments leave, and what never does."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.segments.working_sets import (
    BARE,
    LAW,
    NOW,
    age,
    configs,
    reachable_by_definition,
    root_ids,
    segment,
    segments,
    working_set,
    working_sets,
)

from jaato.segments import (
    Action,
    ContextSegment,
    Focus,
    RootKind,
    SegmentConfig,
    Standing,
    WorkingSet,
    analyze,
    carry_out,
    explain,
    plan_collection,
    plan_due,
    score_of,
)

targets = st.integers(0, 300)


@LAW
@given(working=working_sets(), target=targets)
def test_roots_and_pins_are_never_proposed(working: WorkingSet, target: int) -> None:
    roots = root_ids(working)
    plan = plan_collection(working, now=NOW, target_tokens=target)
    analysis = analyze(working, now=NOW, limit=99)
    for verdict in (*plan.verdicts, *analysis.candidates, *analysis.compress):
        assert verdict.segment_id not in roots
        assert not working[verdict.segment_id].pinned


@LAW
@given(working=working_sets(), target=targets)
def test_the_unreachable_leave_first_then_the_lowest_scores(
    working: WorkingSet, target: int
) -> None:
    reachable = reachable_by_definition(working)
    plan = plan_collection(working, now=NOW, target_tokens=target)
    order = [(verdict.segment_id in reachable, verdict.score) for verdict in plan.verdicts]
    assert order == sorted(order)
    stays = [
        (one.segment_id in reachable, explain(working, one.segment_id, now=NOW).score)
        for one in working.segments()
        if one.segment_id not in plan.ids and one.segment_id not in root_ids(working)
    ]
    assert not stays or not order or order[-1] <= min(stays)
    for verdict in plan.verdicts:
        expected = Standing.REACHABLE if verdict.segment_id in reachable else Standing.UNREACHABLE
        assert verdict.standing is expected


@LAW
@given(working=working_sets(), target=targets)
def test_a_collection_stops_as_soon_as_it_can_and_counts_right(
    working: WorkingSet, target: int
) -> None:
    plan = plan_collection(working, now=NOW, target_tokens=target)
    assert plan.tokens_before == working.tokens
    assert plan.tokens_freed == sum(working[one].tokens for one in plan.ids)
    if plan.verdicts:
        assert plan.tokens_after + plan.verdicts[-1].tokens > target
    carry_out(working, plan)
    assert working.tokens == plan.tokens_after
    assert working.tokens <= target or {one.segment_id for one in working.segments()} == root_ids(
        working
    )


@LAW
@given(working=working_sets(), target=targets)
def test_collecting_twice_changes_nothing_the_second_time(working: WorkingSet, target: int) -> None:
    carry_out(working, plan_collection(working, now=NOW, target_tokens=target))
    before = working.to_dict()
    assert carry_out(working, plan_collection(working, now=NOW, target_tokens=target)) == ()
    assert working.to_dict() == before


@LAW
@given(working=working_sets())
def test_parts_sum_to_the_score_and_scores_are_bounded(working: WorkingSet) -> None:
    for one in working.segments():
        verdict = explain(working, one.segment_id, now=NOW)
        alone, parts = score_of(one, config=working.config, step=working.step, now=NOW)
        assert verdict.parts == parts
        assert verdict.score == alone
        assert 0.0 <= parts.total <= 1.0
        assert verdict.score == (inf if one.pinned else parts.total)
        assert verdict.reason


@LAW
@given(working=working_sets())
def test_planning_changes_nothing(working: WorkingSet) -> None:
    before = working.to_dict()
    analyze(working, now=NOW)
    plan_collection(working, now=NOW, target_tokens=0)
    assert working.to_dict() == before


@LAW
@given(
    config=configs,
    drawn=st.lists(segments, unique_by=lambda one: one.segment_id, max_size=14),
    target=targets,
    seed=st.integers(),
)
def test_the_order_in_which_segments_came_decides_nothing(
    config: SegmentConfig, drawn: list[ContextSegment], target: int, seed: int
) -> None:
    shuffled = list(drawn)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 -- a permutation, no secret
    one = WorkingSet(config=config)
    one.add(drawn)
    other = WorkingSet.from_dict({**one.to_dict(), "segments": _by_arrival(one, shuffled)})
    assert plan_collection(one, now=NOW, target_tokens=target) == plan_collection(
        other, now=NOW, target_tokens=target
    )
    assert analyze(one, now=NOW, limit=5) == analyze(other, now=NOW, limit=5)


def _by_arrival(working: WorkingSet, order: list[ContextSegment]) -> list[object]:
    written = {one["segment_id"]: one for one in working.to_dict()["segments"]}
    return [written[one.segment_id] for one in order]


@LAW
@given(limit=st.integers(1, 5), working=working_sets())
def test_a_limited_analysis_lists_the_first_of_all(limit: int, working: WorkingSet) -> None:
    everything = analyze(working, now=NOW, limit=99)
    some = analyze(working, now=NOW, limit=limit)
    assert some.candidates == everything.candidates[:limit]
    assert some.total_candidates == everything.total_candidates == len(everything.candidates)
    assert sum(everything.roots.values()) == len(root_ids(working))
    assert some.tokens_before - some.tokens_freed == some.tokens_after


@pytest.mark.parametrize(
    ("decision_age", "config"),
    [
        pytest.param(20, BARE, id="in a quiet week"),
        pytest.param(100_000, BARE, id="in a week of a hundred thousand steps"),
        pytest.param(3, BARE.changed(half_life_hours=24.0), id="by the clock"),
    ],
)
def test_a_decision_of_last_week_outranks_a_log_line_of_this_minute(
    decision_age: int, config: SegmentConfig
) -> None:
    week_ago = NOW - timedelta(days=7)
    decision = segment(
        "d", "decision", last_touched_step=0, last_touched_at=week_ago, generation="old"
    )
    log = segment("l", "log", last_touched_step=decision_age)
    scores = [
        score_of(one, config=config, step=decision_age, now=NOW)[0] for one in (decision, log)
    ]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("kind", ["decision", "note", "log"])
def test_recency_halves_towards_its_floor(kind: str) -> None:
    config = SegmentConfig(half_life_steps=10.0)
    floor = config.floor_share * config.type_importances[kind]
    for half_lives in (0, 1, 3, 40):
        one = segment("a", kind, last_touched_step=0)
        _, parts = score_of(one, config=config, step=10 * half_lives, now=NOW)
        assert parts.recency == pytest.approx(0.4 * (floor + (1 - floor) * 0.5**half_lives))


def test_the_defaults_are_those_of_the_specification() -> None:
    one = segment("a", "note", refcount=2, last_touched_step=7)
    score, parts = score_of(one, config=SegmentConfig(), step=7, now=NOW)
    assert (parts.recency, parts.type) == pytest.approx((0.4, 0.3 * 0.8))
    assert (parts.references, parts.generation) == pytest.approx((0.2 * 0.4, 0.1 * 0.1))
    assert score == pytest.approx(0.73)
    pinned = score_of(replace(one, pinned=True), config=SegmentConfig(), step=7, now=NOW)
    assert pinned[0] == inf


def test_a_time_in_the_future_is_no_fresher_than_now() -> None:
    config = SegmentConfig(half_life_hours=1.0)
    one = segment("a", "log", last_touched_at=NOW.replace(year=2999))
    assert score_of(one, config=config, step=0, now=NOW)[1].recency == pytest.approx(0.4)


def test_only_what_nobody_can_miss_is_deleted() -> None:
    working = working_set(
        segment("root", "note", pinned=True, to=["kept"], tags=["ui"]),
        segment("tagged", tags=["ui"]),
        segment("noise"),
        segment("used", to=["noise2"]),
        segment("noise2"),
        segment("kept"),
        segment("text", "message"),
    )
    age(working, 2_000)
    plan = plan_collection(working, now=NOW, target_tokens=0)
    actions = {verdict.segment_id: verdict.action for verdict in plan.verdicts}
    assert actions == {
        "noise": Action.DELETE,
        "used": Action.DELETE,
        "noise2": Action.STASH,
        "text": Action.STASH,
        "tagged": Action.STASH,
        "kept": Action.STASH,
    }
    assert plan.to_delete == ("noise", "used")
    assert "all else are roots, 10 above the goal" in plan.because


def test_what_became_a_root_since_the_plan_stays() -> None:
    working = working_set(segment("a"), segment("b"), segment("c"))
    plan = plan_collection(working, now=NOW, target_tokens=0)
    working.pin(["a"])
    working.remove(["b"])
    carry_out(working, plan)
    assert [one.segment_id for one in working.segments()] == ["a"]


@pytest.mark.parametrize(
    ("config", "target", "because"),
    [
        pytest.param({}, None, "no limit is known", id="nothing known"),
        pytest.param({"soft_limit_tokens": 30}, None, "not above 30", id="below the limit"),
        pytest.param({}, 30, "not above 30", id="at the target"),
        pytest.param(
            {"soft_limit_tokens": 25, "target_tokens": 10}, None, "goal of 10", id="above"
        ),
        pytest.param({"hard_limit_tokens": 25}, None, "goal of 25", id="above all that is known"),
    ],
)
def test_doing_nothing_carries_its_reason(
    config: dict[str, int], target: int | None, because: str
) -> None:
    working = working_set(segment("a"), segment("b"), segment("c"), **config)
    plan = plan_collection(working, now=NOW, target_tokens=target)
    assert because in plan.because
    assert plan.is_nothing == ("goal" not in because)


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        pytest.param({}, 5, id="no limit, nothing"),
        pytest.param(
            {"soft_limit_tokens": 40, "hard_limit_tokens": 60}, 4, id="above soft, a step"
        ),
        pytest.param(
            {"target_tokens": 10, "soft_limit_tokens": 20, "hard_limit_tokens": 40},
            1,
            id="above hard, down to the target",
        ),
    ],
)
def test_what_is_due_follows_from_the_limits(limits: dict[str, int], left: int) -> None:
    working = working_set(*(segment(f"s{number}") for number in range(5)), **limits)
    carry_out(working, plan_due(working, now=NOW))
    assert len(working) == left


def test_what_is_cold_important_and_long_is_to_be_shortened() -> None:
    working = working_set(
        segment("root", "note", pinned=True, to=["long", "short", "log", "fresh"]),
        segment("long", "code", tokens=900),
        segment("longer", "code", tokens=2_000),
        segment("short", "code", tokens=100),
        segment("log", "log", tokens=900),
        segment("fresh", "code", tokens=900),
    )
    age(working, 150)
    working.touch(["fresh"], at=NOW)
    working.link("root", segment("x", to=["longer"]).links[0])
    found = analyze(working, now=NOW).compress
    assert [verdict.segment_id for verdict in found] == ["longer", "long"]
    assert found[0].reason.startswith("cold but important, and 2,000 tokens long: shorten it")


def test_verdicts_speak() -> None:
    working = working_set(
        segment("a", to=["b"]),
        segment("b"),
        segment("p", "note", pinned=True, to=["c"]),
        segment("c"),
    )
    age(working, 1)
    candidates = analyze(working, now=NOW, target_tokens=0).candidates
    reasons = {verdict.segment_id: verdict.reason for verdict in candidates}
    assert reasons["b"].startswith("no root leads to it; a log, idle for 3 steps, 1 reference;")
    assert reasons["c"].startswith("reachable from the roots; a log, idle for 1 step, 1 reference;")
    assert explain(working, "p", now=NOW).reason == "stays: it is pinned"
    assert json.dumps(reasons)


def test_every_kind_of_root_is_told() -> None:
    working = WorkingSet(config=SegmentConfig(recent_messages=1, recent_edits=1))
    working.add([
        segment("pin", pinned=True),
        segment("inv", "note", tags=["overview"]),
        segment("goal", "note", tags=["goal"], task_id="t"),
        segment("file", "code", file_path="a.py"),
        segment("edit", "code"),
        segment("m1", "message"),
        segment("m2", "message"),
    ])  # fmt: skip
    working.touch(["edit"], at=NOW)
    working.set_task("t")
    working.set_focus(Focus(file_path="a.py"))
    told = {
        one.segment_id: explain(working, one.segment_id, now=NOW).root for one in working.segments()
    }
    assert told == {
        "pin": RootKind.PINNED,
        "inv": RootKind.INVARIANT,
        "goal": RootKind.GOAL,
        "file": RootKind.ACTIVE_FILE,
        "edit": RootKind.RECENT_EDIT,
        "m1": None,
        "m2": RootKind.RECENT_MESSAGE,
    }
