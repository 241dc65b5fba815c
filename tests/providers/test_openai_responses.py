"""Responses through the real SDK: thoughts that are replayed, items of all kinds, usage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.providers.openai_talks import (
    HELLO,
    STAGE,
    TOOLS,
    answer_of,
    asking,
    refused,
    results_of,
    talked,
)
from tests.providers.provider_contract import checked, collected, finished
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Reply, call, text, thought

from jaato.exchange import (
    CallDelta,
    Finished,
    RejectedError,
    Request,
    StopReason,
    ThoughtDelta,
    Usage,
    UsageSeen,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.providers.openai import OpenAIProvider
from jaato.wire.openai_responses import RESPONSES, decode

RESPONSES_API: dict[str, Any] = {"api": "responses"}


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


def kinds(body: dict[str, Any]) -> list[str]:
    """What the items of a request are."""
    return [item.get("type") or item["role"] for item in body["input"]]


def test_thoughts_are_encrypted_and_replayed_and_nothing_is_stored() -> None:
    server = OpenAIServer(
        [
            Reply(
                parts=(
                    thought("Two files."),
                    call("t1", "read", '{"path":"a.py"}'),
                    thought(""),
                    call("t2", "read", '{"path":"b.py"}'),
                )
            ),
            Reply(parts=(thought("Now I know."), text("They differ."))),
            HELLO,
        ]
    )

    async def talk(provider: OpenAIProvider) -> list[Finished]:
        request = asking("Compare them.", system="Be brief.", tools=TOOLS, thinking="high")
        first = checked(await collected(provider, request))
        said = (*request.messages, first.message, results_of(first.message))
        second = checked(await collected(provider, replace(request, messages=said)))
        said = (*said, second.message, Message.from_text(Role.USER, "Thanks."))
        return [first, second, checked(await collected(provider, replace(request, messages=said)))]

    first, second, _ = talked(server, talk, **RESPONSES_API)
    assert server.breaches == []
    assert [part.thought for part in first.message.parts] == ["Two files.", None, "", None]
    assert first.stop is StopReason.TOOL_CALLS
    assert second.message.text == "They differ."
    for body in server.bodies:
        assert body["store"] is False
        assert body["include"] == ["reasoning.encrypted_content"]
        assert body["instructions"] == "Be brief."
        assert body["reasoning"] == {"effort": "high", "summary": "auto"}
        assert body["tools"][0]["strict"] is False
    assert kinds(server.bodies[2]) == [
        "user",
        "reasoning",
        "function_call",
        "reasoning",
        "function_call",
        "function_call_output",
        "function_call_output",
        "reasoning",
        "message",
        "user",
    ]
    sealed = [item.get("encrypted_content") for item in server.bodies[2]["input"]]
    assert {one for one in sealed if one} == server.issued


def test_a_thought_of_somebody_else_is_refused_by_the_api() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "forged"}
    foreign = decode(
        {
            "model": "gpt-test",
            "input": [
                {"role": "user", "content": "Hi"},
                item,
                {"role": "assistant", "content": "Ho"},
                {"role": "user", "content": "And?"},
            ],
        }
    )
    error = refused(OpenAIServer([HELLO]), foreign, **RESPONSES_API)
    assert (type(error), error.code) == (RejectedError, "invalid_encrypted_content")


def test_a_thought_that_cannot_be_replayed_is_output_only() -> None:
    server = OpenAIServer([Reply(parts=(thought("Hm."), text("Yes.")))] * 2)
    # A model of a server that encrypts nothing.
    request = asking(options={"include": []})

    async def talk(provider: OpenAIProvider) -> Finished:
        first = checked(await collected(provider, request))
        more = (*request.messages, first.message, *request.messages)
        await collected(provider, replace(request, messages=more))
        return first

    first = talked(server, talk, **RESPONSES_API)
    assert first.message.parts[0] == Part(thought="Hm.")
    assert kinds(server.bodies[1]) == ["user", "message", "user"]
    assert server.breaches == []


def test_thoughts_stream_in() -> None:
    events = answer_of(
        OpenAIServer([Reply(parts=(thought("Two files."), text("Yes.")))]),
        asking(),
        **RESPONSES_API,
    )
    pieces = [event.text for event in events if isinstance(event, ThoughtDelta)]
    assert pieces == ["Two fil", "es."]


def test_items_that_nobody_here_knows_go_back_as_they_came() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "x"}}
    compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
    custom = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "t9",
        "name": "patch",
        "input": "*** Begin",
        "status": "completed",
    }
    server = OpenAIServer([Reply(parts=(search, compacted, text("Found."), custom)), HELLO])
    server.issued.add("sealed")

    async def talk(provider: OpenAIProvider) -> Finished:
        first = checked_custom(finished(await collected(provider, asking())))
        answer = Part(
            function_response=ToolResult("t9", "patch", "done"),
            extra={RESPONSES: {"kind": "custom"}},
        )
        said = (first.message, Message(Role.TOOL, [answer]))
        await collected(provider, asking("Hi", *said))
        return first

    first = talked(server, talk, **RESPONSES_API)
    assert first.message.text == "Found."
    assert server.breaches == []
    sent = server.bodies[1]["input"]
    assert [sent[1], sent[2], sent[4]] == [search, compacted, custom]
    assert sent[5] == {"type": "custom_tool_call_output", "call_id": "t9", "output": "done"}


def checked_custom(end: Finished) -> Finished:
    """A custom call has text for arguments."""
    assert end.stop is StopReason.TOOL_CALLS
    assert end.message.function_calls == (FunctionCall("t9", "patch", {"input": "*** Begin"}),)
    return end


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        ("never_heard_of", StopReason.OTHER),
    ],
)
def test_an_answer_that_is_incomplete(reason: str, stop: StopReason) -> None:
    server = OpenAIServer([replace(HELLO, stop=reason)])
    assert checked(answer_of(server, asking(), **RESPONSES_API)).stop is stop


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        pytest.param(
            {
                "input_tokens": 240,
                "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 20},
                "total_tokens": 290,
            },
            Usage(
                input_tokens=240,
                output_tokens=50,
                cached_tokens=200,
                cache_write_tokens=30,
                thinking_tokens=20,
            ),
            id="with a cache and thoughts",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "input_tokens_details": None,
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": None},
            },
            Usage(input_tokens=10, output_tokens=5),
            id="with nulls",
        ),
        pytest.param(
            {"input_tokens": None, "output_tokens": None}, Usage(), id="with nothing but nulls"
        ),
    ],
)
def test_usage(figures: dict[str, Any], usage: Usage) -> None:
    events = answer_of(OpenAIServer([replace(HELLO, usage=figures)]), asking(), **RESPONSES_API)
    assert [event.usage for event in events if isinstance(event, UsageSeen)] == [usage]
    assert checked(events).usage == usage


def test_arguments_stream_in() -> None:
    reply = Reply(parts=(call("t1", "read", '{"path": "a"}'), call("t2", "read", "")), piece=6)
    events = answer_of(OpenAIServer([reply]), asking(tools=TOOLS), **RESPONSES_API)
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, "read"),
        CallDelta(0, None, '{"path'),
        CallDelta(0, None, '": "a"'),
        CallDelta(0, None, "}"),
        CallDelta(1, "read"),
    ]
    assert checked(events).message.function_calls[1] == FunctionCall("t2", "read", {})


def test_a_foreign_request_goes_on_as_it_came() -> None:
    body = {
        "model": "gpt-test",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi", "x": 1}]}],
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "prompt_cache_key": "k",
        "x_unknown": {"deep": [None]},
        "max_output_tokens": 77,
        "stream": False,
    }
    server = OpenAIServer([HELLO])
    request: Request = decode(body)
    answer_of(server, request, **RESPONSES_API)
    assert server.bodies == [{**body, "stream": True}]
