"""Servers that speak OpenAI's form with an accent, as llama_cpp.server does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.providers.openai_talks import STAGE, TOOLS, answer_of, asking, refused
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Refusal, Reply, text

from jaato.exchange import (
    CallDelta,
    ContextLimitError,
    NetworkError,
    ProviderError,
    ServerError,
    StopReason,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.wire.openai_chat import ChatAnswer

TOO_LONG = Refusal(
    status=400,
    message="This model's maximum context length is 1024 tokens. However, you requested 2001 tokens"
    " (2000 in the messages, 1 in the completion). Please reduce the length of the messages or"
    " completion.",
    code="context_length_exceeded",
)
SILENCE = Reply(parts=(text("Hello"),), stops_after=0)


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def test_a_call_that_is_streamed_in_both_forms_is_one_call() -> None:
    answer = ChatAnswer()
    pieces = [("weather", ""), (None, '{"city": '), (None, '"Hull"}')]
    deltas: list[CallDelta] = []
    for name, arguments in pieces:
        function = {"name": name, "arguments": arguments}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        seen = answer.feed(
            chunk({"content": None, "function_call": function, "tool_calls": [call]})
        )
        deltas += [event for event in seen if isinstance(event, CallDelta)]
    answer.feed(chunk({}, "tool_calls"))
    end = answer.finished()
    assert end.message.function_calls == (FunctionCall("c1", "weather", {"city": "Hull"}),)
    assert end.stop is StopReason.TOOL_CALLS
    assert "".join(delta.arguments for delta in deltas) == '{"city": "Hull"}'


def test_calls_without_a_word_are_sent_with_an_empty_one() -> None:
    # llama_cpp.server and, beside thoughts, DeepSeek refuse null there.
    server = OpenAIServer([Reply(parts=(text("Rain."),))])
    call = FunctionCall("c1", "read", {"path": "a"})
    answer_of(
        server,
        asking(
            "Read it.",
            Message(Role.MODEL, [Part(function_call=call)]),
            Message(Role.TOOL, [Part(function_response=ToolResult("c1", "read", "fine"))]),
            tools=TOOLS,
        ),
        api="chat",
    )
    assert server.bodies[0]["messages"][1]["content"] == ""


def test_a_server_that_hangs_up_without_a_word_is_asked_why() -> None:
    server = OpenAIServer([SILENCE, TOO_LONG])
    error = refused(server, asking("Hi", max_output_tokens=64), api="chat")
    assert isinstance(error, ContextLimitError)
    assert error.limit == 1024
    asked, again = server.bodies
    del asked["stream_options"]
    assert again == {**asked, "stream": False, "max_tokens": 1}


@pytest.mark.parametrize(
    ("second", "error"),
    [
        pytest.param(Refusal(status=500), NetworkError, id="it fails at that too"),
        pytest.param(SILENCE, NetworkError, id="it says nothing to that either"),
        pytest.param(Refusal(status=429), NetworkError, id="it is busy by then"),
    ],
)
def test_a_server_that_does_not_say_why_it_hung_up_was_cut_off(
    second: Reply | Refusal, error: type[ProviderError]
) -> None:
    server = OpenAIServer([SILENCE, second])
    assert type(refused(server, api="chat")) is error
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        pytest.param(
            Reply(parts=(text("Hello, world"),), stops_after=2), {"api": "chat"}, id="some words"
        ),
        pytest.param(SILENCE, {"api": "responses"}, id="another API"),
    ],
)
def test_a_server_that_breaks_off_otherwise_is_not_asked(
    reply: Reply, settings: dict[str, Any]
) -> None:
    server = OpenAIServer([reply])
    assert isinstance(refused(server, **settings), NetworkError)
    assert len(server.bodies) == 1


def test_an_error_that_is_told_needs_no_question() -> None:
    server = OpenAIServer([Refusal(status=500)])
    assert isinstance(refused(server, api="chat"), ServerError)
    assert len(server.bodies) == 1
