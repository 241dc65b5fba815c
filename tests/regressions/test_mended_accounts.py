"""Faults of accounting and protection that were found by trying to break it, and mended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, budget_for
from jaato.budget.conversation import locate
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Message
from jaato.testing import WordCounter, check, run_collection, sketch, usage_of
from jaato.tokens import count_messages, history_tokens, message_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
THRESHOLD = GCTriggerReason.THRESHOLD
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


def test_an_id_that_occurs_three_times_does_not_crash_a_repair(
    collector: Make, budget_over: Over
) -> None:
    # Two of them get fresh ids and stand side by side for the one that left: KeyError in settle.
    history = sketch("s u a c1,2 r2", words=20)
    for at in (2, 4):
        history[at] = Message(history[at].role, history[at].parts, "m0")
    budget = budget_over(history, 95)
    reason = GCTriggerReason.CONTEXT_LIMIT
    after, result = collector().collect(history, usage_of(budget), ONE, reason, budget)
    settle(budget, result, history, after, COUNTER)
    assert budget.total_tokens() == history_tokens(COUNTER, after) == result.tokens_after


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_budget"])
def test_turns_without_ids_in_the_budget_keep_their_numbers_after_a_collection(
    plugin_of: Make, strategy: str
) -> None:
    # The second collection counts turns from 0 again: the pin moves, and what leaves is another
    # entry than what stays.
    history = sketch(" ".join(["u a"] * 10), words=30)
    pinned = history[6:8]
    budget = InstructionBudget.create_default("s")
    for turn in range(10):
        own = history[2 * turn : 2 * turn + 2]
        budget.add_child(CONVERSATION, f"turn_{turn}", history_tokens(COUNTER, own))
    plugin = plugin_of(strategy)
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[3])
    for _ in range(3):
        budget.context_limit = int(budget.total_tokens() / 0.85)
        after, result = plugin.collect(history, usage_of(budget), config, THRESHOLD, budget)
        settle(budget, result, history, after, COUNTER)
        history = after
        assert [message for message in history if message in pinned] == pinned
        assert budget.total_tokens() == history_tokens(COUNTER, history)


def test_a_pin_survives_another_conversation_that_the_plug_in_collects(plugin_of: Make) -> None:
    # Without a budget a plug-in remembers the numbers of one conversation only.
    plugin = plugin_of("gc_truncate")
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[3])

    def collected(history: list[Message]) -> list[Message]:
        total = history_tokens(COUNTER, history)
        usage = {"context_limit": int(total / 0.85), "total_tokens": total}
        return plugin.collect(history, usage, config, THRESHOLD)[0]

    ours = sketch(" ".join(["u a"] * 10), words=30)
    theirs = sketch(" ".join(["u a"] * 10), words=30, first=500)
    pinned = ours[6]
    for _ in range(3):
        ours, theirs = collected(ours), collected(theirs)
        assert pinned in ours


def test_a_group_of_tools_that_pressure_has_freed_leaves_at_once_or_stays(
    plugin_of: Make, budget_over: Over
) -> None:
    # Phase 1b spares the group for its PRESERVABLE tool, phase 3 takes the tool, the next
    # collection takes the group: law 6.
    history = sketch("u a", words=5)
    budget = budget_over(history)
    budget.add_child(InstructionSource.PLUGIN, "group", 50, GCPolicy.EPHEMERAL)
    budget.add_child(InstructionSource.PLUGIN, "group/search", 50, GCPolicy.PRESERVABLE)
    budget.context_limit = 50
    check(run_collection(plugin_of("gc_budget"), history, ONE, budget=budget, counter=COUNTER))


def test_a_message_with_entries_below_its_own_is_counted_the_same_before_and_after(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a", words=20)
    budget = budget_over(history)
    located = locate(budget, "m2")
    assert located is not None
    budget.add_child(CONVERSATION, f"{located.path}/attachment", 40)
    budget.context_limit = int(budget.total_tokens() / 0.95)
    after, result = collector().collect(history, usage_of(budget), ONE, MANUAL, budget)
    settle(budget, result, history, after, COUNTER)
    assert len(after) < len(history)
    assert budget.total_tokens() == result.tokens_after


@pytest.mark.parametrize(
    ("picture", "named"),
    [
        pytest.param("u a u a", 2, id="the request that is being answered"),
        pytest.param("u a u ta a", 3, id="a thought of the open turn"),
    ],
)
def test_enrichment_takes_nothing_out_of_a_recent_turn(
    plugin_of: Make, picture: str, named: int
) -> None:
    # The conversation does not track the message; its turn is recent all the same (laws 2, 9).
    history = sketch(picture, words=20)
    others = [message for at, message in enumerate(history) if at != named]
    budget = budget_for(others, count_messages(COUNTER, others))
    ids = [history[named].message_id]
    tokens = message_tokens(COUNTER, history[named])
    budget.set_entry(InstructionSource.ENRICHMENT, tokens, message_ids=ids)
    budget.context_limit = int(budget.total_tokens() / 0.85)
    check(run_collection(plugin_of("gc_budget"), history, ONE, budget=budget, counter=COUNTER))


def test_what_enrichment_frees_is_no_message_that_is_still_cached(
    plugin_of: Make, budget_over: Over
) -> None:
    history = sketch("u c1 r1 a u a", words=60)
    budget = budget_over(history)
    budget.set_entry(InstructionSource.ENRICHMENT, 40)
    budget.context_limit = int(budget.total_tokens() / 0.85)
    after, result = plugin_of("gc_budget").collect(
        history, usage_of(budget), ONE, THRESHOLD, budget
    )
    point = result.details["edit_point"]
    behind = sum(message_tokens(COUNTER, message) for message in after[point:])
    assert result.details["tokens_invalidated"] == behind
