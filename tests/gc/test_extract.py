from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaato.gc.extract
from jaato.gc.atoms import AtomReader
from jaato.gc.extract import extract
from jaato.history import FunctionCall, Kind, Media, Message, Part, Role, ToolResult

PLENTY = 100_000


class Counter:
    """A vocabulary made up for the test."""

    estimated = False

    def __init__(self, name: str, count: Callable[[str], int]) -> None:
        self.name = name
        self._count = count

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        return [self._count(text) for text in texts]

    def __repr__(self) -> str:
        return self.name


CHARS = Counter("chars", len)
WORDS = Counter("words", lambda text: len(text.split()))
QUARTERS = Counter("quarters", lambda text: -(-len(text) // 4))


def user(text: str) -> Message:
    return Message(Role.USER, (Part(text=text),))


def model(text: str) -> Message:
    return Message(Role.MODEL, (Part(text=text),))


def call(name: str, **args: Any) -> Message:
    return Message(Role.MODEL, (Part(function_call=FunctionCall("1", name, args)),))


def result(value: Any, *, name: str = "read", is_error: bool = False) -> Message:
    response = ToolResult("1", name, value, is_error)
    return Message(Role.TOOL, (Part(function_response=response),))


def summary(text: str) -> Message:
    delimited = (
        f"[Context Summary - Previous conversation compressed]\n{text}\n[End Context Summary]"
    )
    return Message(Role.USER, (Part(text=delimited),), None, Kind.SUMMARY)


def filler(count: int = 30) -> list[Message]:
    """Talk that holds nothing worth keeping, so that half of it leaves room for what is."""
    return [model("some words that tell nothing to anyone about anything at all " * 5)] * count


def digest(*messages: Message, limit: int = PLENTY) -> str:
    return extract([*messages, *filler()], counter=CHARS, limit=limit)


words = st.sampled_from(["order_id: #W1234567", "src/a.py", "I decided it.", "Error: no", "yes"])
texts = st.one_of(
    st.text(max_size=60),
    st.builds(lambda word, times: f"{word} " * times, words, st.integers(0, 60)),
    st.builds("\n".join, st.lists(words, max_size=30)),
    st.just("half a pair \ud83d and the other \ude00 in_here"),
)
parts = st.one_of(
    st.builds(lambda text: Part(text=text), texts),
    st.builds(lambda text: Part(thought=text), texts),
    st.builds(
        lambda args: Part(function_call=FunctionCall("1", "read", args)),
        st.dictionaries(st.sampled_from(["path", "query"]), texts, max_size=2),
    ),
    st.builds(
        lambda value, is_error: Part(function_response=ToolResult("1", "read", value, is_error)),
        texts,
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


def said_tokens(history: Sequence[Message], counter: Counter) -> int:
    """What the messages say and carry, without labels."""
    total = 0
    for part in (part for message in history for part in message.parts):
        if part.function_call is not None:
            args = "\n".join(f"{key}: {value}" for key, value in part.function_call.args.items())
            total += counter.count_texts([f"{part.function_call.name}\n{args}"])[0]
        elif part.function_response is not None:
            total += counter.count_texts([part.function_response.result])[0]
        else:
            total += counter.count_texts([part.text or part.thought or ""])[0]
    return total


@given(
    history=histories,
    counter=st.sampled_from([CHARS, WORDS, QUARTERS]),
    limit=st.one_of(st.integers(-1, 60), st.integers(60, 3_000)),
)
def test_a_digest_is_within_its_limit_and_half_of_what_was_given(
    history: list[Message], counter: Counter, limit: int
) -> None:
    text = extract(history, counter=counter, limit=limit)

    tokens = counter.count_texts([text])[0]
    assert tokens <= max(limit, 0)
    assert tokens * 2 <= said_tokens(history, counter)


@given(history=histories, limit=st.integers(20, 2_000))
def test_a_digest_of_digests_neither_nests_nor_grows(history: list[Message], limit: int) -> None:
    text = extract([*history, *filler()], counter=CHARS, limit=limit)
    for _ in range(3):
        text = extract([summary(text), *filler()], counter=CHARS, limit=limit)

        assert len(text) <= limit
        assert text.count("\nEarlier summary:") + text.startswith("Earlier summary:") <= 1
        assert "[Context Summary" not in text.replace(history_text(history), "")


def history_text(history: Sequence[Message]) -> str:
    return "\n".join(message.text for message in history) or "\0"


def test_every_section_in_its_order() -> None:
    text = digest(
        user("Please repair the login"),
        call("read", path="src/login.py"),
        result("token_ttl: 3600\nnothing here"),
        model("The root cause is the expired token in the cache."),
        call("run", command="pytest"),
        result("collected 3 items\nTypeError: no ttl", name="run", is_error=True),
        call("run", command="pytest"),
        result("3 passed", name="run"),
        call("push", branch="main"),
        result("remote said no", name="push", is_error=True),
    )

    assert text == (
        "Requests:\n"
        "- Please repair the login\n"
        "Decisions:\n"
        "- The root cause is the expired token in the cache.\n"
        "Details:\n"
        "- (read) token_ttl: 3600\n"
        "- (run) TypeError: no ttl\n"
        "Errors:\n"
        "- run: TypeError: no ttl [a later call succeeded]\n"
        "- push: remote said no [no call succeeded since]\n"
        "Files:\n"
        "- src/login.py"
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param(user("Fix it:\n  now"), "- Fix it:\n    now", id="requests are verbatim"),
        pytest.param(
            model("It rains. We decided to use a queue. Bye."),
            "- We decided to use a queue.",
            id="a decision is a sentence",
        ),
        pytest.param(
            Message(Role.MODEL, (Part(thought="Therefore the index must go first."),)),
            "- Therefore the index must go first.",
            id="a thought may hold a decision",
        ),
        pytest.param(
            result("noise\nreservation_id: ZFA04Y\nnoise"),
            "- (read) reservation_id: ZFA04Y",
            id="a value line is kept whole",
        ),
        pytest.param(
            call("find", who="raj_santos_9079"),
            "- (find) who: raj_santos_9079",
            id="the arguments of a call",
        ),
        pytest.param(
            result('{"out": "one\\nuser_id: mia_li_3668", "code": 0}'),
            "- (read) user_id: mia_li_3668",
            id="lines inside a serialised result",
        ),
        pytest.param(
            result("bash: foo: command not found", name="sh"),
            "- sh: bash: foo: command not found [no call succeeded since]",
            id="an error that nobody marked",
        ),
        pytest.param(
            Message(
                Role.TOOL,
                (
                    Part(function_response=ToolResult("1", "read", "ok", is_error=False)),
                    Part(function_response=ToolResult("2", "ls", "", is_error=True)),
                ),
            ),
            "- ls: (no message) [no call succeeded since]",
            id="an error without a message",
        ),
    ],
)
def test_what_is_kept(message: Message, line: str) -> None:
    assert line in digest(message)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(result("x = 1\n" * 100 + "on error: stop\n" + "y = 2\n" * 100), id="a source"),
        pytest.param(result('{"error": null, "data": 1}'), id="no error in a field"),
    ],
)
def test_what_speaks_of_errors_is_not_one(message: Message) -> None:
    assert "Errors:" not in digest(message)


def test_the_same_error_again_is_counted() -> None:
    failed = result("Error: full", name="put")

    assert "- put: Error: full (3 times) [no call succeeded since]" in digest(*[failed] * 3)


def test_a_long_request_keeps_its_ends_and_says_what_is_missing() -> None:
    text = digest(user("BEGIN " + "word " * 2_000 + "END"), limit=1_000)

    assert text.startswith("Requests:\n- BEGIN word")
    assert "characters left out …]" in text
    assert text.endswith("END")


def test_the_task_stays_when_requests_do_not_fit() -> None:
    many = [user(f"and then there is request number {at} to think of") for at in range(200)]

    text = digest(user("/mode"), user("The task is to build a bridge"), *many, limit=600)

    assert text.startswith("Requests:\n- The task is to build a bridge\n")
    assert "request number 199 " in text
    assert "request number 100 " not in text


def test_what_later_calls_refer_to_comes_before_what_nobody_used() -> None:
    listing = "\n".join(f"order_id: #W{1_000_000 + at}" for at in range(200))

    text = digest(result(listing), call("cancel", order="#W1000117"), limit=200)

    assert "order_id: #W1000117" in text


def test_a_very_long_line_is_quoted_around_the_atom() -> None:
    line = "word " * 4_000 + "the_needle_42 " + "word " * 4_000

    text = digest(result(line), limit=400)

    assert "word the_needle_42" in text
    assert len(text) < 200


def test_an_earlier_digest_is_taken_apart_and_a_foreign_summary_is_quoted() -> None:
    first = digest(
        user("Please build the bridge"),
        result("no such plan", name="open", is_error=True),
        result("bridge_id: B-1234"),
        call("open", path="docs/plan.md"),
    )

    text = digest(summary(first), summary("The user likes steel."), result("fine", name="open"))

    assert text == (
        "Earlier summary:\n"
        "- The user likes steel.\n"
        "Requests:\n"
        "- Please build the bridge\n"
        "Details:\n"
        "- (read) bridge_id: B-1234\n"
        "Errors:\n"
        "- open: no such plan [a later call succeeded]\n"
        "Files:\n"
        "- docs/plan.md"
    )


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="no messages"),
        pytest.param([Message(Role.MODEL, ())], id="an empty message"),
        pytest.param(filler(), id="nothing worth keeping"),
        pytest.param(
            [Message(Role.USER, (Part(inline_data=Media("image/png", b"1" * 9_000)),))],
            id="only media",
        ),
        pytest.param([user("hi")], id="nothing that could be halved"),
    ],
)
def test_nothing_to_keep_is_an_empty_digest(history: list[Message]) -> None:
    assert extract(history, counter=QUARTERS, limit=100) == ""


