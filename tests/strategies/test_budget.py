from __future__ import annotations

from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionSource, SourceEntry, locate
from jaato.gc.config import GCConfig
from jaato.gc.result import GCTriggerReason
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.testing import sketch, sketch_of

CONVERSATION = InstructionSource.CONVERSATION
PLUGIN = InstructionSource.PLUGIN
ENRICHMENT = InstructionSource.ENRICHMENT


def config(**settings: Any) -> GCConfig:
    return GCConfig(**{"preserve_recent_turns": 1, "target_percent": 60.0, **settings})


def reasons(result: Any) -> list[str]:
    return [item.reason for item in result.removal_list]


def upgrade(budget: Any, message: Message, policy: GCPolicy) -> None:
    found = locate(budget, message.message_id)
    assert found is not None
    found.entry.gc_policy = policy


def test_enrichment_goes_first_and_all_at_once(collect: Any, budget_over: Any) -> None:
    history = sketch("u c1 r1 a u a", words=50)
    budget = budget_over(history, 55.0)
    budget.set_entry(ENRICHMENT, 300)
    shorter, result = collect("gc_budget", history, budget=budget, config=config())
    assert shorter == history
    assert reasons(result) == ["enrichment_bulk_clear"]
    assert result.removal_list[0].child_key is None
    assert result.details["enrichment_cleared"] is True
    assert budget.get_entry(ENRICHMENT).total_tokens() == 0


def test_then_discoverable_schemas_and_tool_output_oldest_first(
    collect: Any, budget_over: Any
) -> None:
    history = sketch("u c1 r1 a u c2 r2 a u a", words=100)
    budget = budget_over(history, 62.0)
    budget.add_child(PLUGIN, "core", 10, GCPolicy.LOCKED)
    budget.add_child(PLUGIN, "late", 10, GCPolicy.EPHEMERAL, created_at=99.0)
    budget.add_child(PLUGIN, "early", 10, GCPolicy.EPHEMERAL, created_at=-1.0)
    shorter, result = collect("gc_budget", history, budget=budget, config=config())
    assert sketch_of(shorter) == "u c1 r1~ a u c2 r2 a u a"
    assert [item.child_key for item in result.removal_list] == ["early", "turn_0/m3"]
    assert set(reasons(result)) == {"ephemeral"}
    assert budget.get_child(PLUGIN, "late") is not None
    assert budget.get_child(PLUGIN, "core") is not None


def test_within_one_step_the_largest_result_goes_first(collect: Any, budget_over: Any) -> None:
    note, dump = "word " * 100, "word " * 7_000
    history = [
        *sketch("u"),
        Message(
            Role.MODEL,
            [
                Part(function_call=FunctionCall("1", "note", {})),
                Part(function_call=FunctionCall("2", "dump", {})),
            ],
        ),
        Message(Role.TOOL, [Part(function_response=ToolResult("1", "note", note))]),
        Message(Role.TOOL, [Part(function_response=ToolResult("2", "dump", dump))]),
        *sketch("a u a", first=10),
    ]
    shorter, result = collect("gc_budget", history, budget=budget_over(history), config=config())
    assert shorter[2] is history[2]
    assert shorter[3] is not history[3]
    assert result.details["ephemeral_removed"] == 1


def test_then_turns_leave_but_for_what_policy_spares(collect: Any, budget_over: Any) -> None:
    history = sketch("u a u a u a u a", words=50)
    budget = budget_over(history, 85.0)
    upgrade(budget, history[3], GCPolicy.PRESERVABLE)
    shorter, result = collect(
        "gc_budget", history, budget=budget, config=config(target_percent=10.0)
    )
    assert [message.message_id for message in shorter] == ["m0", "m2", "m3", "m6", "m7"]
    assert set(reasons(result)) == {"partial_turn"}


@pytest.mark.parametrize(
    ("percent", "pressure", "stays"),
    [
        pytest.param(95.0, 90.0, False, id="under pressure it goes"),
        pytest.param(85.0, 90.0, True, id="below the pressure it stays"),
        pytest.param(99.0, 0.0, True, id="in continuous mode it always stays"),
    ],
)
def test_what_is_worth_keeping_goes_only_under_pressure(
    collect: Any, budget_over: Any, percent: float, pressure: float, stays: bool
) -> None:
    history = sketch("u a s u a u a", words=50)
    budget = budget_over(history, percent)
    shorter, result = collect(
        "gc_budget",
        history,
        percent=percent,
        budget=budget,
        config=config(target_percent=5.0, pressure_percent=pressure),
    )
    assert (history[2] in shorter) is stays
    assert result.details["preservable_removed"] == (0 if stays else 1)
    assert history[0] in shorter


