"""The real SDK against the API's rules, over a real connection."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.providers.provider_contract import collected, finished
from tests.servers.anthropic_app import AnthropicServer, Refusal, Reply, call, text, thought
from tests.servers.harness import serving

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import (
    AuthError,
    CallDelta,
    ContextLimitError,
    Finished,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    Request,
    ServerError,
    StopReason,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolSchema,
    Usage,
    UsageSeen,
)
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.ports import Provider
from jaato.providers.anthropic import AnthropicProvider
from jaato.wire.anthropic import KEY

TOOLS = (
    ToolSchema(
        name="read",
        description="Reads a file.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    ),
)
HELLO = Reply(blocks=(text("Hello, world."),))


class Stage:
    """One listening socket for all tests: it takes a quarter of a second to open and close."""

    url: str
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


STAGE = Stage()


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


def asking(*messages: Message | str, **more: Any) -> Request:
    """A request of these messages; strings are the user's."""
    told = [Message.from_text("user", one) if isinstance(one, str) else one for one in messages]
    return Request(
        model="claude-test", messages=tuple(told or [Message.from_text("user", "Hi")]), **more
    )


def talked(
    server: AnthropicServer,
    talk: Callable[[AnthropicProvider], Awaitable[Any]],
    **settings: Any,
) -> Any:
    """What comes of a talk with a server."""

    async def run() -> Any:
        chosen: dict[str, Any] = {"api_key": "k", "base_url": STAGE.url, "max_retries": 0}
        provider = AnthropicProvider(**chosen | settings)
        try:
            return await talk(provider)
        finally:
            await provider.aclose()

    STAGE.app = server.app
    return asyncio.run(run())


def answer_of(server: AnthropicServer, request: Request, **settings: Any) -> list[StreamEvent]:
    events: list[StreamEvent] = talked(server, lambda p: collected(p, request), **settings)
    return events


def refused(server: AnthropicServer, request: Request | None = None, **settings: Any) -> Any:
    """The error that a request ends with."""
    with pytest.raises(ProviderError) as caught:
        answer_of(server, request or asking(), **settings)
    return caught.value


# --- Answers.


def test_a_text_streams_in() -> None:
    server = AnthropicServer([HELLO])
    events = answer_of(server, asking(system="Be brief."))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello, ", "world."]
    last = finished(events)
    assert last.message.parts == (Part(text="Hello, world."),)
    assert (last.message.role, last.stop) == (Role.MODEL, StopReason.END)
    (body,) = server.bodies
    assert (body["stream"], body["model"], body["max_tokens"]) == (True, "claude-test", 8192)
    assert server.headers[0]["authorization"] == "Bearer k"


def test_the_whole_tool_loop_with_thoughts() -> None:
    server = AnthropicServer(
        [
            Reply(
                blocks=(
                    thought("Two files."),
                    thought(),
                    text("I read both."),
                    call("t1", "read", path="a.py"),
                    call("t2", "read", path="größer.py"),
                )
            ),
            Reply(blocks=(thought("Now I know."), text("They differ."))),
            Reply(blocks=(text("You're welcome."),)),
        ]
    )

    async def talk(provider: AnthropicProvider) -> list[list[StreamEvent]]:
        request = asking("Compare them.", system="Be brief.", tools=TOOLS, thinking="high")
        steps = [await collected(provider, request)]
        results = [
            Part(function_response=ToolResult(one.id, one.name, {"lines": 3}))
            for one in finished(steps[0]).message.function_calls
        ]
        said = (finished(steps[0]).message, Message(Role.TOOL, results))
        request = replace(request, messages=(*request.messages, *said), marks=(2, 0))
        steps.append(await collected(provider, request))
        said = (finished(steps[1]).message, Message.from_text(Role.USER, "Thanks."))
        request = replace(request, messages=(*request.messages, *said), marks=(4, 2))
        return [*steps, await collected(provider, request)]

    first, second, third = talked(server, talk)
    assert server.breaches == []
    assert [event for event in first if isinstance(event, ThoughtDelta)] == [
        ThoughtDelta("Two fil"),
        ThoughtDelta("es."),
    ]
    started = [event for event in first if isinstance(event, CallDelta) and event.name]
    assert started == [CallDelta(0, "read"), CallDelta(1, "read")]
    arguments = "".join(e.arguments for e in first if isinstance(e, CallDelta) and e.index == 0)
    assert arguments == '{"path": "a.py"}'
    message = finished(first).message
    assert finished(first).stop is StopReason.TOOL_CALLS
    assert message.function_calls == (
        FunctionCall("t1", "read", {"path": "a.py"}),
        FunctionCall("t2", "read", {"path": "größer.py"}),
    )
    assert message.parts[0].thought == "Two files."
    assert set(message.parts[0].extra[KEY]) == {"signature"}
    assert set(message.parts[1].extra[KEY]) == {"type", "data"}
    assert finished(second).message.text == "They differ."
    assert finished(third).message.text == "You're welcome."
    sent = server.bodies[2]["messages"]
    kinds = [[block["type"] for block in one["content"]] for one in sent]
    assert kinds == [
        ["text"],
        ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["thinking", "text"],
        ["text"],
    ]
    assert server.bodies[0]["thinking"] == {"type": "adaptive"}
    assert server.bodies[0]["output_config"] == {"effort": "high"}


