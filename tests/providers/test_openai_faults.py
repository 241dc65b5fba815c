"""Answers of OpenAI, and of servers like it, that begin and then fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.providers.openai_talks import HELLO, STAGE, answer_of, asking, refused, talked
from tests.providers.provider_contract import collected
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Reply

from jaato.exchange import (
    ContextLimitError,
    Finished,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    ServerError,
    StreamEvent,
    TextDelta,
)
from jaato.providers.openai import Api, OpenAIProvider


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> Api:
    return "chat" if request.param == "chat" else "responses"


TOO_LONG = "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens."
TOO_FAST = "Request too large for gpt-5.5 on tokens per min (TPM): Limit 30000, Requested 41000."
SOON = "Rate limit reached for gpt-5.5 on tokens per min (TPM). Please try again in 1.898s."


@pytest.mark.parametrize(
    ("told", "kind", "facts"),
    [
        pytest.param(
            {"error": {"message": "Oh.", "type": "server_error", "code": None}},
            ServerError,
            {"code": "server_error", "status": None},
            id="an error of the server",
        ),
        pytest.param(
            {"error": {"message": "Provider disconnected", "code": 502}},
            ServerError,
            {"code": None, "status": 502},
            id="a status in place of a code",
        ),
        pytest.param(
            {"error": {"message": TOO_FAST, "code": 429}},
            RateLimitError,
            {"status": 429},
            id="a rate limit by its status",
        ),
        pytest.param(
            {"error": {"message": TOO_LONG, "type": "BadRequestError", "code": 400}},
            ContextLimitError,
            {"limit": 8192, "status": 400},
            id="a context limit by its text",
        ),
        pytest.param(
            {
                "error": {
                    "code": 500,
                    "message": "Context size has been exceeded.",
                    "type": "server_error",
                }
            },
            ContextLimitError,
            {"limit": None},
            id="a window that is full while the model answers (llama.cpp)",
        ),
        pytest.param(
            {"error": {"message": "No.", "type": "invalid_request_error"}},
            RejectedError,
            {},
            id="a wrong request",
        ),
        pytest.param({"error": "It broke."}, ServerError, {}, id="a text for an error"),
        pytest.param(
            {"error": {"message": SOON, "code": "rate_limit_exceeded"}},
            RateLimitError,
            {"retry_after": 1.898},
            id="a rate limit, whose wait only the text tells",
        ),
    ],
)
def test_an_error_in_the_middle(
    told: Any, kind: type[ProviderError], facts: dict[str, Any], api: Api
) -> None:
    reply = replace(HELLO, fails_after=3, error=told)
    error = refused(OpenAIServer([reply]), api=api)
    assert type(error) is kind, error
    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("told", "kind", "facts"),
    [
        pytest.param(
            {"type": "error", "code": "server_error", "message": "Oh.", "param": None},
            ServerError,
            {"code": "server_error"},
            id="an error event",
        ),
        pytest.param(
            {"type": "error", "code": None, "message": "Oh.", "param": None},
            ServerError,
            {"code": None},
            id="an error event without a code",
        ),
        pytest.param(
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "code": "context_length_exceeded"}
                | {"message": "Your input exceeds the context window of this model."},
            },
            ContextLimitError,
            {"code": "context_length_exceeded", "limit": None},
            id="an error event with an error inside",
        ),
        pytest.param(
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "rate_limit_exceeded", "message": SOON},
                },
            },
            RateLimitError,
            {"code": "rate_limit_exceeded", "retry_after": 1.898},
            id="a response that failed",
        ),
        pytest.param(
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "invalid_prompt", "message": "Against the policy."},
                },
            },
            RejectedError,
            {"code": "invalid_prompt"},
            id="a prompt that is not allowed",
        ),
        pytest.param(
            {"type": "response.failed", "response": {"status": "failed", "error": None}},
            ServerError,
            {"code": None},
            id="a response that failed and does not say why",
        ),
    ],
)
def test_a_response_that_fails(told: Any, kind: type[ProviderError], facts: dict[str, Any]) -> None:
    reply = replace(HELLO, fails_after=4, error=told)
    error = refused(OpenAIServer([reply]), api="responses", name="mine")
    assert type(error) is kind, error
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.provider == "mine"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(replace(HELLO, breaks_after=3), id="the connection is lost"),
        pytest.param(replace(HELLO, stops_after=3), id="the stream ends too early"),
        pytest.param(replace(HELLO, stops_after=0), id="nothing comes at all"),
    ],
)
def test_an_answer_that_breaks_off(reply: Reply, api: Api) -> None:
    error = refused(OpenAIServer([reply]), api=api)
    assert type(error) is NetworkError
    assert "broke off" in str(error)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_what_comes_behind_the_end_breaks_nothing(api: Api) -> None:
    last = {"chat": 4, "responses": 10}[api]
    server = OpenAIServer([replace(HELLO, breaks_after=last)])
    *_, end = answer_of(server, asking(), api=api)
    assert isinstance(end, Finished)
    assert end.message.text == "Hello, world."


def test_what_came_before_it_broke_off_was_told(api: Api) -> None:
    server = OpenAIServer([replace(HELLO, breaks_after={"chat": 2, "responses": 5}[api])])

    async def talk(provider: OpenAIProvider) -> list[StreamEvent]:
        seen: list[StreamEvent] = []
        with pytest.raises(NetworkError):  # noqa: PT012 -- the loop is what raises
            async for event in provider.stream(asking()):
                seen.append(event)  # noqa: PERF401 -- the loop raises
        return seen

    events = talked(server, talk, api=api)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello, "]


def test_garbage_is_the_servers_fault(api: Api) -> None:
    error = refused(OpenAIServer([replace(HELLO, garbage_after=3)]), api=api)
    assert type(error) is ServerError
    assert "base_url" in str(error)


def test_an_item_that_cannot_be_read_is_the_servers_fault() -> None:
    reply = Reply(parts=({"type": "function_call", "arguments": "{}", "name": "read"},))
    error = refused(OpenAIServer([reply]), api="responses")
    assert type(error) is ServerError
    assert "call_id is missing" in str(error)


def test_nobody_listens(api: Api) -> None:
    error = refused(OpenAIServer(), base_url="http://127.0.0.1:9/v1", api=api)
    assert type(error) is NetworkError
    assert "could not be reached" in str(error)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        pytest.param(httpx2.ReadTimeout("too slow"), "in time", id="no word for too long"),
        pytest.param(httpx2.ConnectTimeout("too slow"), "in time", id="no connection in time"),
        pytest.param(httpx2.ReadError("reset"), "broke off: reset", id="the connection is lost"),
        pytest.param(httpx2.ConnectError("nobody"), "reached: nobody", id="nobody is there"),
    ],
)
def test_what_the_network_does(raised: Exception, says: str) -> None:
    def fails(request: httpx2.Request) -> httpx2.Response:
        raise raised

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(fails))

    async def talk(provider: OpenAIProvider) -> None:
        await collected(provider, asking())

    with pytest.raises(NetworkError, match=says):
        talked(OpenAIServer(), talk, http_client=client)
