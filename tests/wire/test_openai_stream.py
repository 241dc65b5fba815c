"""Answers of both OpenAI APIs: put together from events they are what they are in one piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.provider_contract import checked
from tests.servers.openai_streams import chat_chunks, cut, response_events
from tests.wire.openai_documents import ARGUMENTS
from tests.wire.openai_response_documents import answers

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
from jaato.history import FunctionCall, Part
from jaato.wire import openai_chat, openai_responses
from jaato.wire.foreign import INVALID_ARGUMENTS
from jaato.wire.openai_chat import CHAT, ChatAnswer
from jaato.wire.openai_responses import RESPONSES, ResponsesAnswer, error_in

Json = dict[str, Any]
FIGURES = {"prompt_tokens": 10, "completion_tokens": 5}


def fed(answer: ChatAnswer | ResponsesAnswer, events: Iterable[Mapping[str, Any]]) -> Finished:
    """The end of a stream, everything before it held against it."""
    seen: list[StreamEvent] = [each for event in events for each in answer.feed(event)]
    assert answer.complete
    return holding(seen, answer.finished())


def holding(seen: list[StreamEvent], end: Finished) -> Finished:
    said = "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert said == end.message.text
    thought = "".join(event.text for event in seen if isinstance(event, ThoughtDelta))
    assert thought == "".join(part.thought or "" for part in end.message.parts)
    begun = [event for event in seen if isinstance(event, CallDelta) and event.name is not None]
    assert [event.name for event in begun] == [call.name for call in end.message.function_calls]
    return end


def comparable(end: Finished) -> tuple[Any, ...]:
    return end.message.role, end.message.parts, end.usage, end.stop


# --- Chat Completions.

words = st.sampled_from(["Hello", "größer 世界 🌍", "a\nb ", "lone \ud800 half"])
chat_parts = st.one_of(
    st.builds(lambda t: {"type": "thought", "text": t}, words),
    st.builds(lambda t: {"type": "text", "text": t}, words),
    st.builds(lambda t: {"type": "refusal", "text": t}, words),
    st.builds(
        lambda a: {"type": "call", "id": "c", "name": "run", "arguments": a},
        st.sampled_from([one for one in ARGUMENTS if len(one) < 100]),
    ),
)


@given(
    parts=st.lists(chat_parts, max_size=5),
    piece=st.integers(1, 7),
    stop=st.sampled_from([None, "stop", "length", "content_filter", "brand_new"]),
    usage=st.sampled_from([None, FIGURES]),
    replay=st.booleans(),
)
def test_a_chat_answer_in_chunks_is_that_in_one(
    parts: list[Json], piece: int, stop: str | None, usage: Json | None, *, replay: bool
) -> None:
    # A refusal comes last: it is what a model says instead of going on.
    parts = sorted(parts, key=lambda part: bool(part["type"] == "refusal"))
    parts = [{**part, "id": f"c{n}"} for n, part in enumerate(parts)]
    chunks = list(chat_chunks(parts, piece, stop, usage))
    streamed = fed(ChatAnswer(replay_thoughts=replay), chunks)
    whole = openai_chat.decode_answer(_whole(parts, chunks, usage), replay_thoughts=replay)
    assert comparable(streamed) == comparable(whole)


def _whole(parts: list[Json], chunks: list[Json], usage: Json | None) -> Json:
    """The answer as it comes when it is not streamed."""

    def texts(kind: str) -> str:
        return "".join(part["text"] for part in parts if part["type"] == kind)

    calls = [
        {
            "id": part["id"],
            "type": "function",
            "function": {"name": part["name"], "arguments": part["arguments"]},
        }
        for part in parts
        if part["type"] == "call"
    ]
    message = {
        "role": "assistant",
        "content": texts("text"),
        "reasoning_content": texts("thought"),
        "refusal": texts("refusal"),
        "tool_calls": calls,
    }
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    choice = {"index": 0, "message": message, "finish_reason": reasons[-1]}
    return {"choices": [choice], "usage": usage}


def chunk(stop: str | None = None, **delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def piece_of(**fields: Any) -> Json:
    """A chunk with a piece of one call."""
    return chunk(tool_calls=[fields])


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [
                piece_of(index=0, id="a", function={"name": "run", "arguments": '{"x":'}),
                piece_of(index=1, id="b", function={"name": "read", "arguments": ""}),
                piece_of(index=0, function={"arguments": "1}"}),
            ],
            [("a", "run", {"x": 1}), ("b", "read", {})],
            id="pieces of two calls between each other",
        ),
        pytest.param(
            [
                piece_of(id="a", function={"name": "run", "arguments": "{}"}),
                piece_of(id="b", function={"name": "read", "arguments": "{}"}),
            ],
            [("a", "run", {}), ("b", "read", {})],
            id="whole calls without an index",
        ),
        pytest.param(
            [
                piece_of(index=0, id="a", function={"name": "run", "arguments": "{}"}),
                piece_of(index=0, id="b", function={"name": "read", "arguments": "{}"}),
            ],
            [("a", "run", {}), ("b", "read", {})],
            id="two calls under one index",
        ),
        pytest.param(
            [
                piece_of(index=0, id="a", function={"name": "run", "arguments": ""}),
                piece_of(index=0, id="a", function={"name": "run", "arguments": "{}"}),
            ],
            [("a", "run", {})],
            id="a name and an id in every piece",
        ),
        pytest.param(
            [piece_of(index=1, function={"name": "run", "arguments": None})],
            [("call_0", "run", {})],
            id="no id, no arguments, and an index that does not begin at 0",
        ),
        pytest.param(
            [piece_of(index=0, id="a", function={"name": "run", "arguments": {"x": 1}})],
            [("a", "run", {"x": 1})],
            id="arguments that are no text",
        ),
        pytest.param(
            [chunk(function_call={"name": "run"}), chunk(function_call={"arguments": '{"x":1}'})],
            [("call_0", "run", {"x": 1})],
            id="a call of old",
        ),
        pytest.param(
            [piece_of(index=0, id="a", function={"name": "run", "arguments": '{"x": '})],
            [("a", "run", {INVALID_ARGUMENTS: '{"x": '})],
            id="arguments that were cut off",
        ),
    ],
)
def test_calls_as_servers_stream_them(chunks: list[Json], calls: list[tuple[Any, ...]]) -> None:
    end = fed(ChatAnswer(), [*chunks, chunk("tool_calls")])
    assert end.message.function_calls == tuple(FunctionCall(*call) for call in calls)
    assert end.stop is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"choices": None}, id="null for choices"),
        pytest.param({"choices": [None, 1]}, id="choices that are none"),
        pytest.param({"choices": [{"index": 1, "delta": {"content": "other"}}]}, id="another one"),
        pytest.param(chunk(content=None, tool_calls=None, refusal=None), id="nulls"),
        pytest.param(chunk(content=1, tool_calls={}, reasoning=["x"]), id="odd types"),
        pytest.param({"choices": [{"delta": None}], "usage": None}, id="null for a delta"),
    ],
)
def test_a_chunk_that_says_nothing_brings_nothing(odd: Json) -> None:
    answer = ChatAnswer()
    assert answer.feed(odd) == []
    assert not answer.complete
    end = fed(answer, [chunk(content="Hi"), odd, chunk("stop"), odd])
    assert end.message.parts == (Part(text="Hi"),)


def test_a_thought_in_two_fields_is_thought_once() -> None:
    end = fed(ChatAnswer(), [chunk(reasoning="Hm.", reasoning_content="Hm."), chunk("stop")])
    assert end.message.parts == (Part(thought="Hm."),)


def test_a_thought_that_is_replayed_notes_where_it_stood() -> None:
    answer = ChatAnswer(replay_thoughts=True)
    end = fed(answer, [chunk(reasoning="Hm."), chunk("stop", content="So.")])
    thought = Part(thought="Hm.", extra={CHAT: {"field": "reasoning"}})
    assert end.message.parts == (thought, Part(text="So."))
    (document,) = openai_chat.encode_messages([end.message])
    assert document == {"role": "assistant", "content": "So.", "reasoning": "Hm."}


def test_content_in_parts_is_text() -> None:
    pieces = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}, 3]
    assert fed(ChatAnswer(), [chunk("stop", content=pieces)]).message.text == "Hello"


@pytest.mark.parametrize(
    ("reason", "said", "stop"),
    [
        ("stop", {"content": "x"}, StopReason.END),
        ("length", {"content": "x"}, StopReason.LENGTH),
        ("content_filter", {"content": "x"}, StopReason.REFUSED),
        ("stop", {"refusal": "x"}, StopReason.REFUSED),
        ("stop", {"tool_calls": [{"id": "a", "function": {"name": "x"}}]}, StopReason.TOOL_CALLS),
        ("function_call", {"function_call": {"name": "x"}}, StopReason.TOOL_CALLS),
        ("length", {"tool_calls": [{"id": "a", "function": {"name": "x"}}]}, StopReason.LENGTH),
        ("something_new", {"content": "x"}, StopReason.OTHER),
    ],
)
def test_why_a_chat_answer_stopped(reason: str, said: Json, stop: StopReason) -> None:
    assert fed(ChatAnswer(), [chunk(reason, **said)]).stop is stop


@pytest.mark.parametrize("reason", [None, "", 3], ids=str)
def test_a_chat_answer_without_an_end_is_not_complete(reason: Any) -> None:
    answer = ChatAnswer()
    answer.feed(chunk(reason, content="Hel"))
    assert not answer.complete


def test_the_last_usage_counts() -> None:
    answer = ChatAnswer()
    first = answer.feed({**chunk(content="a"), "usage": {"prompt_tokens": 9}})
    last = answer.feed({"choices": [], "usage": FIGURES})
    assert first[-1:] == [UsageSeen(Usage(input_tokens=9))]
    assert last == [UsageSeen(Usage(input_tokens=10, output_tokens=5))]
    assert answer.finished().usage == Usage(input_tokens=10, output_tokens=5)


# --- Responses.


@given(
    items=answers(),
    piece=st.integers(1, 7),
    stop=st.sampled_from([None, "max_output_tokens", "content_filter", "brand_new"]),
    usage=st.sampled_from([None, {"input_tokens": 10, "output_tokens": 5}]),
)
def test_a_response_in_events_is_that_in_one(
    items: list[Json], piece: int, stop: str | None, usage: Json | None
) -> None:
    events = list(response_events(items, piece, stop, usage))
    streamed = fed(ResponsesAnswer(), events)
    whole = openai_responses.decode_answer(events[-1]["response"])
    assert comparable(streamed) == comparable(whole)


@given(items=answers())
def test_an_answer_is_replayed_as_it_came(items: list[Json]) -> None:
    message = openai_responses.decode_answer({"output": items}).message
    back = openai_responses.encode_messages([message])
    # A thought behind which nothing more is said is not taken back, and no arguments are none.
    while items and items[-1]["type"] == "reasoning":
        items = items[:-1]
    sent = [
        {**item, "arguments": item["arguments"] or "{}"} if "arguments" in item else item
        for item in items
    ]
    assert json.dumps(back, sort_keys=True) == json.dumps(sent, sort_keys=True)


def done(*items: Json, **response: Any) -> list[Json]:
    """The events of a response that sends its items whole."""
    added = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in enumerate(items)
    ]
    return [*added, {"type": "response.completed", "response": {"status": "completed", **response}}]


def message_item(*content: Json) -> Json:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(content)}


SAID = message_item({"type": "output_text", "text": "Hi"})
CALLED = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": ""}


def test_items_that_are_told_at_the_end_only() -> None:
    answer = ResponsesAnswer()
    answer.feed({"type": "response.completed", "response": {"output": [SAID]}})
    assert answer.finished().message.text == "Hi"


def test_items_come_in_the_order_of_the_answer() -> None:
    answer = ResponsesAnswer()
    for event in reversed(done(SAID, CALLED)):
        answer.feed(event)
    end = answer.finished()
    assert [part.text for part in end.message.parts] == ["Hi", None]
    assert end.message.function_calls == (FunctionCall("c1", "run", {}),)


@pytest.mark.parametrize(
    ("item", "replayed"),
    [
        pytest.param({"encrypted_content": "x"}, True, id="sealed"),
        pytest.param(
            {"content": [{"type": "reasoning_text", "text": "Hm."}]}, True, id="told in full"
        ),
        pytest.param({}, False, id="but an id of what was not stored"),
        pytest.param({"encrypted_content": None, "content": []}, False, id="nulls"),
    ],
)
def test_which_thoughts_are_replayed(item: Json, replayed: bool) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], **item}
    message = openai_responses.decode_answer({"output": [thought, SAID]}).message
    assert bool(message.parts[0].extra) == replayed
    sent = openai_responses.encode_messages([message])
    assert sent == ([thought, SAID] if replayed else [SAID])


def test_a_thought_in_several_pieces_reads_as_it_streams() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": one} for one in ("First.", "", "Then.")],
        "content": [{"type": "reasoning_text", "text": "In full."}],
    }
    end = fed(ResponsesAnswer(), response_events([item], 3, None, None))
    assert end.message.parts[0].thought == "First.\n\nThen.\n\nIn full."


@pytest.mark.parametrize(
    ("response", "items", "stop"),
    [
        pytest.param({}, [SAID], StopReason.END, id="a text"),
        pytest.param({}, [SAID, CALLED], StopReason.TOOL_CALLS, id="a call"),
        pytest.param(
            {}, [message_item({"type": "refusal", "refusal": "No"})], StopReason.REFUSED, id="a no"
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            [SAID, CALLED],
            StopReason.LENGTH,
            id="too long",
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            [],
            StopReason.REFUSED,
            id="filtered",
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": None}, [], StopReason.OTHER, id="no why"
        ),
        pytest.param({"status": "cancelled"}, [SAID], StopReason.OTHER, id="cancelled"),
        pytest.param({"status": None}, [SAID], StopReason.END, id="no status"),
    ],
)
def test_why_a_response_stopped(response: Json, items: list[Json], stop: StopReason) -> None:
    assert openai_responses.decode_answer({"output": items, **response}).stop is stop


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"type": "keepalive", "sequence_number": 3}, id="a sign of life"),
        pytest.param({"type": "response.output_text.delta", "delta": None}, id="null for a delta"),
        pytest.param({"type": "response.brand_new.delta", "delta": "x"}, id="a kind of delta"),
        pytest.param({"type": "response.output_item.added", "item": None}, id="null for an item"),
        pytest.param({"type": ["x"], "delta": "x"}, id="a type that is none, of a delta"),
        pytest.param({"type": ["x"]}, id="a type that is none"),
    ],
)
def test_an_event_that_says_nothing_brings_nothing(odd: Json) -> None:
    answer = ResponsesAnswer()
    assert answer.feed(odd) == []
    assert not answer.complete
    for event in done(SAID):
        answer.feed(event)
    assert answer.finished().message.text == "Hi"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param({"type": "response.created", "response": {"error": None}}, None, id="none"),
        pytest.param({"error": {}}, None, id="an empty one"),
        pytest.param({"error": {"code": "x"}}, {"code": "x"}, id="in an envelope"),
        pytest.param({"type": "error", "code": "x"}, {"type": "error", "code": "x"}, id="an event"),
        pytest.param(
            {"type": "response.failed", "response": {"error": {"code": "x"}}},
            {"code": "x"},
            id="a response that failed",
        ),
        pytest.param({"status": "failed", "error": {"code": "x"}}, {"code": "x"}, id="in a body"),
        pytest.param({"type": "response.failed", "response": None}, {}, id="and no more is said"),
    ],
)
def test_what_went_wrong(document: Json, told: Json | None) -> None:
    assert error_in(document) == told


def test_pieces_are_cut_everywhere() -> None:
    events = list(
        response_events([message_item({"type": "output_text", "text": "Hello"})], 2, None, None)
    )
    answer = ResponsesAnswer()
    seen = [each for event in events for each in answer.feed(event)]
    assert seen == [TextDelta(piece) for piece in cut("Hello", 2)]
    assert checked([*seen, answer.finished()]).message.parts[0].extra[RESPONSES]["form"] == "list"
