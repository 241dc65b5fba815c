"""Texts made to be slow, calls that must not hold others up, and tokenizers that are not ours."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import splintr

from jaato.errors import UsageError
from jaato.ports import TokenCounter
from jaato.tokens import SplintrCounter, TiktokenCounter, TokenizerUnavailableError
from jaato.tokens.pieces import BATCH_CHARS, UNBROKEN_CHARS, batches
from jaato.tokens.tiktoken_local import cached_vocabulary

Reference = dict[str, Callable[[str], int]]

MILLION = 1_000_000
dice = random.Random(5)  # noqa: S311 -- test data

ADVERSARIAL = [
    pytest.param("a" * MILLION, id="one letter"),
    pytest.param(" " * MILLION, id="spaces"),
    pytest.param(" " * MILLION + "x", id="spaces before a word"),
    pytest.param("\n" * MILLION, id="line feeds"),
    pytest.param(
        "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=MILLION)), id="random letters"
    ),
    pytest.param("".join(dice.choices(" \t\r\n", k=MILLION)), id="random blanks"),
    pytest.param("".join(dice.choices("!@#$%^&*()-=+[]{};:,./?", k=MILLION)), id="random signs"),
    pytest.param("=" * MILLION, id="a ruler"),
    pytest.param("1" * MILLION, id="digits"),
    pytest.param("Aa" * (MILLION // 2), id="alternating case"),
    pytest.param("'s" * (MILLION // 2), id="contractions"),
    pytest.param("\U0001f600" * (MILLION // 4), id="emoji"),
    pytest.param("\U0001f468\u200d\U0001f469" * (MILLION // 11), id="joined emoji"),
    pytest.param("e" + "\u0301" * (MILLION // 2), id="combining marks"),
    pytest.param("\u4e00" * (MILLION // 3), id="one ideograph"),
    pytest.param("<|" * (MILLION // 2), id="halves of markers"),
    pytest.param("<|endoftext|>" * (MILLION // 13), id="special tokens"),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("short", ["o200k", "cl100k"])
@pytest.mark.parametrize("text", ADVERSARIAL)
def test_a_megabyte_made_to_be_slow_is_counted_exactly(
    short: str, text: str, counters: dict[str, TokenCounter], reference: Reference
) -> None:
    assert counters[f"splintr-{short}"].count_texts([text]) == [reference[short](text)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["tiktoken-o200k", "estimate"])
@pytest.mark.parametrize("text", ADVERSARIAL)
def test_other_counters_survive_it(kind: str, text: str, counters: dict[str, TokenCounter]) -> None:
    assert counters[kind].count_texts([text])[0] > 0


def test_a_run_too_long_to_be_counted_whole_is_off_by_little(
    counters: dict[str, TokenCounter], reference: Reference
) -> None:
    run = "".join(dice.choices("abcdefgh", k=UNBROKEN_CHARS + 1000))
    counted = counters["splintr-o200k"].count_texts([run])[0]
    assert abs(counted - reference["o200k"](run)) <= 2


def test_calls_are_bounded() -> None:
    owners_of_calls = [owners for owners, _ in batches(["y" * 400_000] * 30)]
    assert [owner for owners in owners_of_calls for owner in owners] == list(range(30))
    assert len(owners_of_calls) == -(-30 * 400_000 // (BATCH_CHARS + 200_000))


def test_one_long_call_does_not_hold_the_gil(counters: dict[str, TokenCounter]) -> None:
    ticks, stop, text = [0], threading.Event(), "some words, and 12 numbers\n" * 1_500_000

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1

    def progress() -> float:
        """What the other thread gets done during the call, as a share of when this one waits."""
        start, began = ticks[0], time.perf_counter()
        counters["splintr-o200k"].count_texts([text])
        during, took = ticks[0] - start, time.perf_counter() - began
        start = ticks[0]
        stop.wait(took)
        return during / max(1, ticks[0] - start)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        # About 0.5 here, and below 0.05 for a call that holds the GIL.
        assert max(progress() for _ in range(3)) > 0.1
    finally:
        stop.set()
        thread.join()


def test_a_forked_child_counts_without_the_threads_it_has_not() -> None:
    script = """
import os
from jaato.tokens import SplintrCounter

counter = SplintrCounter()
texts = [f"words of text {n} " * 5000 for n in range(20)]
counts = counter.count_texts(texts)
child = os.fork()
if child == 0:
    os._exit(0 if counter.count_texts(texts) == counts else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)  # noqa: S603 -- our own script


def test_nothing_is_loaded_before_a_counter_is_built() -> None:
    script = """
import sys
import jaato.tokens

raise SystemExit(bool({"splintr", "tiktoken", "asyncio"} & set(sys.modules)))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)  # noqa: S603 -- our own script


def other_vocabulary(encoding: str) -> splintr.AnyTokenizer:
    return splintr.Tokenizer.from_pretrained("llama3")


def no_such_vocabulary(encoding: str) -> splintr.AnyTokenizer:
    return splintr.Tokenizer.from_pretrained("no such vocabulary")


def not_installed(encoding: str) -> splintr.AnyTokenizer:
    raise ImportError("no wheel for this machine")


@pytest.mark.parametrize(
    ("load", "because"),
    [
        pytest.param(other_vocabulary, "other token ids", id="another vocabulary"),
        pytest.param(no_such_vocabulary, "Unknown pretrained model", id="no vocabulary"),
        pytest.param(not_installed, "no wheel", id="not installed"),
    ],
)
def test_a_tokenizer_that_is_not_the_known_one_is_refused(
    load: Callable[[str], splintr.AnyTokenizer], because: str
) -> None:
    with pytest.raises(TokenizerUnavailableError, match=because):
        SplintrCounter("o200k_base", load=load)


def test_known_ids_that_do_not_match_refuse_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"Hello, world!": (13225, 11, 2375, 1)}
    monkeypatch.setattr("jaato.tokens.golden.GOLDEN", {"o200k_base": wrong})
    with pytest.raises(TokenizerUnavailableError, match="Hello, world!"):
        SplintrCounter("o200k_base")


@pytest.mark.parametrize("kind", [SplintrCounter, TiktokenCounter])
def test_an_unknown_vocabulary_is_the_callers_mistake(
    kind: type[SplintrCounter | TiktokenCounter],
) -> None:
    with pytest.raises(UsageError, match="o200k_base"):
        kind("p50k_base")


@pytest.mark.parametrize(
    "content", [pytest.param(None, id="missing"), pytest.param(b"aGVsbG8= 0\n", id="altered")]
)
def test_tiktoken_is_refused_rather_than_let_download(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    if content is not None:
        cached_vocabulary("o200k_base").write_bytes(content)
    with pytest.raises(TokenizerUnavailableError):
        TiktokenCounter("o200k_base")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([content] if content else [])
