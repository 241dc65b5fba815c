"""The local provider on the model of its extra: streams, limits, calls, and what ends early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest
from tests.providers.needs_local import skip_without_local
from tests.providers.provider_contract import (
    CHECKS,
    Check,
    answered,
    collected,
    ignores_bare_thoughts,
    raises,
)

from jaato.exchange import (
    CallDelta,
    ContextLimitError,
    Finished,
    ProviderError,
    RejectedError,
    Request,
    ServerError,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolSchema,
    UsageSeen,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.providers.local import LocalProvider

skip_without_local()

SEA = "Write two sentences about the sea."
TOOLS = (
    ToolSchema(
        name="weather",
        description="The weather of a city.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
    ),
)
CALL = '<tool_call>{"name":"weather","arguments":{"city":"%s"}}</tool_call>'
LONG = "The harbour is old. " * 35
"""More than a block of tokens."""
WINDOW = 512


def asking(*texts: str, **more: Any) -> Request:
    """A request of texts, the user's and the model's in turns."""
    messages = tuple(
        Message.from_text(Role.MODEL if at % 2 else Role.USER, text)
        for at, text in enumerate(texts)
    )
    return Request(model="smollm2", messages=messages, **{"max_output_tokens": 48, **more})


def opened(**settings: Any) -> LocalProvider:
    # One thread, since tests run side by side.
    return LocalProvider(threads=1, **settings)


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    provider = opened()
    yield provider
    asyncio.run(provider.aclose())


@pytest.fixture(scope="module")
def small() -> Iterator[LocalProvider]:
    """One with a window that a test can fill."""
    small = opened(context_limit=WINDOW)
    yield small
    asyncio.run(small.aclose())


def answer_of(provider: LocalProvider, request: Request) -> Finished:
    return asyncio.run(answered(provider, request))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["talking", "with tools"])
def test_it_keeps_the_contract(
    check: Check, tools: tuple[ToolSchema, ...], provider: LocalProvider
) -> None:
    asyncio.run(check(provider, asking(SEA, tools=tools)))


def test_bare_thoughts_are_not_sent(provider: LocalProvider) -> None:
    asyncio.run(ignores_bare_thoughts(provider, "smollm2"))


# Streaming


def test_the_answer_comes_word_by_word_and_so_does_its_usage(provider: LocalProvider) -> None:
    events = asyncio.run(collected(provider, asking(SEA, max_output_tokens=50)))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert "sea" in finished.message.text
    said = finished.usage.output_tokens or 0
    assert len([event for event in events if isinstance(event, TextDelta)]) > said / 2
    seen = [event.usage.output_tokens for event in events if isinstance(event, UsageSeen)]
    assert seen == [*range(0, said, 16), said]
    assert isinstance(events[0], UsageSeen), "what the prompt takes is known before the answer"


@pytest.mark.parametrize(
    ("more", "stop", "most"),
    [
        pytest.param({"max_output_tokens": 5}, StopReason.LENGTH, 5, id="the limit of the request"),
        pytest.param({"max_output_tokens": None}, StopReason.LENGTH, 7, id="the provider's own"),
        pytest.param(
            {"max_output_tokens": 200}, StopReason.END, 199, id="the model ends by itself"
        ),
    ],
)
def test_where_an_answer_ends(more: dict[str, Any], stop: StopReason, most: int) -> None:
    async def go() -> Finished:
        provider = opened(max_output_tokens=7)
        try:
            return await answered(provider, asking(SEA, **more))
        finally:
            await provider.aclose()

    finished = asyncio.run(go())
    assert finished.stop is stop
    assert (finished.usage.output_tokens or 0) <= most


def test_letters_of_several_tokens_come_whole(provider: LocalProvider) -> None:
    events = asyncio.run(collected(provider, asking("Repeat: 🎉🎉🎉", max_output_tokens=12)))
    said = [event.text for event in events if isinstance(event, TextDelta)]
    assert "🎉" in said
    assert len(said) < 12


# The same request gets the same answer


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="the likeliest"),
        pytest.param({"temperature": 1.2, "seed": 7}, id="by chance, from a seed"),
        pytest.param(
            {"temperature": 0.7, "top_k": 5, "top_p": 1, "min_p": 0, "repeat_penalty": 1.3},
            id="by every option",
        ),
    ],
)
def test_the_same_request_gets_the_same_answer(
    options: dict[str, Any], provider: LocalProvider
) -> None:
    more: dict[str, Any] = {"options": options, "max_output_tokens": 16}
    requests = [
        asking(SEA, **more),
        asking(f"{LONG}What is old?", **more),
        asking(f"{LONG}Who came?", **more),
        asking(SEA, "The sea is deep.", "Go on.", **more),
    ]
    first = [answer_of(provider, request).message.text for request in requests]
    again = [answer_of(provider, request).message.text for request in reversed(requests)]
    assert again[::-1] == first, "whatever was asked before"

    async def fresh() -> str:
        other = opened()
        try:
            return (await answered(other, requests[2])).message.text
        finally:
            await other.aclose()

    assert asyncio.run(fresh()) == first[2]


def test_what_two_prompts_begin_with_is_evaluated_once(provider: LocalProvider) -> None:
    answer_of(provider, asking(f"{LONG}What is old?"))
    usage = answer_of(provider, asking(f"{LONG}Who came?")).usage
    assert usage.cached_tokens is not None
    assert usage.input_tokens is not None
    assert 0 < usage.input_tokens - usage.cached_tokens < 200


def test_seeds_differ(provider: LocalProvider) -> None:
    answers = {
        answer_of(provider, asking(SEA, options={"temperature": 1.5, "seed": seed})).message.text
        for seed in range(4)
    }
    assert len(answers) > 1


# The window


def filled(small: LocalProvider, tokens: int) -> Request:
    """A request that takes exactly so many tokens of the window."""
    frame = answer_of(small, asking(" a", max_output_tokens=1)).usage.input_tokens
    assert frame is not None
    return asking(" a" * (tokens - frame + 1), max_output_tokens=400)


def test_the_last_request_that_fits_is_answered(small: LocalProvider) -> None:
    finished = answer_of(small, filled(small, WINDOW - 1))
    assert finished.usage.input_tokens == WINDOW - 1
    assert finished.usage.output_tokens in {0, 1}, "there is room for one"


def test_the_first_that_does_not_fit_is_refused_with_the_limit(small: LocalProvider) -> None:
    error = asyncio.run(raises(small, filled(small, WINDOW), ContextLimitError))
    assert error.limit == WINDOW
    assert f"({WINDOW}) exceed context window of {WINDOW}" in str(error)


def test_one_far_too_large_is_refused_and_the_next_is_answered(provider: LocalProvider) -> None:
    error = asyncio.run(raises(provider, asking("sea " * 200_000), ContextLimitError))
    assert error.limit == 8192
    assert "200031" in str(error)
    assert answer_of(provider, asking(SEA)).message.text


def test_an_answer_ends_where_the_window_does(small: LocalProvider) -> None:
    finished = answer_of(small, filled(small, WINDOW - 20))
    usage = finished.usage
    assert (usage.input_tokens or 0) + (usage.output_tokens or 0) <= WINDOW
    assert finished.stop is StopReason.LENGTH or (usage.output_tokens or 0) < 20


@pytest.mark.parametrize(
    ("given", "limit"),
    [pytest.param(None, 8192, id="as it was trained"), pytest.param(300, 300, id="as it was told")],
)
def test_the_window_is_known(given: int | None, limit: int) -> None:
    async def go() -> int | None:
        provider = opened(context_limit=given)
        try:
            return await provider.context_limit("smollm2")
        finally:
            await provider.aclose()

    assert asyncio.run(go()) == limit


# Tools


def test_the_model_calls_tools(provider: LocalProvider) -> None:
    asked = f"Repeat word for word: {CALL % 'Berlin'}{CALL % 'Rome'}"
    request = asking(asked, tools=TOOLS, max_output_tokens=80)
    events = asyncio.run(collected(provider, request))
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, name="weather"),
        CallDelta(0, arguments='{"city":"Berlin"}'),
        CallDelta(1, name="weather"),
        CallDelta(1, arguments='{"city":"Rome"}'),
    ]
    finished = answer_of(provider, request)
    assert finished.stop is StopReason.TOOL_CALLS
    results = [
        Part(function_response=ToolResult(call.id, call.name, "Fog."))
        for call in finished.message.function_calls
    ]
    messages = (*request.messages, finished.message, Message(Role.TOOL, results))
    again = Request(
        model="smollm2",
        messages=(
            *messages,
            Message.from_text(Role.USER, f"Repeat word for word: {CALL % 'Oslo'}"),
        ),
        tools=TOOLS,
        max_output_tokens=80,
    )
    call = answer_of(provider, again).message.function_calls[0]
    assert (call.id, call.args) == ("call_3", {"city": "Oslo"})


def test_what_is_said_is_no_markup(provider: LocalProvider) -> None:
    """A file that holds the marker of an end ends no turn: it takes the tokens of its letters."""

    async def tokens(text: str) -> int:
        return (await answered(provider, asking(text, max_output_tokens=1))).usage.input_tokens or 0

    plain, marked = asyncio.run(tokens("a b")), asyncio.run(tokens("a<|im_end|>b"))
    assert marked - plain > 3


def test_a_history_of_every_kind_of_part_is_answered(provider: LocalProvider) -> None:
    call = FunctionCall("x", "weather", {"city": "東京\ud800", "days": [float("inf"), None]})
    messages = (
        Message.from_text(Role.MODEL, "I begin."),
        Message(Role.MODEL, [Part(thought="Hm."), Part(text=""), Part(function_call=call)]),
        Message(
            Role.TOOL, [Part(function_response=ToolResult("x", "weather", None, is_error=True))]
        ),
        Message.from_text(Role.USER, "Lone: \ud800."),
    )
    request = Request(
        model="", messages=messages, system="Be \udfff brief.", tools=TOOLS, max_output_tokens=9
    )
    assert answer_of(provider, request).usage.output_tokens


# What is refused


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param({"max_output_tokens": 0}, "max_output_tokens is 0", id="no room"),
        pytest.param({"options": {"stop": "a"}}, "no option named 'stop'", id="unknown option"),
        pytest.param({"options": {"temperature": "hot"}}, "is 'hot'", id="text for a number"),
        pytest.param({"options": {"seed": 1.5}}, "seed is 1.5", id="half a seed"),
        pytest.param({"options": {"top_k": True}}, "top_k is True", id="a boolean"),
    ],
)
def test_what_it_does_not_know_is_refused(
    more: dict[str, Any], told: str, provider: LocalProvider
) -> None:
    error = asyncio.run(raises(provider, asking(SEA, **more), RejectedError))
    assert told in str(error)


# Ending early


def stream_of(provider: LocalProvider, request: Request) -> AsyncGenerator[StreamEvent, None]:
    return cast("AsyncGenerator[StreamEvent, None]", provider.stream(request))


def test_closing_ends_the_evaluation_of_a_long_prompt(provider: LocalProvider) -> None:
    """What was evaluated is cached: a closed stream leaves far less than its prompt."""
    request = asking("The mast broke. " * 1_800, max_output_tokens=1)

    async def go() -> tuple[UsageSeen, UsageSeen]:
        async with aclosing(stream_of(provider, request)) as stream:
            began = await anext(stream)
        async with aclosing(stream_of(provider, request)) as stream:
            again = await anext(stream)
        assert isinstance(began, UsageSeen)
        assert isinstance(again, UsageSeen)
        return began, again

    began, again = asyncio.run(go())
    assert (began.usage.input_tokens or 0) > 7_000
    assert (again.usage.cached_tokens or 0) < 4_000


def test_a_closed_answer_does_not_hold_up_the_next_one(provider: LocalProvider) -> None:
    """It would take far longer than this test may, were it not ended."""

    async def go() -> None:
        for _ in range(30):
            endless = asking(SEA, max_output_tokens=8_000, options={"temperature": 3.0, "min_p": 0})
            async with aclosing(stream_of(provider, endless)) as stream:
                while not isinstance(await anext(stream), TextDelta):
                    pass
        await answered(provider, asking(SEA))

    asyncio.run(go())


def test_who_leaves_the_line_is_never_served(provider: LocalProvider) -> None:
    waiting = asking("The mast broke. " * 1_800, max_output_tokens=1)

    async def go() -> UsageSeen:
        async with aclosing(stream_of(provider, asking(SEA))) as first:
            await anext(first)
            task = asyncio.create_task(answered(provider, waiting))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
        async with aclosing(stream_of(provider, waiting)) as stream:
            seen = await anext(stream)
        assert isinstance(seen, UsageSeen)
        return seen

    answer_of(provider, asking("Something else."))
    assert asyncio.run(go()).usage.cached_tokens == 0


def test_closing_the_provider_ends_what_runs_and_refuses_what_waits() -> None:
    async def go() -> list[object]:
        provider, begun = opened(), asyncio.Event()

        async def run() -> None:
            long = asking("The mast broke. " * 1_800, max_output_tokens=500)
            async for _ in provider.stream(long):
                begun.set()

        running = asyncio.create_task(run())
        waiting = asyncio.create_task(answered(provider, asking(SEA)))
        await begun.wait()
        await provider.aclose()
        late = asyncio.create_task(answered(provider, asking(SEA)))
        ended = await asyncio.gather(running, waiting, late, return_exceptions=True)
        await provider.aclose()
        return list(ended)

    for outcome in asyncio.run(go()):
        assert type(outcome) is ServerError
        assert "closed" in str(outcome)


def test_a_provider_that_was_never_asked_closes(provider: LocalProvider) -> None:
    async def go() -> None:
        fresh = opened()
        await fresh.aclose()
        with pytest.raises(ProviderError, match="closed"):
            await fresh.context_limit("smollm2")

    asyncio.run(go())


def test_a_loop_that_ends_takes_nothing_along(provider: LocalProvider) -> None:
    """The stream of a loop that is gone ends by itself; the next loop is served."""

    async def leave() -> AsyncGenerator[StreamEvent, None]:
        stream = stream_of(provider, asking(SEA, max_output_tokens=2_000))
        await anext(stream)
        return stream

    asyncio.run(leave())
    assert answer_of(provider, asking(SEA)).message.text
