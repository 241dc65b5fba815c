from __future__ import annotations

from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionSource, track
from jaato.gc.config import GCConfig
from jaato.history import Kind
from jaato.testing import sketch, sketch_of


def short(_conversation: str) -> str:
    return "the parser was mended"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("u a u a u a", "s u a", id="all old turns become one summary"),
        pytest.param("s u a u a", "s s u a", id="an earlier summary stays apart"),
        pytest.param("u c1 r1 a u c2", "s u c2", id="a pending call stays"),
        pytest.param("u a", "u a", id="nothing is old"),
    ],
)
def test_old_turns_are_folded(collect: Any, before: str, after: str) -> None:
    shorter, result = collect("gc_summarize", before, summarizer=short)
    assert sketch_of(shorter) == after
    assert result.success


def test_the_summary_is_delimited_and_accounted_for(collect: Any, budget_over: Any) -> None:
    history = sketch("u a u c1 r1 a u a u a", words=50)
    budget = budget_over(history)
    shorter, result = collect("gc_summarize", history, summarizer=short, budget=budget)
    assert sketch_of(shorter) == "u s u a"
    assert shorter[1].kind is Kind.SUMMARY
    assert shorter[1].text == (
        "[Context Summary - Previous conversation compressed]\nthe parser was mended\n"
        "[End Context Summary]"
    )
    entry = budget.get_child(InstructionSource.CONVERSATION, "gc_summary_1")
    assert entry is not None
    assert entry.gc_policy is GCPolicy.PRESERVABLE
    assert entry.message_ids == [shorter[1].message_id]
    assert entry.total_tokens() == result.details["summary_tokens"]
    assert result.details["turns_summarized"] == 3
    assert result.details["summarizer"] == "callable"


def test_summaries_form_a_chain(collect: Any, budget_over: Any) -> None:
    history = sketch("u a u a u a", words=50)
    budget = budget_over(history)
    once, _ = collect("gc_summarize", history, summarizer=short, budget=budget)
    more = sketch("u a u a", words=50, first=90)
    for message in more:
        track(budget, message, 54)
    twice, _ = collect("gc_summarize", [*once, *more], summarizer=short, budget=budget)
    assert sketch_of(twice) == "u s s u a"
    source = budget.get_entry(InstructionSource.CONVERSATION)
    assert [key for key in source.children if key.startswith("gc_")] == [
        "gc_summary_1",
        "gc_summary_2",
    ]


def test_nobody_to_summarize_fails_cleanly(collect: Any) -> None:
    history = sketch("u a u a u a", words=50)
    shorter, result = collect("gc_summarize", history)
    assert shorter == history
    assert not result.success
    assert "summarizer required" in result.error
    assert "extractive" in result.error


def test_the_extract_needs_no_model(collect: Any) -> None:
    shorter, result = collect("gc_summarize", "u c1 r1 a " * 6, summarizer="extractive")
    assert sketch_of(shorter) == "s u c1 r1 a"
    assert result.details["summarizer"] == "extractive"
    assert "u0" in shorter[0].text


def test_the_summarizer_is_shown_calls_and_results(collect: Any) -> None:
    shown: list[str] = []

    def look(conversation: str) -> str:
        shown.append(conversation)
        return "seen"

    collect("gc_summarize", "u c1 r1 a u a", summarizer=look)
    assert "u0" in shown[0]
    assert "tool" in shown[0]
    assert "r2" in shown[0]


def test_a_prompt_of_ones_own_replaces_the_conversation_placeholder(collect: Any) -> None:
    asked: list[str] = []

    def look(conversation: str) -> str:
        asked.append(conversation)
        return "seen"

    prompt = "In one line: {conversation} -- end"
    collect("gc_summarize", "u a u a", summarizer=look, summarize_prompt=prompt)
    assert asked[0].startswith("In one line: ")
    assert asked[0].endswith(" -- end")


def test_pinned_turns_stay_beside_the_summary(collect: Any) -> None:
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[1])
    shorter, _ = collect("gc_summarize", "u a u c1 r1 u a u a", config=config, summarizer=short)
    assert sketch_of(shorter) == "s u c1 r1 u a"