def test_a_history_that_was_edited_before_a_thought_is_refused_until_it_goes() -> None:
    server = AnthropicServer(
        [Reply(blocks=(thought("Hm."), text("Yes."))), Reply(blocks=(text("Still yes."),))]
    )

    async def talk(provider: AnthropicProvider) -> tuple[ProviderError, Finished]:
        request = asking("Is it?")
        said = finished(await collected(provider, request)).message
        edited = asking("Was it?", said, "Sure?")
        with pytest.raises(RejectedError) as caught:
            await collected(provider, edited)
        without = said.with_parts([Part(thought="Hm."), *said.parts[1:]])
        answer = finished(await collected(provider, asking("Was it?", without, "Sure?")))
        return caught.value, answer

    error, answer = talked(server, talk)
    assert "bound to a different conversation" in str(error)
    assert (error.status, error.code) == (400, "invalid_request_error")
    assert answer.message.text == "Still yes."


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        pytest.param(
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 200,
                "cache_creation_input_tokens": 30,
                "output_tokens": 5,
                "output_tokens_details": {"thinking_tokens": 2},
            },
            Usage(
                input_tokens=240,
                output_tokens=5,
                cached_tokens=200,
                cache_write_tokens=30,
                thinking_tokens=2,
            ),
            id="with a cache",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": None,
                "cache_creation": None,
                "output_tokens_details": None,
            },
            Usage(input_tokens=10, output_tokens=5),
            id="with nulls",
        ),
        pytest.param(
            {"input_tokens": None, "output_tokens": None},
            Usage(output_tokens=1),
            id="with hardly anything",
        ),
    ],
)
def test_usage(figures: dict[str, Any], usage: Usage) -> None:
    events = answer_of(AnthropicServer([replace(HELLO, usage=figures)]), asking())
    seen = [event.usage for event in events if isinstance(event, UsageSeen)]
    assert len(seen) == 2
    assert seen[0].input_tokens == usage.input_tokens, "known before the answer begins"
    assert finished(events).usage == seen[-1] == usage


@pytest.mark.parametrize(
    ("told", "stop"),
    [
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("pause_turn", StopReason.PAUSED),
        ("stop_sequence", StopReason.END),
        ("never_heard_of", StopReason.OTHER),
    ],
)
def test_why_it_stopped(told: str, stop: StopReason) -> None:
    assert finished(answer_of(AnthropicServer([replace(HELLO, stop=told)]), asking())).stop is stop


def test_a_turn_that_paused_goes_on() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    server = AnthropicServer(
        [
            Reply(blocks=(text("Let me look."), search), stop="pause_turn"),
            Reply(blocks=(found, text("Found."))),
            Reply(blocks=(text("Yes."),)),
        ]
    )

    async def talk(provider: AnthropicProvider) -> list[Finished]:
        first = finished(await collected(provider, asking("Look it up.")))
        more = asking("Look it up.", first.message)
        second = finished(await collected(provider, more))
        last = asking("Look it up.", first.message, second.message, "Really?")
        return [first, second, finished(await collected(provider, last))]

    first, second, third = talked(server, talk)
    assert first.stop is StopReason.PAUSED
    assert second.message.text == "Found."
    assert third.message.text == "Yes."
    assert server.breaches == []


