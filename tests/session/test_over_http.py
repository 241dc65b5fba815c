"""Whole sessions over the real SDKs, against servers that refuse what the providers would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from tests.servers.harness import serving
from tests.servers.mcp_tools import PIXEL
from tests.session.agents import assert_agrees, gc, opened, read
from tests.session.edges import (
    CACHED,
    EDGES,
    THOUGHT,
    AnthropicEdge,
    Edge,
    FaultName,
    ResponsesEdge,
    Stage,
    worker,
)

from jaato.budget import InstructionSource
from jaato.events import Event, ModelCallEnded, ThoughtStreamed, ToolStarted
from jaato.exchange import RateLimitError, ToolOutput
from jaato.gc.result import GCTriggerReason
from jaato.history import Media, violations
from jaato.session.blocking import JaatoSession
from jaato.session.settings import ModelSettings
from jaato.tools.callables import tool

WINDOW = 12_000
STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
ORIGINAL = "please read everything and tell me about value_7"
STAGE = Stage()

at_each_edge = pytest.mark.parametrize("kind", EDGES, ids=lambda kind: kind.name)


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with serving(STAGE) as STAGE.url:
        yield


@asynccontextmanager
async def session_at(
    edge: Edge, **settings: Any
) -> AsyncIterator[tuple[JaatoSession, list[Event]]]:
    """A session with an edge's provider, and its events."""
    STAGE.app = edge.app
    provider = edge.provider(STAGE.url)
    events: list[Event] = []
    try:
        chosen = {"limit": WINDOW, "system_instructions": "You read files.", **settings}
        session = await opened(provider, **chosen)
        session.on(events.append)
        await session.aswitch_model(edge.model, context_limit=chosen["limit"])
        yield session, events
    finally:
        await provider.aclose()


def ends(events: Sequence[Event]) -> list[ModelCallEnded]:
    return [event for event in events if isinstance(event, ModelCallEnded)]


def failures(events: Sequence[Event]) -> list[str]:
    return [event.error for event in ends(events) if event.error]


def calls_made(events: Sequence[Event]) -> list[str]:
    return [event.call_id for event in events if isinstance(event, ToolStarted)]


def unmarked(messages: Sequence[dict[str, Any]]) -> str:
    """Messages without their breakpoints, which move on with each request."""
    return json.dumps(messages).replace(', "cache_control": {"type": "ephemeral"}', "")


def assert_sound(session: JaatoSession) -> None:
    history = session.get_history()
    assert violations(history) == ()
    assert history[0].text == ORIGINAL
    assert_agrees(session)


@pytest.mark.parametrize("strategy", [*STRATEGIES, "nothing but the ladder"])
@at_each_edge
def test_many_turns_on_a_small_window_are_never_refused(kind: type[Edge], strategy: str) -> None:
    edge = kind(worker(4), window=WINDOW)
    plugin = gc(strategy, preserve_recent_turns=2) if strategy in STRATEGIES else None

    async def go() -> None:
        async with session_at(edge, plugin=plugin) as (session, events):
            await session.asend_message(ORIGINAL)
            for at in range(7):
                assert await session.asend_message(f"go on with {at}") == "done after 4 steps"
                assert_sound(session)
            assert failures(events) == []
            assert edge.breaches == []
            freed = [result for result in session.get_gc_history() if result.tokens_freed > 0]
            assert freed
            if plugin is None:
                assert {result.plugin_name for result in freed} == {"ladder"}

    asyncio.run(go())


