"""A session loop as the specification prints it, with its naive bookkeeping, on our plug-ins."""

from __future__ import annotations

from typing import Any

import pytest

from jaato.history import violations
from shared.instruction_budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from shared.plugins.gc import (
    GCConfig,
    GCPlugin,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    estimate_history_tokens,
    estimate_message_tokens,
    load_gc_plugin,
)
from shared.plugins.model_provider.types import FunctionCall, Message, Part, Role, ToolResult

CONVERSATION = InstructionSource.CONVERSATION
LIMIT = 6_000


class Session:
    """What seeds 000 and 002 print, without the model: it applies whatever a plug-in says."""

    def __init__(self, plugin: GCPlugin, config: GCConfig) -> None:
        self._gc_plugin = plugin
        self._gc_config = config
        self._history: list[Message] = []
        self._instruction_budget = InstructionBudget.create_default("s-1", context_limit=LIMIT)
        self._instruction_budget.add_child(InstructionSource.SYSTEM, "base", 300)
        self._turns = 0
        self._summaries = 0
        self.results: list[GCResult] = []

    def get_context_usage(self) -> dict[str, Any]:
        budget = self._instruction_budget
        return {
            "context_limit": budget.context_limit,
            "total_tokens": budget.total_tokens(),
            "percent_used": budget.utilization_percent(),
            "tokens_remaining": budget.available_tokens(),
        }

    def send_message(self, *messages: Message) -> None:
        self._instruction_budget.update_tokens(InstructionSource.ENRICHMENT, 200)
        if self._gc_config.check_before_send:
            should, _ = self._gc_plugin.should_collect(self.get_context_usage(), self._gc_config)
            if should:
                self._execute_gc(GCTriggerReason.PRE_MESSAGE)
        self._history += messages
        self._instruction_budget.add_child(
            source=CONVERSATION,
            child_key=f"turn_{self._turns}",
            tokens=estimate_history_tokens(messages),
            gc_policy=GCPolicy.PARTIAL if self._turns else GCPolicy.LOCKED,
            message_ids=[message.message_id for message in messages],
        )
        self._turns += 1

    def _execute_gc(self, reason: GCTriggerReason) -> GCResult:
        new_history, result = self._gc_plugin.collect(
            history=self._history,
            context_usage=self.get_context_usage(),
            config=self._gc_config,
            reason=reason,
            budget=self._instruction_budget,
        )
        if result.success:
            self._history = new_history
            self._apply_gc_removal_list(result)
        self.results.append(result)
        return result

    def _apply_gc_removal_list(self, result: GCResult) -> None:
        for item in result.removal_list:
            if item.child_key:
                assert self._instruction_budget.remove_child(item.source, item.child_key), item
            else:
                entry = self._instruction_budget.get_entry(item.source)
                if entry:
                    entry.tokens = 0
                    entry.children.clear()
        if "summary_tokens" in result.details:
            self._summaries += 1
            self._instruction_budget.add_child(
                source=CONVERSATION,
                child_key=f"gc_summary_{self._summaries}",
                tokens=result.details["summary_tokens"],
                gc_policy=GCPolicy.PRESERVABLE,
                label="Context Summary",
                metadata={"created_by": result.plugin_name},
            )

    @property
    def conversation(self) -> SourceEntry:
        entry = self._instruction_budget.get_entry(CONVERSATION)
        assert entry is not None
        return entry


def _apply_removals_to_history(
    history: list[Message], removal_list: list[GCRemovalItem]
) -> list[Message]:
    ids_to_remove: set[str] = set()
    for item in removal_list:
        if item.message_ids:
            ids_to_remove.update(item.message_ids)
    return [msg for msg in history if msg.message_id not in ids_to_remove]


def turn(number: int, words: int = 150) -> list[Message]:
    """A question, a tool call with its result, and an answer."""
    output = " ".join(f"line{number}x{n}" for n in range(words))
    call = FunctionCall(id=f"call-{number}", name="read", args={"path": f"file{number}.py"})
    result = ToolResult(call_id=call.id, name="read", result=output)
    return [
        Message(role=Role.USER, parts=[Part(text=f"Question {number}?")]),
        Message(role=Role.MODEL, parts=[Part(function_call=call)]),
        Message(role=Role.TOOL, parts=[Part(function_response=result)]),
        Message(role=Role.MODEL, parts=[Part(text=f"Answer {number}.")]),
    ]


def summarizer(conversation: str) -> str:
    return f"A conversation of {len(conversation)} characters."