def test_what_only_python_can_hold_is_sent_all_the_same() -> None:
    odd = "lone \ud800 half, whole \ud83d\ude00, 世界"
    server = AnthropicServer([HELLO])
    call_ = Part(function_call=FunctionCall("t1", "read", {"x": float("inf"), "big": 2**70}))
    result = Part(function_response=ToolResult("t1", "read", odd))
    answer_of(
        server,
        asking(odd, Message(Role.MODEL, [call_]), Message(Role.TOOL, [result]), system=odd),
    )
    (body,) = server.bodies
    mended = "lone \ufffd half, whole 😀, 世界"
    assert body["system"][0]["text"] == mended
    assert body["messages"][0]["content"][0]["text"] == mended
    assert body["messages"][1]["content"][0]["input"] == {"x": None, "big": 2**70}
    assert body["messages"][2]["content"][0]["content"] == mended


def test_images_and_options_go_along() -> None:
    server = AnthropicServer([HELLO])
    picture = Message(Role.USER, [Part(text="See?"), Part(inline_data=Media("image/png", b"\1\2"))])
    options = {"temperature": 0.5, "metadata": {"user_id": "u"}, "cache_ttl": "1h"}
    answer_of(
        server,
        asking(picture, tools=TOOLS, options=options, max_output_tokens=50),
        betas=("one-2026", "two-2026"),
    )
    (body,) = server.bodies
    assert (body["temperature"], body["metadata"], body["max_tokens"]) == (
        0.5,
        {"user_id": "u"},
        50,
    )
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "image"]
    assert server.headers[0]["anthropic-beta"] == "one-2026,two-2026"


# --- What goes wrong.

CONTEXT = "prompt is too long: 208310 tokens > 200000 maximum"
NO_ROOM = "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease"
MISLEADING = (
    "This request would exceed the limit of 30,000 input tokens per minute: prompt is too long"
)


@pytest.mark.parametrize(
    ("refusal", "kind", "facts"),
    [
        pytest.param(
            Refusal(status=400, type="invalid_request_error", message=CONTEXT),
            ContextLimitError,
            {"limit": 200_000, "code": "invalid_request_error", "status": 400},
            id="the prompt does not fit",
        ),
        pytest.param(
            Refusal(status=400, type="invalid_request_error", message=NO_ROOM),
            ContextLimitError,
            {"limit": 200_000},
            id="the answer does not fit",
        ),
        pytest.param(
            Refusal(status=400, type="invalid_request_error", message="prompt is too long"),
            ContextLimitError,
            {"limit": None},
            id="a limit that is not told",
        ),
        pytest.param(
            Refusal(status=413, type="request_too_large", message="Request exceeds the maximum"),
            ContextLimitError,
            {"limit": None, "status": 413},
            id="too many bytes",
        ),
        pytest.param(
            Refusal(
                status=429,
                type="rate_limit_error",
                message=MISLEADING,
                headers={"retry-after": "17"},
            ),
            RateLimitError,
            {"retry_after": 17.0, "status": 429},
            id="a rate limit that speaks of tokens",
        ),
        pytest.param(
            Refusal(status=429, type="invalid_request_error", message=CONTEXT),
            RateLimitError,
            {"retry_after": None},
            id="a rate limit of the wrong type",
        ),
        pytest.param(
            Refusal(status=429, type="rate_limit_error", code="ramp_limit_exceeded"),
            RateLimitError,
            {"code": "ramp_limit_exceeded"},
            id="a code that names the cause",
        ),
        pytest.param(
            Refusal(status=402, type="billing_error", message="No credit"),
            RateLimitError,
            {"status": 402},
            id="no credit",
        ),
        pytest.param(
            Refusal(status=401, type="authentication_error", message="invalid x-api-key"),
            AuthError,
            {"status": 401, "code": "authentication_error"},
            id="a wrong key",
        ),
        pytest.param(
            Refusal(status=403, type="permission_error"), AuthError, {"status": 403}, id="forbidden"
        ),
        pytest.param(
            Refusal(status=404, type="not_found_error", message="model: claude-9"),
            RejectedError,
            {"status": 404},
            id="no such model",
        ),
        pytest.param(
            Refusal(status=400, type="invalid_request_error", message="tools: too long a name"),
            RejectedError,
            {"status": 400},
            id="a wrong request",
        ),
        pytest.param(Refusal(status=500), ServerError, {"status": 500}, id="it failed"),
        pytest.param(
            Refusal(status=529, type="overloaded_error", message="Overloaded"),
            ServerError,
            {"status": 529, "code": "overloaded_error"},
            id="overloaded",
        ),
        pytest.param(
            Refusal(status=408, type="timeout"), NetworkError, {"status": 408}, id="timed out"
        ),
        pytest.param(
            Refusal(status=502, type="bad_gateway"), ServerError, {}, id="a gateway's own type"
        ),
    ],
)
def test_refusals(refusal: Refusal, kind: type[ProviderError], facts: dict[str, Any]) -> None:
    error = refused(AnthropicServer([refusal]), name="mine")
    assert type(error) is kind
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.provider == "mine"
    assert refusal.message in str(error)


