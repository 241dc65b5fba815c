"""Gemini through the real SDK, over real HTTP, against a server that keeps the API's rules."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpx2
import pytest
from google.oauth2.credentials import Credentials
from tests.servers.google_app import (
    API_KEY,
    LIMIT,
    TOKEN,
    Answer,
    Fault,
    GoogleApp,
    answer,
    call,
    chunk,
    error,
    text,
    thought,
)
from tests.servers.harness import serving

from jaato.errors import UsageError
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
from jaato.providers.google import GoogleProvider

FAST = {"retry_options": {"initial_delay": 0.001, "max_delay": 0.001, "jitter": 0.0}}
MODEL = "gemini-3.8-flash"
END = chunk(text("."), stop="STOP")


@contextmanager
def gemini(app: GoogleApp, **settings: Any) -> Iterator[GoogleProvider]:
    """A provider that is connected to the app."""
    settings = {"api_key": API_KEY, "http_options": FAST, **settings}
    with serving(app.app) as address:
        yield GoogleProvider(base_url=address, **settings)


def request(*messages: Message, **fields: Any) -> Request:
    asked = messages or (Message.from_text("user", "hello"),)
    return Request(**{"model": MODEL, "messages": asked, **fields})


def run(
    app: GoogleApp, *messages: Message, settings: dict[str, Any] | None = None, **fields: Any
) -> list[StreamEvent]:
    """The events of one call."""

    async def main(provider: GoogleProvider) -> list[StreamEvent]:
        try:
            return [event async for event in provider.stream(request(*messages, **fields))]
        finally:
            await provider.aclose()

    with gemini(app, **(settings or {})) as provider:
        return asyncio.run(main(provider))


def last(events: list[StreamEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def failure(app: GoogleApp, *messages: Message, **fields: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        run(app, *messages, **fields)
    return caught.value


def test_it_is_a_provider() -> None:
    provider = GoogleProvider(api_key=API_KEY, name="gemini")
    assert isinstance(provider, Provider)
    assert provider.name == "gemini"
    asyncio.run(provider.aclose())


def test_importing_it_loads_no_sdk() -> None:
    code = "import jaato.providers.google, sys; sys.exit('google.genai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 -- ours


def test_an_answer_comes_in_pieces_and_then_whole() -> None:
    app = GoogleApp(
        answer(
            chunk(thought("I "), usageMetadata={"trafficType": "ON_DEMAND"}),
            chunk(thought("think.")),
            chunk(text("Hel"), usageMetadata={"promptTokenCount": 7}),
            chunk(text("lo.")),
            chunk(
                text("", thoughtSignature="c2ln"),
                stop="STOP",
                usageMetadata={
                    "promptTokenCount": 7,
                    "cachedContentTokenCount": 4,
                    "candidatesTokenCount": 2,
                    "thoughtsTokenCount": 3,
                    "totalTokenCount": 12,
                },
            ),
        )
    )
    events = run(app)
    usage = Usage(input_tokens=7, output_tokens=5, cached_tokens=4, thinking_tokens=3)
    assert events[:-1] == [
        ThoughtDelta("I "),
        ThoughtDelta("think."),
        TextDelta("Hel"),
        UsageSeen(Usage(input_tokens=7)),
        TextDelta("lo."),
        UsageSeen(usage),
    ]
    assert last(events).usage == usage
    assert last(events).stop is StopReason.END
    assert last(events).message.parts == (
        Part(thought="I think."),
        Part(text="Hello."),
        Part(text="", extra={"google": {"thoughtSignature": "c2ln"}}),
    )


def test_calls_get_ids_where_there_are_none_and_the_loop_goes_on() -> None:
    first = answer(
        chunk(thought("Both.")),
        chunk(call("read", {"path": "a"}, thoughtSignature="c2ln")),
        chunk(call("read", {"path": "b"}), stop="STOP"),
    )
    app = GoogleApp(first, answer(chunk(text("Done."), stop="STOP")))

    async def main(provider: GoogleProvider) -> tuple[list[StreamEvent], list[StreamEvent]]:
        asked = Message.from_text("user", "compare a and b")
        events = [event async for event in provider.stream(request(asked))]
        calling = last(events).message
        one, other = calling.function_calls
        # Results are given as they come, and so in another order.
        results = [
            Part(function_response=ToolResult(made.id, made.name, made.args["path"]))
            for made in (other, one)
        ]
        tools = Message(Role.TOOL, results)
        more = [event async for event in provider.stream(request(asked, calling, tools))]
        await provider.aclose()
        return events, more

    with gemini(app) as provider:
        events, more = asyncio.run(main(provider))
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, name="read"),
        CallDelta(0, arguments='{"path": "a"}'),
        CallDelta(1, name="read"),
        CallDelta(1, arguments='{"path": "b"}'),
    ]
    assert last(events).stop is StopReason.TOOL_CALLS
    assert [made.id for made in last(events).message.function_calls] == ["call_1", "call_2"]
    assert last(more).message.text == "Done."
    assert app.bodies[1]["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                call("read", {"path": "a"}, thoughtSignature="c2ln"),
                call("read", {"path": "b"}),
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read", "response": {"result": path}}}
                for path in "ab"
            ],
        },
    ]


def test_ids_that_the_api_gives_are_kept_and_sent_back() -> None:
    app = GoogleApp(
        answer(
            chunk(
                call("read", call_id="xyz", thoughtSignature="c2ln"),
                call("run"),
                call("read", call_id="call_1"),
                stop="STOP",
            )
        )
    )
    calls = last(run(app)).message.function_calls
    assert [made.id for made in calls] == ["xyz", "call_2", "call_1"]


def test_the_whole_request_goes_out() -> None:
    tool = ToolSchema(
        name="read", description="Reads.", parameters={"type": "object", "required": ["path"]}
    )
    app = GoogleApp(answer(END))
    run(
        app,
        Message("user", [Part(text="look"), Part(inline_data=Media("image/png", b"\x01", "p"))]),
        system="Be short.",
        tools=(tool,),
        max_output_tokens=100,
        thinking=512,
        options={
            "temperature": 0.5,
            "top_p": 0.9,
            "safety_settings": [],
            "tools": [{"googleSearch": {}}],
        },
        extra={"google": {"labels": {"team": "x"}}},
    )
    assert app.bodies == [
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "look"},
                        {
                            "inlineData": {
                                "mimeType": "image/png",
                                "data": "AQ==",
                                "displayName": "p",
                            }
                        },
                    ],
                }
            ],
            "systemInstruction": {"parts": [{"text": "Be short."}]},
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "read",
                            "description": "Reads.",
                            "parametersJsonSchema": {"type": "object", "required": ["path"]},
                        }
                    ]
                },
                {"googleSearch": {}},
            ],
            "generationConfig": {
                "maxOutputTokens": 100,
                "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 512},
                "temperature": 0.5,
                "topP": 0.9,
            },
            "safetySettings": [],
            "labels": {"team": "x"},
        }
    ]


@pytest.mark.parametrize(
    ("thinking", "config"),
    [
        pytest.param(
            {"thinking": 0}, {"thinkingConfig": {"thinkingBudget": 0}}, id="off, so not shown"
        ),
        pytest.param(
            {"thinking": -1},
            {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}},
            id="as much as the model likes",
        ),
        pytest.param(
            {"thinking": "low"},
            {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}},
            id="by name",
        ),
        pytest.param({}, {}, id="left to the provider"),
    ],
)
def test_thinking(thinking: dict[str, Any], config: dict[str, Any]) -> None:
    app = GoogleApp(answer(END))
    run(app, **thinking)
    assert app.bodies[0].get("generationConfig", {}) == config


def test_texts_that_are_no_unicode_are_sent_all_the_same() -> None:
    app = GoogleApp(answer(END))
    told = ToolResult("1", "run", {"half \ud83d": float("inf"), "path": sys})
    run(
        app,
        Message.from_text("user", "half \udfff"),
        Message("model", [Part(function_call=FunctionCall("1", "run", {"x": "\ud800"}))]),
        Message("tool", [Part(function_response=told)]),
        system="\udc00",
    )
    contents = app.bodies[0]["contents"]
    assert contents[0]["parts"] == [{"text": "half \ufffd"}]
    result = contents[2]["parts"][0]["functionResponse"]["response"]["result"]
    assert result == {"half \ufffd": "inf", "path": str(sys)}


def test_calls_of_another_model_get_the_signature_that_the_api_documents() -> None:
    app = GoogleApp(answer(END))
    run(
        app,
        Message.from_text("user", "go"),
        Message("model", [Part(function_call=FunctionCall(str(n), "run")) for n in range(2)]),
        Message("tool", [Part(function_response=ToolResult(str(n), "run")) for n in range(2)]),
    )
    first, second = app.bodies[0]["contents"][1]["parts"]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second


def test_what_the_sdk_does_not_know_breaks_nothing() -> None:
    app = GoogleApp(
        answer(
            chunk({"hologram": {"depth": 3}}, text("Hi", xNew=1), xNew={"a": 1}),
            chunk({"executableCode": {"language": "PYTHON", "code": "1"}}, stop="STOP"),
        ),
        answer(END),
    )

    async def main(provider: GoogleProvider) -> Finished:
        asked = Message.from_text("user", "go")
        events = [event async for event in provider.stream(request(asked))]
        again = Message.from_text("user", "on")
        async for _ in provider.stream(request(asked, last(events).message, again)):
            pass
        await provider.aclose()
        return last(events)

    with gemini(app) as provider:
        finished = asyncio.run(main(provider))
    assert finished.message.text == "Hi"
    assert app.bodies[1]["contents"][1]["parts"] == [
        {"text": "Hi"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]


@pytest.mark.parametrize(
    ("end", "stop", "said"),
    [
        pytest.param(chunk(text("a"), stop="MAX_TOKENS"), StopReason.LENGTH, "a", id="too long"),
        pytest.param(chunk(text("a"), stop="SAFETY"), StopReason.REFUSED, "a", id="half refused"),
        pytest.param(chunk(stop="RECITATION"), StopReason.REFUSED, "", id="recited"),
        pytest.param(
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
            StopReason.REFUSED,
            "",
            id="the prompt refused",
        ),
        pytest.param(
            chunk(text("a"), stop="MALFORMED_FUNCTION_CALL"), StopReason.OTHER, "a", id="malformed"
        ),
        pytest.param(
            chunk(call("run", thoughtSignature="c2ln"), stop="STOP"),
            StopReason.TOOL_CALLS,
            "",
            id="calls",
        ),
    ],
)
def test_why_it_stops(end: dict[str, Any], stop: StopReason, said: str) -> None:
    finished = last(run(GoogleApp(answer(end))))
    assert finished.stop is stop
    assert finished.message.text == said
    told = finished.message.extra.get("google.stop", {})
    assert bool(told) is (stop in (StopReason.REFUSED, StopReason.OTHER))


# The SDK warns of words that are newer than itself, and goes on.
@pytest.mark.filterwarnings("ignore:A_NEW_REASON is not a valid FinishReason:UserWarning")
def test_a_reason_that_nobody_knows_is_some_other_reason() -> None:
    finished = last(run(GoogleApp(answer(chunk(text("a"), stop="A_NEW_REASON")))))
    assert finished.stop is StopReason.OTHER
    assert finished.message.extra == {"google.stop": {"finishReason": "A_NEW_REASON"}}


def test_an_answer_that_is_cut_is_gone_on_with() -> None:
    cut = chunk(text("one, "), stop="CONTINUATION", usageMetadata={"promptTokenCount": 10})
    cut["candidates"][0]["continuationToken"] = "bW9yZQ=="
    rest = chunk(
        text("two"),
        stop="STOP",
        usageMetadata={"promptTokenCount": 12, "candidatesTokenCount": 2},
    )
    app = GoogleApp(answer(cut), answer(rest))
    finished = last(run(app, Message.from_text("user", "count")))
    assert finished.message.text == "one, two"
    assert finished.stop is StopReason.END
    assert finished.usage.input_tokens == 10
    first, second = app.bodies
    assert second == {**first, "continuationToken": "bW9yZQ=="}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(answer(chunk(text("Hel")), breaks=True), id="the connection ends"),
        pytest.param(answer(chunk(text("Hel"))), id="it ends without saying why"),
        pytest.param(answer(chunk(text("Hel")), '{"candi'), id="half a chunk"),
        pytest.param(answer(), id="nothing comes"),
    ],
)
def test_a_stream_that_breaks_off_is_an_error_of_the_network(broken: Answer) -> None:
    assert isinstance(failure(GoogleApp(broken)), NetworkError)


def test_an_error_within_the_stream_is_that_error() -> None:
    overloaded = error(503, "UNAVAILABLE", "The model is overloaded.")
    failed = failure(GoogleApp(answer(chunk(text("Hel")), overloaded.body)))
    assert isinstance(failed, ServerError)
    assert (failed.status, failed.code) == (503, "UNAVAILABLE")


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}
QUOTA = (
    "You exceeded your current quota. * Quota exceeded for metric: input_token_count, limit: 250000"
)


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        pytest.param(
            error(429, "RESOURCE_EXHAUSTED", QUOTA, RETRY_INFO),
            RateLimitError,
            {"retry_after": 26.0, "code": "RESOURCE_EXHAUSTED"},
            id="a quota that speaks of tokens and a limit",
        ),
        pytest.param(
            error(
                429,
                "RESOURCE_EXHAUSTED",
                "The input token count (9) exceeds the maximum number of tokens allowed (5). "
                "Please retry in 1.5s.",
            ),
            RateLimitError,
            {"retry_after": 1.5},
            id="a rate limit in the very words of a context limit",
        ),
        pytest.param(
            Fault(429, {"error": {"code": 429, "message": "slow"}}, {"retry-after": "3"}),
            RateLimitError,
            {"retry_after": 3.0, "code": None},
            id="a rate limit by header",
        ),
        pytest.param(
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count exceeds the maximum number of tokens allowed.",
            ),
            ContextLimitError,
            {"limit": None, "status": 400},
            id="too long, without figures",
        ),
        pytest.param(
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1054016) exceeds the maximum number of tokens "
                "allowed (1048576).",
            ),
            ContextLimitError,
            {"limit": 1_048_576},
            id="too long",
        ),
        pytest.param(
            error(
                400,
                "INVALID_ARGUMENT",
                "Unable to submit request because the input token count is 34 but model only "
                "supports up to 32. Reduce",
            ),
            ContextLimitError,
            {"limit": 32},
            id="too long for Vertex AI",
        ),
        pytest.param(
            error(400, "INVALID_ARGUMENT", "max_output_tokens exceeds the limit of tokens"),
            RejectedError,
            {"status": 400},
            id="wrong, though it speaks of tokens",
        ),
        pytest.param(
            error(403, "PERMISSION_DENIED", "not enabled"), AuthError, {"status": 403}, id="denied"
        ),
        pytest.param(
            error(404, "NOT_FOUND", "models/x is not found"), RejectedError, {}, id="no such model"
        ),
        pytest.param(error(500, "INTERNAL", "oops"), ServerError, {"status": 500}, id="failed"),
        pytest.param(Fault(502, "<html>bad"), ServerError, {"status": 502}, id="a gateway"),
        pytest.param(error(499, "CANCELLED", "gone"), NetworkError, {}, id="cancelled"),
    ],
)
def test_errors(fault: Fault, kind: type[ProviderError], says: dict[str, Any]) -> None:
    failed = failure(GoogleApp(fault), settings={"max_retries": 0})
    assert type(failed) is kind
    assert failed.provider == "google"
    assert {name: getattr(failed, name) for name in says} == says


def test_the_rules_of_the_api_are_an_error_of_the_request() -> None:
    orphan = Message("tool", [Part(function_response=ToolResult("1", "run"))])
    failed = failure(GoogleApp(), Message.from_text("user", "go"), orphan)
    assert isinstance(failed, RejectedError)
    assert "function response turn comes immediately after a function call turn" in str(failed)


def test_a_request_that_does_not_fit_says_what_would() -> None:
    failed = failure(GoogleApp(window=100), Message.from_text("user", "word " * 400))
    assert isinstance(failed, ContextLimitError)
    assert failed.limit == 100


def test_passing_failures_are_tried_again() -> None:
    busy = error(503, "UNAVAILABLE", "busy")
    app = GoogleApp(busy, error(429, "RESOURCE_EXHAUSTED", "slow"), answer(END))
    assert last(run(app)).message.text == "."
    assert len(app.bodies) == 3


def test_retries_end() -> None:
    app = GoogleApp(*[error(503, "UNAVAILABLE", "busy")] * 3)
    assert isinstance(failure(app, settings={"max_retries": 1}), ServerError)
    assert len(app.bodies) == 2


def test_what_is_wrong_is_not_tried_again() -> None:
    app = GoogleApp(error(400, "INVALID_ARGUMENT", "no"), answer(END))
    assert isinstance(failure(app), RejectedError)
    assert len(app.bodies) == 1


def test_nobody_listens() -> None:
    async def main() -> None:
        provider = GoogleProvider(
            api_key=API_KEY, base_url="http://127.0.0.1:9", http_options=FAST, max_retries=0
        )
        async for _ in provider.stream(request()):
            pass

    with pytest.raises(NetworkError, match="the connection to Google failed"):
        asyncio.run(main())


def test_a_wrong_key_is_told_as_such() -> None:
    failed = failure(GoogleApp(), settings={"api_key": "wrong"})
    assert isinstance(failed, AuthError)
    assert failed.hint is not None
    assert "GEMINI_API_KEY" in failed.hint


@pytest.fixture
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.mark.usefixtures("_no_credentials")
def test_without_a_key_it_says_what_to_give() -> None:
    with pytest.raises(AuthError, match="GEMINI_API_KEY"):
        GoogleProvider()


@pytest.mark.usefixtures("_no_credentials")
def test_without_credentials_vertex_says_what_to_do() -> None:
    async def main() -> None:
        provider = GoogleProvider(project="p", location="here")
        async for _ in provider.stream(request()):
            pass

    with pytest.raises(AuthError, match="default credentials"):
        asyncio.run(main())


def test_options_that_the_sdk_does_not_know_are_an_error_of_the_caller() -> None:
    with pytest.raises(UsageError, match="http_options"):
        GoogleProvider(api_key=API_KEY, http_options={"time_out": 3})


def vertex(token: str = TOKEN) -> dict[str, Any]:
    credentials = Credentials(token=token)  # type: ignore[no-untyped-call]
    return {"api_key": None, "project": "p", "location": "here", "credentials": credentials}


def test_vertex_ai() -> None:
    app = GoogleApp(answer(END), models={MODEL: {"versionId": "1"}})

    async def main(provider: GoogleProvider) -> tuple[list[StreamEvent], int | None]:
        events = [event async for event in provider.stream(request())]
        limit = await provider.context_limit(MODEL)
        await provider.aclose()
        return events, limit

    with gemini(app, **vertex()) as provider:
        events, limit = asyncio.run(main(provider))
    assert last(events).message.text == "."
    assert limit is None, "Vertex AI does not say"
    assert app.paths == [
        f"/v1beta1/projects/p/locations/here/publishers/google/models/{MODEL}:streamGenerateContent",
        f"/v1beta1/publishers/google/models/{MODEL}",
    ]


def test_vertex_ai_refuses_a_wrong_token() -> None:
    failed = failure(GoogleApp(), settings=vertex("wrong"))
    assert isinstance(failed, AuthError)
    assert failed.hint is not None
    assert "gcloud" in failed.hint


def test_closing_early_cancels_the_request() -> None:
    app = GoogleApp(answer(chunk(text("Hel")), waits=True))

    async def main(provider: GoogleProvider) -> None:
        async with aclosing(provider.stream(request())) as events:  # type: ignore[type-var]
            async for event in events:
                assert event == TextDelta("Hel")
                break
        assert await asyncio.to_thread(app.cancelled.wait, 30)
        await provider.aclose()

    with gemini(app) as provider:
        asyncio.run(main(provider))


def test_a_client_can_be_given() -> None:
    app = GoogleApp(answer(END))

    async def main(address: str) -> str:
        headers = {"x-team": "blue"}
        async with httpx2.AsyncClient(headers=headers) as client:
            provider = GoogleProvider(
                api_key=API_KEY, base_url=address, http_options={"httpx_async_client": client}
            )
            events = [event async for event in provider.stream(request())]
            await provider.aclose()
            assert not client.is_closed
        return last(events).message.text

    with serving(app.app) as address:
        assert asyncio.run(main(address)) == "."
    assert app.headers[0]["x-team"] == "blue"


def limits(app: GoogleApp, *models: str, **settings: Any) -> list[int | None]:
    async def main(provider: GoogleProvider) -> list[int | None]:
        found = [await provider.context_limit(model) for model in models]
        await provider.aclose()
        return found

    with gemini(app, **{"max_retries": 0, **settings}) as provider:
        return asyncio.run(main(provider))


def test_the_window_of_a_model_is_asked_for_once() -> None:
    app = GoogleApp(models={MODEL: {"inputTokenLimit": LIMIT}})
    assert limits(app, MODEL, f"models/{MODEL}", MODEL) == [LIMIT] * 3
    assert len(app.paths) == 1


def test_the_window_that_is_configured_is_not_asked_for() -> None:
    app = GoogleApp()
    assert limits(app, MODEL, context_limits={f"models/{MODEL}": 5}) == [5]
    assert app.paths == []


def test_an_unknown_window_is_none() -> None:
    app = GoogleApp(models={"other": {}})
    assert limits(app, "other", "missing", "missing") == [None] * 3
    assert len(app.paths) == 2


def test_a_window_is_asked_for_again_after_a_passing_failure() -> None:
    failing = {MODEL: error(503, "UNAVAILABLE", "busy")}
    app = GoogleApp(models=failing)
    assert limits(app, MODEL, MODEL) == [None, None]
    assert len(app.paths) == 2


def both_at_once(provider: GoogleProvider) -> Coroutine[Any, Any, list[Any]]:
    async def main() -> list[Any]:
        found = await asyncio.gather(*[provider.context_limit(MODEL) for _ in range(5)])
        await provider.aclose()
        return found

    return main()


def test_many_may_ask_for_the_window_at_once() -> None:
    app = GoogleApp(models={MODEL: {"inputTokenLimit": LIMIT}})
    start: Callable[[GoogleProvider], Coroutine[Any, Any, list[Any]]] = both_at_once
    with gemini(app) as provider:
        assert asyncio.run(start(provider)) == [LIMIT] * 5
    assert len(app.paths) == 1