def test_a_long_single_turn_loses_the_output_of_its_old_steps(
    collect: Any, budget_over: Any
) -> None:
    history = sketch("u " + "c1 r1 " * 100, words=60)
    shorter, result = collect(
        "gc_budget", history, budget=budget_over(history), config=config(target_percent=70.0)
    )
    assert len(shorter) == len(history)
    assert shorter[0] is history[0]
    assert shorter[-16:] == history[-16:]
    assert result.details["steps_stubbed"] > 0
    assert result.tokens_after <= result.details["target_tokens"]


def test_the_last_steps_of_it_stay_whole_even_if_the_target_is_missed(
    collect: Any, budget_over: Any
) -> None:
    history = sketch("u " + "c1 r1 " * 10, words=60)
    shorter, _ = collect(
        "gc_budget", history, budget=budget_over(history), config=config(target_percent=1.0)
    )
    assert sketch_of(shorter) == "u c1 r1~ c1 r1~" + " c1 r1" * 8


def test_a_pinned_turn_is_not_even_stubbed(collect: Any, budget_over: Any) -> None:
    history = sketch("u " + "c1 r1 " * 20, words=60)
    shorter, result = collect(
        "gc_budget",
        history,
        budget=budget_over(history),
        config=config(pinned_turn_indices=[0]),
    )
    assert shorter == history
    assert "may be removed" in result.details["because"]


def test_without_a_budget_it_truncates(collect: Any) -> None:
    shorter, result = collect("gc_budget", "u a u a u a")
    assert sketch_of(shorter) == "u a"
    assert result.details["mode"] == "fallback_truncate"


def test_the_details_are_those_of_the_specification(collect: Any, budget_over: Any) -> None:
    history = sketch("u a " * 10, words=50)
    _, result = collect("gc_budget", history, budget=budget_over(history), config=config())
    assert {
        "target_tokens",
        "tokens_to_free",
        "tokens_freed",
        "enrichment_cleared",
        "ephemeral_removed",
        "partial_removed",
        "preservable_removed",
    } <= result.details.keys()
    assert result.details["tokens_freed"] >= result.details["tokens_to_free"]
    assert result.details["partial_removed"] == 4


@pytest.mark.parametrize(
    ("percent", "pressure", "expected"),
    [
        pytest.param(70.0, 0.0, True, id="continuous: above the target"),
        pytest.param(60.0, 0.0, False, id="continuous: at the target"),
        pytest.param(79.0, 90.0, False, id="below the threshold"),
        pytest.param(80.0, 90.0, True, id="at the threshold"),
    ],
)
def test_when_it_collects(
    make_plugin: Any, percent: float, pressure: float, expected: bool
) -> None:
    plugin = make_plugin("gc_budget")
    due, reason = plugin.should_collect(
        {"percent_used": percent}, config(pressure_percent=pressure)
    )
    assert due is expected
    assert reason == (GCTriggerReason.THRESHOLD if expected else None)


def test_the_other_strategies_know_no_continuous_mode(make_plugin: Any) -> None:
    plugin = make_plugin("gc_truncate")
    usage = {"percent_used": 70.0}
    assert plugin.should_collect(usage, config(pressure_percent=0)) == (False, None)


def test_entries_that_no_message_stands_behind_are_taken_off_the_account(
    collect: Any, budget_over: Any
) -> None:
    history = sketch("u a", words=10)
    budget = budget_over(history)
    source = budget.get_entry(CONVERSATION)
    source.children["verbose"] = SourceEntry(CONVERSATION, 500, GCPolicy.EPHEMERAL)
    source.children["locked"] = SourceEntry(CONVERSATION, 500, GCPolicy.LOCKED)
    shorter, result = collect("gc_budget", history, budget=budget, config=config())
    assert shorter == history
    assert [item.child_key for item in result.removal_list] == ["verbose"]
    assert "verbose" not in source.children
    assert "locked" in source.children
