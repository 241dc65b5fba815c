"""Bugs that these tests once found, in histories, usage and budgets that nobody expects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.problems import ConfigError
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import FunctionCall, Message, Part, ToolResult, repaired, violations
from jaato.testing import WordCounter, check, run_collection, sketch, sketch_of, usage_of
from jaato.tokens import history_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


def settled(
    budget: InstructionBudget,
    before: Sequence[Message],
    after: Sequence[Message],
    *items: GCRemovalItem,
) -> int:
    """What CONVERSATION weighs after a third-party plug-in has reported these items."""
    result = GCResult(True, len(items), 0, 0, "third_party", MANUAL, removal_list=list(items))
    settle(budget, result, before, after, COUNTER)
    source = budget.get_entry(CONVERSATION)
    assert source is not None
    return source.total_tokens()


def again(message: Message, *, text: str, message_id: str | None = None) -> Message:
    return Message(message.role, (Part(text=text),), message_id or message.message_id, message.kind)


# Histories


@pytest.mark.parametrize("picture", ["s", "s s", "n s s"])
def test_a_history_of_summaries_alone_is_never_emptied_under_pressure(
    collector: Make, picture: str
) -> None:
    history = sketch(picture, words=30)
    after, _ = collector().collect(history, {"percent_used": 95}, ONE, MANUAL)
    assert after


def test_a_history_of_empty_messages_is_never_emptied_by_what_leaves_elsewhere(
    plugin_of: Make,
) -> None:
    budget = InstructionBudget.create_default("s", context_limit=100)
    budget.set_entry(InstructionSource.ENRICHMENT, 95)
    history = sketch("-u")
    after, result = plugin_of("gc_budget").collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert after
    assert result.success


def test_a_summary_that_heads_a_pinned_turn_stays_so_that_the_turn_keeps_its_number(
    collector: Make,
) -> None:
    # Without its summary the model's message would join the turn before, and lose its pin.
    history = sketch("u n s a s u")
    history[1] = again(history[1], text="too little to fold alone")
    config = GCConfig(
        target_percent=0.0,
        pressure_percent=30.0,
        preserve_recent_turns=0,
        pinned_turn_indices=[1],
        preserve_recent_steps=0,
    )
    usage = {"context_limit": history_tokens(COUNTER, history), "percent_used": 85.0}
    plugin = collector()
    check(run_collection(plugin, history, config, usage=usage, reason=GCTriggerReason.THRESHOLD))


def test_a_pair_lost_to_the_repair_of_another_breach_is_reported() -> None:
    # Taking r9 out of its message leaves one that stands between c1 and r1: both go, unsaid.
    mended, wrong = repaired(sketch("u c1 r9+m r1 a"))
    assert violations(mended) == ()
    named = {violation.at for violation in wrong}
    assert sketch_of(mended) == "u c1 r1 m a" or named >= {1, 2, 3}


def test_a_repeated_id_does_not_let_the_locked_request_go(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a", words=20)
    history[4] = again(history[4], text="z " * 20, message_id="m0")
    budget = budget_over(history)
    after, _ = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert after[0] is history[0]


def test_a_repeated_id_that_the_budget_tracks_twice_is_counted_once(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a u a", words=20)
    history[5] = again(history[5], text="z " * 20, message_id="m7")
    budget = budget_over(history)
    after, result = collector().collect(
        history, usage_of(budget), GCConfig(preserve_recent_turns=2), MANUAL, budget
    )
    settle(budget, result, history, after, COUNTER)
    assert budget.total_tokens() == history_tokens(COUNTER, after) == result.tokens_after


class Incomparable:
    """A value as arrays are: it will not say whether it equals another."""

    __hash__ = None  # type: ignore[assignment]  # as arrays have it

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of this comparison is ambiguous")

    def __str__(self) -> str:
        return "0.5 " * 200


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def turns_with(result: object) -> list[Message]:
    history = []
    for at in range(4):
        call, answer = FunctionCall("1", "t", {}), ToolResult("1", "t", result)
        history += [
            Message("user", (Part(text="go " * 20),), f"u{at}"),
            Message("model", (Part(function_call=call),), f"c{at}"),
            Message("tool", (Part(function_response=answer),), f"r{at}"),
        ]
    return history


def test_a_result_that_refuses_comparison_can_be_stubbed(
    plugin_of: Make, budget_over: Over
) -> None:
    history = turns_with(Incomparable())
    budget = budget_over(history)
    _, result = plugin_of("gc_budget").collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert result.tokens_freed > 0


def test_a_result_that_cannot_be_printed_is_counted_and_collected(collector: Make) -> None:
    _, result = collector().collect(turns_with(Unprintable()), {}, ONE, MANUAL)
    assert result.success


def test_a_result_that_cannot_be_printed_is_summarized(plugin_of: Make) -> None:
    history = turns_with({"deep": [Unprintable()]})
    for message in history:
        message.remember_tokens(COUNTER.name, 50)  # Counted elsewhere, long ago.
    plugin = plugin_of("gc_summarize", summarizer="extractive")
    assert plugin.collect(history, {}, ONE, MANUAL)[1].success


# Usage and configuration


@pytest.mark.parametrize("key", ["percent_used", "total_tokens", "context_limit", "turns"])
def test_a_figure_too_large_for_a_float_is_no_reason_to_crash(collector: Make, key: str) -> None:
    plugin, history = collector(), sketch("u a u a", words=20)
    plugin.should_collect({key: 10**400}, GCConfig(max_turns=3))
    assert plugin.collect(history, {key: 10**400}, ONE, MANUAL)[1].success


def test_a_limit_near_the_largest_float_is_no_reason_to_crash(collector: Make) -> None:
    usage = {"context_limit": 10**308, "total_tokens": 100}
    assert collector().collect(sketch("u a u a"), usage, ONE, MANUAL)[1].success


def test_usage_that_says_less_than_there_is_does_not_go_below_zero(collector: Make) -> None:
    history = sketch("u a u a u a u a", words=200)
    usage = {"context_limit": 100, "total_tokens": 100}
    after, result = collector().collect(history, usage, ONE, MANUAL)
    assert len(after) < len(history)
    assert result.tokens_after >= 0


def test_a_turn_limit_that_is_text_is_told_below_the_threshold_too(collector: Make) -> None:
    config = GCConfig()
    config.max_turns = "5"  # type: ignore[assignment]  # a caller's mistake
    with pytest.raises(ConfigError, match="max_turns"):
        collector().should_collect({"percent_used": 70.0, "turns": 3}, config)


def test_a_plugin_config_that_is_no_mapping_is_told_like_any_other_value(collector: Make) -> None:
    config = GCConfig()
    config.plugin_config = 3  # type: ignore[assignment]  # a caller's mistake
    _, result = collector().collect(sketch("u a"), {}, config, MANUAL)
    assert not result.success
    assert "plugin_config" in (result.error or "")
    with pytest.raises(ConfigError, match="plugin_config"):
        collector().should_collect({"percent_used": 90}, config)


# Budgets


def test_a_turn_container_with_tokens_of_its_own_is_counted_the_same_before_and_after(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a", words=30)
    budget = budget_over(history)
    source = budget.get_entry(CONVERSATION)
    assert source is not None
    for turn in source.children.values():
        turn.tokens = 50
    budget.context_limit = budget.total_tokens()
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert budget.total_tokens() == result.tokens_after


def test_removal_keys_exist_where_the_conversation_itself_lists_its_messages(
    collector: Make,
) -> None:
    history = sketch("u a u a u a", words=30)
    budget = InstructionBudget.create_default("s")
    tokens = history_tokens(COUNTER, history)
    budget.set_entry(CONVERSATION, tokens, message_ids=[one.message_id for one in history])
    budget.context_limit = tokens
    check(run_collection(collector(), history, ONE, budget=budget, counter=COUNTER))


def test_an_entry_that_also_lists_a_message_long_gone_is_counted_the_same_before_and_after(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a", words=30)
    budget = budget_over(history)
    budget.add_child(CONVERSATION, "turn_1", 20, message_ids=["m2", "m3", "long gone"])
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert budget.total_tokens() == result.tokens_after


def test_an_entry_over_several_turns_never_frees_more_than_it_weighs(collector: Make) -> None:
    history = sketch("u a u a u a", words=30)
    budget = InstructionBudget.create_default("s", context_limit=20)
    ids = [one.message_id for one in history]
    budget.add_child(CONVERSATION, "all of it", 40, message_ids=ids)
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert result.tokens_after >= 0
    assert budget.total_tokens() == result.tokens_after


def test_flat_turn_entries_without_ids_can_be_summarized(plugin_of: Make) -> None:
    history = sketch("u a u a u a u a", words=30)
    budget = InstructionBudget.create_default("s")
    for turn in range(4):
        own = history[2 * turn : 2 * turn + 2]
        budget.add_child(CONVERSATION, f"turn_{turn}", history_tokens(COUNTER, own))
    budget.context_limit = int(budget.total_tokens() / 0.85)
    after, _ = plugin_of("gc_summarize").collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert sketch_of(after) == "s u a"


def test_a_turn_limit_takes_no_content_from_the_turns_that_may_stay(
    plugin_of: Make, budget_over: Over
) -> None:
    # Nothing but a turn's leaving brings the number of turns down.
    history = sketch(" ".join(["u c1 r1 a"] * 10), words=60)
    budget = budget_over(history, percent=1)
    budget.set_entry(InstructionSource.ENRICHMENT, 50)
    budget.add_child(InstructionSource.PLUGIN, "search", 70, GCPolicy.EPHEMERAL)
    config = GCConfig(preserve_recent_turns=2, max_turns=9)
    usage = {**usage_of(budget), "turns": 10}
    after, result = plugin_of("gc_budget").collect(
        history, usage, config, GCTriggerReason.TURN_LIMIT, budget
    )
    assert {item.source for item in result.removal_list} == {CONVERSATION}
    assert "~" not in sketch_of(after)


@pytest.mark.parametrize(
    "named",
    [
        pytest.param([0], id="the original request"),
        pytest.param([2], id="a tool result"),
        pytest.param([7], id="the last answer"),
        pytest.param(range(8), id="everything"),
    ],
)
def test_enrichment_that_names_messages_of_the_conversation_takes_none_of_them_out_of_order(
    plugin_of: Make, budget_over: Over, named: Sequence[int]
) -> None:
    history = sketch("u c1 r1 a u c2 r2 a", words=30)
    budget = budget_over(history)
    ids = [history[at].message_id for at in named]
    budget.set_entry(InstructionSource.ENRICHMENT, 100, message_ids=ids)
    budget.context_limit = int(budget.total_tokens() / 0.85)
    check(run_collection(plugin_of("gc_budget"), history, ONE, budget=budget, counter=COUNTER))


@pytest.mark.parametrize(
    "locked", [pytest.param(None, id="the source"), pytest.param("group", id="a group of tools")]
)
def test_what_is_locked_above_its_tools_keeps_them(
    plugin_of: Make, budget_over: Over, locked: str | None
) -> None:
    history = sketch("u a u a", words=3)
    budget = budget_over(history)
    budget.add_child(InstructionSource.PLUGIN, "group", 0, GCPolicy.PARTIAL)
    budget.add_child(InstructionSource.PLUGIN, "group/search", 500, GCPolicy.EPHEMERAL)
    above = (
        budget.get_child(InstructionSource.PLUGIN, locked)
        if locked
        else budget.get_entry(InstructionSource.PLUGIN)
    )
    assert above is not None
    above.gc_policy = GCPolicy.LOCKED
    budget.context_limit = budget.total_tokens()
    _, result = plugin_of("gc_budget").collect(history, usage_of(budget), ONE, MANUAL, budget)
    assert not [item for item in result.removal_list if item.source is InstructionSource.PLUGIN]


@pytest.mark.parametrize("policy", [GCPolicy.PRESERVABLE, GCPolicy.LOCKED])
def test_of_enrichment_only_what_its_policy_gives_free_is_cleared(
    plugin_of: Make, budget_over: Over, policy: GCPolicy
) -> None:
    history = sketch("u a u a", words=3)
    budget = budget_over(history)
    budget.add_child(InstructionSource.ENRICHMENT, "kept", 500, policy)
    budget.add_child(InstructionSource.ENRICHMENT, "free", 500, GCPolicy.EPHEMERAL)
    budget.context_limit = int(budget.total_tokens() / 0.85)
    after, result = plugin_of("gc_budget").collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert budget.get_child(InstructionSource.ENRICHMENT, "kept") is not None
    assert budget.get_child(InstructionSource.ENRICHMENT, "free") is None


# The testing kit


@pytest.mark.parametrize("total", [float("nan"), float("inf")], ids=str)
def test_the_kit_observes_a_collection_whose_usage_is_no_number(
    plugin_of: Make, total: float
) -> None:
    usage = {"total_tokens": total}
    check(run_collection(plugin_of("gc_truncate"), sketch("u a u a"), ONE, usage=usage))
