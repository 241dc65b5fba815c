"""Who writes the summary where nobody or somebody else was asked to, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.history import Kind, Message
from jaato.testing import WordCounter, check, run_collection, sketch, sketch_of

COUNTER = WordCounter()
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
SUMMARIZING = ("gc_summarize", "gc_hybrid")


def made(strategy: str, **options: Any) -> DrivenPlugin:
    plugin = load_gc_plugin(strategy, options)
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = COUNTER
    return plugin


def long_history(words: int = 40) -> list[Message]:
    return sketch("u a u c1 r1 a u a u a", words=words)


def plain(conversation: str) -> str:
    return "in short"


def failing(conversation: str) -> str:
    raise ValueError("overloaded")


async def failing_later(conversation: str) -> str:
    raise ValueError("overloaded")


# The model of a session


def test_a_bare_summarize_says_what_it_needs() -> None:
    history = long_history()
    after, result = made("gc_summarize").collect(history, {}, ONE, MANUAL)
    assert after == history
    assert "summarizer required" in (result.error or "")
    assert "extractive" in (result.error or "")


def test_a_bare_hybrid_truncates() -> None:
    after, result = made("gc_hybrid").collect(long_history(), {}, ONE, MANUAL)
    assert sketch_of(after) == "u a"
    assert result.details["had_summarizer"] is False


def test_hybrid_truncates_where_the_model_it_is_told_to_use_is_not_there() -> None:
    after, result = made("gc_hybrid", summarizer="model").collect(long_history(), {}, ONE, MANUAL)
    assert result.success
    assert sketch_of(after) == "u a"


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("wanted", [None, "model"])
def test_the_offered_model_writes_and_is_told_what_for(strategy: str, wanted: str | None) -> None:
    asked: list[str] = []

    async def model(conversation: str) -> str:
        asked.append(conversation)
        return "in short"

    plugin = made(strategy, summarizer=wanted)
    plugin.offer_model(model)
    _, result = plugin.collect(long_history(), {}, ONE, MANUAL)
    assert result.details["summarizer"] == "model"
    (prompt,) = asked
    assert prompt.startswith("Summarize")
    assert "[user]\nu0 word" in prompt


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("model", [failing, failing_later])
def test_the_extract_stands_in_for_a_model_that_fails(strategy: str, model: Any) -> None:
    history = long_history(words=200)
    plugin = made(strategy)
    plugin.offer_model(model)
    after, result = plugin.collect(history, {}, ONE, MANUAL)
    assert result.success, result.error
    assert result.details["summarizer"] == "extractive"
    assert "overloaded" in result.details["summarizer_note"]
    assert after[0].kind is Kind.SUMMARY


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("wanted", ["model", plain])
def test_a_summarizer_that_was_asked_for_is_never_replaced(strategy: str, wanted: object) -> None:
    history = sketch("u a u a u a", words=200)
    plugin = made(strategy, summarizer=wanted if wanted == "model" else failing)
    plugin.offer_model(failing if wanted == "model" else plain)
    after, result = plugin.collect(history, {}, ONE, MANUAL)
    assert (after, result.success) == (history, False)
    assert "overloaded" in (result.error or "")


def test_an_offer_can_be_withdrawn() -> None:
    plugin = made("gc_summarize")
    plugin.offer_model(plain)
    plugin.offer_model(None)
    _, result = plugin.collect(long_history(), {}, ONE, MANUAL)
    assert "summarizer required" in (result.error or "")


# The prompt


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        pytest.param("Shorten:\n{conversation}\nEnd.", ("Shorten:\n[", "\nEnd."), id="placeholder"),
        pytest.param("Shorten this.", ("Shorten this.\n\n[", "word"), id="without it"),
        pytest.param(
            "{curly} {{braces}} {conversation}", ("{curly} {{braces}} [", ""), id="braces"
        ),
        pytest.param(None, ("[user]\nu0 word", ""), id="no prompt"),
    ],
)
def test_the_prompt_may_be_ones_own(
    strategy: str, prompt: str | None, shown: tuple[str, str]
) -> None:
    asked: list[str] = []

    def summarizer(conversation: str) -> str:
        asked.append(conversation)
        return "in short"

    history = long_history()
    plugin = made(strategy, summarizer=summarizer, summarize_prompt=prompt)
    _, result = plugin.collect(history, {}, ONE, MANUAL)
    assert result.success
    (conversation,) = asked
    assert conversation.startswith(shown[0])
    assert conversation.endswith(shown[1])
    assert "r4 word" in conversation


def test_text_of_the_conversation_is_no_template() -> None:
    asked: list[str] = []

    def summarizer(conversation: str) -> str:
        asked.append(conversation)
        return "in short"

    history = long_history()
    history[1] = Message.from_text("model", "{conversation} {0} %s " * 30)
    plugin = made("gc_summarize", summarizer=summarizer, summarize_prompt="Now: {conversation}")
    plugin.collect(history, {}, ONE, MANUAL)
    assert asked[0].count("{conversation} {0} %s") == 30


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("limit", [1, 5, 20, 100, 1_000])
def test_prompt_and_conversation_never_ask_for_more_than_the_window(
    strategy: str, limit: int
) -> None:
    asked: list[str] = []

    def summarizer(conversation: str) -> str:
        asked.append(conversation)
        return "in short"

    history = sketch("u a u a u a", words=2_000)
    plugin = made(strategy, summarizer=summarizer)
    plugin.collect(history, {"context_limit": limit}, ONE, MANUAL)
    assert all(COUNTER.count_texts([text])[0] <= max(limit, 1) for text in asked)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plug_in_may_be_used_again_after_shutdown_and_initialize(strategy: str) -> None:
    plugin = made(strategy)
    plugin.shutdown()
    plugin.initialize({"summarizer": plain} if strategy in SUMMARIZING else None)
    check(run_collection(plugin, long_history(), ONE, counter=COUNTER))
