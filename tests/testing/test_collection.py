"""What is observed of a collection, and what the laws allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.budget.conversation import locate
from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message, Part
from jaato.testing import (
    LAWS,
    Collection,
    WordCounter,
    budget_of,
    run_collection,
    sketch,
    usage_of,
)
from jaato.testing.collection import tracked_in

COUNTER = WordCounter()
P, L = GCPolicy.PRESERVABLE, GCPolicy.LOCKED
PLENTY: Mapping[str, Any] = {"percent_used": 85.0}
PRESSED: Mapping[str, Any] = {"percent_used": 95.0}
ONE_RECENT = GCConfig(preserve_recent_turns=1)


def done(success: bool = True) -> GCResult:
    return GCResult(success, 0, 0, 0, "observed", GCTriggerReason.THRESHOLD)


def observed(
    picture: str,
    after: list[Message],
    policies: Mapping[int, GCPolicy],
    *,
    config: GCConfig = ONE_RECENT,
    usage: Mapping[str, Any] = PLENTY,
    reason: GCTriggerReason = GCTriggerReason.THRESHOLD,
) -> Collection:
    history = sketch(picture)
    return Collection(
        before=tuple(history),
        after=tuple(after),
        result=done(),
        config=config,
        reason=reason,
        usage=usage,
        counter=COUNTER,
        budget_before=with_policies(history, policies),
    )


def with_policies(history: list[Message], policies: Mapping[int, GCPolicy]) -> InstructionBudget:
    """A budget that locks nothing but what it is told to."""
    budget = budget_of(history, COUNTER, context_limit=1000)
    for at, message in enumerate(history):
        located = locate(budget, message.message_id)
        assert located is not None
        located.entry.gc_policy = policies.get(at, GCPolicy.EPHEMERAL)
    return budget


def breaks(collection: Collection, number: int) -> tuple[str, ...]:
    return LAWS[number - 1].breaches(collection)


STAYS = [
    pytest.param({}, [4, 5], True, id="a whole turn leaves"),
    pytest.param({}, [0, 4, 5], False, id="its opening may not stay alone"),
    pytest.param({3: P}, [3, 4, 5], True, id="a PRESERVABLE answer stays behind"),
    pytest.param({3: P}, [0, 3, 4, 5], True, id="with the opening of its turn"),
    pytest.param({3: P}, [0, 1, 2, 3, 4, 5], True, id="or with all of it"),
    pytest.param({3: P}, [1, 2, 3, 4, 5], False, id="but not with another step"),
    pytest.param({2: L}, [1, 2, 4, 5], True, id="a LOCKED result stays with its call"),
    pytest.param({0: L}, [0, 4, 5], True, id="a LOCKED opening stays"),
    pytest.param({0: L}, [0, 3, 4, 5], False, id="without the answer"),
]


@pytest.mark.parametrize(("policies", "stays", "is_allowed"), STAYS)
def test_what_may_stay_when_a_turn_leaves(
    policies: dict[int, GCPolicy], stays: list[int], is_allowed: bool
) -> None:
    history = sketch("u c1 r1 a u a")
    seen = observed("u c1 r1 a u a", [history[at] for at in stays], policies)
    seen = _same_objects(seen)
    assert (breaks(seen, 4) == ()) == is_allowed


PRESSURE = [
    pytest.param(PLENTY, ONE_RECENT, GCTriggerReason.THRESHOLD, False, id="below the pressure"),
    pytest.param(PRESSED, ONE_RECENT, GCTriggerReason.THRESHOLD, True, id="under pressure"),
    pytest.param(
        PRESSED, GCConfig(pressure_percent=0), GCTriggerReason.THRESHOLD, False, id="continuous"
    ),
    pytest.param(PLENTY, ONE_RECENT, GCTriggerReason.CONTEXT_LIMIT, True, id="an overflow"),
    pytest.param({}, ONE_RECENT, GCTriggerReason.THRESHOLD, False, id="the budget says so"),
    pytest.param(
        {"percent_used": None}, ONE_RECENT, GCTriggerReason.MANUAL, False, id="usage says nothing"
    ),
]


@pytest.mark.parametrize(("usage", "config", "reason", "may_leave"), PRESSURE)
def test_when_preservable_messages_may_leave(
    usage: Mapping[str, Any], config: GCConfig, reason: GCTriggerReason, may_leave: bool
) -> None:
    if config.continuous_mode:
        config = GCConfig(pressure_percent=0, preserve_recent_turns=1)
    history = sketch("u a u a")
    seen = _same_objects(
        observed("u a u a", history[2:], {0: P}, usage=usage, config=config, reason=reason)
    )
    assert (breaks(seen, 2) == ()) == may_leave


@pytest.mark.parametrize(
    ("config", "leaves", "is_allowed"),
    [
        pytest.param(GCConfig(preserve_recent_turns=2), 0, True, id="an old turn"),
        pytest.param(GCConfig(preserve_recent_turns=3), 0, False, id="a recent turn"),
        pytest.param(GCConfig(preserve_recent_turns=0), 2, False, id="the last turn in any case"),
        pytest.param(
            GCConfig(preserve_recent_turns=1, pinned_turn_indices=[0]), 0, False, id="a pinned turn"
        ),
        pytest.param(
            GCConfig(preserve_recent_turns=1, pinned_turn_indices=[1]), 0, True, id="another pin"
        ),
    ],
)
def test_which_turns_may_leave(config: GCConfig, leaves: int, is_allowed: bool) -> None:
    history = sketch("u a u a u a")
    after = history[: 2 * leaves] + history[2 * leaves + 2 :]
    seen = _same_objects(observed("u a u a u a", after, {}, config=config))
    assert (breaks(seen, 2) == ()) == is_allowed


def test_a_pin_means_the_number_in_the_budget_not_the_place() -> None:
    history = sketch("u a u a u a")
    budget = with_policies(history, {})
    for message in history[:2]:
        located = locate(budget, message.message_id)
        assert located is not None
        budget.remove_child(InstructionSource.CONVERSATION, located.path)
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[1])
    seen = Collection(
        before=tuple(history[2:]), after=tuple(history[4:]), result=done(), config=config,
        reason=GCTriggerReason.THRESHOLD, usage=PLENTY, counter=COUNTER, budget_before=budget,
    )  # fmt: skip
    assert [list(span) for span in seen.pinned] == [[0, 1]]
    assert breaks(seen, 2)


@pytest.mark.parametrize(
    ("steps", "at", "is_allowed"),
    [
        pytest.param(1, 2, True, id="an old step"),
        pytest.param(2, 2, False, id="one of the last steps"),
        pytest.param(0, 4, True, id="any step where none is preserved"),
    ],
)
def test_which_steps_of_a_recent_turn_may_be_stubbed(steps: int, at: int, is_allowed: bool) -> None:
    before = sketch("u c1 r1 c2 r2")
    stub = before[at].with_parts(sketch(f"r{at // 2}~")[0].parts)
    after = [stub if one is before[at] else one for one in before]
    config = GCConfig(preserve_recent_turns=1, preserve_recent_steps=steps)
    seen = _same_objects(observed("u c1 r1 c2 r2", after, {}, config=config))
    assert (breaks(seen, 2) == ()) == is_allowed
    assert breaks(seen, 4) == ()


@pytest.mark.parametrize(
    ("picture", "policies", "after", "is_allowed"),
    [
        pytest.param("u a u a u a", {}, "s 2 3 4 5", True, id="where the folded turn stood"),
        pytest.param("u a u a u a", {}, "2 3 s 4 5", False, id="not behind the next turn"),
        pytest.param("u a u a u a", {}, "0 1 s 4 5", True, id="behind the turn before it"),
        pytest.param("u a u a u a", {}, "s 0 1 4 5", False, id="not in front of the turn before"),
        pytest.param("u a u a u a", {1: P}, "0 1 s 4 5", True, id="behind what stays behind"),
        pytest.param("u a u a u a", {1: P}, "0 s 1 4 5", True, id="or in front of it"),
        pytest.param("s u a u a", {0: P}, "0 s 3 4", True, id="behind an older summary"),
        pytest.param("s u a u a", {0: P}, "s 0 3 4", False, id="not in front of it"),
        pytest.param("u a u a", {}, "n 2 3", True, id="a notice first"),
        pytest.param("u a u a", {}, "2 n 3", False, id="a notice later"),
        pytest.param("u a u a u a", {0: L}, "0 n 4 5", True, id="a notice behind what is LOCKED"),
        pytest.param("u a u a u a", {0: L}, "n 0 4 5", False, id="a notice in front of it"),
        pytest.param("n u a u a", {1: L}, "1 n 3 4", True, id="a notice in place of the old one"),
        pytest.param("n u a u a", {}, "n 0 3 4", False, id="a notice beside the old one"),
        pytest.param("u c1 r1 a u a", {0: L, 1: L}, "0 n 1 2 4 5", True, id="before a LOCKED call"),
        pytest.param("u c1 r1 a u a", {0: L, 1: L}, "0 1 2 n 4 5", True, id="behind its result"),
    ],
)
def test_where_new_messages_may_stand(
    picture: str, policies: dict[int, GCPolicy], after: str, is_allowed: bool
) -> None:
    before = sketch(picture)
    new = {"s": sketch("s", first=900)[0], "n": sketch("n", first=901)[0]}
    stays = [new[one] if one in new else before[int(one)] for one in after.split()]
    seen = _same_objects(observed(picture, stays, policies))
    assert (breaks(seen, 5) == ()) == is_allowed


def _same_objects(seen: Collection) -> Collection:
    """The collection as if drawn once: what stays is what was there, unless it was replaced."""
    ours = {message.message_id: message for message in seen.before}
    after = tuple(
        ours[one.message_id] if ours.get(one.message_id) == one else one for one in seen.after
    )
    return Collection(
        before=seen.before, after=after, result=seen.result, config=seen.config,
        reason=seen.reason, usage=seen.usage, counter=seen.counter,
        budget_before=seen.budget_before,
    )  # fmt: skip


class Idle:
    """Does nothing, by the first version of the contract: no budget."""

    name = "idle"

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def should_collect(
        self, context_usage: dict[str, Any], config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return False, None

    def collect(
        self,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
    ) -> tuple[list[Message], GCResult]:
        return list(history), done()


class Meddler(Idle):
    """Changes what it is given."""

    def collect(
        self,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        if budget is not None:
            budget.add_child(InstructionSource.PLUGIN, "mine", 5)
        elif context_usage.get("rewrites"):
            history[0] = Message("user", [Part("other")])
        else:
            history.pop()
        return list(history), done()


def test_a_plug_in_without_a_budget_parameter_is_observed() -> None:
    history = sketch("u a u a")
    budget = budget_of(history, COUNTER, context_limit=100)
    plugin: Any = Idle()
    seen = run_collection(plugin, history, budget=budget, counter=COUNTER)
    assert seen.after == tuple(history)
    assert seen.again is not None
    assert seen.usage == usage_of(budget)


@pytest.mark.parametrize(
    ("usage", "with_budget", "says"),
    [
        pytest.param({}, False, "changed the history", id="a message less"),
        pytest.param({"rewrites": True}, False, "changed the history", id="another message"),
        pytest.param({}, True, "changed the budget", id="a budget"),
    ],
)
def test_collect_may_not_change_what_it_is_given(
    usage: dict[str, Any], with_budget: bool, says: str
) -> None:
    history = sketch("u a u a")
    budget = budget_of(history, COUNTER, context_limit=100) if with_budget else None
    with pytest.raises(AssertionError, match=says):
        run_collection(Meddler(), history, budget=budget, usage=usage, counter=COUNTER)
    assert len(history) == 4


def test_a_broken_history_is_refused() -> None:
    plugin: Any = Idle()
    with pytest.raises(UsageError, match="orphan_result in message 0") as caught:
        run_collection(plugin, sketch("r1 a"))
    assert "repaired" in (caught.value.hint or "")


def test_options_of_the_plug_in_are_laid_over_the_configuration() -> None:
    plugin: Any = Idle()
    seen = run_collection(
        plugin, sketch("u a u a u a"), options={"preserve_recent_turns": 2}, counter=COUNTER
    )
    assert [list(span) for span in seen.recent] == [[2, 3], [4, 5]]


def test_the_second_time_usage_has_fallen() -> None:
    class Half(Idle):
        def collect(
            self,
            history: list[Message],
            context_usage: dict[str, Any],
            config: GCConfig,
            reason: GCTriggerReason,
        ) -> tuple[list[Message], GCResult]:
            return history[len(history) // 2 :], done()

    plugin: Any = Half()
    usage = {"percent_used": 80.0, "total_tokens": 400, "context_limit": 500}
    seen = run_collection(plugin, sketch("u a u a", words=90), usage=usage, counter=COUNTER)
    assert seen.again is not None
    assert seen.again.usage == {"percent_used": 40.0, "total_tokens": 200, "context_limit": 500}


def test_an_overflow_is_reported_once() -> None:
    plugin: Any = Idle()
    reason = GCTriggerReason.CONTEXT_LIMIT
    seen = run_collection(plugin, sketch("u a"), reason=reason, counter=COUNTER)
    assert seen.again is not None
    assert seen.again.reason is GCTriggerReason.THRESHOLD


def test_a_locked_container_locks_what_is_below() -> None:
    budget = with_policies(sketch("u a u a"), {3: P})
    turn = budget.get_child(InstructionSource.CONVERSATION, "turn_0")
    assert turn is not None
    turn.gc_policy = L
    policies = {key: tracked.policy for key, tracked in tracked_in(budget).items()}
    assert (policies["m0"], policies["m1"], policies["m3"]) == (L, L, P)
    assert tracked_in(budget)["m3"].turn == 1
