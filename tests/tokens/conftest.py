"""Counters and vocabularies that the tests of this folder share; nothing is downloaded."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from jaato.ports import TokenCounter
from jaato.tokens import (
    BorrowedCounter,
    EstimatingCounter,
    MemoCounter,
    SplintrCounter,
    TiktokenCounter,
)
from jaato.tokens.tiktoken_local import cached_vocabulary

with warnings.catch_warnings():
    # It opens its files in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import bpe_openai
    import bpe_openai._bindings


class WordCounter:
    """A counter for tests: a token per word. It remembers what it was asked."""

    def __init__(self, name: str = "words", *, estimated: bool = False) -> None:
        self.name = name
        self.estimated = estimated
        self.asked: list[list[str]] = []

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        self.asked.append(list(texts))
        return [len(text.split()) for text in texts]


@pytest.fixture(scope="session")
def reference() -> dict[str, Callable[[str], int]]:
    """Counts by an independent tokenizer, which takes no lone surrogates."""
    return {
        short: bpe_openai._bindings.tokenizer_for_encoding(f"{short}_base").count
        for short in ("o200k", "cl100k")
    }


@pytest.fixture(scope="session")
def reference_ids() -> dict[str, Callable[[str], list[int]]]:
    """Token ids by the same; surrogates are repaired, special tokens are text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return {
            short: bpe_openai.get_encoding(f"{short}_base").encode_ordinary
            for short in ("o200k", "cl100k")
        }


@pytest.fixture
def words() -> WordCounter:
    return WordCounter()


@pytest.fixture(scope="session")
def tiktoken_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder as tiktoken leaves it: bpe_openai ships the same two files, zipped."""
    folder = tmp_path_factory.mktemp("tiktoken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        for encoding in ("o200k_base", "cl100k_base"):
            packed = files("bpe_openai.data") / f"{encoding}.tiktoken.gz"
            cached_vocabulary(encoding).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@pytest.fixture(scope="session")
def counters(tiktoken_cache: Path) -> dict[str, TokenCounter]:
    """One of each kind, under the names that the tests use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tiktoken_cache))
        tiktoken = TiktokenCounter("o200k_base"), TiktokenCounter("cl100k_base")
    o200k, cl100k = SplintrCounter("o200k_base"), SplintrCounter("cl100k_base")
    return {
        "splintr-o200k": o200k,
        "splintr-cl100k": cl100k,
        "tiktoken-o200k": tiktoken[0],
        "tiktoken-cl100k": tiktoken[1],
        "memo": MemoCounter(o200k, capacity=64),
        "borrowed": BorrowedCounter(o200k, family="claude"),
        "estimate": EstimatingCounter(),
        "words": WordCounter(),
    }
