from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc.transcript import Transcript, chunks, render
from jaato.history import FunctionCall, Kind, Media, Message, Part, Role, ToolResult


class Counter:
    """A vocabulary made up for the test; remembers how often it was asked."""

    estimated = False

    def __init__(self, name: str, count: Callable[[str], int]) -> None:
        self.name = name
        self.asked = 0
        self._count = count

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        self.asked += 1
        return [self._count(text) for text in texts]

    def __repr__(self) -> str:
        return self.name


CHARS = Counter("chars", len)
WORDS = Counter("words", lambda text: len(text.split()))
QUARTERS = Counter("quarters", lambda text: -(-len(text) // 4))
# Texts count more together than apart: no vocabulary should, and a bound must hold all the same.
SUPERADDITIVE = Counter("superadditive", lambda text: len(text) // 4 + (len(text) // 500) ** 2)
COUNTERS = [CHARS, WORDS, QUARTERS, SUPERADDITIVE]


def user(text: str) -> Message:
    return Message(Role.USER, (Part(text=text),))


def model(text: str) -> Message:
    return Message(Role.MODEL, (Part(text=text),))


def call(name: str, **args: Any) -> Message:
    return Message(Role.MODEL, (Part(function_call=FunctionCall("1", name, args)),))


def result(value: Any, *, name: str = "read", is_error: bool = False) -> Message:
    response = ToolResult("1", name, value, is_error)
    return Message(Role.TOOL, (Part(function_response=response),))


texts = st.one_of(
    st.text(max_size=60),
    st.builds(lambda word, times: f"{word} " * times, st.text(max_size=8), st.integers(0, 400)),
    st.just("half a pair \ud83d and the other \ude00"),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
parts = st.one_of(
    st.builds(lambda text: Part(text=text), texts),
    st.builds(lambda text: Part(thought=text), texts),
    st.builds(
        lambda name, args: Part(function_call=FunctionCall("1", name, args)),
        st.sampled_from(["read", "run"]),
        st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    ),
    st.builds(
        lambda value, is_error: Part(function_response=ToolResult("1", "read", value, is_error)),
        json_values,
        st.booleans(),
    ),
    st.builds(lambda data: Part(inline_data=Media("image/png", data)), st.binary(max_size=40)),
)
messages = st.builds(
    lambda role, own, kind: Message(role, own, None, kind),
    st.sampled_from(Role),
    st.lists(parts, max_size=3),
    st.sampled_from(Kind),
)
histories = st.lists(messages, max_size=12)


@given(
    history=histories,
    counter=st.sampled_from(COUNTERS),
    limit=st.one_of(st.integers(-1, 60), st.integers(60, 3_000)),
)
def test_a_transcript_never_exceeds_its_limit_and_says_when_it_is_cut(
    history: list[Message], counter: Counter, limit: int
) -> None:
    whole = render(history, counter=counter)
    shown = render(history, counter=counter, limit=limit)

    assert shown.tokens == counter.count_texts([shown.text])[0]
    assert shown.tokens <= max(limit, 0)
    assert shown.messages_total == len(history)
    assert shown.was_cut or shown.text == whole.text
    if history and limit > 0 and whole.tokens <= limit:
        assert not shown.was_cut
    if shown.was_cut and shown.messages_shown:
        assert shown.text.startswith("[cut to fit: ")


@given(history=histories, counter=st.sampled_from(COUNTERS), limit=st.integers(-1, 2_000))
def test_chunks_hold_every_message_once_each_within_the_limit(
    history: list[Message], counter: Counter, limit: int
) -> None:
    made = chunks(history, counter=counter, limit=limit)

    assert sum(chunk.messages_total for chunk in made) == len(history)
    assert all(chunk.tokens <= max(limit, 0) for chunk in made)
    if limit > 0:
        assert all(chunk.messages_total == 1 for chunk in made if chunk.was_cut)
    if not any(chunk.was_cut for chunk in made):
        assert "\n\n".join(c.text for c in made) == render(history, counter=counter).text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param(user("do it"), "[user]\ndo it", id="a request"),
        pytest.param(model("done"), "[model]\ndone", id="an answer"),
        pytest.param(
            call("read", path="a.py", lines=[1, 2]),
            "[call read]\npath: a.py\nlines: [1, 2]",
            id="a call with its arguments",
        ),
        pytest.param(call("now"), "[call now]", id="a call without arguments"),
        pytest.param(result("x = 1"), "[result of read]\nx = 1", id="a result as text"),
        pytest.param(
            result({"ok": True, "out": "a\nb"}),
            "[result of read]\nok: true\nout: a\nb",
            id="a result as fields",
        ),
        pytest.param(result(None), "[result of read]", id="an empty result"),
        pytest.param(
            result("no such file", is_error=True),
            "[error from read]\nno such file",
            id="an error is marked",
        ),
        pytest.param(
            Message(Role.USER, (Part(inline_data=Media("image/png", b"12345", "map.png")),)),
            "[media: image/png map.png, 5 bytes]",
            id="media in one line",
        ),
        pytest.param(
            Message(
                Role.USER,
                (
                    Part(
                        text="[Context Summary - Previous conversation compressed]\n"
                        "We met.\n[End Context Summary]"
                    ),
                ),
                None,
                Kind.SUMMARY,
            ),
            "[earlier summary]\nWe met.",
            id="an earlier summary without its delimiters",
        ),
        pytest.param(
            Message(Role.MODEL, (Part(thought="Why not."),)), "[thought]\nWhy not.", id="a thought"
        ),
        pytest.param(Message(Role.MODEL, ()), "[model, empty]", id="a message without parts"),
    ],
)
def test_how_a_message_reads(message: Message, text: str) -> None:
    assert render([message], counter=CHARS).text == text


def test_a_thought_keeps_its_ends_only() -> None:
    long = Message(Role.MODEL, (Part(thought="first " + "hm " * 1_000 + "last"),))

    shown = render([long], counter=CHARS)

    assert shown.tokens < 450
    assert shown.text.startswith("[thought]\nfirst")
    assert shown.text.endswith("last")
    assert not shown.was_cut


def test_nothing_is_counted_without_a_limit_until_it_is_asked() -> None:
    counter = Counter("lazy", len)

    shown = render([user("hello")], counter=counter)

    assert counter.asked == 0
    assert shown.tokens == len("[user]\nhello")
    assert (shown.tokens, counter.asked) == (shown.tokens, 1)


def test_no_messages_are_an_empty_transcript() -> None:
    assert render([], counter=CHARS, limit=10).text == ""
    assert not render([], counter=CHARS, limit=10).was_cut
    assert chunks([], counter=CHARS, limit=10) == []


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        pytest.param(0, "", id="no room at all"),
        pytest.param(10, "", id="no room for a line"),
        pytest.param(40, "[no room for any of 2 messages]", id="room for an honest line"),
    ],
)
def test_a_limit_too_small_for_any_message(limit: int, text: str) -> None:
    history = [user("word " * 100), model("word " * 100)]

    shown = render(history, counter=CHARS, limit=limit)

    assert (shown.text, shown.was_cut, shown.messages_shown) == (text, True, 0)


