"""What a message costs, and that it is counted once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import pytest

from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.ports import TokenCounter
from jaato.tokens import acount_messages, as_text, count_messages, history_tokens, message_tokens
from jaato.tokens.messages import CALL_FRAME, LONG_CHARS, MESSAGE_FRAME, RESULT_FRAME


class AskedCounter(TokenCounter, Protocol):
    asked: list[list[str]]


def png(width: int, height: int) -> bytes:
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + size


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        pytest.param(Part(text="three short words"), 3, id="text"),
        pytest.param(Part(thought="two words"), 2, id="a thought"),
        pytest.param(
            Part(function_call=FunctionCall("c1", "read file", {"path": "a b"})),
            CALL_FRAME + 2 + 2,
            id="a call is its name and its arguments",
        ),
        pytest.param(
            Part(function_response=ToolResult("c1", "read", "one two three")),
            RESULT_FRAME + 3,
            id="a result that is text",
        ),
        pytest.param(
            Part(function_response=ToolResult("c1", "read", {"a b": ["c d", None]})),
            RESULT_FRAME + 3,
            id="a result that is data",
        ),
        pytest.param(
            Part(
                function_response=ToolResult(
                    "c1", "shot", "", attachments=(Media("image/png", png(750, 1000)),)
                )
            ),
            RESULT_FRAME + 1000,
            id="what is attached to a result",
        ),
        pytest.param(
            Part(inline_data=Media("text/plain", b"four words of text")), 4, id="a text file"
        ),
        pytest.param(Part(inline_data=Media("image/png", png(100, 100))), 85, id="an image"),
    ],
)
def test_everything_that_goes_over_the_wire_counts(
    part: Part, tokens: int, words: AskedCounter
) -> None:
    assert message_tokens(words, Message(Role.USER, (part,))) == MESSAGE_FRAME + tokens


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("as \u00e9 is", "as \u00e9 is", id="a string as it is"),
        pytest.param({"k": [1, True, None, "\u00e9"]}, '{"k":[1,true,null,"\u00e9"]}', id="JSON"),
        pytest.param({"k": {1}}, '{"k":"{1}"}', id="a value that JSON has not"),
        pytest.param({(1, 2): 3}, "{(1, 2): 3}", id="a key that JSON has not"),
        pytest.param(circle(), "{'self': {...}}", id="a circle"),
        pytest.param(float("nan"), "NaN", id="not a number"),
        pytest.param("\ud800", "\ud800", id="a lone surrogate"),
    ],
)
def test_data_is_read_as_compact_json(value: Any, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({(): Unspeakable()}, id="a text that raises"),
        pytest.param(nested(100_000), id="nested beyond what Python can print"),
        pytest.param(10**5000, id="an integer beyond what Python can print"),
    ],
)
def test_data_that_cannot_be_printed_is_counted_all_the_same(value: Any) -> None:
    assert as_text(value)


def history(*texts: str) -> list[Message]:
    return [Message.from_text("user", text) for text in texts]


def test_a_message_is_counted_once_ever(words: AskedCounter) -> None:
    messages = history("a", "b c")
    assert count_messages(words, messages) == [MESSAGE_FRAME + 1, MESSAGE_FRAME + 2]
    messages += history("d e f")
    assert history_tokens(words, messages) == 3 * MESSAGE_FRAME + 6
    assert [message_tokens(words, message) for message in messages] == [5, 6, 7]
    assert asyncio.run(acount_messages(words, messages)) == [5, 6, 7]
    assert words.asked == [["a", "b c"], ["d e f"]]


def test_counts_of_another_counter_are_not_taken_for_ours(words: AskedCounter) -> None:
    messages = history("a b")
    messages[0].remember_tokens("another", 99)
    assert count_messages(words, messages) == [6]
    assert messages[0].tokens_by("words") == 6


def test_a_message_that_stands_twice_counts_twice(words: AskedCounter) -> None:
    message = history("a b")[0]
    assert count_messages(words, [message, message]) == [6, 6]


def test_nothing_to_count_asks_nothing(words: AskedCounter) -> None:
    assert count_messages(words, []) == []
    assert asyncio.run(acount_messages(words, [])) == []
    assert words.asked == []


class ThreadNoting:
    """A counter that notes where it is called."""

    name, estimated = "noting", False

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        self.threads.append(threading.current_thread())
        return [len(text) for text in texts]


@pytest.mark.parametrize(
    ("chars", "away"),
    [
        pytest.param(LONG_CHARS - 1, False, id="short text is counted at once"),
        pytest.param(LONG_CHARS, True, id="long text leaves the event loop"),
    ],
)
def test_long_counts_leave_the_event_loop(chars: int, away: bool) -> None:
    counter = ThreadNoting()
    assert asyncio.run(acount_messages(counter, history("x" * chars))) == [MESSAGE_FRAME + chars]
    assert [thread is not threading.main_thread() for thread in counter.threads] == [away]
