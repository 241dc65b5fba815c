"""Chat Completions through the real SDK: OpenAI's own, and what compatible servers make of it."""

from __future__ import annotations

import asyncio
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
    results_of,
    talked,
)
from tests.providers.provider_contract import checked, collected
from tests.servers.harness import serving
from tests.servers.openai_app import OpenAIServer, Refusal, Reply, call, thought

from jaato.exchange import CallDelta, Finished, StopReason, ThoughtDelta, Usage, UsageSeen
from jaato.history import Part
from jaato.providers.openai import OpenAIProvider
from jaato.wire.openai_chat import decode


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


STEP = Reply(parts=(thought("I must read."), call("t1", "read", '{"path": "a.py"}')))


@pytest.mark.parametrize(
    ("replay", "sent"),
    [
        pytest.param(False, None, id="output only, unless said"),
        pytest.param(True, "I must read.", id="sent back where a server needs them"),
    ],
)
def test_thoughts_of_compatible_servers(replay: bool, sent: str | None) -> None:
    server = OpenAIServer([STEP, HELLO])

    async def talk(provider: OpenAIProvider) -> Finished:
        request = asking("Read it.", tools=TOOLS)
        events = await collected(provider, request)
        assert [e.text for e in events if isinstance(e, ThoughtDelta)] == ["I must ", "read."]
        step = checked(events).message
        said = (*request.messages, step, results_of(step))
        return checked(await collected(provider, replace(request, messages=said)))

    assert talked(server, talk, replay_thoughts=replay).message.text == "Hello, world."
    assert server.bodies[1]["messages"][1].get("reasoning_content") == sent
    assert server.breaches == []


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        pytest.param(
            {
                "prompt_tokens": 240,
                "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": 0},
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
            {"prompt_tokens": 240, "completion_tokens": 5, "prompt_cache_hit_tokens": 64},
            Usage(input_tokens=240, output_tokens=5, cached_tokens=64),
            id="with a cache, as DeepSeek tells it",
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "prompt_tokens_details": None,
                "completion_tokens": 5,
                "completion_tokens_details": {"reasoning_tokens": None},
            },
            Usage(input_tokens=10, output_tokens=5),
            id="with nulls",
        ),
        pytest.param(
            {"prompt_tokens": None, "completion_tokens": None}, Usage(), id="with nothing but nulls"
        ),
    ],
)
def test_usage(figures: dict[str, Any], usage: Usage) -> None:
    events = answer_of(OpenAIServer([replace(HELLO, usage=figures)]), asking())
    assert [event.usage for event in events if isinstance(event, UsageSeen)] == [usage]
    assert checked(events).usage == usage


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param({}, {"include_usage": True}, id="usage is asked for"),
        pytest.param(
            {"stream_options": {"include_obfuscation": False}},
            {"include_obfuscation": False, "include_usage": True},
            id="beside what else is asked for",
        ),
        pytest.param({"stream_options": None}, None, id="not of a server that would refuse it"),
    ],
)
def test_how_it_streams(given: dict[str, Any], sent: dict[str, Any] | None) -> None:
    server = OpenAIServer([HELLO])
    answer_of(server, asking(options=given))
    assert server.bodies[0].get("stream_options") == sent
    assert ("stream_options" in server.bodies[0]) == (sent is not None)


@pytest.mark.parametrize(
    ("told", "stop"),
    [
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        ("never_heard_of", StopReason.OTHER),
    ],
)
def test_why_it_stopped(told: str, stop: StopReason) -> None:
    server = OpenAIServer([replace(HELLO, stop=told)])
    assert checked(answer_of(server, asking())).stop is stop


def test_arguments_stream_in() -> None:
    reply = Reply(parts=(call("t1", "read", '{"path": "a"}'), call("t2", "read", "")), piece=6)
    events = answer_of(OpenAIServer([reply]), asking(tools=TOOLS))
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, "read", ""),
        CallDelta(0, None, '{"path'),
        CallDelta(0, None, '": "a"'),
        CallDelta(0, None, "}"),
        CallDelta(1, "read", ""),
    ]


@pytest.mark.parametrize(
    ("address", "field"),
    [
        pytest.param("https://api.openai.com/v1", "max_completion_tokens", id="the vendor's name"),
        pytest.param("http://localhost:1234/v1", "max_tokens", id="the name that all others know"),
    ],
)
def test_how_long_an_answer_may_be(address: str, field: str) -> None:
    bodies: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content.decode())
        chunk = '{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
        return httpx2.Response(200, text=f"data: {chunk}\n\ndata: [DONE]\n\n")

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    provider = OpenAIProvider("k", address, client, api="chat")
    end = checked(asyncio.run(collected(provider, asking(max_output_tokens=50))))
    assert end.message.parts == (Part(text="Hi"),)
    assert f'"{field}": 50' in bodies[0]


