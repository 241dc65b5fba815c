"""What went wrong for those who went before (DESIGN, section 4): one test for each lesson."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
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


def agent_run(steps: int, *, words: int = 100) -> list[Message]:
    """One request, and so many steps of an agent: a short call, and a result of so many words."""
    picture = "u " + " ".join(["c1 r1"] * steps)
    whole, calls = sketch(picture, words=words), sketch(picture, words=4)
    return [calls[at] if message.call_ids else message for at, message in enumerate(whole)]


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


# Trimmers that dropped the task


def test_the_task_is_never_trimmed(collector: Make, budget_over: Over) -> None:
    history = sketch(" ".join(["u c1 r1 a"] * 6), words=40)
    budget = budget_over(history, 300)
    reason = GCTriggerReason.CONTEXT_LIMIT
    seen = run_collection(collector(), history, ONE, budget=budget, counter=COUNTER, reason=reason)
    check(seen)
    assert seen.after[0] is history[0]
    assert seen.after[-4:] == tuple(history[-4:])


def test_a_single_request_of_hundreds_of_steps_reaches_its_goal_by_stubs(
    plugin_of: Make, budget_over: Over
) -> None:
    history = agent_run(300)
    budget = budget_over(history, 95)
    seen = run_collection(plugin_of("gc_budget"), history, budget=budget, counter=COUNTER)
    check(seen)
    assert budget.context_limit is not None
    assert seen.result.tokens_after <= 0.6 * budget.context_limit
    assert len(seen.after) == len(history)
    assert seen.after[0] is history[0]
    assert seen.after[-16:] == tuple(history[-16:])
    assert all(one is other for one, other in zip(seen.after[-16:], history[-16:], strict=True))
    stubs = [message.message_id for message in seen.changed.values()]
    # Oldest first, and no further than the goal needs.
    assert stubs == [message.message_id for message in history[2 : 2 * len(stubs) + 1 : 2]]
    smallest = min(item.tokens_freed for item in seen.result.removal_list)
    assert seen.result.tokens_after > 0.6 * budget.context_limit - 2 * smallest


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid"])
@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
def test_where_a_single_request_leaves_nothing_to_do_the_result_says_why(
    plugin_of: Make, budget_over: Over, strategy: str, tracked: bool
) -> None:
    history = agent_run(300, words=10)
    budget = budget_over(history, 95) if tracked else None
    usage = usage_of(budget) if budget is not None else {"percent_used": 95}
    after, result = plugin_of(strategy).collect(history, usage, GCConfig(), THRESHOLD, budget)
    assert (after, result.success, result.tokens_freed) == (history, True, 0)
    assert result.details["because"] == "nothing may be removed"


# A summarizer that was shown a fraction, and was not told


@pytest.mark.parametrize("strategy", ["gc_summarize", "gc_hybrid"])
def test_a_summarizer_whose_input_is_cut_is_told_so_and_can_hold_it(
    plugin_of: Make, budget_over: Over, strategy: str
) -> None:
    shown: list[str] = []

    def summarizer(conversation: str) -> str:
        shown.append(conversation)
        return "digest"

    history = [*sketch("u", words=5), *sketch("a", words=82_000, first=5), *sketch("u a", first=9)]
    budget = budget_over(history, 400)
    plugin = plugin_of(strategy, summarizer=summarizer)
    _, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
    assert result.success
    assert budget.context_limit is not None
    (conversation,) = shown
    assert "[cut to fit:" in conversation
    assert "characters left out" in conversation
    assert budget.context_limit / 2 < COUNTER.count_texts([conversation])[0] < budget.context_limit


# Recounting everything


class CountingCounter:
    """Counts words, and how many texts it was asked for."""

    name = "counting"
    estimated = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return COUNTER.count_texts(texts)


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
def test_a_collection_of_2000_counted_messages_counts_only_what_it_creates(
    collector: Make, tracked: bool
) -> None:
    counter = CountingCounter()
    history = sketch(" ".join(["u c1 r1 a"] * 500), words=40)
    counts = count_messages(counter, history)
    budget = None
    usage = {"context_limit": sum(counts), "total_tokens": sum(counts)}
    if tracked:
        budget = InstructionBudget.create_default("s", context_limit=sum(counts))
        for message, tokens in zip(history, counts, strict=True):
            track(budget, message, tokens)
    counter.asked.clear()
    plugin = collector(counter=counter, notify_on_gc=True)
    after, result = plugin.collect(history, usage, ONE, THRESHOLD, budget)
    if budget is not None:
        settle(budget, result, history, after, counter)
    assert result.tokens_freed > 0
    known = {part.text for message in history for part in message.parts}
    assert not known.intersection(counter.asked)
    # The frame of a summary, the summary, what is shown of it; a notice; the line of a stub, which
    # is the same for all of a size.
    assert len(set(counter.asked)) <= 8


# A boundary that slid at each call


def test_the_cached_prefix_is_rewritten_at_few_of_200_steps(plugin_of: Make) -> None:
    plugin, config = plugin_of("gc_budget"), GCConfig()
    budget = InstructionBudget.create_default("s", context_limit=12_000)
    history: list[Message] = []
    rewritten = 0
    for message in agent_run(200):
        track(budget, message, message_tokens(COUNTER, message))
        history.append(message)
        should, reason = plugin.should_collect(usage_of(budget), config)
        if not should or reason is None:
            continue
        after, result = plugin.collect(history, usage_of(budget), config, reason, budget)
        rewritten += any(one is not other for one, other in zip(after, history, strict=False))
        settle(budget, result, history, after, COUNTER)
        history = after
    assert budget.total_tokens() == history_tokens(COUNTER, history)
    assert 1 <= rewritten <= 8


# Summaries that grew


@pytest.mark.parametrize("strategy", ["gc_summarize", "gc_hybrid"])
def test_a_summary_larger_than_what_it_replaces_is_refused(
    plugin_of: Make, budget_over: Over, strategy: str
) -> None:
    history = sketch("u a u a u a", words=20)
    budget = budget_over(history, 85)
    plugin = plugin_of(strategy, summarizer=lambda conversation: conversation + " and more" * 50)
    seen = run_collection(plugin, history, ONE, budget=budget, counter=COUNTER)
    check(seen)
    assert not seen.result.success
    assert "what it replaces" in (seen.result.error or "")
    assert list(seen.after) == history


@pytest.mark.parametrize("summarizer", ["extractive", lambda text: text[: len(text) // 3]])
def test_summaries_do_not_grow_from_one_collection_to_the_next(
    plugin_of: Make, summarizer: object
) -> None:
    plugin = plugin_of("gc_summarize", summarizer=summarizer)
    budget = InstructionBudget.create_default("s", context_limit=4_000)
    history: list[Message] = []
    sizes: list[int] = []
    for at in range(60):
        for message in sketch("u c1 r1 a", words=60, first=4 * at):
            track(budget, message, message_tokens(COUNTER, message))
            history.append(message)
        if not plugin.should_collect(usage_of(budget), ONE)[0]:
            continue
        after, result = plugin.collect(history, usage_of(budget), ONE, THRESHOLD, budget)
        settle(budget, result, history, after, COUNTER)
        assert result.success, result.error
        history = after
        sizes.append(result.details.get("summary_tokens", 0))
    assert len(sizes) >= 4
    assert max(sizes) <= 2 * sizes[0]
    assert budget.utilization_percent() < 90


# A stub of a stub


def test_a_stub_is_never_stubbed_again(plugin_of: Make, budget_over: Over) -> None:
    history = agent_run(40)
    budget = budget_over(history, 95)
    plugin, config = plugin_of("gc_budget"), GCConfig(preserve_recent_steps=2, target_percent=1)
    after, result = plugin.collect(history, usage_of(budget), config, THRESHOLD, budget)
    settle(budget, result, history, after, COUNTER)
    assert sketch_of(after).count("~") == 38
    again, _ = plugin.collect(after, usage_of(budget), config, THRESHOLD, budget)
    assert all(one is other for one, other in zip(again, after, strict=True))


def test_a_stub_promises_nothing_that_cannot_be_called_back(
    plugin_of: Make, budget_over: Over
) -> None:
    history = agent_run(20)
    budget = budget_over(history, 95)
    after, _ = plugin_of("gc_budget").collect(
        history, usage_of(budget), GCConfig(), THRESHOLD, budget
    )
    response = after[2].parts[0].function_response
    assert response is not None
    assert re.fullmatch(
        r"\[tool result removed to free context: about \d+ tokens\]", str(response.result)
    )


def test_problems_of_options_are_told_when_the_plug_in_is_made(plugin_of: Make) -> None:
    with pytest.raises(ConfigError, match="removed"):
        plugin_of("gc_truncate", notification_template="{remvoed}")
