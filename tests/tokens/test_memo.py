"""A memo asks once per text, forgets what is old, and is not seen otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.ports import TokenCounter
from jaato.tokens import MemoCounter

LONG = "long " * 50


class AskedCounter(TokenCounter, Protocol):
    asked: list[list[str]]


class LengthCounter:
    name, estimated = "length", True

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["short", LONG, "\ud800" * 99], ids=["short", "long", "surrogates"]
)
def test_each_text_is_counted_once(text: str, words: AskedCounter) -> None:
    memo = MemoCounter(words)
    first = memo.count_texts([text, "other", text])
    assert first[0] == first[2]
    assert memo.count_texts(["other", text]) == [first[1], first[0]]
    assert words.asked == [[text, "other"]]


def test_what_was_not_used_for_longest_is_forgotten(words: AskedCounter) -> None:
    memo = MemoCounter(words, capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        memo.count_texts([text])
    assert words.asked == [["a"], ["b"], ["c"], ["b"]]


def test_a_batch_beyond_the_capacity_is_counted(words: AskedCounter) -> None:
    memo = MemoCounter(words, capacity=2)
    texts = ["a", "b b", "c c c", "a"]
    assert memo.count_texts(texts) == memo.count_texts(texts) == [1, 2, 3, 1]


def test_it_goes_by_the_name_of_what_it_remembers_for() -> None:
    memo = MemoCounter(LengthCounter())
    assert (memo.name, memo.estimated) == ("length", True)


@given(batches=st.lists(st.lists(st.text(max_size=90), max_size=6), max_size=6))
def test_it_counts_what_the_counter_inside_counts(batches: list[list[str]]) -> None:
    memo = MemoCounter(LengthCounter(), capacity=3)
    for batch in batches:
        assert memo.count_texts(batch) == LengthCounter().count_texts(batch)


def test_threads_share_it() -> None:
    memo = MemoCounter(LengthCounter(), capacity=8)
    batches = [
        [f"{n % 13}" * (n % 7 + 60) for n in range(start, start + 20)] for start in range(200)
    ]
    with ThreadPoolExecutor(8) as pool:
        counted = list(pool.map(memo.count_texts, batches))
    assert counted == [[len(text) for text in batch] for batch in batches]