def test_a_foreign_request_goes_on_as_it_came() -> None:
    body = {
        "model": MODEL,
        "messages": [
            {"role": "developer", "content": "Be brief.", "x": 1},
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]},
        ],
        "x_unknown": {"deep": [None]},
        "max_tokens": 7,
        "stream": False,
    }
    server = OpenAIServer([HELLO])
    answer_of(server, decode(body))
    assert server.bodies == [{**body, "stream": True, "stream_options": {"include_usage": True}}]


def test_a_chunk_that_is_no_object_brings_nothing() -> None:
    server = OpenAIServer([replace(HELLO, fails_after=3, error=[1])])
    assert talked(server, _breaks_off) == "the answer broke off: it has no end"


async def _breaks_off(provider: OpenAIProvider) -> str:
    try:
        await collected(provider, asking())
    except Exception as error:  # noqa: BLE001 -- what it says is the test
        return str(error)
    return "nothing broke"


# --- Windows.


def listed(**entry: Any) -> dict[str, Any]:
    """What `/v1/models` says of one model among two."""
    return {"v1/models": {"data": [{"id": "other", "context_length": 5}, {"id": MODEL, **entry}]}}


def alone(name: str, **entry: Any) -> dict[str, Any]:
    """What llama.cpp's `/v1/models` says: it has one model."""
    return {"v1/models": {"data": [{"id": name, "owned_by": "llamacpp", **entry}]}}


TRAINED = {"meta": {"n_ctx_train": 131_072, "n_params": 1}}


@pytest.mark.parametrize(
    ("told", "limit"),
    [
        pytest.param(listed(max_model_len=8192), 8192, id="vLLM"),
        pytest.param(listed(context_window=131_072), 131_072, id="Groq"),
        pytest.param(listed(context_length=32_768, top_provider=None), 32_768, id="Together"),
        pytest.param(
            listed(context_length=1_000_000, top_provider={"context_length": 400_000}),
            400_000,
            id="OpenRouter: where it runs has less than the model",
        ),
        pytest.param(
            listed(max_context_length=131_072, loaded_context_length=4096),
            4096,
            id="LM Studio: what it was loaded with is less than what it could",
        ),
        pytest.param(
            {"v1/models": {"data": []}, f"v1/models/{MODEL}": {"context_window": 9}},
            9,
            id="a list without it, and an entry of its own",
        ),
        pytest.param({f"v1/models/{MODEL}": {"context_window": 9}}, 9, id="no list at all"),
        pytest.param(
            {**listed(), f"v1/models/{MODEL}": {"context_window": 9}},
            9,
            id="an entry of its own says more than the list",
        ),
        pytest.param(alone(MODEL, meta={"n_ctx": 4096, **TRAINED}), 4096, id="llama.cpp"),
        pytest.param(
            {**alone("x.gguf", **TRAINED), "props": {"default_generation_settings": {"n_ctx": 8}}},
            8,
            id="llama.cpp, by any name, in its own words",
        ),
        pytest.param(alone(MODEL, **TRAINED), None, id="what a model was trained for is no window"),
        pytest.param(listed(), None, id="it does not say"),
        pytest.param(listed(max_model_len=None, context_length="8k"), None, id="no figures"),
        pytest.param(listed(max_model_len=0, context_length=-1), None, id="figures of nothing"),
        pytest.param(listed(max_model_len=True), None, id="a truth is no figure"),
        pytest.param({"v1/models": [1]}, None, id="a list of something else"),
        pytest.param({}, None, id="nothing is told"),
    ],
)
def test_the_window_as_a_server_tells_it(told: dict[str, Any], limit: int | None) -> None:
    server = OpenAIServer(models=told)

    async def talk(provider: OpenAIProvider) -> list[int | None]:
        return [*await asyncio.gather(*[provider.context_limit(MODEL) for _ in range(2)])]

    assert talked(server, talk) == [limit, limit]
    assert len(server.paths) == len(set(server.paths)), "nothing is asked twice"


def test_a_window_that_was_given_is_not_asked_for() -> None:
    server = OpenAIServer()
    assert talked(server, lambda p: p.context_limit("mine"), context_limits={"mine": 5}) == 5
    assert server.paths == []


def test_the_vendor_tells_no_windows() -> None:
    def never(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(request.url)

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(never))
    provider = OpenAIProvider("k", "https://api.openai.com/v1", client)
    assert asyncio.run(provider.context_limit("gpt-5.5")) is None


def test_a_window_that_could_not_be_asked_for_is_asked_for_again() -> None:
    server = OpenAIServer(models={"v1/models": Refusal(status=500)})

    async def talk(provider: OpenAIProvider) -> list[int | None]:
        before = await provider.context_limit(MODEL)
        server.models |= listed(max_model_len=1000)
        return [before, await provider.context_limit(MODEL)]

    assert talked(server, talk) == [None, 1000]


def test_the_name_of_a_model_is_one_step_of_the_path() -> None:
    paths: list[str] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.raw_path.decode())
        return httpx2.Response(404)

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))
    provider = OpenAIProvider("k", "http://localhost:1234/v1", client)
    assert asyncio.run(provider.context_limit("qwen/qwen3 coder:free")) is None
    assert paths == ["/v1/models", "/v1/models/qwen%2Fqwen3%20coder:free"]
