"""Which counter a model gets, and when a count fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.ports import TokenCounter
from jaato.tokens import (
    SAFETY_MARGIN,
    EstimatingCounter,
    SplintrCounter,
    TiktokenCounter,
    TokenizerUnavailableError,
    default_counter,
    fits,
)
from jaato.tokens.choose import first_available


@pytest.mark.parametrize(
    ("models", "encoding"),
    [
        pytest.param((None, "", "some-model-of-ours"), "o200k_base", id="unknown models"),
        pytest.param(
            ("gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1", "GPT-5.6", "o1", "o3-mini", "o4-mini"),
            "o200k_base",
            id="present models",
        ),
        pytest.param(
            ("openai/gpt-5", "openai:gpt-4o", "ft:gpt-4o:us::1", "azure/gpt-4.5", "gpt-oss-120b"),
            "o200k_base",
            id="with who serves them",
        ),
        pytest.param(
            ("gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "gpt-35-turbo",
             "text-embedding-3-small", "openai/gpt-4", "ft:gpt-3.5-turbo:us::1"),
            "cl100k_base",
            id="older models",
        ),
    ],
)  # fmt: skip
def test_a_known_vocabulary_is_counted_exactly(
    models: tuple[str | None, ...], encoding: str
) -> None:
    for model in models:
        counter = default_counter(model)
        assert (counter.name, counter.estimated) == (encoding, False), model


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-5.5", "claude"),
        ("anthropic:claude-fable-5.2", "claude"),
        ("us.anthropic.claude-sonnet-4", "claude"),
        ("google/gemini-3-pro", "gemini"),
        ("models/gemini-2.5-flash", "gemini"),
        ("meta-llama/Llama-4", "llama"),
        ("mistral-large", "mistral"),
        ("qwen3-coder", "qwen"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("xai/grok-5", "grok"),
    ],
)
def test_another_family_is_estimated_under_its_own_name(model: str, family: str) -> None:
    counter = default_counter(model)
    assert (counter.name, counter.estimated) == (f"o200k_base for {family}", True)
    assert counter.count_texts(["some text"]) == default_counter().count_texts(["some text"])


def test_a_counter_is_built_once() -> None:
    assert default_counter() is default_counter("gpt-5")
    assert default_counter("claude-a") is default_counter("anthropic/claude-b")


def unavailable() -> TokenCounter:
    raise TokenizerUnavailableError("splintr", "o200k_base", because="it is a test")


def test_what_is_not_available_makes_way_for_the_next(
    tiktoken_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tiktoken_cache))
    chosen = first_available((unavailable, TiktokenCounter, SplintrCounter))
    assert isinstance(chosen, TiktokenCounter)


def test_what_was_not_available_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        assert isinstance(first_available((unavailable, unavailable)), EstimatingCounter)
    assert "it is a test" in caplog.text


@pytest.mark.parametrize(
    ("model", "tokens", "fit"),
    [
        pytest.param("gpt-5", 1000, True, id="an exact count may fill the limit"),
        pytest.param("gpt-5", 1001, False, id="an exact count beyond the limit"),
        pytest.param("claude", int(1000 / SAFETY_MARGIN), True, id="an estimate with its margin"),
        pytest.param("claude", 1000, False, id="an estimate without room for its margin"),
    ],
)
def test_a_count_fits(model: str, tokens: int, fit: bool) -> None:
    assert fits(default_counter(model), tokens, 1000) is fit
