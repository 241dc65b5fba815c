"""The incremental step: what it promises, at any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.segments.working_sets import (
    LAW,
    NOW,
    age,
    configs,
    reachable_by_definition,
    root_ids,
    segment,
    working_set,
    working_sets,
)

from jaato.segments import (
    Action,
    CollectionPlan,
    SegmentConfig,
    Standing,
    WorkingSet,
    carry_out,
    explain,
    plan_collection,
    plan_step,
)
from jaato.segments.queues import Queues
from jaato.segments.score import Scorer

limits = st.integers(0, 150)
visits = st.sampled_from([0, 5, 4_000])


def stepped(working: WorkingSet, limit: int, budget: int) -> CollectionPlan:
    working.configure(
        soft_limit_tokens=limit, hard_limit_tokens=None, target_tokens=None, step_visits=budget
    )
    return plan_step(working, now=NOW)


@LAW
@given(working=working_sets(), limit=limits, budget=visits)
def test_a_step_takes_no_root_and_deletes_only_what_is_unreachable(
    working: WorkingSet, limit: int, budget: int
) -> None:
    plan = stepped(working, limit, budget)
    reachable = reachable_by_definition(working)
    assert not root_ids(working).intersection(plan.ids)
    for verdict in plan.verdicts:
        if verdict.standing is Standing.UNREACHABLE:
            assert verdict.segment_id not in reachable
        else:
            assert verdict.action is Action.STASH


@LAW
@given(working=working_sets(), limit=limits, budget=visits)
def test_nothing_that_stays_is_worse_on_both_counts(
    working: WorkingSet, limit: int, budget: int
) -> None:
    plan = stepped(working, limit, budget)
    reachable, roots = reachable_by_definition(working), root_ids(working)
    stays = [
        explain(working, one.segment_id, now=NOW)
        for one in working.segments()
        if one.segment_id not in roots and one.segment_id not in plan.ids
    ]
    for taken in plan.verdicts:
        if taken.segment_id in reachable:
            for other in stays:
                assert other.segment_id in reachable or other.score >= taken.score


@LAW
@given(working=working_sets(), limit=limits, budget=visits)
def test_what_a_step_takes_is_among_the_lowest_scores_of_all(
    working: WorkingSet, limit: int, budget: int
) -> None:
    plan = stepped(working, limit, budget)
    roots = root_ids(working)
    scores = sorted(
        explain(working, one.segment_id, now=NOW).score
        for one in working.segments()
        if one.segment_id not in roots
    )
    looked_at = scores[: working.config.step_looks]
    assert all(verdict.score <= looked_at[-1] for verdict in plan.verdicts)
    assert len(plan.verdicts) <= working.config.step_batch
    if plan.verdicts:
        assert plan.tokens_after + plan.verdicts[-1].tokens > limit


@LAW
@given(working=working_sets(), limit=limits)
def test_with_looks_for_all_a_step_begins_like_the_full_sweep(
    working: WorkingSet, limit: int
) -> None:
    working.configure(step_looks=1_000, step_batch=1_000)
    step = stepped(working, limit, 10**6)
    full = plan_collection(working, now=NOW, target_tokens=limit)
    assert step.ids == full.ids
    assert [one.score for one in step.verdicts] == [one.score for one in full.verdicts]
    assert step.to_delete == full.to_delete


@LAW
@given(working=working_sets(), limit=limits)
def test_steps_come_to_rest(working: WorkingSet, limit: int) -> None:
    plan = stepped(working, limit, 4_000)
    while not plan.is_nothing:
        assert carry_out(working, plan)
        plan = plan_step(working, now=NOW)
    before = working.to_dict()
    assert carry_out(working, plan) == ()
    assert working.to_dict() == before
    assert working.tokens <= limit or {one.segment_id for one in working.segments()} == root_ids(
        working
    )


def test_the_unreachable_leave_before_what_scores_lower_and_is_reachable() -> None:
    working = working_set(
        segment("root", "note", pinned=True, to=["old"]),
        segment("old", "log"),
        segment("lost", "decision"),
        soft_limit_tokens=25,
    )
    age(working, 500)
    working.touch(["lost"], at=NOW)
    plan = plan_step(working, now=NOW)
    assert [(one.segment_id, one.standing) for one in plan.verdicts] == [
        ("lost", Standing.UNREACHABLE)
    ]


def test_a_budget_of_no_visits_takes_by_score_alone_and_deletes_nothing() -> None:
    working = working_set(
        segment("new", "decision"), segment("old"), soft_limit_tokens=15, step_visits=0
    )
    age(working, 5_000)
    plan = plan_step(working, now=NOW)
    assert (plan.to_stash, plan.to_delete) == (("old",), ())
    assert plan.verdicts[0].standing is Standing.UNPROVEN


def test_what_was_updated_or_touched_leaves_last() -> None:
    working = working_set(*(segment(f"s{number}") for number in range(7)), soft_limit_tokens=0)
    working.update("s0", at=NOW, text="news")
    working.touch(["s1"], at=NOW)
    assert plan_step(working, now=NOW).ids == ("s2", "s3", "s4", "s5", "s6", "s0", "s1")


def test_what_a_step_spares_has_survived() -> None:
    working = working_set(
        segment("a"), segment("b"), segment("c", "decision"), soft_limit_tokens=25
    )
    carry_out(working, plan_step(working, now=NOW))
    assert {one.segment_id: one.gc_survival_count for one in working.segments()} == {"b": 1, "c": 1}


def test_roots_at_the_head_of_the_queues_do_not_stop_a_step() -> None:
    working = working_set(
        *(segment(f"m{number:03}", "message") for number in range(40)),
        soft_limit_tokens=350,
        recent_messages=30,
    )
    working.add(segment(f"d{number}", "decision") for number in range(3))
    age(working, 500)
    plan = plan_step(working, now=NOW)
    assert plan.ids == tuple(f"m{number:03}" for number in range(8))


def test_reading_the_lowest_looks_at_few() -> None:
    seen = 0

    def score(_kin: tuple[int, int, int], key: float) -> float:
        nonlocal seen
        seen += 1
        return key

    ids = [f"s{number}" for number in range(20_000)]
    queues = Queues(ids, [float(number * 7919 % 20_000) for number in range(20_000)])
    for number in range(20_000):
        queues.put(number, (number % 6, 0, 0))
    lowest = queues.lowest(score)
    assert [next(lowest)[0] for _ in range(32)] == [float(number) for number in range(32)]
    assert seen <= 6 + 2 * 32


@LAW
@given(
    keys=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    gone=st.lists(st.integers(0, 39)),
)
def test_a_queue_stays_in_order_whatever_leaves(keys: list[int], gone: list[int]) -> None:
    ids = [f"{number * 7 % 40:02}" for number in range(len(keys))]
    queues = Queues(ids, [float(key) for key in keys])
    for number in range(len(keys)):
        queues.put(number, (0, 0, 0))
    for number in gone:
        if number < len(keys):
            queues.take(number)
    left = [number for number in range(len(keys)) if number not in gone]
    found = [due[3] for due in queues.lowest(lambda _kin, key: key)]
    assert found == sorted(left, key=lambda number: (keys[number], ids[number]))


@LAW
@given(keys=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_a_queue_filled_at_once_is_in_order(keys: list[int]) -> None:
    ids = [f"{number * 7 % 30:02}" for number in range(len(keys))]
    queues = Queues(ids, [float(key) for key in keys])
    queues.fill(((number, (0, 0, 0)) for number in range(len(keys))), len(keys))
    found = [due[3] for due in queues.lowest(lambda _kin, key: key)]
    assert found == sorted(range(len(keys)), key=lambda number: (keys[number], ids[number]))


@LAW
@given(config=configs, key=st.integers(-50, 50), kin=st.tuples(*[st.integers(0, 5)] * 3))
def test_the_order_is_that_of_the_scores(
    config: SegmentConfig, key: int, kin: tuple[int, int, int]
) -> None:
    scorer = Scorer(config, step=20, now=NOW)
    assert scorer.of(kin, key) == scorer.parts(kin, key).total
    assert scorer.of(kin, key) <= scorer.of(kin, key + 1)
