"""Exact counters against an independent tokenizer: every code point, and whatever is generated."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaato.ports import TokenCounter
from jaato.tokens.golden import GOLDEN
from jaato.tokens.pieces import PIECE_CHARS, pieces

ENCODINGS = {"o200k": "o200k_base", "cl100k": "cl100k_base"}

Reference = dict[str, Callable[[str], int]]
Ids = dict[str, Callable[[str], list[int]]]

# Text whose parts are where pre-tokens begin and end, so that cuts and look-aheads are met.
snippets = st.sampled_from(
    [
        *("a", "B", "word", "Word", "WORD", "camelCase", "'s", "'LL", "n't", "don't", "\u017f"),
        *(" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\x1c", "\x85", "\u3000"),
        *("0", "12", "123", "1234", "\u00b2", "\u0663", "\u2167"),
        *(".", ",", "//", "/", "!=", "'", '"', "_", "-", "<|", "|>", "<|endoftext|>", "<|/quote|>"),
        *("\u00e9", "e\u0301", "\u0416\u0443", "\u4e2d\u6587", "\u3001", "\u3042", "\ud55c\uae00"),
        *("\U0001f600", "\u200d", "\ufe0f", "\u0e01\u0e33", "\u02b0", "\u01c5", "\u0301"),
    ]
)
texts = st.lists(snippets, max_size=40).map("".join) | st.text(max_size=80)


@pytest.fixture(params=ENCODINGS)
def short(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("embedded", [False, True], ids=["alone", "inside a word"])
def test_every_code_point_counts_as_the_reference_says(
    short: str, *, embedded: bool, counters: dict[str, TokenCounter], reference: Reference
) -> None:
    count, counter = reference[short], counters[f"splintr-{short}"]
    for block in range(0, sys.maxunicode + 1, 0x8000):
        chars = [chr(c) for c in range(block, block + 0x8000) if not 0xD800 <= c <= 0xDFFF]
        batch = [f"a{char}b" for char in chars] if embedded else chars
        assert counter.count_texts(batch) == list(map(count, batch)), f"in block {block:#x}"


@pytest.mark.parametrize("kind", ["splintr", "tiktoken"])
@settings(max_examples=300)
@given(text=texts)
def test_generated_text_counts_as_the_reference_says(
    kind: str, text: str, counters: dict[str, TokenCounter], reference: Reference
) -> None:
    for short, count in reference.items():
        assert counters[f"{kind}-{short}"].count_texts([text]) == [count(text)]


@pytest.mark.parametrize("kind", ["splintr", "tiktoken"])
@settings(max_examples=100)
@given(text=st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
@example(text="\ud83d\ude00 \ude00\ud83d")
def test_surrogates_count_as_the_reference_repairs_them(
    kind: str, text: str, counters: dict[str, TokenCounter], reference_ids: Ids
) -> None:
    for short, encode in reference_ids.items():
        assert counters[f"{kind}-{short}"].count_texts([text]) == [len(encode(text))]


@pytest.mark.parametrize("kind", ["splintr", "tiktoken"])
def test_the_markers_of_all_special_tokens_are_text(
    kind: str, short: str, counters: dict[str, TokenCounter], reference: Reference
) -> None:
    import splintr  # noqa: PLC0415 -- only its list of markers is wanted

    markers = list(splintr.Tokenizer.from_pretrained(ENCODINGS[short]).special_tokens())
    cases = [
        case.replace("M", marker)
        for marker in markers
        for case in ("M", "MM", "a M b", "<M>", "/M\n/M", "x'M", "\nM", "1M1", "<|M", "M|>")
    ]
    counted = counters[f"{kind}-{short}"].count_texts(cases)
    assert counted == [reference[short](case) for case in cases]


def test_golden_ids_are_those_of_the_reference(short: str, reference_ids: Ids) -> None:
    for text, ids in GOLDEN[ENCODINGS[short]].items():
        assert tuple(reference_ids[short](text)) == ids


def long_texts() -> Iterator[tuple[str, str]]:
    dice = random.Random(11)  # noqa: S311 -- test data
    parts = ["word ", "don't ", "x=1;", "\n", "  \n\n  ", "\u4e2d\u6587\u3001", "<|endoftext|>"]
    yield "prose", "".join(dice.choices(parts, k=PIECE_CHARS))
    yield "hex", dice.randbytes(PIECE_CHARS).hex()
    yield "no ASCII", "".join(dice.choices(["\u0416", "\u3042", "\u3001", "\u3002"], k=600_000))
    yield "words and one long run", "word " * 100_000 + "y" * 400_000 + " word" * 1000


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in long_texts()])
def test_the_pieces_of_a_long_text_add_up(
    short: str, text: str, counters: dict[str, TokenCounter], reference: Reference
) -> None:
    cut = list(pieces(text))
    assert len(cut) > 1
    assert "".join(cut) == text
    count = reference[short]
    assert sum(map(count, cut)) == count(text)
    assert counters[f"splintr-{short}"].count_texts([text]) == [count(text)]
    assert counters[f"tiktoken-{short}"].count_texts([text]) == [count(text)]


@settings(max_examples=400)
@given(text=texts)
def test_no_cut_changes_a_count(text: str, reference: Reference) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaato.tokens.pieces.PIECE_CHARS", 3)
        cut = list(pieces(text))
    assert "".join(cut) == text
    for count in reference.values():
        assert sum(map(count, cut)) == count(text)
