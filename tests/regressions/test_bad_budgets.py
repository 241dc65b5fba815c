"""Budgets that nobody expects beside a history, protection in odd places, and odd goals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.budget.conversation import budget_for, locate, track
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Message, violations
from jaato.testing import WordCounter, check, run_collection, sketch, sketch_of, usage_of
from jaato.tokens import count_messages, history_tokens, message_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
PLUGIN = InstructionSource.PLUGIN
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
THRESHOLD = GCTriggerReason.THRESHOLD
PICTURE = "u c1 r1 a u a u c1 r1 a u a"
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


def give(budget: InstructionBudget, message_id: str, policy: GCPolicy) -> None:
    located = locate(budget, message_id)
    assert located is not None
    located.entry.gc_policy = policy


# What a budget tracks


def test_a_budget_that_tracks_nothing_is_content(collector: Make) -> None:
    history = sketch(PICTURE, words=40)
    budget = InstructionBudget.create_default("s", context_limit=10)
    check(run_collection(collector(), history, ONE, budget=budget, counter=COUNTER))
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert (after, result.success, result.tokens_freed) == (history, True, 0)


def test_a_budget_that_is_full_of_something_else_loses_no_message_for_nothing(
    collector: Make,
) -> None:
    history = sketch(PICTURE, words=40)
    budget = InstructionBudget.create_default("s", context_limit=100)
    budget.set_entry(InstructionSource.SYSTEM, 95)
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert (after, result.success, result.tokens_freed) == (history, True, 0)
    assert result.details["because"] == "nothing may be removed"


def test_a_budget_of_another_conversation_loses_no_message_for_nothing(
    collector: Make, budget_over: Over
) -> None:
    history = sketch(PICTURE, words=40)
    budget = budget_over(sketch(PICTURE, words=40, first=1_000), 95)
    after, result = collector().collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    settled = budget.total_tokens()
    settle(budget, result, history, after, COUNTER)
    assert after == history
    assert budget.total_tokens() == settled


@pytest.mark.parametrize("tracked", [slice(0, 4), slice(2, 8), slice(4, 12), slice(0, 12, 2)])
def test_a_budget_that_tracks_only_some_messages_keeps_every_law(
    collector: Make, tracked: slice
) -> None:
    history = sketch(PICTURE, words=40)
    some = history[tracked]
    budget = budget_for(some, count_messages(COUNTER, some))
    budget.context_limit = max(int(budget.total_tokens() / 0.95), 1)
    check(run_collection(collector(), history, ONE, budget=budget, counter=COUNTER))


def flat(history: Sequence[Message], *, named: bool) -> InstructionBudget:
    """A budget by hand: one entry per turn, as the specification of record prints it."""
    budget = InstructionBudget.create_default("s")
    starts = [at for at, message in enumerate(history) if message.opens_turn]
    for turn, (start, stop) in enumerate(zip(starts, [*starts[1:], len(history)], strict=True)):
        own = history[start:stop]
        budget.entries[CONVERSATION].children[f"turn_{turn}"] = SourceEntry(
            source=CONVERSATION,
            tokens=history_tokens(COUNTER, own),
            gc_policy=GCPolicy.PARTIAL,
            created_at=float(turn),
            message_ids=[message.message_id for message in own] if named else [],
        )
    budget.context_limit = int(budget.total_tokens() / 0.85)
    return budget


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        ("gc_truncate", True),
        ("gc_truncate", False),
        ("gc_summarize", True),
        ("gc_hybrid", True),
        ("gc_hybrid", False),
        ("gc_budget", True),
        ("gc_budget", False),
    ],
)
def test_flat_turn_entries_leave_with_their_turns(
    plugin_of: Make, strategy: str, named: bool
) -> None:
    history = sketch("u a u c1 r1 a u a u a", words=40)
    budget = flat(history, named=named)
    plugin = plugin_of(strategy)
    after, result = plugin.collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert len(after) < len(history)
    assert violations(after) == ()
    assert after[-2:] == history[-2:]
    assert {item.child_key for item in result.removal_list} <= {f"turn_{at}" for at in range(3)}
    settle(budget, result, history, after, COUNTER)
    assert budget.total_tokens() == result.tokens_after == history_tokens(COUNTER, after)


@pytest.mark.parametrize("named", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("policy", [GCPolicy.LOCKED, GCPolicy.PRESERVABLE])
def test_flat_turn_entries_stay_by_their_policy(
    collector: Make, named: bool, policy: GCPolicy
) -> None:
    history = sketch("u a u a u a u a", words=40)
    budget = flat(history, named=named)
    for turn in ("turn_0", "turn_2"):
        budget.entries[CONVERSATION].children[turn].gc_policy = policy
    after, _ = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert [after[0], after[1]] == history[:2]
    assert history[4] in after
    assert history[5] in after


def test_without_a_limit_all_that_may_go_goes(collector: Make, budget_over: Over) -> None:
    history = sketch("u a u a u a u a", words=40)
    budget = budget_over(history)
    budget.context_limit = None
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER, reason=MANUAL)
    check(seen)
    assert sketch_of(seen.after).replace("s ", "") == "u u a"


def test_the_limit_of_the_usage_serves_where_the_budget_has_none(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a u a", words=40)
    budget = budget_over(history)
    budget.context_limit = None
    usage = {"context_limit": 10_000, "percent_used": 4.0}
    after, _ = collector().collect(history, usage, ONE, MANUAL, budget)
    assert after == history


def test_entries_of_no_tokens_are_no_reason_to_collect_for_ever(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a u a", words=40)
    budget = budget_over(history)
    for at in range(2, 6):
        located = locate(budget, f"m{at}")
        assert located is not None
        located.entry.tokens = 0
    budget.add_child(PLUGIN, "empty", 0, GCPolicy.EPHEMERAL)
    budget.set_entry(InstructionSource.ENRICHMENT, 0)
    budget.context_limit = int(budget.total_tokens() / 0.85)
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert result.success
    assert violations(after) == ()
    assert all(item.source is CONVERSATION for item in result.removal_list)


# Protection in odd places

ODD = [
    pytest.param(["m2"], id="a result in the middle of the first turn"),
    pytest.param(["m8"], id="a result in the middle of an old turn"),
    pytest.param(["m7"], id="a call"),
    pytest.param(["m9"], id="an answer"),
    pytest.param(["m4", "m8"], id="two of two turns"),
    pytest.param([f"m{at}" for at in range(12)], id="everything"),
]


@pytest.mark.parametrize("ids", ODD)
@pytest.mark.parametrize("policy", [GCPolicy.LOCKED, GCPolicy.PRESERVABLE])
@pytest.mark.parametrize("reason", [THRESHOLD, GCTriggerReason.CONTEXT_LIMIT], ids=str)
@pytest.mark.parametrize("percent", [85, 95])
def test_a_policy_in_an_odd_place_keeps_every_law(
    collector: Make,
    budget_over: Over,
    ids: Sequence[str],
    policy: GCPolicy,
    reason: GCTriggerReason,
    percent: int,
) -> None:
    history = sketch(PICTURE, words=40)
    budget = budget_over(history, percent)
    for message_id in ids:
        give(budget, message_id, policy)
    check(run_collection(collector(), history, ONE, budget=budget, reason=reason, counter=COUNTER))


@pytest.mark.parametrize("policy", [GCPolicy.LOCKED, GCPolicy.PRESERVABLE])
def test_a_policy_on_the_whole_conversation_holds_for_all_of_it(
    collector: Make, budget_over: Over, policy: GCPolicy
) -> None:
    history = sketch(PICTURE, words=40)
    budget = budget_over(history)
    budget.entries[CONVERSATION].gc_policy = policy
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER)
    check(seen)
    assert list(seen.after) == history


@pytest.mark.parametrize("policy", [GCPolicy.LOCKED, GCPolicy.PRESERVABLE])
def test_a_policy_on_a_turn_holds_for_all_of_it(
    collector: Make, budget_over: Over, policy: GCPolicy
) -> None:
    history = sketch(PICTURE, words=40)
    budget = budget_over(history)
    budget.entries[CONVERSATION].children["turn_2"].gc_policy = policy
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER)
    check(seen)
    assert history[6:10] == [message for message in seen.after if message in history[6:10]]
    assert len(seen.after) < len(history)


def test_a_locked_tool_stays_whatever_its_group_is(plugin_of: Make, budget_over: Over) -> None:
    history = sketch("u a u a", words=3)
    budget = budget_over(history)
    budget.add_child(PLUGIN, "found", 0, GCPolicy.EPHEMERAL)
    budget.add_child(PLUGIN, "found/search", 500, GCPolicy.LOCKED)
    budget.add_child(PLUGIN, "found/browse", 500, GCPolicy.EPHEMERAL)
    budget.add_child(PLUGIN, "other", 300, GCPolicy.LOCKED)
    budget.context_limit = int(budget.total_tokens() / 0.95)
    after, result = plugin_of("gc_budget").collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert budget.get_child(PLUGIN, "found/search") is not None
    assert budget.get_child(PLUGIN, "other") is not None
    assert budget.get_child(PLUGIN, "found/browse") is None


@pytest.mark.parametrize(
    ("decide", "stays"),
    [
        pytest.param(lambda _: GCPolicy.LOCKED, True, id="locked"),
        pytest.param(lambda _: "preservable", True, id="a policy by name"),
        pytest.param(lambda _: GCPolicy.EPHEMERAL, False, id="ephemeral"),
        pytest.param(lambda _: GCPolicy.CONDITIONAL, False, id="undecided"),
        pytest.param(lambda _: None, False, id="nothing"),
        pytest.param(lambda _: 1 / 0, False, id="it raises"),
        pytest.param(lambda: GCPolicy.LOCKED, False, id="it takes no argument"),
        pytest.param(None, False, id="nobody is asked"),
    ],
)
@pytest.mark.parametrize("where", ["turn", "message"])
def test_conditional_is_what_its_callable_says_and_else_free(
    collector: Make,
    budget_over: Over,
    decide: Callable[[SourceEntry], GCPolicy] | None,
    stays: bool,
    where: str,
) -> None:
    history = sketch("u a u a u a", words=40)
    budget = budget_over(history)
    located = locate(budget, "m2")
    assert located is not None
    entry = located.entry if where == "message" else budget.get_child(CONVERSATION, "turn_1")
    assert entry is not None
    entry.gc_policy = GCPolicy.CONDITIONAL
    entry.register_condition(decide)
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER, reason=MANUAL)
    check(seen)
    assert (history[2] in seen.after) is stays


@pytest.mark.parametrize("keep", [0, 1, 2, 10**6, 10**30])
@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
def test_any_number_of_recent_turns_keeps_every_law(
    collector: Make, budget_over: Over, keep: int, tracked: bool
) -> None:
    history = sketch("u a u a u c1", words=40)
    seen = run_collection(
        collector(),
        history,
        GCConfig(preserve_recent_turns=keep),
        budget=budget_over(history) if tracked else None,
        counter=COUNTER,
    )
    check(seen)
    assert seen.after[-2:] == tuple(history[-2:])
    assert (list(seen.after) == history) is (keep > 2)


# Pins


@pytest.mark.parametrize("pins", [[99], [10**30], [0, 1, 2, 3], range(1, 2), {2}, (0, 0)], ids=str)
@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
def test_any_pins_keep_every_law(
    collector: Make, budget_over: Over, pins: list[int], tracked: bool
) -> None:
    history = sketch("u a u a u a u a", words=40)
    budget = budget_over(history, 95) if tracked else None
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=pins)
    check(run_collection(collector(), history, config, budget=budget, counter=COUNTER))


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
@pytest.mark.parametrize("notify", [False, True], ids=["silent", "notify"])
def test_a_pin_means_the_same_turn_after_ten_collections(
    collector: Make, tracked: bool, notify: bool
) -> None:
    plugin = collector(notify_on_gc=notify)
    config = GCConfig(preserve_recent_turns=2, pinned_turn_indices=[3, 11])
    budget = InstructionBudget.create_default("s", context_limit=1_200) if tracked else None
    history: list[Message] = []
    everything: list[Message] = []
    collections = 0
    for turn in range(60):
        for message in sketch("u c1 r1 a", words=40, first=4 * turn):
            history.append(message)
            everything.append(message)
            if budget is not None:
                track(budget, message, message_tokens(COUNTER, message))
        total = history_tokens(COUNTER, history)
        usage = {"context_limit": 1_200, "total_tokens": total, "percent_used": total / 12}
        if not plugin.should_collect(usage, config)[0]:
            continue
        after, result = plugin.collect(history, usage, config, THRESHOLD, budget)
        assert result.success
        if budget is not None:
            settle(budget, result, history, after, COUNTER)
            assert budget.total_tokens() == history_tokens(COUNTER, after)
        collections += len(after) < len(history)
        history = after
        for pin in (3, 11):
            pinned = everything[4 * pin : 4 * pin + 4]
            assert [message for message in history if message in pinned] == pinned
    assert collections >= 10


def test_a_pin_of_the_options_adds_to_the_pins_of_the_configuration(collector: Make) -> None:
    history = sketch("u a u a u a u a u a", words=40)
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[0])
    after, _ = collector(pinned_turn_indices=[2]).collect(history, {}, config, MANUAL)
    assert [at for at, message in enumerate(history) if message in after] == [0, 1, 4, 5, 8, 9]


# Goals


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
def test_a_turn_limit_is_reached_though_the_window_is_nearly_empty(
    collector: Make, budget_over: Over, tracked: bool
) -> None:
    history = sketch(" ".join(["u a"] * 12), words=40)
    budget = budget_over(history, 2) if tracked else None
    total = history_tokens(COUNTER, history)
    usage = {"context_limit": 50 * total, "total_tokens": total, "percent_used": 2.0, "turns": 12}
    config = GCConfig(preserve_recent_turns=2, max_turns=10)
    plugin = collector()
    assert plugin.should_collect(usage, config) == (True, GCTriggerReason.TURN_LIMIT)
    reason = GCTriggerReason.TURN_LIMIT
    seen = run_collection(
        plugin, history, config, budget=budget, usage=usage, reason=reason, counter=COUNTER
    )
    check(seen)
    turns = sum(message.opens_turn for message in seen.after)
    assert 2 <= turns <= 7
    assert plugin.should_collect({**usage, "turns": turns}, config) == (False, None)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10**9])
def test_any_turn_limit_keeps_every_law(collector: Make, budget_over: Over, limit: int) -> None:
    history = sketch("u a s u c1 r1 a u a", words=40)
    config = GCConfig(preserve_recent_turns=2, max_turns=limit)
    seen = run_collection(
        collector(),
        history,
        config,
        budget=budget_over(history),
        reason=GCTriggerReason.TURN_LIMIT,
        counter=COUNTER,
    )
    check(seen)


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
@pytest.mark.parametrize("percent", [1, 30, 59])
def test_the_providers_word_counts_where_the_own_count_is_below_the_target(
    collector: Make, budget_over: Over, tracked: bool, percent: int
) -> None:
    history = sketch("u a u a u a u a u a", words=40)
    budget = budget_over(history, percent) if tracked else None
    total = history_tokens(COUNTER, history)
    limit = int(total * 100 / percent)
    usage = {"context_limit": limit, "total_tokens": total, "percent_used": float(percent)}
    reason = GCTriggerReason.CONTEXT_LIMIT
    after, result = collector().collect(history, usage, ONE, reason, budget)
    assert result.success
    assert result.tokens_after <= 0.6 * total
    assert after[-2:] == history[-2:]


def test_again_and_again_the_provider_may_say_no(collector: Make, budget_over: Over) -> None:
    history = sketch(" ".join(["u c1 r1 a"] * 8), words=40)
    budget = budget_over(history, 50)
    plugin = collector()
    for _ in range(6):
        before = budget.total_tokens()
        after, result = plugin.collect(
            history, usage_of(budget), ONE, GCTriggerReason.CONTEXT_LIMIT, budget
        )
        settle(budget, result, history, after, COUNTER)
        history = after
        assert violations(history) == ()
        assert budget.total_tokens() == history_tokens(COUNTER, history) <= before
    assert sketch_of(history)[0] == "u"
    assert sketch_of(history).endswith("u c1 r1 a") or "~" in sketch_of(history)
