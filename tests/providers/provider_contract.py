"""What every provider promises, as checks to run against an implementation.

`CHECKS` are asked of a provider and a request that it can answer in three events or more; `raises`
and `ignores_bare_thoughts` need a request that is made for them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeVar, cast

import pytest

from jaato.exchange import (
    CallDelta,
    Finished,
    ProviderError,
    Request,
    StopReason,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    Usage,
    UsageSeen,
)
from jaato.history import Message, Part, Role
from jaato.ports import Provider

Check = Callable[[Provider, Request], Coroutine[Any, Any, None]]
Failure = TypeVar("Failure", bound=ProviderError)


async def collected(provider: Provider, request: Request) -> list[StreamEvent]:
    """Every event of a stream."""
    return [event async for event in provider.stream(request)]


def finished(events: Iterable[StreamEvent]) -> Finished:
    """The end of an answer."""
    *_, last = events
    assert isinstance(last, Finished)
    return last


async def answered(provider: Provider, request: Request) -> Finished:
    """The end of a stream, which is held against everything that a stream promises."""
    return checked(await collected(provider, request))


def checked(events: Sequence[StreamEvent]) -> Finished:
    """The end of a whole stream; every promise about its events is asserted."""
    ends = [event for event in events if isinstance(event, Finished)]
    assert len(ends) == 1, "a stream ends with Finished, once"
    assert events[-1] is ends[0], "nothing comes after Finished"
    finished = ends[0]
    message = finished.message
    assert message.role is Role.MODEL
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert said == message.text, "the pieces are the text"
    thought = "".join(event.text for event in events if isinstance(event, ThoughtDelta))
    assert thought == "".join(part.thought or "" for part in message.parts), "and the thoughts"
    _check_calls([event for event in events if isinstance(event, CallDelta)], finished)
    _check_usage([event.usage for event in events if isinstance(event, UsageSeen)], finished.usage)
    return finished


def _check_calls(deltas: Sequence[CallDelta], finished: Finished) -> None:
    calls = finished.message.function_calls
    if finished.stop is StopReason.TOOL_CALLS:
        assert calls, "who stops for calls makes some"
    if calls:
        assert finished.stop is not StopReason.END, "calls are waiting for results"
    streamed: dict[int, list[CallDelta]] = {}
    for delta in deltas:
        streamed.setdefault(delta.index, []).append(delta)
    assert sorted(streamed) == list(range(len(calls))), "each call is announced, and no other"
    for index, call in enumerate(calls):
        first, *later = streamed[index]
        assert first.name == call.name, "a call begins with its name"
        assert all(delta.name in {None, call.name} for delta in later)
        arguments = "".join(delta.arguments for delta in streamed[index])
        assert json.loads(arguments or "{}") == call.args
    ids = [call.id for call in calls]
    assert len(set(ids)) == len(ids), "results are told apart by the ids of their calls"


def _check_usage(seen: Sequence[Usage], last: Usage) -> None:
    if seen:
        assert seen[-1] == last, "the last usage of the stream is that of the answer"
    for usage in seen:
        for figure in (usage.input_tokens, usage.output_tokens, usage.cached_tokens):
            assert figure is None or figure >= 0
        if usage.input_tokens is not None and usage.cached_tokens is not None:
            assert usage.cached_tokens <= usage.input_tokens, "what is cached is part of the prompt"
        if usage.output_tokens is not None and usage.thinking_tokens is not None:
            assert usage.thinking_tokens <= usage.output_tokens, "thinking is part of the output"
    for before, after in pairwise(seen):
        assert (before.output_tokens or 0) <= (after.output_tokens or 0), "output only grows"
        if before.input_tokens is not None:
            assert after.input_tokens is not None, "what was said is not taken back"


async def streams_are_whole(provider: Provider, request: Request) -> None:
    """One after the other and side by side."""
    await answered(provider, request)
    await answered(provider, request)
    await asyncio.gather(answered(provider, request), answered(provider, request))


async def closing_early_ends_the_request(provider: Provider, request: Request) -> None:
    """A stream that was left takes nothing from the next one."""
    for taken in (0, 1, 2):
        stream = cast("AsyncGenerator[StreamEvent, None]", provider.stream(request))
        async with aclosing(stream):
            for _ in range(taken):
                assert not isinstance(await anext(stream), Finished)
        assert [event async for event in stream] == [], "a closed stream says no more"
    await answered(provider, request)


async def cancelling_ends_the_request(provider: Provider, request: Request) -> None:
    """A task that is cancelled while it waits for the stream ends as cancelled."""
    begun = asyncio.Event()

    async def listen() -> None:
        async for _ in provider.stream(request):
            begun.set()
            await asyncio.sleep(0)

    task = asyncio.create_task(listen())
    await begun.wait()
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
    await answered(provider, request)


async def answers_can_be_sent_back(provider: Provider, request: Request) -> None:
    """The message of an answer, as a session keeps it, is a part of the next request."""
    finished = await answered(provider, replace(request, tools=()))
    kept = [part for part in finished.message.parts if part.thought is None or part.extra]
    messages = (
        *request.messages,
        finished.message.with_parts(kept or [Part(text="")]),
        Message.from_text(Role.USER, "And then?"),
    )
    await answered(provider, replace(request, messages=messages, tools=()))


async def the_window_is_known_or_none(provider: Provider, request: Request) -> None:
    """Never a guess, and the same each time."""
    limit = await provider.context_limit(request.model)
    assert limit is None or limit > 0
    assert await provider.context_limit(request.model) == limit


async def it_has_the_shape_of_a_provider(provider: Provider, request: Request) -> None:
    """As far as a protocol can say it."""
    del request
    assert isinstance(provider, Provider)
    assert provider.name


CHECKS: Final[tuple[Check, ...]] = (
    streams_are_whole,
    closing_early_ends_the_request,
    cancelling_ends_the_request,
    answers_can_be_sent_back,
    the_window_is_known_or_none,
    it_has_the_shape_of_a_provider,
)


async def raises(provider: Provider, request: Request, kind: type[Failure]) -> Failure:
    """The error of a request that fails, which is a `ProviderError` of this kind and says whose."""
    with pytest.raises(ProviderError) as caught:
        await answered(provider, request)
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    assert caught.value.provider, "an error says whose it is"
    return caught.value


async def ignores_bare_thoughts(provider: Provider, model: str) -> None:
    """A thought without `extra` was output only: sent back, it costs nothing."""
    said = Part(text="Hello.")

    async def tokens(parts: Sequence[Part]) -> int | None:
        users = [Message.from_text(Role.USER, text) for text in ("Hi.", "Go on.")]
        messages = (users[0], Message(Role.MODEL, parts), users[1])
        return (
            await answered(provider, Request(model=model, messages=messages))
        ).usage.input_tokens

    assert await tokens([Part(thought="Hmm, " * 50), said]) == await tokens([said])
