"""What a real session reports: the spans of a turn, and the facts of a collection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.session.agents import gc, opened, worker
from tests.telemetry.conftest import Watched

from jaato.exchange import RateLimitError
from jaato.gc.config import GCConfig
from jaato.history import FunctionCall
from jaato.providers.scripted import Fault, FaultKind, Reply, ScriptedProvider
from jaato.session.runtime import JaatoRuntime


def runtime_with(watched: Watched) -> JaatoRuntime:
    def no_provider(name: str, _settings: Any) -> Any:
        raise LookupError(name)

    return JaatoRuntime(no_provider, telemetry=watched.telemetry)


def names_below(watched: Watched, parent: Any) -> list[str]:
    return [span.name for span in watched.spans() if span.parent == parent.context]


def test_a_turn_is_a_trace_of_its_calls_tools_and_collections() -> None:
    async def go() -> Watched:
        watched = Watched()
        provider = ScriptedProvider(worker(12, lines=60), rules="openai", window=8_000)
        session = await opened(
            provider, limit=8_000, plugin=gc(), runtime=runtime_with(watched), session_id="s-1"
        )
        await session.asend_message("read")
        return watched

    watched = asyncio.run(go())
    opening = watched.named("jaato.session")
    assert opening.attributes["gen_ai.conversation.id"] == "s-1"
    turn = watched.named("invoke_agent main")
    assert turn.parent is None
    below = names_below(watched, turn)
    assert set(below) == {"chat scripted", "execute_tool read", "jaato.gc"}
    assert below.count("chat scripted") == 13
    assert below.count("execute_tool read") == 12
    assert turn.attributes["jaato.steps"] == 13
    calls = [span for span in watched.spans() if span.name == "chat scripted"]
    assert all(span.attributes["gen_ai.usage.input_tokens"] > 0 for span in calls)
    assert calls[1].attributes["gen_ai.usage.cache_read.input_tokens"] > 0


def test_a_collection_tells_what_it_did_and_what_it_costs() -> None:
    async def go() -> tuple[Watched, Any]:
        watched = Watched()
        provider = ScriptedProvider(worker(2, lines=60), rules="openai", window=8_000)
        session = await opened(provider, limit=8_000, plugin=gc(), runtime=runtime_with(watched))
        await session.asend_message("read")
        await session.asend_message("read on")
        session.set_gc_plugin(gc(preserve_recent_turns=1), GCConfig(target_percent=5.0))
        return watched, await session.amanual_gc()

    watched, result = asyncio.run(go())
    span = watched.named("jaato.gc")
    told = {name.removeprefix("jaato.gc."): value for name, value in span.attributes.items()}
    assert told["trigger_reason"] == "manual"
    assert told["strategy"] == "gc_budget"
    assert told["items_collected"] == result.items_collected > 0
    assert told["tokens_freed"] == result.tokens_freed > 0
    assert told["context_before"] - told["context_after"] == result.tokens_freed
    assert told["edit_point"] == result.details["edit_point"]
    assert told["tokens_invalidated"] == result.details["tokens_invalidated"]
    assert told["success"] is True


def test_a_turn_that_fails_says_by_what() -> None:
    async def go() -> Watched:
        watched = Watched()
        fault = Fault(kind=FaultKind.RATE_LIMIT)
        provider = ScriptedProvider(worker(1), rules="openai", faults=lambda _: fault)
        session = await opened(provider, runtime=runtime_with(watched))
        with pytest.raises(RateLimitError):
            await session.asend_message("my secret plan")
        return watched

    watched = asyncio.run(go())
    for name in ("chat scripted", "invoke_agent main"):
        span = watched.named(name)
        assert span.status.status_code.name == "ERROR"
        assert span.attributes["error.type"] == "jaato.exchange.RateLimitError"
        assert "secret" not in span.to_json()


def test_a_subagents_turn_is_inside_the_call_that_spawned_it() -> None:
    def script(request: Any) -> Reply:
        if request.messages[-1].text == "the parent's task":
            task = {"task": "the child's task"}
            return Reply(calls=(FunctionCall("c1", "spawn_subagent", task),))
        return Reply(text="done")

    async def go() -> Watched:
        watched = Watched()
        provider = ScriptedProvider(script, rules="openai")
        session = await opened(provider, runtime=runtime_with(watched))
        await session.asend_message("the parent's task")
        return watched

    watched = asyncio.run(go())
    call = watched.named("execute_tool spawn_subagent")
    assert watched.parent_name("execute_tool spawn_subagent") == "invoke_agent main"
    turn, child = [span for span in watched.spans() if span.name == "invoke_agent subagent"]
    assert child.parent == call.context
    assert turn.parent == child.context
    assert turn.attributes["gen_ai.agent.id"] == "main.subagent-1"
