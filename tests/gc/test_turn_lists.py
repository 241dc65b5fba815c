"""Turns as lists, for plug-in authors: splitting, flattening, preserving, mending, counting."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc.marks import create_gc_notification_message, create_summary_message
from jaato.gc.turn_lists import (
    Turn,
    ensure_tool_call_integrity,
    estimate_history_tokens,
    estimate_message_tokens,
    estimate_turn_tokens,
    flatten_turns,
    get_preserved_indices,
    split_into_turns,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult, violations
from jaato.testing import broken_histories, histories, sketch, sketch_of


@pytest.mark.parametrize(
    ("history", "turns"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("u a u a", ["u a", "u a"], id="each user message begins one"),
        pytest.param("u c1 r1 c2 r2 a", ["u c1 r1 c2 r2 a"], id="results begin none"),
        pytest.param("a u a", ["a", "u a"], id="what comes before the first is one"),
        pytest.param("u a s u a", ["u a", "s", "u a"], id="a summary is one by itself"),
        pytest.param("s a u a", ["s", "a", "u a"], id="as is what follows a summary"),
        pytest.param("n u a", ["n", "u a"], id="a notice in front"),
    ],
)
def test_split_into_turns(history: str, turns: list[str]) -> None:
    split = split_into_turns(sketch(history))
    assert [sketch_of(turn.messages) for turn in split] == turns
    assert [turn.index for turn in split] == list(range(len(turns)))
    assert not any(turn.is_empty for turn in split)


@given(histories())
def test_flattening_undoes_splitting(history: list[Message]) -> None:
    turns = split_into_turns(history)
    assert flatten_turns(turns) == history
    assert all(one is other for one, other in zip(flatten_turns(turns), history, strict=True))


def test_a_turn_may_be_made_by_hand() -> None:
    assert Turn(3).is_empty
    assert (Turn(3).messages, Turn(3).estimated_tokens) == ([], 0)
    assert Turn(3).messages is not Turn(3).messages
    turn = Turn(index=3, messages=sketch("u a"), estimated_tokens=9)
    assert flatten_turns([turn, Turn(4)]) == turn.messages


@given(histories())
def test_counts_add_up(history: list[Message]) -> None:
    turns = split_into_turns(history)
    each = [estimate_message_tokens(message) for message in history]
    assert estimate_history_tokens(history) == sum(each)
    assert sum(turn.estimated_tokens for turn in turns) == sum(each)
    assert [estimate_turn_tokens(turn) for turn in turns] == [t.estimated_tokens for t in turns]


def test_call_arguments_and_results_are_counted() -> None:
    big = "word " * 5_000
    call = Message(Role.MODEL, [Part(function_call=FunctionCall("c", "write", {"text": big}))])
    result = Message(Role.TOOL, [Part(function_response=ToolResult("c", "write", big))])
    assert estimate_message_tokens(call) > 5_000
    assert estimate_message_tokens(result) > 5_000


@pytest.mark.parametrize(
    ("total", "recent", "pinned", "preserved"),
    [
        pytest.param(10, 3, None, {7, 8, 9}, id="the last three"),
        pytest.param(10, 3, [0, 8], {0, 7, 8, 9}, id="and the pinned ones"),
        pytest.param(2, 5, [], {0, 1}, id="more than there are"),
        pytest.param(5, 0, [], set(), id="none"),
        pytest.param(5, -1, [], set(), id="less than none"),
        pytest.param(5, 1, [-1, 5, 99], {4}, id="pins that do not exist"),
        pytest.param(0, 5, [0], set(), id="no turns"),
    ],
)
def test_get_preserved_indices(
    total: int, recent: int, pinned: list[int] | None, preserved: set[int]
) -> None:
    assert get_preserved_indices(total, recent, pinned) == preserved
    assert get_preserved_indices(total=total, recent=recent, pinned=pinned) == preserved


@given(
    total=st.integers(0, 50),
    recent=st.integers(-3, 60),
    pinned=st.lists(st.integers(-5, 60)),
)
def test_preserved_indices_are_indices(total: int, recent: int, pinned: list[int]) -> None:
    preserved = get_preserved_indices(total, recent, pinned)
    assert preserved <= set(range(total))
    assert set(range(total)[-recent:] if recent > 0 else ()) <= preserved
    assert {pin for pin in pinned if 0 <= pin < total} <= preserved


def result(call_id: str) -> Message:
    return Message(Role.TOOL, [Part(function_response=ToolResult(call_id, "read", "text"))])


def call(*call_ids: str) -> Message:
    parts = [Part(function_call=FunctionCall(call_id, "read")) for call_id in call_ids]
    return Message(Role.MODEL, parts)


ASKED = Message.from_text(Role.USER, "go")
SAID = Message.from_text(Role.MODEL, "done")


@pytest.mark.parametrize(
    ("broken", "mended", "told"),
    [
        pytest.param([ASKED, call("1"), result("1"), SAID], "u c1 r1 a", 0, id="whole"),
        pytest.param([ASKED, call("1")], "u c1", 0, id="a pending call stays"),
        pytest.param([ASKED, result("x"), SAID], "u a", 1, id="an orphan result goes"),
        pytest.param([ASKED, call("1"), SAID], "u a", 1, id="an unanswered call goes"),
        pytest.param([ASKED, call("1", "2"), result("1"), SAID], "u c1 r1 a", 1, id="half a pair"),
        pytest.param([result("x")], "", 1, id="nothing is left"),
    ],
)
def test_ensure_tool_call_integrity(broken: list[Message], mended: str, told: int) -> None:
    heard: list[str] = []
    before = list(broken)
    after = ensure_tool_call_integrity(broken, trace_fn=heard.append)
    assert (sketch_of(after), len(heard)) == (mended, told)
    assert broken == before
    assert after is not broken
    assert ensure_tool_call_integrity(broken) == after


@given(broken_histories())
def test_what_is_mended_is_legal(history: list[Message]) -> None:
    mended = ensure_tool_call_integrity(history)
    assert violations(mended) == ()
    assert ensure_tool_call_integrity(mended) == mended


def test_a_trace_function_that_raises_takes_nothing_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def trace(_line: str) -> None:
        raise RuntimeError("the log is full")

    with caplog.at_level(logging.ERROR):
        assert ensure_tool_call_integrity([ASKED, result("x"), SAID], trace) == [ASKED, SAID]
    assert "the log is full" in caplog.text


def test_marks_are_messages_of_their_own_kind() -> None:
    history = [create_gc_notification_message("4 turns left"), create_summary_message("s"), ASKED]
    assert [len(turn.messages) for turn in split_into_turns(history)] == [1, 1, 1]