def test_the_window_of_the_server_is_told() -> None:
    error = refused(AnthropicServer(window=20), asking("word " * 100))
    assert (type(error), error.limit) == (ContextLimitError, 20)


@pytest.mark.parametrize(
    ("told", "kind", "limit"),
    [
        pytest.param(("overloaded_error", "Overloaded"), ServerError, None, id="overloaded"),
        pytest.param(("api_error", "Internal"), ServerError, None, id="an error of the server"),
        pytest.param(("rate_limit_error", MISLEADING), RateLimitError, None, id="a rate limit"),
        pytest.param(("authentication_error", "Expired"), AuthError, None, id="an expired key"),
        pytest.param(("invalid_request_error", "No"), RejectedError, None, id="a wrong request"),
        pytest.param(("invalid_request_error", CONTEXT), ContextLimitError, 200_000, id="too long"),
        pytest.param(("brand_new_error", "What?"), RejectedError, None, id="a type nobody knows"),
    ],
)
def test_an_error_in_the_middle(
    told: tuple[str, str], kind: type[ProviderError], limit: int | None
) -> None:
    reply = replace(HELLO, fails_after=4, error=told)
    error = refused(AnthropicServer([reply]))
    assert (type(error), error.status, error.code) == (kind, None, told[0])
    assert getattr(error, "limit", None) == limit


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(replace(HELLO, breaks_after=5), id="the connection is lost"),
        pytest.param(replace(HELLO, stops_after=5), id="the stream ends too early"),
        pytest.param(replace(HELLO, stops_after=0), id="nothing comes at all"),
    ],
)
def test_an_answer_that_breaks_off(reply: Reply) -> None:
    error = refused(AnthropicServer([reply]))
    assert type(error) is NetworkError
    assert "broke off" in str(error)


def test_what_came_before_it_broke_off_was_told() -> None:
    server = AnthropicServer([replace(HELLO, breaks_after=4)])

    async def talk(provider: AnthropicProvider) -> list[StreamEvent]:
        seen: list[StreamEvent] = []
        with pytest.raises(NetworkError):  # noqa: PT012 -- the loop is what raises
            async for event in provider.stream(asking()):
                seen.append(event)  # noqa: PERF401 -- the loop raises
        return seen

    events = talked(server, talk)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello, "]


def test_garbage_is_the_servers_fault() -> None:
    error = refused(AnthropicServer([replace(HELLO, garbage_after=4)]))
    assert type(error) is ServerError
    assert "base_url" in str(error)


def test_nobody_listens() -> None:
    error = refused(AnthropicServer(), base_url="http://127.0.0.1:9")
    assert type(error) is NetworkError
    assert "could not be reached" in str(error)


def test_it_takes_too_long() -> None:
    def slow(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("too slow", request=request)

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(slow))
    error = refused(AnthropicServer(), http_client=client)
    assert type(error) is NetworkError
    assert "in time" in str(error)


def test_retries_are_made_before_an_answer_begins() -> None:
    soon = {"retry-after-ms": "1"}
    server = AnthropicServer(
        [
            Refusal(status=529, type="overloaded_error", headers=soon),
            Refusal(status=429, type="rate_limit_error", headers=soon),
            HELLO,
        ]
    )
    events = answer_of(server, asking(), max_retries=2)
    assert finished(events).message.text == "Hello, world."
    assert [body["messages"] for body in server.bodies] == [server.bodies[0]["messages"]] * 3