@pytest.mark.parametrize(
    "tokens_per_count",
    [
        pytest.param(0.7, id="the provider counts less than we do"),
        pytest.param(1.4, id="the provider counts more than we do"),
    ],
)
@at_each_edge
def test_another_tokenizer_than_ours_is_learned(kind: type[Edge], tokens_per_count: float) -> None:
    edge = kind(worker(4), window=WINDOW, tokens_per_count=tokens_per_count)

    async def go() -> None:
        async with session_at(edge, plugin=gc(preserve_recent_turns=2)) as (session, events):
            await session.asend_message(ORIGINAL)
            for at in range(7):
                await session.asend_message(f"go on with {at}")
            assert_sound(session)
            assert failures(events) == []
            assert session.get_gc_history()
            scale = session.get_context_usage()["tokens_per_count"]
            assert scale == pytest.approx(tokens_per_count, rel=0.2)

    asyncio.run(go())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_collection_lands_where_the_provider_sees_the_target(strategy: str) -> None:
    edge = ResponsesEdge(worker(4), window=WINDOW, tokens_per_count=2.0)

    async def go() -> None:
        plugin = gc(strategy, preserve_recent_turns=1)
        async with session_at(edge, plugin=plugin) as (session, events):
            for at in range(8):
                await session.asend_message(f"go on with {at}")
            assert failures(events) == []
            freed = [one for one in session.get_gc_history() if one.tokens_freed > 0]
            assert strategy in {one.plugin_name for one in freed}

    asyncio.run(go())


@at_each_edge
def test_what_a_call_took_is_told_and_counted(kind: type[Edge]) -> None:
    edge = kind(worker(2), window=WINDOW)

    async def go() -> None:
        async with session_at(edge) as (session, events):
            await session.asend_message(ORIGINAL)
            usages = [end.usage for end in ends(events)]
            assert [usage and usage.cached_tokens for usage in usages] == [CACHED] * 3
            assert [usage and usage.thinking_tokens for usage in usages] == [THOUGHT] * 3
            said = "".join(event.text for event in events if isinstance(event, ThoughtStreamed))
            assert said == "part 0 is nextpart 1 is nextthat is all"
            entry = session.instruction_budget.get_entry(InstructionSource.THINKING)
            assert entry is not None
            assert entry.tokens == 3 * THOUGHT
            last = usages[-1]
            assert last is not None
            assert last.input_tokens is not None
            answer = session.state.window.tokens - last.input_tokens
            assert 0 < answer < 100, "what fills the window is what was reported, and the answer"

    asyncio.run(go())


def test_each_request_to_anthropic_marks_what_it_has_in_common_with_the_next() -> None:
    edge = AnthropicEdge(worker(4, lines=15), window=WINDOW)
    edits: list[int] = []

    async def go() -> None:
        async with session_at(edge, plugin=gc(preserve_recent_turns=2)) as (session, _):
            for at in range(6):
                await session.asend_message(f"go on with {at}")
            edits.extend(result.tokens_freed for result in session.get_gc_history())

    asyncio.run(go())
    for body in edge.bodies:
        assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
        marked = [at for at, one in enumerate(body["messages"]) if "cache_control" in str(one)]
        assert marked[-1] == len(body["messages"]) - 1
        assert marked[0] == 0
    kept = [
        unmarked(after["messages"][: len(before["messages"])]) == unmarked(before["messages"])
        for before, after in pairwise(edge.bodies)
    ]
    assert kept.count(False) == len(edits) > 0, "only a collection changes what is cached"


