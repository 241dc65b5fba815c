"""What every counter promises, whichever it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.ports import TokenCounter

ALL = (
    "splintr-o200k",
    "splintr-cl100k",
    "tiktoken-o200k",
    "tiktoken-cl100k",
    "memo",
    "borrowed",
    "estimate",
    "words",
)
any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=120)


@pytest.fixture(params=ALL, scope="session")
def counter(request: pytest.FixtureRequest, counters: dict[str, TokenCounter]) -> TokenCounter:
    return counters[request.param]


def test_a_counter_is_one(counter: TokenCounter) -> None:
    assert isinstance(counter, TokenCounter)
    assert counter.name
    assert isinstance(counter.estimated, bool)


def test_nothing_costs_nothing(counter: TokenCounter) -> None:
    assert counter.count_texts([]) == []
    assert counter.count_texts(["", ""]) == [0, 0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ud800", id="a lone surrogate"),
        pytest.param("a\udfff\ud83d\ude00b", id="surrogates among letters"),
        pytest.param("<|endoftext|><|/quote|><|fim_prefix|>", id="special tokens"),
        pytest.param("\x00\x7f\x85\ufeff\uffff\U0010ffff", id="controls and non-characters"),
        pytest.param(" \r\n\t\u3000" * 500 + "x", id="blanks"),
        pytest.param("e" + "\u0301" * 3000, id="combining marks"),
    ],
)
def test_any_text_is_counted(counter: TokenCounter, text: str) -> None:
    assert counter.count_texts([text])[0] > 0


@settings(max_examples=60)
@given(texts=st.lists(any_text, max_size=8))
def test_a_batch_counts_as_its_texts_do(counter: TokenCounter, texts: list[str]) -> None:
    together = counter.count_texts(texts)
    assert together == [counter.count_texts([text])[0] for text in texts]
    assert all(count >= 0 for count in together)