def test_no_retry_once_an_answer_has_begun() -> None:
    server = AnthropicServer([replace(HELLO, breaks_after=5), HELLO])
    assert type(refused(server, max_retries=2)) is NetworkError
    assert len(server.bodies) == 1


def test_hanging_up_early_ends_the_answer() -> None:
    server = AnthropicServer([replace(HELLO, endless=True)])

    async def talk(provider: AnthropicProvider) -> bool:
        stream = provider.stream(asking())
        async for event in stream:
            if isinstance(event, TextDelta) and event.text == "and on ":
                break
        await stream.aclose()  # type: ignore[attr-defined]  # the port's iterator is a generator
        return await asyncio.to_thread(server.hung_up.wait, 20)

    assert talked(server, talk)


def test_a_cancelled_turn_ends_the_answer() -> None:
    server = AnthropicServer([replace(HELLO, endless=True)])

    async def talk(provider: AnthropicProvider) -> bool:
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

    assert talked(server, talk)


def test_one_connection_serves_several_answers() -> None:
    server = AnthropicServer([HELLO, HELLO, HELLO])
    opened: list[object] = []

    async def trace(name: str, info: dict[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            opened.append(info)

    class Traced(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            request.extensions["trace"] = trace
            return await super().handle_async_request(request)

    client = httpx2.AsyncClient(transport=Traced())

    async def talk(provider: AnthropicProvider) -> None:
        async with client:
            for _ in range(3):
                await collected(provider, asking())

    talked(server, talk, http_client=client)
    assert len(opened) == 1


# --- Windows.


def test_the_window_is_asked_for_once() -> None:
    server = AnthropicServer(models={"claude-a": 200_000, "claude-b": None})

    async def talk(provider: AnthropicProvider) -> list[int | None]:
        asked = ["claude-a", "claude-b", "claude-c", "given"] * 2
        together = await asyncio.gather(*map(provider.context_limit, asked))
        return [*together]

    limits = talked(server, talk, context_limits={"given": 5})
    assert limits == [200_000, None, None, 5] * 2
    assert sorted(server.asked_models) == ["claude-a", "claude-b", "claude-c"]


def test_a_window_that_could_not_be_asked_for_is_asked_for_again() -> None:
    server = AnthropicServer(models={"claude-a": Refusal(status=500)})

    async def talk(provider: AnthropicProvider) -> list[int | None]:
        before = await provider.context_limit("claude-a")
        server.models["claude-a"] = 1000
        return [before, await provider.context_limit("claude-a")]

    assert talked(server, talk) == [None, 1000]


# --- The provider itself.


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return iter(())


@pytest.mark.usefixtures("no_environment")
def test_without_a_key_it_says_where_one_belongs() -> None:
    error = refused(AnthropicServer([HELLO]), api_key=None)
    assert type(error) is AuthError
    assert "ANTHROPIC_API_KEY" in str(error)


def test_a_token_is_a_key_too() -> None:
    server = AnthropicServer([HELLO])
    answer_of(server, asking(), api_key=None, auth_token="token")  # noqa: S106 -- of the test server
    assert server.headers[0]["authorization"] == "Bearer token"


def test_two_keys_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="one of them"):
        AnthropicProvider(api_key="a", auth_token="b")  # noqa: S106 -- nobody's


def test_it_is_a_provider() -> None:
    provider = AnthropicProvider(api_key="k", name="claude")
    assert isinstance(provider, Provider)
    assert provider.name == "claude"
    asyncio.run(provider.aclose())


def test_a_client_that_was_given_stays_open() -> None:
    async def run() -> None:
        async with httpx2.AsyncClient() as client:
            provider = AnthropicProvider(api_key="k", http_client=client)
            await provider.aclose()
            assert not client.is_closed

    asyncio.run(run())


def test_the_sdk_is_loaded_by_who_calls_it() -> None:
    program = (
        "import sys, jaato.providers.anthropic, jaato.wire.anthropic_rules;"
        "sys.exit(any(name in sys.modules for name in ('anthropic', 'httpx2', 'pydantic')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 -- our own words


def test_without_the_sdk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaato\[anthropic\]'"):
        AnthropicProvider(api_key="k")
