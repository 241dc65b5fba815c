"""More lessons of DESIGN, section 4: long runs, and what summaries and stubs make of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from jaato.budget import InstructionBudget
from jaato.budget.conversation import track
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Message
from jaato.testing import WordCounter, check, run_collection, sketch, sketch_of, usage_of
from jaato.tokens import count_messages, history_tokens, message_tokens

COUNTER = WordCounter()
ONE = GCConfig(preserve_recent_turns=1)
THRESHOLD = GCTriggerReason.THRESHOLD
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


def agent_run(steps: int, *, words: int = 100) -> list[Message]:
    """One request, and so many steps of an agent: a short call, and a result of so many words."""
    picture = "u " + " ".join(["c1 r1"] * steps)
    whole, calls = sketch(picture, words=words), sketch(picture, words=4)
    return [calls[at] if message.call_ids else message for at, message in enumerate(whole)]


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
