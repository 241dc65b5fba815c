"""Answers: put together from events they are what they are when they come in one piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.exchange import (
    CallDelta,
    Finished,
    StopReason,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    Usage,
    UsageSeen,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.wire.anthropic import KEY, AnswerBuilder, decode_answer
from jaato.wire.anthropic_stream import BROKEN_ARGUMENTS, usage_of

Json = dict[str, Any]


def pieces(text: str, size: int) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def events_of(answer: Json, size: int) -> Iterator[Json]:
    """The events by which the API streams an answer, in pieces of this size."""
    usage = answer.get("usage", {})
    started = {**usage, "output_tokens": 1} if usage else None
    yield {"type": "message_start", "message": {**answer, "content": [], "usage": started}}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        start, deltas = streamed(block, size)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": None, **usage}}
    yield {"type": "message_stop"}


def streamed(block: Json, size: int) -> tuple[Json, list[Json]]:
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)]
        cited = block.get("citations", [])
        deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
        return {"type": "text", "text": "", "citations": None}, deltas
    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": piece}
            for piece in pieces(block["thinking"], size)
        ]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if kind in {"tool_use", "server_tool_use"}:
        text = json.dumps(block["input"]) if block["input"] else ""
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in pieces(text, size)
        ]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ""}, *deltas]
    if kind == "compaction":
        return {"type": kind, "content": None}, [{**block, "type": "compaction_delta"}]
    return block, []


words = st.sampled_from(["Hello", "größer 世界 🌍", "a\nb ", "{}"])
blocks = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, words),
    st.builds(lambda t: {"type": "text", "text": t, "citations": [{"url": t}]}, words),
    st.builds(
        lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, words | st.just(""), words
    ),
    st.builds(lambda d: {"type": "redacted_thinking", "data": d}, words),
    st.builds(
        lambda k, a: {"type": k, "id": "i1", "name": "run", "input": a},
        st.sampled_from(["tool_use", "server_tool_use"]),
        st.dictionaries(words, words | st.none() | st.integers(), max_size=3),
    ),
    st.just({"type": "web_search_tool_result", "tool_use_id": "i1", "content": [{"url": "u"}]}),
    st.builds(lambda c: {"type": "compaction", "content": c, "encrypted_content": "e"}, words),
    st.just({"type": "container_upload", "file_id": "f"}),
)
answers = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "role": st.just("assistant"),
        "content": st.lists(blocks, max_size=5),
        "stop_reason": st.sampled_from(["end_turn", "tool_use", "refusal", "brand_new", None]),
        "usage": st.fixed_dictionaries(
            {"input_tokens": st.integers(0, 99), "output_tokens": st.integers(0, 99)},
            optional={"cache_read_input_tokens": st.none() | st.integers(0, 99)},
        ),
    }
)


def fed(events: Iterator[Json]) -> list[StreamEvent]:
    builder = AnswerBuilder()
    return [seen for event in events for seen in builder.feed(event)]


def comparable(finished: Finished) -> tuple[Any, ...]:
    message = finished.message
    return message.role, message.parts, finished.usage, finished.stop


@given(answer=answers, size=st.integers(1, 7))
def test_streamed_or_not_an_answer_is_the_same(answer: Json, size: int) -> None:
    *deltas, last = fed(events_of(answer, size))
    assert isinstance(last, Finished)
    assert comparable(last) == comparable(decode_answer(answer))
    said = "".join(event.text for event in deltas if isinstance(event, TextDelta))
    assert said == last.message.text
    thought = "".join(event.text for event in deltas if isinstance(event, ThoughtDelta))
    assert thought == "".join(part.thought or "" for part in last.message.parts)


def test_the_events_of_an_answer() -> None:
    answer = {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "Let me see"},
            {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": 1}},
            {"type": "tool_use", "id": "t2", "name": "read", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 1000,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 3},
        },
    }
    usage = Usage(
        input_tokens=1110,
        output_tokens=7,
        cached_tokens=100,
        cache_write_tokens=1000,
        thinking_tokens=3,
    )
    *seen, last = fed(events_of(answer, 5))
    assert seen == [
        UsageSeen(
            Usage(
                input_tokens=1110,
                output_tokens=1,
                cached_tokens=100,
                cache_write_tokens=1000,
                thinking_tokens=3,
            )
        ),
        ThoughtDelta("Hm."),
        TextDelta("Let m"),
        TextDelta("e see"),
        CallDelta(0, "run"),
        CallDelta(0, arguments=""),
        CallDelta(0, arguments='{"a":'),
        CallDelta(0, arguments=" 1}"),
        CallDelta(1, "read"),
        CallDelta(1, arguments=""),
        UsageSeen(usage),
    ]
    assert isinstance(last, Finished)
    assert (last.usage, last.stop) == (usage, StopReason.TOOL_CALLS)
    assert last.message.parts == (
        Part(thought="Hm.", extra={KEY: {"signature": "sig"}}),
        Part(text="Let me see"),
        Part(function_call=FunctionCall("t1", "run", {"a": 1})),
        Part(function_call=FunctionCall("t2", "read", {})),
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("tool_use", StopReason.TOOL_CALLS),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("pause_turn", StopReason.PAUSED),
        ("compaction", StopReason.PAUSED),
        ("something_new", StopReason.OTHER),
        (None, StopReason.OTHER),
        ([], StopReason.OTHER),
    ],
)
def test_why_it_stopped(reason: Any, stop: StopReason) -> None:
    assert decode_answer({"content": [], "stop_reason": reason}).stop is stop


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        pytest.param(None, Usage(), id="none at all"),
        pytest.param({"input_tokens": None, "output_tokens": None}, Usage(), id="nulls"),
        pytest.param({"input_tokens": "12", "output_tokens": True}, Usage(), id="no numbers"),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": None, "output_tokens": 4},
            Usage(input_tokens=3, output_tokens=4),
            id="without a cache",
        ),
        pytest.param(
            {"cache_read_input_tokens": 5, "output_tokens": 0},
            Usage(output_tokens=0, cached_tokens=5),
            id="a prompt that is told in part is not known",
        ),
        pytest.param(
            {
                "input_tokens": 900,
                "output_tokens": 50,
                "iterations": [
                    {"type": "message", "input_tokens": 400, "output_tokens": 20},
                    {"type": "compaction", "input_tokens": 9, "output_tokens": 9},
                    {"type": "message", "input_tokens": 100, "cache_read_input_tokens": 10},
                    {"type": "advisor_message", "input_tokens": 7},
                ],
            },
            Usage(input_tokens=110, output_tokens=50, cached_tokens=10),
            id="of several runs the last says how long the prompt is",
        ),
    ],
)
def test_usage(figures: Any, usage: Usage) -> None:
    assert usage_of(figures) == usage


@pytest.mark.parametrize("text", ['{"path": "src/', "[1, 2]", "null", "nonsense", '{"a":' * 5000])
def test_arguments_that_are_no_object_are_shown_as_they_came(text: str) -> None:
    start = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    events: list[Json] = [
        {"type": "content_block_start", "index": 0, "content_block": start},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": text},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    ]
    last = fed(iter(events))[-1]
    assert isinstance(last, Finished)
    assert last.message.function_calls == (FunctionCall("t1", "run", {BROKEN_ARGUMENTS: text}),)
    assert last.stop is StopReason.LENGTH


def test_a_thought_that_was_cut_off_is_not_replayed() -> None:
    (part,) = decode_answer({"content": [{"type": "thinking", "thinking": "I was"}]}).message.parts
    assert part == Part(thought="I was")
    assert KEY not in part.extra


def test_an_empty_answer_is_a_message_all_the_same() -> None:
    finished = decode_answer({"content": [], "stop_reason": "end_turn"})
    assert finished.message.parts == (Part(text=""),)


def test_a_tool_of_the_provider_is_answered_in_the_message() -> None:
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]},
    ]
    events = fed(events_of({"content": content, "stop_reason": "end_turn"}, 9))
    assert not any(isinstance(event, CallDelta) for event in events), "nobody else may run it"
    assert isinstance(events[-1], Finished)
    message = events[-1].message
    assert message.call_ids == ()
    assert message.parts[1].function_response == ToolResult("s1", "web_search", [{"url": "u"}])


def test_unknown_events_and_deltas_do_no_harm() -> None:
    events: list[Json] = [
        {"type": "brand_new", "data": 1},
        {"type": "content_block_start", "index": 3, "content_block": {"type": "brand_new"}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "new_delta", "value": 5}},
        {"type": "message_stop"},
    ]
    last = fed(iter(events))[-1]
    assert isinstance(last, Finished)
    assert last.message == Message(Role.MODEL, last.message.parts, last.message.message_id)
    media = last.message.parts[0].inline_data
    assert media is not None
    assert json.loads(media.data) == {"type": "brand_new", "value": 5}