@pytest.mark.parametrize("limit", [-1, 0, 1, 5])
def test_nothing_fits_is_an_empty_digest(limit: int) -> None:
    assert digest(user("Please repair the login"), limit=limit) == ""


def test_a_history_of_tools_only() -> None:
    history = [
        m for at in range(9) for m in (call("ls", path=f"src/d{at}/x.py"), result("no_" * 99))
    ]

    text = extract(history, counter=CHARS, limit=400)

    assert "Files:\n- " in text
    assert "src/d8/x.py" in text


@pytest.mark.parametrize(
    "text",
    ["x" * 20_000_000, "id_12 " * 4_000_000, "\n" * 20_000_000, "a.b:" * 5_000_000],
    ids=["one run", "one line of atoms", "only line ends", "one run of dots"],
)
@pytest.mark.timeout(60)
def test_a_huge_text_does_not_hang(text: str) -> None:
    history = [user("Please look at this"), result(text), model(text), user(text)]

    digested = extract(history, counter=QUARTERS, limit=500)

    assert digested.startswith("Requests:\n- Please look at this\n")
    assert QUARTERS.count_texts([digested])[0] <= 500


SCRIPT = """
from jaato.gc.extract import extract
from jaato.history import *

class Chars:
    name, estimated = "chars", False
    def count_texts(self, texts):
        return [len(text) for text in texts]

history = [Message("user", [Part(text="Please sort the orders of today")], "m0")]
for at in range(60):
    history.append(Message("model", [Part(function_call=FunctionCall("1", "get", {
        "path": f"src/f{at % 7}.py", "order": f"#W{at:07}"}))], f"c{at}"))
    history.append(Message("tool", [Part(function_response=ToolResult("1", "get",
        "\\n".join(f"item_{at}_{n}: {n * at}" for n in range(20))))], f"r{at}"))
print(extract(history, counter=Chars(), limit=3000))
"""


