"""What a collection writes into a history."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.gc import wording
from jaato.gc.marks import (
    create_gc_notification_message,
    create_summary_message,
    stubbed,
)
from jaato.history import STUB_MARK, FunctionCall, Kind, Media, Message, Part, Role, ToolResult
from jaato.testing import histories
from jaato.tokens import default_counter, message_tokens

READ = ToolResult("c1", "read_file", "a long text", attachments=(Media("image/png", b"."),))
FAILED = ToolResult("c2", "run", "Traceback", is_error=True)


def answer(*results: ToolResult) -> Message:
    return Message(Role.TOOL, [Part(function_response=one) for one in results], "m-1")


def lines(message: Message | None) -> list[str]:
    assert message is not None
    return [part.function_response.result for part in message.parts if part.function_response]


def test_a_summary_is_a_user_message_between_its_delimiters() -> None:
    message = create_summary_message("They agreed.")
    assert (message.role, message.kind) == (Role.USER, Kind.SUMMARY)
    assert message.text == (
        "[Context Summary - Previous conversation compressed]\nThey agreed.\n[End Context Summary]"
    )
    assert not message.opens_turn


def test_a_notice_is_a_user_message_in_brackets() -> None:
    message = create_gc_notification_message("4 turns were removed.")
    assert (message.role, message.kind) == (Role.USER, Kind.NOTICE)
    assert message.text == "[System: 4 turns were removed.]"
    assert not message.opens_turn


def test_a_summary_can_be_read_without_its_delimiters() -> None:
    assert wording.bare_summary(create_summary_message("They agreed.").text) == "They agreed."


@pytest.mark.parametrize(
    ("results", "tokens", "expected"),
    [
        pytest.param(
            [READ],
            1_234,
            ["[read_file result removed to free context: about 1,200 tokens]"],
            id="the tool and a rounded size",
        ),
        pytest.param(
            [FAILED],
            99,
            ["[run error removed to free context: about 99 tokens]"],
            id="an error is called one",
        ),
        pytest.param(
            [READ, FAILED],
            2_000,
            [
                "[read_file result removed to free context: about 1,000 tokens]",
                "[run error removed to free context: about 1,000 tokens]",
            ],
            id="several results share the size",
        ),
    ],
)
def test_a_stub_says_what_is_gone(
    results: list[ToolResult], tokens: int, expected: list[str]
) -> None:
    assert lines(stubbed(answer(*results), tokens)) == expected


def test_the_pair_stays_when_its_content_goes() -> None:
    whole = answer(READ, FAILED)
    short = stubbed(whole, 1_000)
    assert short is not None
    assert (short.message_id, short.role, short.kind) == (whole.message_id, whole.role, whole.kind)
    assert short.result_ids == whole.result_ids
    responses = [part.function_response for part in short.parts]
    assert [one.name for one in responses if one] == ["read_file", "run"]
    assert [one.is_error for one in responses if one] == [False, True]
    assert [one.attachments for one in responses if one] == [(), ()]


def test_a_stub_is_not_stubbed_again() -> None:
    short = stubbed(answer(READ), 1_000)
    assert short is not None
    assert all(part.extra.get(STUB_MARK) for part in short.parts)
    assert stubbed(short, 20) is None


def test_what_a_provider_needs_back_stays() -> None:
    part = Part(function_response=READ, extra={"signature": "s"})
    short = stubbed(Message(Role.TOOL, [part]), 1_000)
    assert short is not None
    assert short.parts[0].extra == {"signature": "s", STUB_MARK: True}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(Part(text="hello"), id="text"),
        pytest.param(Part(function_call=FunctionCall("c", "read")), id="a call"),
        pytest.param(Part(thought="hm"), id="a thought"),
    ],
)
def test_only_results_are_shortened(part: Part) -> None:
    assert stubbed(Message(Role.MODEL, [part]), 1_000) is None
    mixed = stubbed(Message(Role.USER, [part, Part(function_response=READ)]), 1_000)
    assert mixed is not None
    assert mixed.parts[0] is part


def whole_results(message: Message) -> list[ToolResult]:
    responses = [(part.function_response, part.extra) for part in message.parts]
    return [one for one, extra in responses if one is not None and STUB_MARK not in extra]


@given(history=histories(), tokens=st.integers(0, 10**9))
def test_a_stub_is_the_same_message_and_says_nothing_of_its_content(
    history: list[Message], tokens: int
) -> None:
    for message in history:
        short = stubbed(message, tokens)
        assert (short is None) == (not whole_results(message))
        if short is None:
            continue
        assert (short.message_id, short.role) == (message.message_id, message.role)
        assert (short.call_ids, short.result_ids) == (message.call_ids, message.result_ids)
        assert whole_results(short) == []
        other = message.with_parts(
            part
            if part.function_response is None or STUB_MARK in part.extra
            else Part(function_response=replace(part.function_response, result="other words"))
            for part in message.parts
        )
        assert lines(stubbed(other, tokens)) == lines(short)


def test_few_distinct_lines_mean_few_counts() -> None:
    made = {lines(stubbed(answer(READ), tokens))[0] for tokens in range(1_000, 10_000)}
    assert len(made) == 90


def test_a_stub_is_small_whatever_it_replaces() -> None:
    short = stubbed(answer(replace(READ, result="x" * 1_000_000)), 10**6)
    assert short is not None
    assert message_tokens(default_counter(), short) < 40
