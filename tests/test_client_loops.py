"""Loops: whatever a session does is done in the loop that opened it, whoever calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.session.agents import opened, worker
from tests.session.families import TASK, parent, spawning
from tests.test_client import connected

from jaato.client import JaatoClient
from jaato.events import BudgetUpdated, Event
from jaato.exchange import Request, StreamEvent
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.session import TurnInterruptedError

SECONDS = 30.0


class Noting(ScriptedProvider):
    """Notes the loops in which it was asked."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def context_limit(self, model: str) -> int | None:
        self.loops.add(asyncio.get_running_loop())
        return await super().context_limit(model)

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        self.loops.add(asyncio.get_running_loop())
        async for event in super().stream(request):
            yield event


def test_what_a_client_opened_is_awaited_in_the_clients_loop() -> None:
    provider = Noting(worker(2))

    async def program() -> str:
        client = JaatoClient(sessions=None)
        client.connect(provider=provider)
        await client.asend_message("read")
        session = client.session
        await session.amanual_gc()
        await session.aspawn_subagent("read too")
        await session.aswitch_model("another")
        answer = await session.asend_message("read again")
        await session.aclose()
        return answer

    assert asyncio.run(program()) == "done after 2 steps"
    [home] = provider.loops
    assert not home.is_closed()


def test_what_was_opened_in_a_loop_may_be_used_from_other_threads() -> None:
    provider = Noting(worker(2))

    async def program() -> str:
        session = await opened(provider)
        answer = await asyncio.to_thread(session.send_message, "read")
        await asyncio.to_thread(asyncio.run, session.asend_message("read again"))
        await asyncio.to_thread(session.close)
        return answer

    assert asyncio.run(program()) == "done after 2 steps"
    assert len(provider.loops) == 1


def test_a_caller_in_another_loop_that_is_cancelled_waits_until_all_is_recorded() -> None:
    started = threading.Event()

    async def wait() -> None:
        """Take for ever."""
        started.set()
        await asyncio.Event().wait()

    def script(request: Request) -> Reply:
        if request.messages[-1].result_ids:
            return Reply(text="done")
        return Reply(calls=(FunctionCall("c1", "wait", {}),))

    client = connected(script)
    client.configure_tools([wait])

    async def program() -> None:
        task = asyncio.ensure_future(client.asend_message("go"))
        assert await asyncio.to_thread(started.wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
    history = client.get_history()
    assert not violations(history)
    assert history[-1].result_ids == ("c1",)
    assert client.continue_turn() == "done"


def test_a_child_that_no_turn_waits_for_can_be_interrupted() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        """Take for ever."""
        started.set()
        await asyncio.Event().wait()

    def child(request: Request) -> Reply:
        del request
        return Reply(calls=(FunctionCall("c1", "wait", {}),))

    async def go() -> None:
        session, _ = await parent(spawning({"task": TASK}, child=child), tools=[wait])
        task = asyncio.ensure_future(session.aspawn_subagent(TASK))
        await started.wait()
        assert session.interrupt()
        done = await task
        assert TurnInterruptedError.__name__ in str(done.error)
        assert not session.interrupt()

    asyncio.run(go())


@pytest.mark.parametrize("change", ["reset_session", "switch_model"])
def test_a_change_outside_a_turn_tells_the_budget(change: str) -> None:
    client = connected(worker(0))
    client.send_message("hello")
    told: list[Event] = []
    client.on(told.append, BudgetUpdated)
    getattr(client, change)(*(["another"] if change == "switch_model" else []))
    assert len(told) == 1