def test_the_hash_seed_changes_nothing() -> None:
    source = str(Path(jaato.gc.extract.__file__).parents[2])

    outputs = {
        subprocess.run(  # noqa: S603 -- our own interpreter and script
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(outputs) == 1
    assert outputs != {b"\n"}


@pytest.mark.parametrize(
    ("text", "atoms"),
    [
        pytest.param("the user_id of", ["user_id"], id="an underscore"),
        pytest.param("in src/jaato today", ["src/jaato"], id="a path"),
        pytest.param("mail me@home now", ["me@home"], id="an address"),
        pytest.param("call getUser twice", ["getUser"], id="an inner capital"),
        pytest.param("see notes.md.", ["notes.md"], id="an inner dot, without the full stop"),
        pytest.param("order #W123: done", ["#W123"], id="a digit, without the colon"),
        pytest.param("in 2024 and 20240", ["20240"], id="a number of five digits"),
        pytest.param("Hello WORLD, it's 3pm...", [], id="plain words"),
        pytest.param("---- //// ....", [], id="rules and dots"),
        pytest.param("x_" * 200, [], id="too long to be a name"),
        pytest.param("a_b a_bc a_bc", ["a_bc"], id="four characters at least, once"),
    ],
)
def test_atoms(text: str, atoms: list[str]) -> None:
    assert AtomReader().read(text) == atoms