OPTIONS: dict[str, dict[str, Any]] = {
    "gc_truncate": {},
    "gc_summarize": {"summarizer": summarizer},
    "gc_hybrid": {"summarizer": summarizer, "summarize_middle_turns": 2},
    "gc_budget": {},
}


@pytest.mark.parametrize("strategy", OPTIONS)
def test_a_naive_session_stays_inside_its_window(strategy: str) -> None:
    plugin = load_gc_plugin(strategy, OPTIONS[strategy])
    session = Session(plugin, GCConfig(preserve_recent_turns=2))
    for number in range(60):
        session.send_message(*turn(number))
        usage = session.get_context_usage()
        front = usage["total_tokens"] - session.conversation.total_tokens()
        assert usage["percent_used"] < 100.0
        assert front + estimate_history_tokens(session._history) <= LIMIT
        assert violations(session._history) == ()
        assert session._history[0].text == "Question 0?"
    assert len(session.results) > 3
    for result in session.results:
        assert result.success
        assert result.tokens_after <= LIMIT * 0.6
        assert result.tokens_freed > 0


@pytest.mark.parametrize("strategy", OPTIONS)
def test_budget_and_history_agree_although_the_bookkeeping_is_naive(strategy: str) -> None:
    plugin = load_gc_plugin(strategy, OPTIONS[strategy])
    session = Session(plugin, GCConfig(preserve_recent_turns=2))
    for number in range(20):
        session.send_message(*turn(number))
    assert session.conversation.total_tokens() == estimate_history_tokens(session._history)


def test_summaries_make_a_chain() -> None:
    session = Session(
        load_gc_plugin("gc_summarize", OPTIONS["gc_summarize"]), GCConfig(preserve_recent_turns=2)
    )
    for number in range(30):
        session.send_message(*turn(number))
    made = len(session.results)
    assert made > 2
    chain = [key for key in session.conversation.children if key.startswith("gc_summary")]
    assert chain == [f"gc_summary_{n + 1}" for n in range(made)]
    shown = [m for m in session._history if m.text.startswith("[Context Summary - ")]
    assert len(shown) == made
    tokens = [result.details["summary_tokens"] for result in session.results]
    assert tokens == [estimate_message_tokens(summary) for summary in shown]
    positions = [session._history.index(summary) for summary in shown]
    assert positions == sorted(positions), "oldest first, before the turns that stayed"
    assert session._history[positions[-1] + 1].text.startswith("Question")


@pytest.mark.parametrize("strategy", OPTIONS)
def test_the_printed_filter_gives_the_same_history(strategy: str) -> None:
    plugin = load_gc_plugin(strategy, OPTIONS[strategy])
    session = Session(plugin, GCConfig(preserve_recent_turns=2, check_before_send=False))
    for number in range(8):
        session.send_message(*turn(number))
    before = list(session._history)
    result = session._execute_gc(GCTriggerReason.MANUAL)
    assert result.removal_list
    made = [message for message in session._history if message not in before]
    kept = [message for message in session._history if message not in made]
    assert kept == _apply_removals_to_history(before, result.removal_list)
    assert len(made) == ("summary_tokens" in result.details)


def test_manual_collection_and_its_record() -> None:
    session = Session(load_gc_plugin("gc_truncate"), GCConfig(preserve_recent_turns=2))
    for number in range(7):
        session.send_message(*turn(number))
    result = session._execute_gc(GCTriggerReason.MANUAL)
    assert f"Freed {result.tokens_freed} tokens" == f"Freed {sum_of(result)} tokens"
    assert result.trigger_reason is GCTriggerReason.MANUAL
    assert result.plugin_name == "gc_truncate"
    assert result.items_collected == len(result.removal_list)
    again = session._execute_gc(GCTriggerReason.MANUAL)
    assert (again.tokens_freed, again.removal_list) == (0, [])


def sum_of(result: GCResult) -> int:
    return sum(item.tokens_freed for item in result.removal_list)


@pytest.mark.parametrize("name", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
def test_the_printed_loop_stays_exact_for_hundreds_of_sends(name: str) -> None:
    options = (
        {"summarizer": lambda _: "what was done " * 10}
        if name in ("gc_summarize", "gc_hybrid")
        else {}
    )
    session = Session(load_gc_plugin(name, options), GCConfig(preserve_recent_turns=2))
    for at in range(300):
        session.send_message(
            Message.from_text("user", f"request {at} " + "word " * 60),
            Message.from_text("model", f"answer {at} " + "word " * 120),
        )
        assert session.conversation.total_tokens() <= LIMIT
    assert all(result.success for result in session.results)
    assert session.conversation.total_tokens() == estimate_history_tokens(session._history)
    # It collects now and then, not at every send.
    assert 10 < len(session.results) < 60
