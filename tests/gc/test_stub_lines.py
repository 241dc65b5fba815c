"""What a stub shows: always inside its budget, and the lines that would be asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc.stub_lines import GAP, STUB_SHARE, STUB_TOKENS, StubContent, shown_of
from jaato.testing import WordCounter
from jaato.tokens import default_counter

COUNTER = WordCounter()
LISTING = "\n".join([*(f"ok  step {at} of build" for at in range(40)), "artifact id=zx81-44fa"])
TRACE = "\n".join(
    [*(f"  at frame_{at} (app/main.py:{at})" for at in range(40)), "ValueError: bad port 70000"]
)


@pytest.mark.parametrize(
    ("text", "content", "shown"),
    [
        pytest.param(LISTING, StubContent.PLAIN, "", id="plain says nothing more"),
        pytest.param(LISTING, StubContent.LINES, "artifact id=zx81-44fa", id="the rare line"),
        pytest.param(
            "a " * 30 + "z " * 30, StubContent.HEAD_TAIL, f"a a a {GAP} z z z", id="both ends"
        ),
        pytest.param("word " * 200, StubContent.LINES, "", id="a text without identifiers"),
        pytest.param("", StubContent.LINES, "", id="an empty text"),
        pytest.param(" \n\t\n", StubContent.HEAD_TAIL, "", id="a blank text"),
        pytest.param("x1y2z3 " * 300, StubContent.LINES, "", id="one line that is too long"),
    ],
)
def test_what_is_shown(text: str, content: StubContent, shown: str) -> None:
    tokens = COUNTER.count_texts([text])[0]
    assert shown_of(text, tokens, content=content, counter=COUNTER, most=7) == shown


def test_what_went_wrong_comes_first() -> None:
    shown = shown_of(TRACE, 400, content=StubContent.LINES, counter=default_counter(), most=12)
    assert shown == "ValueError: bad port 70000"


def test_lines_keep_their_order_and_are_said_once() -> None:
    text = "beta_2 = 2\nalpha_1 = 1\nbeta_2 = 2\ngamma_3 = 3"
    shown = shown_of(text, 400, content=StubContent.LINES, counter=COUNTER)
    assert shown.split("\n") == ["beta_2 = 2", "alpha_1 = 1", "gamma_3 = 3"]


@given(
    text=st.text() | st.lists(st.text(alphabet="ab_1/.\n "), max_size=60).map("".join),
    content=st.sampled_from(StubContent),
    most=st.integers(0, 60),
)
def test_it_never_takes_more_than_its_budget_and_invents_nothing(
    text: str, content: StubContent, most: int
) -> None:
    counter = default_counter()
    tokens = counter.count_texts([text])[0]
    shown = shown_of(text, tokens, content=content, counter=counter, most=most)
    assert counter.count_texts([shown])[0] <= min(most, tokens // STUB_SHARE)
    if content is StubContent.LINES and shown and not text.startswith("{"):
        lines = {line.strip() for line in text.split("\n")}
        assert set(shown.split("\n")) <= lines


def test_a_huge_text_is_cheap() -> None:
    text = "\n".join(f"row_{at} value_{at * 7}" for at in range(200_000))
    shown = shown_of(text, 10**6, content=StubContent.LINES, counter=default_counter())
    assert 0 < default_counter().count_texts([shown])[0] <= STUB_TOKENS
