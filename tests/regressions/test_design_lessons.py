"""What went wrong for those who went before (DESIGN, section 4): one test for each lesson."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.budget.conversation import locate, track
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.options import CONFIG_KEYS, OPTIONS
from jaato.gc.problems import ConfigError
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import (
    FunctionCall,
    Kind,
    Message,
    Part,
    ToolResult,
    repaired,
    violations,
)
from jaato.testing import WordCounter, check, run_collection, sketch, sketch_of, usage_of
from jaato.tokens import count_messages, default_counter, history_tokens, message_tokens
from jaato.wiring import load_gc_from_file

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
ONE = GCConfig(preserve_recent_turns=1)
THRESHOLD = GCTriggerReason.THRESHOLD
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


# Removal keys that did not exist in the budget


def test_every_removal_key_exists_in_the_budget(collector: Make, budget_over: Over) -> None:
    history = sketch("u c1 r1 a u c1 r1 a s u a u a", words=40)
    budget = budget_over(history, 95)
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER)
    assert seen.result.removal_list
    for item in seen.result.removal_list:
        assert budget.get_child(item.source, item.child_key) is not None
    check(seen)


def test_usage_falls_so_the_next_send_does_not_collect_again(
    collector: Make, budget_over: Over
) -> None:
    history = sketch(" ".join(["u c1 r1 a"] * 8), words=40)
    budget = budget_over(history, 85)
    plugin = collector()
    assert plugin.should_collect(usage_of(budget), ONE)[0]
    after, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    settle(budget, result, history, after, COUNTER)
    assert plugin.should_collect(usage_of(budget), ONE) == (False, None)
    assert budget.total_tokens() == result.tokens_after == history_tokens(COUNTER, after)


@pytest.mark.parametrize("strategy", ["gc_summarize", "gc_hybrid"])
def test_a_summary_is_not_summarized_at_the_next_send(
    plugin_of: Make, budget_over: Over, strategy: str
) -> None:
    asked: list[str] = []

    def summarizer(conversation: str) -> str:
        asked.append(conversation)
        return f"digest {len(asked)}"

    plugin = plugin_of(strategy, summarizer=summarizer)
    history = sketch("u a u a u a u a", words=40)
    budget = budget_over(history, 85)
    for first in (100, 200, 300):
        after, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
        settle(budget, result, history, after, COUNTER)
        history = after
        for message in sketch("u a u a u a", words=40, first=first):
            track(budget, message, message_tokens(COUNTER, message))
            history.append(message)
    assert len(asked) == 3
    assert not any("digest" in conversation for conversation in asked)
    source = budget.get_entry(CONVERSATION)
    assert source is not None
    assert {key for key in source.children if key.startswith("gc_summary")} == {
        "gc_summary_1",
        "gc_summary_2",
        "gc_summary_3",
    }


# A notice at position 0 that became the LOCKED original request


def test_a_notice_never_takes_the_place_of_the_locked_original_request(
    collector: Make, budget_over: Over
) -> None:
    plugin = collector(notify_on_gc=True)
    history = sketch("u a u a u a u a", words=40)
    request = history[0]
    budget = budget_over(history, 85)
    for first in (100, 200, 300):
        after, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
        settle(budget, result, history, after, COUNTER)
        assert result.notification
        assert after[0] is request
        assert [message.kind for message in after].count(Kind.NOTICE) == 1
        located = locate(budget, request.message_id)
        assert located is not None
        assert located.entry.gc_policy is GCPolicy.LOCKED
        notice = budget.get_child(CONVERSATION, "gc_notice")
        assert notice is not None
        assert notice.gc_policy is not GCPolicy.LOCKED
        history = after
        for message in sketch("u a u a", words=60, first=first):
            track(budget, message, message_tokens(COUNTER, message))
            history.append(message)
    assert not any(
        child.gc_policy is GCPolicy.LOCKED
        for key, child in budget.entries[CONVERSATION].children.items()
        if key != "turn_0"
    )


# The budget rebuilt after each response


def test_settling_keeps_created_at_and_policies_of_all_that_stays(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u c1 r1 a u a u a", words=40)
    budget = budget_over(history, 85)
    for message_id, policy in (("m5", GCPolicy.PRESERVABLE), ("m9", GCPolicy.LOCKED)):
        located = locate(budget, message_id)
        assert located is not None
        located.entry.gc_policy = policy
    entries = {
        message.message_id: found.entry
        for message in history
        if (found := locate(budget, message.message_id)) is not None
    }
    written = {key: entry.to_dict() for key, entry in entries.items()}
    after, result = collector().collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    settle(budget, result, history, after, COUNTER)
    assert len(after) < len(history)
    for message in after:
        if message.message_id in entries and message is history[int(message.message_id[1:])]:
            located = locate(budget, message.message_id)
            assert located is not None
            assert located.entry is entries[message.message_id]
            assert located.entry.to_dict() == written[message.message_id]


# Oldest first that took the note before the result


def test_the_large_result_of_a_step_leaves_before_the_small_note_of_the_same_step(
    plugin_of: Make,
) -> None:
    call = Message("model", [Part(function_call=FunctionCall(i, "t", {})) for i in "12"], "call")
    note = Message("tool", [Part(function_response=ToolResult("1", "t", "n " * 1_000))], "note")
    dump = Message("tool", [Part(function_response=ToolResult("2", "t", "d " * 70_000))], "dump")
    history = [*sketch("u"), call, note, dump, *sketch("a u a", first=10)]
    counts = count_messages(COUNTER, history)
    budget = InstructionBudget.create_default("s", context_limit=int(sum(counts) / 0.85))
    for message, tokens in zip(history, counts, strict=True):
        track(budget, message, tokens)
    plugin = plugin_of("gc_budget")
    after, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    assert [item.message_ids for item in result.removal_list] == [["dump"]]
    assert after[2] is note
    assert sketch_of(after) == "u c1,2 r1 r2~ a u a"


# Pair expansion that removed LOCKED entries; repair that deleted the pending call


@pytest.mark.parametrize("locked", range(4), ids=["request", "call", "result", "answer"])
def test_what_is_locked_stays_and_keeps_its_pair(
    collector: Make, budget_over: Over, locked: int
) -> None:
    history = sketch("u a u c1 r1 a u a", words=40)
    budget = budget_over(history, 95)
    located = locate(budget, history[2 + locked].message_id)
    assert located is not None
    located.entry.gc_policy = GCPolicy.LOCKED
    seen = run_collection(
        collector(), history, ONE, budget=budget, counter=COUNTER,
        reason=GCTriggerReason.CONTEXT_LIMIT,
    )  # fmt: skip
    check(seen)
    assert history[2 + locked] in seen.after


@pytest.mark.parametrize("picture", ["u r9 a u c1", "u a u c1,2 r2", "r9 u -a u tc1,2"])
def test_repair_never_takes_the_pending_call(collector: Make, picture: str) -> None:
    history = sketch(picture, words=40)
    after, _ = collector().collect(history, {}, ONE, GCTriggerReason.MANUAL)
    pending = next(message for message in reversed(history) if message.call_ids)
    assert pending in after
    assert pending in repaired(history)[0]
    assert violations(after) == ()


# A configuration file that meant something else


def gc_json(tmp_path: Path, document: dict[str, Any]) -> Path:
    path = tmp_path / "gc.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_file_without_pressure_percent_is_not_continuous_mode(tmp_path: Path) -> None:
    loaded = load_gc_from_file(gc_json(tmp_path, {"type": "budget"}), strict=True)
    assert loaded is not None
    plugin, config = loaded
    assert (config.pressure_percent, config.continuous_mode) == (90.0, False)
    assert plugin.should_collect({"percent_used": 70.0}, config) == (False, None)


@pytest.mark.parametrize("key", sorted(CONFIG_KEYS))
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "in config"])
def test_every_documented_key_of_a_file_is_read(tmp_path: Path, key: str, nested: bool) -> None:
    wanted: Any = {
        "auto_trigger": False,
        "check_before_send": False,
        "pinned_turn_indices": [2],
        "plugin_config": {"notify_on_gc": False},
        "threshold_percent": 77.0,
        "stash": "off",
        "stub_content": "plain",
    }.get(key, 7)
    document = {"type": "budget", key: wanted}
    if nested:
        document = {"plugin": "gc_budget", "config": {key: wanted}}
    loaded = load_gc_from_file(gc_json(tmp_path, document), strict=True)
    assert loaded is not None
    plugin, config = loaded
    assert wanted != OPTIONS[key].default
    assert isinstance(plugin, DrivenPlugin)
    if key == "plugin_config":
        assert plugin.collect([], {}, config, THRESHOLD)[1].success
    else:
        assert getattr(config.overlaid({}), key) == wanted


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param({"type": "budgt"}, "budget", id="a name that is nearly one"),
        pytest.param({"type": "budget", "treshold_percent": 70}, "threshold_percent", id="a key"),
        pytest.param({"plugin": "gc_budget", "config": {"target": 5}}, "target", id="a nested key"),
    ],
)
def test_what_a_file_does_not_know_never_means_truncate(
    tmp_path: Path, document: dict[str, Any], said: str
) -> None:
    path = gc_json(tmp_path, document)
    assert load_gc_from_file(path) is None
    with pytest.raises(Exception, match=said):
        load_gc_from_file(path, strict=True)


# A callback that raised; None in usage fields


def test_a_policy_callable_that_raises_does_not_take_the_collection_with_it(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a", words=40)
    budget = budget_over(history, 85)
    turn = budget.get_child(CONVERSATION, "turn_1")
    assert turn is not None
    turn.gc_policy = GCPolicy.CONDITIONAL
    turn.register_condition(lambda entry: GCPolicy[entry.label or ""])
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER)
    check(seen)
    assert seen.result.tokens_freed > 0


@pytest.mark.parametrize("field", ["percent_used", "total_tokens", "context_limit", "turns"])
def test_none_in_a_usage_field_is_unknown(collector: Make, field: str) -> None:
    history = sketch("u a u a u a", words=40)
    total = history_tokens(COUNTER, history)
    usage = {
        "percent_used": 95.0,
        "context_limit": int(total / 0.95),
        "total_tokens": total,
        "turns": 3,
    }
    plugin = collector()
    plugin.should_collect({**usage, field: None}, GCConfig(max_turns=2))
    check(run_collection(plugin, history, ONE, usage={**usage, field: None}, counter=COUNTER))


# What was counted as nothing


def test_a_40_kb_call_argument_is_counted(collector: Make) -> None:
    counter = default_counter()
    args = {"content": "\n".join(f"line {at} of the file" for at in range(2_000))}
    big = Message("model", [Part(function_call=FunctionCall("1", "write_file", args))])
    assert len(args["content"]) > 40_000
    assert message_tokens(counter, big) > 8_000
    answer = Message("tool", [Part(function_response=ToolResult("1", "write_file", "ok"))])
    history = [*sketch("u"), big, answer, *sketch("a u a", first=10)]
    _, result = collector(counter=counter).collect(history, {}, ONE, THRESHOLD)
    assert result.tokens_freed > 7_000


def test_tool_schemas_are_part_of_the_total_and_of_the_goal(
    collector: Make, budget_over: Over
) -> None:
    history = sketch("u a u a u a u a", words=50)
    budget = budget_over(history, 50)
    limit = budget.context_limit
    assert limit is not None
    assert not collector().should_collect(usage_of(budget), ONE)[0]
    budget.add_child(InstructionSource.PLUGIN, "core", limit // 2)
    assert collector().should_collect(usage_of(budget), ONE) == (True, THRESHOLD)
    after, result = collector().collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    assert len(after) < len(history)
    assert result.tokens_before == history_tokens(COUNTER, history) + limit // 2


def test_a_limit_nobody_named_is_unknown_and_never_a_guess(collector: Make) -> None:
    history = sketch("u a u a u a", words=40)
    budget = InstructionBudget.create_default("s")
    for message in history:
        track(budget, message, message_tokens(COUNTER, message))
    assert (budget.context_limit, budget.available_tokens()) == (None, None)
    assert budget.utilization_percent() == 0.0
    plugin = collector()
    assert plugin.should_collect(usage_of(budget), ONE) == (False, None)
    _, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    assert result.tokens_freed > 0
    assert result.details.get("target_tokens") is None


def test_problems_of_options_are_told_when_the_plug_in_is_made(plugin_of: Make) -> None:
    with pytest.raises(ConfigError, match="removed"):
        plugin_of("gc_truncate", notification_template="{remvoed}")