FAULTS: tuple[FaultName, ...] = (
    "a rate limit",
    "a context limit",
    "a broken stream",
    "a failing server",
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", [1, 3, 6], ids=["at a step", "at an answer", "in the second turn"])
@at_each_edge
def test_nothing_is_sent_or_run_twice_because_of(
    kind: type[Edge], at: int, fault: FaultName
) -> None:
    edge = kind(worker(3, lines=20), window=WINDOW, faults={at: fault})

    async def go() -> None:
        async with session_at(edge, plugin=gc(preserve_recent_turns=1)) as (session, events):
            limited: list[int | None] = []
            for prompt in (ORIGINAL, "go on"):
                try:
                    answer = await session.asend_message(prompt)
                except RateLimitError as error:
                    limited.append(error.status)
                    answer = await session.acontinue_turn()
                assert answer == "done after 3 steps"
                assert_sound(session)
            assert limited == [429] * (fault == "a rate limit")
            assert edge.breaches == []
            assert len(failures(events)) == 1
            assert calls_made(events) == [f"call_{n // 2}_{n % 2}" for n in range(6)] * 2
            assert len(edge.bodies) == 9
            reasons = {result.trigger_reason for result in session.get_gc_history()}
            limit = session.get_context_usage()["context_limit"]
            if fault == "a context limit":
                assert GCTriggerReason.CONTEXT_LIMIT in reasons
                assert limit == (WINDOW * 3 // 4 if edge.tells_window else WINDOW)
            else:
                assert (len(session.get_history()), reasons, limit) == (16, set(), WINDOW)

    asyncio.run(go())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ModelSettings(thinking=1024), id="as much as the room for an answer"),
        pytest.param(ModelSettings(thinking=2048), id="more than the room for an answer"),
        pytest.param(
            ModelSettings(thinking=2048, max_output_tokens=3000), id="within what was asked for"
        ),
    ],
)
@pytest.mark.parametrize("refusals", [0, 2], ids=["", "and the provider refuses some"])
def test_a_budget_for_thinking_is_a_part_of_the_room(
    settings: ModelSettings, refusals: int
) -> None:
    faults: dict[int, FaultName] = {7 + at: "a context limit" for at in range(refusals)}
    edge = AnthropicEdge(worker(4), window=WINDOW, faults=faults)

    async def go() -> None:
        plugin = gc(preserve_recent_turns=2)
        async with session_at(edge, plugin=plugin, model_settings=settings) as (session, events):
            for at in range(5):
                await session.asend_message(f"go on with {at}")
            assert len(failures(events)) == refusals
            assert session.get_gc_history()

    asyncio.run(go())
    assert edge.breaches == []


@pytest.mark.parametrize("first", range(len(EDGES)), ids=[f"from {kind.name}" for kind in EDGES])
@pytest.mark.parametrize("is_amid", [False, True], ids=["between turns", "amid a turn"])
def test_a_session_is_handed_from_edge_to_edge(first: int, *, is_amid: bool) -> None:
    order = [*EDGES[first:], *EDGES[:first]]
    # Each fails its second request for good, so that the next one goes on with the turn.
    faults: dict[int, FaultName] = {1: "a rate limit"} if is_amid else {}
    edges = [kind(worker(3, lines=30), window=WINDOW, faults=faults) for kind in order]

    async def go() -> None:
        async with session_at(edges[0], plugin=gc(preserve_recent_turns=1)) as (session, events):
            for number, edge in enumerate(edges):
                STAGE.app = edge.app
                provider = edge.provider(STAGE.url)
                session.runtime.adopt(provider)
                await session.aswitch_model(
                    edge.model, provider=provider.name, context_limit=WINDOW
                )
                if is_amid and number:
                    edge.faults.clear()
                    assert await session.acontinue_turn() == "done after 3 steps"
                    edge.faults[edge.asked + 1] = "a rate limit"
                if is_amid:
                    with pytest.raises(RateLimitError):
                        await session.asend_message(ORIGINAL if not number else f"go on {number}")
                else:
                    await session.asend_message(ORIGINAL if not number else f"go on {number}")
                await provider.aclose()
                assert_sound(session)
            assert [edge.breaches for edge in edges] == [[]] * len(edges)
            assert len(failures(events)) == len(edges) * is_amid

    asyncio.run(go())


@at_each_edge
def test_pictures_are_sent_counted_and_collected(kind: type[Edge]) -> None:
    edge = kind(worker(4), window=WINDOW)

    def look(path: str, lines: int) -> ToolOutput:
        """Look at a file."""
        pictures = (Media("image/png", PIXEL),) if path.endswith("_1.py") else ()
        return ToolOutput(result=read(path, lines), attachments=pictures)

    async def go() -> None:
        plugin = gc(preserve_recent_turns=2)
        tools = [tool(look, name="read")]
        async with session_at(edge, plugin=plugin, tools=tools) as (session, events):
            for at in range(6):
                prompt = f"go on with {at}" if at else ORIGINAL
                answer = await session.asend_message(
                    prompt, attachments=[Media("image/png", PIXEL)]
                )
                assert answer == "done after 4 steps"
                assert_sound(session)
            assert failures(events) == []
            assert session.get_gc_history()
            assert session.get_history()[0].parts[-1].inline_data == Media("image/png", PIXEL)

    asyncio.run(go())
