"""What holds for both APIs of OpenAI: the real SDK, their rules, a real connection."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.providers.openai_talks import (
    HELLO,
    MODEL,
    STAGE,
    TOOLS,
    answer_of,
    asking,
    refused,
    results_of,
    talked,
)
from tests.providers.provider_contract import (
    CHECKS,
    Check,
    checked,
    collected,
    finished,
    ignores_bare_thoughts,
    raises,
)
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Refusal, Reply, call, refusal, text, thought

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import (
    AuthError,
    CallDelta,
    Finished,
    NetworkError,
    RejectedError,
    StopReason,
    StreamEvent,
    TextDelta,
    Usage,
)
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.ports import Provider
from jaato.providers.openai import Api, OpenAIProvider


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> Api:
    return "chat" if request.param == "chat" else "responses"


BUSY = Reply(
    parts=(
        thought("Two files, I think."),
        text("I read both."),
        call("t1", "read", '{"path": "a.py"}'),
        call("t2", "read", '{"path": "größer.py"}'),
    )
)


# --- The contract of every provider.


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: Check, api: Api) -> None:
    server = OpenAIServer([HELLO] * 12)
    talked(server, lambda provider: check(provider, asking(tools=TOOLS)), api=api)
    assert server.breaches == []


def test_a_thought_that_is_output_only_costs_nothing(api: Api) -> None:
    server = OpenAIServer([HELLO] * 2)
    talked(server, lambda provider: ignores_bare_thoughts(provider, MODEL), api=api)


def test_what_it_raises_is_an_error_of_a_provider(api: Api) -> None:
    refusal_ = Refusal(status=400, message="No.")
    error = talked(
        OpenAIServer([refusal_]), lambda p: raises(p, asking(), RejectedError), api=api, name="mine"
    )
    assert error.provider == "mine"


def test_it_is_a_provider() -> None:
    provider = OpenAIProvider(api_key="k", name="gpt")
    assert isinstance(provider, Provider)
    assert provider.name == "gpt"
    assert not provider.binds_thoughts
    asyncio.run(provider.aclose())


# --- Answers.


def test_a_text_streams_in(api: Api) -> None:
    server = OpenAIServer([HELLO])
    events = answer_of(server, asking(system="Be brief."), api=api)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello, ", "world."]
    last = checked(events)
    assert (last.message.text, last.message.role) == ("Hello, world.", Role.MODEL)
    assert last.stop is StopReason.END
    (body,) = server.bodies
    assert (body["stream"], body["model"]) == (True, MODEL)
    assert server.headers[0]["authorization"] == "Bearer k"


def test_the_whole_tool_loop_with_calls_side_by_side(api: Api) -> None:
    server = OpenAIServer([BUSY, Reply(parts=(text("They differ."),))])

    async def talk(provider: OpenAIProvider) -> tuple[list[StreamEvent], Finished]:
        request = asking("Compare them.", system="Be brief.", tools=TOOLS)
        events = await collected(provider, request)
        message = finished(events).message
        said = (*request.messages, message, results_of(message, {"lines": 3}))
        return events, finished(await collected(provider, replace(request, messages=said)))

    first, second = talked(server, talk, api=api)
    assert server.breaches == []
    last = checked(first)
    assert last.stop is StopReason.TOOL_CALLS
    assert last.message.function_calls == (
        FunctionCall("t1", "read", {"path": "a.py"}),
        FunctionCall("t2", "read", {"path": "größer.py"}),
    )
    began = [event for event in first if isinstance(event, CallDelta) and event.name]
    assert [(event.index, event.name) for event in began] == [(0, "read"), (1, "read")]
    assert second.message.text == "They differ."
    assert second.stop is StopReason.END


def test_a_refusal_of_the_model_is_an_answer(api: Api) -> None:
    server = OpenAIServer([Reply(parts=(refusal("I will not."),)), HELLO])

    async def talk(provider: OpenAIProvider) -> Finished:
        first = checked(await collected(provider, asking("Do it.")))
        await collected(provider, asking("Do it.", first.message, "Please."))
        return first

    first = talked(server, talk, api=api)
    assert (first.stop, first.message.text) == (StopReason.REFUSED, "I will not.")
    assert server.breaches == []


def test_an_answer_without_usage(api: Api) -> None:
    last = checked(answer_of(OpenAIServer([replace(HELLO, usage=None)]), asking(), api=api))
    assert last.usage == Usage()


def test_what_only_python_can_hold_is_sent_all_the_same(api: Api) -> None:
    odd = "lone \ud800 half, whole \ud83d\ude00, 世界"
    server = OpenAIServer([HELLO])
    asked = Part(function_call=FunctionCall("t1", "read", {"path": odd, "big": 2**70}))
    result = Part(function_response=ToolResult("t1", "read", odd))
    history = (odd, Message(Role.MODEL, [asked]), Message(Role.TOOL, [result]))
    request = asking(*history, system=odd, options={"temperature": float("inf")})
    answer_of(server, request, api=api)
    assert server.breaches == []
    (body,) = server.bodies
    sent = str(body)
    assert sent.count("lone \ufffd half, whole 😀, 世界") == 4
    assert str(2**70) in sent
    assert body["temperature"] is None


def test_options_and_pictures_go_along(api: Api) -> None:
    server = OpenAIServer([HELLO])
    picture = Message(Role.USER, [Part(text="See?"), Part(inline_data=Media("image/png", b"\1\2"))])
    options = {
        "temperature": 0.5,
        "prompt_cache_key": "me",
        "prompt_cache_retention": "24h",
        "a_new_field": {"x": [1]},
    }
    answer_of(server, asking(picture, tools=TOOLS, options=options), api=api)
    (body,) = server.bodies
    assert {key: body[key] for key in options} == options
    said = body["messages" if api == "chat" else "input"][0]["content"]
    assert [part["type"].removeprefix("input_") for part in said] in (
        ["text", "image_url"],
        ["text", "image"],
    )


# --- Retries, connections, and an end before the end.


def test_retries_are_made_before_an_answer_begins(api: Api) -> None:
    soon = {"retry-after-ms": "1"}
    server = OpenAIServer(
        [
            Refusal(status=503, type="server_error", headers=soon),
            Refusal(status=429, code="rate_limit_exceeded", headers=soon),
            HELLO,
        ]
    )
    events = answer_of(server, asking(), max_retries=2, api=api)
    assert finished(events).message.text == "Hello, world."
    assert server.bodies == [server.bodies[0]] * 3


def test_no_retry_once_an_answer_has_begun(api: Api) -> None:
    server = OpenAIServer([replace(HELLO, breaks_after=3), HELLO])
    assert type(refused(server, max_retries=2, api=api)) is NetworkError
    assert len(server.bodies) == 1


def test_hanging_up_early_ends_the_answer(api: Api) -> None:
    server = OpenAIServer([replace(HELLO, endless=True)])

    async def talk(provider: OpenAIProvider) -> bool:
        stream = provider.stream(asking())
        seen = 0
        async for event in stream:
            seen += isinstance(event, TextDelta)
            if seen > 3:
                break
        await stream.aclose()  # type: ignore[attr-defined]  # the port's iterator is a generator
        return await asyncio.to_thread(server.hung_up.wait, 20)

    assert talked(server, talk, api=api)


def test_a_cancelled_turn_ends_the_answer(api: Api) -> None:
    server = OpenAIServer([replace(HELLO, endless=True)])

    async def talk(provider: OpenAIProvider) -> bool:
        began = asyncio.Event()

        async def listen() -> None:
            async for event in provider.stream(asking()):
                if isinstance(event, TextDelta):
                    began.set()

        task = asyncio.create_task(listen())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(server.hung_up.wait, 20)

    assert talked(server, talk, api=api)


def test_one_connection_serves_several_answers(api: Api) -> None:
    server = OpenAIServer([HELLO] * 3)
    opened: list[object] = []

    async def trace(name: str, info: dict[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            opened.append(info)

    class Traced(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            request.extensions["trace"] = trace
            return await super().handle_async_request(request)

    async def run() -> None:
        async with httpx2.AsyncClient(transport=Traced()) as client:
            provider = OpenAIProvider("k", f"{STAGE.url}/v1", client, api=api)
            for _ in range(3):
                await collected(provider, asking())

    STAGE.app = server.app
    asyncio.run(run())
    assert len(opened) == 1


def test_a_client_that_was_given_stays_open() -> None:
    async def run() -> None:
        async with httpx2.AsyncClient() as client:
            provider = OpenAIProvider(api_key="k", http_client=client)
            await provider.aclose()
            assert not client.is_closed

    asyncio.run(run())


# --- Keys and addresses.


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize("key", [None, ""], ids=["none", "an empty one"])
def test_the_vendor_is_not_called_without_a_key(key: str | None) -> None:
    with pytest.raises(AuthError, match="OPENAI_API_KEY") as caught:
        OpenAIProvider(api_key=key, name="mine")
    assert caught.value.provider == "mine"


@pytest.mark.usefixtures("no_environment")
def test_another_key_than_that_for_models_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin")

    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        OpenAIProvider()


@pytest.mark.usefixtures("no_environment")
def test_a_server_at_home_needs_no_key(api: Api) -> None:
    server = OpenAIServer([HELLO])
    answer_of(server, asking(), api_key=None, api=api)
    assert "authorization" not in server.headers[0]


@pytest.mark.usefixtures("no_environment")
def test_all_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-outside")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{STAGE.url}/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    server = OpenAIServer([HELLO])
    answer_of(server, asking(), api_key=None, base_url=None)
    (headers,) = server.headers
    assert headers["authorization"] == "Bearer from-outside"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")
    assert server.paths == ["/v1/chat/completions"]


def test_organization_and_project_are_told() -> None:
    server = OpenAIServer([HELLO])
    answer_of(server, asking(), organization="org-2", project="proj-2")
    (headers,) = server.headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-2", "proj-2")


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    ("settings", "called"),
    [
        pytest.param({}, "https://api.openai.com/v1/responses", id="the vendor"),
        pytest.param(
            {"base_url": "https://eu.api.openai.com/v1"},
            "https://eu.api.openai.com/v1/responses",
            id="the vendor in a region",
        ),
        pytest.param(
            {"api": "chat"}, "https://api.openai.com/v1/chat/completions", id="the vendor's chat"
        ),
        pytest.param(
            {"base_url": "http://localhost:1234/v1"},
            "http://localhost:1234/v1/chat/completions",
            id="another server",
        ),
        pytest.param(
            {"base_url": "https://gpt.example.org/openai/v1/", "api": "responses"},
            "https://gpt.example.org/openai/v1/responses",
            id="another server that speaks Responses",
        ),
        pytest.param(
            {"base_url": "https://api.openai.com.example.org/v1"},
            "https://api.openai.com.example.org/v1/chat/completions",
            id="a host that only looks like the vendor's",
        ),
    ],
)
def test_which_api_is_called(settings: dict[str, Any], called: str) -> None:
    calls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(str(request.url))
        return httpx2.Response(400, json={"error": {"message": "No."}})

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    provider = OpenAIProvider(api_key="k", http_client=client, **settings)

    async def run() -> None:
        with pytest.raises(RejectedError):
            await collected(provider, asking())

    asyncio.run(run())
    assert calls == [called]


def test_an_api_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="one of chat, responses"):
        OpenAIProvider(api_key="k", api="completions")  # type: ignore[arg-type]  # as from a file


# --- The SDK.


def test_the_sdk_is_loaded_by_who_calls_it() -> None:
    program = (
        "import sys, jaato.providers.openai, jaato.wire.openai_rules;"
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx2', 'pydantic')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 -- our own words


def test_without_the_sdk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaato\[openai\]'"):
        OpenAIProvider(api_key="k")