def long_session() -> list[Message]:
    return [
        user("THE TASK " + "t" * 300),
        *(
            message
            for at in range(20)
            for message in (
                model(f"saying {at} " + "s" * 500),
                call("read", path=f"file_{at}.py"),
                result(f"HEAD_{at} " + "r" * 3_000 + f" TAIL_{at}"),
            )
        ),
        user("THE LAST WORD"),
    ]


def cut_to(limit: int) -> Transcript:
    return render(long_session(), counter=CHARS, limit=limit)


def test_results_are_shortened_first_head_and_tail_all_to_one_length() -> None:
    shown = cut_to(30_000)

    assert shown.messages_shown == shown.messages_total
    assert all(f"HEAD_{at} " in shown.text and f" TAIL_{at}" in shown.text for at in range(20))
    assert all(f"saying {at} " + "s" * 500 in shown.text for at in range(20))
    assert shown.text.count("characters left out") == 20
    assert shown.tokens > 29_000


def test_other_texts_are_shortened_next() -> None:
    shown = cut_to(14_000)

    assert shown.messages_shown == shown.messages_total
    assert shown.text.count("characters left out") == 40
    assert "t" * 300 in shown.text


def test_whole_middle_messages_go_at_the_very_end_and_requests_stay() -> None:
    shown = cut_to(3_000)

    assert 0 < shown.messages_shown < shown.messages_total
    assert "messages left out" in shown.text
    assert "t" * 300 in shown.text
    assert "THE LAST WORD" in shown.text
    assert "saying 0 " in shown.text
    assert "TAIL_19" in shown.text
    assert "saying 10 " not in shown.text


def test_requests_are_shortened_only_when_nothing_else_is_left() -> None:
    shown = cut_to(400)

    assert "THE TASK" in shown.text
    assert "t" * 300 not in shown.text


def test_a_message_too_long_for_a_chunk_is_the_only_one_cut() -> None:
    history = [user("short"), result("x" * 5_000), model("also short")]

    made = chunks(history, counter=CHARS, limit=1_000)

    assert [chunk.was_cut for chunk in made] == [False, True, False]
    assert [chunk.messages_shown for chunk in made] == [1, 1, 1]


@pytest.mark.parametrize("limit", [None, 2_000], ids=["no limit", "a limit"])
@pytest.mark.parametrize(
    "text",
    ["x" * 20_000_000, "id_1 " * 4_000_000, "\n" * 20_000_000],
    ids=["one run", "one line", "only line ends"],
)
@pytest.mark.timeout(60)
def test_a_huge_text_does_not_hang(text: str, limit: int | None) -> None:
    shown = render([user("look"), result(text)], counter=QUARTERS, limit=limit)

    assert limit is None or shown.tokens <= limit
    assert "look" in shown.text


def test_a_result_that_json_cannot_write_is_still_shown() -> None:
    loop: list[object] = []
    loop.append(loop)

    shown = render([result({"loop": loop, "raw": b"123", "odd": {(1, 2): 3}})], counter=CHARS)

    assert shown.text == '[result of read]\nloop: <list>\nraw: "<3 bytes>"\nodd: <dict>'
