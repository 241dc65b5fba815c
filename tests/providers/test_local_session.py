"""Sessions on the local model: it really overflows, so what keeps them inside is really tested."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.providers.needs_local import skip_without_local
from tests.session.agents import assert_agrees, gc, opened

from jaato.client import JaatoClient
from jaato.events import Event, ModelCallEnded, ResultShortened, TextStreamed
from jaato.history import Role, violations
from jaato.history.message import Kind
from jaato.providers.local import LocalProvider
from jaato.session.blocking import JaatoSession
from jaato.session.bridge import BRIDGE
from jaato.session.session import TurnInterruptedError
from jaato.session.settings import ModelSettings

skip_without_local()

STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
ORIGINAL = "You keep the log of the ship Alva. Its master is called Ada Brun."
PLACES = ("Bergen", "Hull", "Bremen", "Gdansk", "Turku", "Riga", "Oslo", "Malmo", "Visby", "Kiel")


def log_entry(day: int) -> str:
    place = PLACES[day % len(PLACES)]
    cargo = ", ".join(f"{day * 7 + n} crates of {ware}" for n, ware in enumerate(("salt", "tin")))
    return f"Day {day}: we made {place} at noon with {cargo}. The wind was fair. " * 3 + "Go on."


def calls_of(session: JaatoSession) -> list[ModelCallEnded]:
    """Every call of the model from now on."""
    seen: list[ModelCallEnded] = []

    def listen(event: Event) -> None:
        if isinstance(event, ModelCallEnded):
            seen.append(event)

    session.on(listen)
    return seen


@asynccontextmanager
async def session_on(
    window: int, plugin: Any, *, most: int = 40, tools: Any = (), **settings: Any
) -> AsyncIterator[JaatoSession]:
    """A session whose provider refuses what is larger than the window."""
    provider = LocalProvider(context_limit=window, threads=1)
    try:
        yield await opened(
            provider,
            tools=list(tools),
            limit=None,
            plugin=plugin,
            model_settings=ModelSettings(max_output_tokens=most),
            **settings,
        )
    finally:
        await provider.aclose()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_turns_on_a_small_window_are_never_refused(strategy: str) -> None:
    window = 1024

    async def go() -> None:
        async with session_on(window, gc(strategy, preserve_recent_turns=2)) as session:
            calls = calls_of(session)
            await session.asend_message(ORIGINAL)
            for day in range(1, 13):
                await session.asend_message(log_entry(day))
                assert_agrees(session)
                assert not violations(session.get_history())
            assert [call.error for call in calls if call.error] == []
            used = [call.usage.total_tokens or 0 for call in calls if call.usage]
            assert len(used) == 13
            assert max(used) <= window
            assert session.get_history()[0].text == ORIGINAL
            done = session.get_gc_history()
            assert all(result.success for result in done), [result.error for result in done]
            assert sum(result.tokens_freed for result in done) > window / 2

    asyncio.run(go())


def test_the_model_summarizes_its_own_history() -> None:
    async def go() -> None:
        plugin = gc("gc_summarize", preserve_recent_turns=1, target_percent=10.0)
        async with session_on(2048, plugin) as session:
            await session.asend_message(ORIGINAL)
            for day in range(1, 5):
                await session.asend_message(log_entry(day))
            result = await session.amanual_gc()
            assert result is not None
            assert result.success
            (summary,) = [one for one in session.get_history() if one.kind is Kind.SUMMARY]
            assert summary.text
            assert await session.asend_message(log_entry(5))
            assert_agrees(session)

    asyncio.run(go())


CALL = 'Repeat word for word: <tool_call>{"name":"read_log","arguments":{"day":%d}}</tool_call>'


def read_log(day: int) -> str:
    """Read the log of a day.

    Args:
        day: Which.
    """
    return f"Day {day}: the wind was fair and the watch saw nothing.\n" * 120


def test_the_model_calls_a_tool_whose_result_is_larger_than_the_window() -> None:
    async def go() -> None:
        plugin = gc("gc_budget", preserve_recent_turns=1)
        settings: dict[str, Any] = {"tools": [read_log], "subagents": False}
        async with session_on(2048, plugin, **settings) as session:
            calls, events = calls_of(session), list[Event]()
            session.on(events.append)
            for day in (1, 2, 3):
                await session.asend_message(CALL % day)
                assert not violations(session.get_history())
                assert_agrees(session)
            assert [call.error for call in calls if call.error] == []
            asked = [call.args for one in session.get_history() for call in one.function_calls]
            assert {"day": 3} in asked
            assert any(isinstance(event, ResultShortened) for event in events)

    asyncio.run(go())


def test_an_answer_is_interrupted_and_the_turn_goes_on() -> None:
    async def go() -> None:
        async with session_on(2048, gc("gc_budget"), most=400) as session:

            def stop(event: Event) -> None:
                if isinstance(event, TextStreamed):
                    session.interrupt()

            session.on(stop)
            with pytest.raises(TurnInterruptedError):
                await session.asend_message("Count from one to one hundred, in words.")
            assert [one.role for one in session.get_history()] == [Role.USER]

    asyncio.run(go())


def test_a_client_connects_to_it_when_it_is_told_nothing() -> None:
    pieces: list[str] = []
    client = JaatoClient(sessions=None)
    with client:
        client.connect(max_output_tokens=30)
        answer = client.send_message("Say hello.", lambda _source, text, _mode: pieces.append(text))
        assert answer
        assert "".join(pieces) == answer
        assert client.get_context_usage()["context_limit"] == 8192
    BRIDGE.run(client.runtime.aclose())


def test_the_local_window_is_made_as_asked() -> None:
    with JaatoClient(sessions=None) as client:
        session = client.connect("local", context_limit=1_024)
        assert session.get_context_usage()["context_limit"] == 1_024
        assert session.settings.provider_settings == {"context_limit": 1_024}
