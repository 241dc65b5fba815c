"""What was said: never recorded, unless that is wanted; then in the JSON of the conventions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

from jaato.exchange import StopReason, ToolSchema
from jaato.history import FunctionCall, Media, Message, Part, ToolResult
from jaato.telemetry.content import LONGEST_CONTENT, LONGEST_TEXT
from jaato.telemetry.conventions import CONTENT

if TYPE_CHECKING:
    from tests.telemetry.conftest import Watched

SECRET = "the launch code is 0000"  # noqa: S105 -- it stands for what a prompt may hold
CALL = Message("model", [Part(function_call=FunctionCall("c1", "grep", {"for": SECRET}))])
HISTORY = [
    Message.from_text("user", SECRET),
    Message("model", [Part(thought="hm"), *CALL.parts]),
    Message(
        "tool",
        [
            Part(function_response=ToolResult("c1", "grep", {"lines": [1, None, 2.5]})),
            Part(inline_data=Media("image/png", b"1234")),
        ],
    ),
    Message.from_text("model", "done"),
]
SCHEMA = ToolSchema(name="grep", description="Finds.", parameters={"type": "object"})
HISTORY_RECORDED: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"type": "text", "content": SECRET}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "hm"},
            {"type": "tool_call", "id": "c1", "name": "grep", "arguments": {"for": SECRET}},
        ],
    },
    {
        "role": "tool",
        "parts": [
            {"type": "tool_call_response", "id": "c1", "response": {"lines": [1, None, 2.5]}},
            {"type": "media", "mime_type": "image/png", "bytes": 4},
        ],
    },
    {"role": "assistant", "parts": [{"type": "text", "content": "done"}]},
]
PLACES: dict[str, Any] = {
    "messages": HISTORY,
    "answer": Message.from_text("model", SECRET),
    "arguments": {"for": SECRET},
    "result": [SECRET],
    "tools": [ToolSchema(name="t", description=SECRET)],
}


@pytest.fixture
def telling(watch: Callable[..., Watched]) -> Watched:
    """Telemetry of somebody who wants content."""
    return watch(record_content=True)


@pytest.mark.parametrize("operation", ["turn", "model_call", "tool_call", "collection", "other"])
@pytest.mark.parametrize("fact", sorted(CONTENT))
def test_nothing_that_was_said_is_recorded_by_default(
    watched: Watched, operation: str, fact: str
) -> None:
    with watched.span(operation, **{fact: PLACES.get(fact, SECRET)}) as span:
        span.set(**{fact: PLACES.get(fact, SECRET)})
    assert SECRET not in watched.everything()
    assert not [name for name in watched.only().attributes if name.endswith(fact)]


@pytest.mark.parametrize(
    ("fact", "value", "attribute", "recorded"),
    [
        pytest.param(
            "system",
            "Be brief.",
            gen_ai.GEN_AI_SYSTEM_INSTRUCTIONS,
            [{"type": "text", "content": "Be brief."}],
            id="the system prompt",
        ),
        pytest.param(
            "messages", HISTORY, gen_ai.GEN_AI_INPUT_MESSAGES, HISTORY_RECORDED, id="the history"
        ),
        pytest.param("messages", (), gen_ai.GEN_AI_INPUT_MESSAGES, [], id="no history"),
        pytest.param(
            "prompt",
            "hi",
            gen_ai.GEN_AI_INPUT_MESSAGES,
            [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            id="the prompt of a turn",
        ),
        pytest.param(
            "answer",
            CALL,
            gen_ai.GEN_AI_OUTPUT_MESSAGES,
            [
                {
                    "role": "assistant",
                    "parts": [HISTORY_RECORDED[1]["parts"][1]],
                    "finish_reason": "tool_call",
                }
            ],
            id="an answer that calls",
        ),
        pytest.param(
            "text",
            "done",
            gen_ai.GEN_AI_OUTPUT_MESSAGES,
            [{**HISTORY_RECORDED[3], "finish_reason": "stop"}],
            id="the answer of a turn",
        ),
        pytest.param(
            "tools",
            [SCHEMA],
            gen_ai.GEN_AI_TOOL_DEFINITIONS,
            [
                {
                    "type": "function",
                    "name": "grep",
                    "description": "Finds.",
                    "parameters": {"type": "object"},
                }
            ],
            id="the tools",
        ),
        pytest.param(
            "arguments", {"n": 1}, gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS, {"n": 1}, id="arguments"
        ),
        pytest.param("result", "text", gen_ai.GEN_AI_TOOL_CALL_RESULT, "text", id="a result"),
    ],
)
def test_content_in_the_words_of_the_conventions(
    telling: Watched, fact: str, value: Any, attribute: str, recorded: Any
) -> None:
    with telling.span("model_call") as span:
        span.set(**{fact: value})
    assert json.loads(telling.only().attributes[attribute]) == recorded


def test_content_that_is_known_from_the_start(telling: Watched) -> None:
    with telling.span("tool_call", name="grep", arguments={"n": 1}):
        pass
    assert telling.only().attributes[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] == '{"n":1}'


def test_an_answer_carries_the_reason_it_ended_for(telling: Watched) -> None:
    with telling.span("model_call") as span:
        span.set(answer=HISTORY[-1], finish_reason=StopReason.LENGTH)
    [answer] = json.loads(telling.only().attributes[gen_ai.GEN_AI_OUTPUT_MESSAGES])
    assert answer["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("operation", "attribute"),
    [("collection", "jaato.gc.summary"), ("model_call", "jaato.summary")],
)
def test_content_without_a_convention(telling: Watched, operation: str, attribute: str) -> None:
    with telling.span(operation) as span:
        span.set(summary="short", notification={"a": [1]})
    assert telling.only().attributes[attribute] == "short"
    assert telling.only().attributes[attribute.replace("summary", "notification")] == '{"a":[1]}'


def test_a_long_history_keeps_its_newest_messages_and_says_so(telling: Watched) -> None:
    history = [Message.from_text("user", f"{n} {'x' * 20_000}") for n in range(40)]
    with telling.span("model_call", messages=history):
        pass
    attributes = telling.only().attributes
    text = attributes[gen_ai.GEN_AI_INPUT_MESSAGES]
    kept = json.loads(text)
    assert len(text) < LONGEST_CONTENT * 1.1
    assert kept[-1]["parts"][0]["content"].startswith("39 ")
    assert len(kept[-1]["parts"][0]["content"]) == LONGEST_TEXT
    assert attributes["jaato.messages_omitted"] == 40 - len(kept) > 0


def test_what_is_no_message_is_left_out_and_counted(telling: Watched) -> None:
    with telling.span("model_call", messages=[{"role": "user"}, HISTORY[0]]):
        pass
    attributes = telling.only().attributes
    assert json.loads(attributes[gen_ai.GEN_AI_INPUT_MESSAGES]) == HISTORY_RECORDED[:1]
    assert attributes["jaato.messages_omitted"] == 1


def laughing(depth: int) -> list[Any]:
    """A value that is small in memory and endless on paper."""
    value: list[Any] = ["ha"] * 10
    for _ in range(depth):
        value = [value] * 10
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Mute:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("mute")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        pytest.param(circle(), None, id="a circle"),
        pytest.param(laughing(10), None, id="ten billion laughs"),
        pytest.param([[]] * 10**6, None, id="a million of nothing"),
        pytest.param({"k": "x" * 10**7}, None, id="a flood"),
        pytest.param({(1, 2): 3, None: 4, 5: 6}, {"<tuple>": 3, "None": 4, "5": 6}, id="odd keys"),
        pytest.param([float("nan"), float("-inf")], ["nan", "-inf"], id="no numbers"),
        pytest.param([10**30, 10**5000], [10**30, "<int>"], id="integers"),
        pytest.param({"o": Mute(), "b": b"123"}, {"o": "<Mute>", "b": "<3 bytes>"}, id="objects"),
        pytest.param("a\ud800b", "a\ufffdb", id="a lone surrogate"),
        pytest.param({1}, [1], id="a set"),
    ],
)
def test_whatever_a_tool_gives_back_becomes_sound_json(
    telling: Watched, value: Any, recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with telling.span("tool_call") as span:
        span.set(result=value)
    text = telling.only().attributes[gen_ai.GEN_AI_TOOL_CALL_RESULT]
    assert len(text.encode()) < LONGEST_CONTENT * 3
    assert recorded is None or json.loads(text) == recorded
    json.loads(text)
    assert caplog.records == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values.filter(lambda value: value is not None))
def test_any_result_is_sound_json(watch: Callable[..., Watched], value: Any) -> None:
    watched = watch(record_content=True)
    with watched.span("tool_call") as span:
        span.set(result=value)
    text = watched.only().attributes[gen_ai.GEN_AI_TOOL_CALL_RESULT]
    text.encode()
    json.loads(text, parse_constant=pytest.fail)


def test_content_is_not_prepared_for_a_span_that_nobody_records(
    watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    class Untouchable(list[Message]):
        def __len__(self) -> int:
            raise AssertionError("was looked at")

    watched = watch(record_content=True, sampler=ALWAYS_OFF)
    with watched.span("model_call", messages=Untouchable()):
        pass
    assert caplog.records == []
