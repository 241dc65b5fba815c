"""Sessions whose tools come from MCP servers: real ones, as processes and over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.harness import serving
from tests.servers.mcp_tools import PIXEL, HttpApp
from tests.session.agents import assert_agrees, gc, opened, steps_of_turn
from tests.session.resuming import NAME, resumed, schema_tokens

from jaato.events import CallbackFailed, Event, ModelCallEnded, ToolEnded, ToolStarted
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.history import FunctionCall, Media, Message, Role, ToolResult, violations
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.settings import LoopSettings
from jaato.tools import McpServerTools

SERVER = str(Path(__file__).parent.parent / "servers" / "mcp_tools.py")
Calls = Sequence[tuple[str, dict[str, Any]]]
Connect = Callable[..., AbstractAsyncContextManager[McpServerTools]]


def stdio(**options: Any) -> McpServerTools:
    return McpServerTools(command=sys.executable, args=[SERVER], **options)


@pytest.fixture(params=["stdio", "HTTP"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """The same server, in either way; it is the session that connects to it."""

    @asynccontextmanager
    async def connecting(**options: Any) -> AsyncIterator[McpServerTools]:
        async with asyncio.timeout(60):
            if request.param == "stdio":
                yield stdio(**options)
                return
            with serving(HttpApp()) as url:
                yield McpServerTools(url=f"{url}/mcp", **options)

    return connecting


class Talk:
    """A model that makes the calls it was given, step by step, and keeps what it was sent."""

    def __init__(self, *steps: Calls) -> None:
        self.steps = steps
        self.sent: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.sent.append(request)
        at = steps_of_turn(request)
        if at >= len(self.steps):
            return Reply(text="done", thought="that is all")
        calls = [
            FunctionCall(f"c{at}_{n}", name, arguments)
            for n, (name, arguments) in enumerate(self.steps[at])
        ]
        return Reply(text=f"step {at}", thought="hm", calls=tuple(calls))

    def offered(self, at: int = -1) -> list[str]:
        return [schema.name for schema in self.sent[at].tools]


@asynccontextmanager
async def session_with(
    server: McpServerTools | None, talk: Callable[[Request], Reply], **settings: Any
) -> AsyncIterator[tuple[JaatoSession, list[Event]]]:
    """A session with the tools of a server; no request of it is refused, and it stays sound."""
    provider = ScriptedProvider(talk, rules="anthropic", window=20_000)
    session = await opened(provider, **{"tools": [], "limit": 20_000, "plugin": gc()} | settings)
    events: list[Event] = []
    session.on(events.append)
    try:
        if server is not None:
            await session.aadd_tool_server(server)
        yield session, events
        assert [e.error for e in events if isinstance(e, ModelCallEnded) and e.error] == []
        assert [e for e in events if isinstance(e, CallbackFailed)] == []
        assert violations(session.get_history()) == ()
        assert_agrees(session)
        held, fresh = schema_tokens(session)
        assert held == fresh
    finally:
        await session.aclose()


def results_of(history: Sequence[Message]) -> list[ToolResult]:
    return [
        part.function_response
        for message in history
        if message.role is Role.TOOL
        for part in message.parts
        if part.function_response is not None
    ]


def test_the_tools_of_a_server_are_offered_and_called_in_parallel(connect: Connect) -> None:
    adds: Calls = [("x_add", {"a": n, "b": n}) for n in range(6)]
    talk = Talk([*adds, ("x_read_file_now", {"path": "p"})], [("x_mixed", {}), ("x_facts", {})])

    async def go() -> None:
        async with (
            connect(prefix="x_", exclude=["wait"]) as server,
            session_with(server, talk) as (session, events),
        ):
            assert await session.asend_message("add them up") == "done"
            assert "x_add" in talk.offered(0)
            assert "x_wait" not in talk.offered(0)
            added = results_of(session.get_history())
            assert [one.result for one in added[:7]] == ["0", "2", "4", "6", "8", "10", "p"]
            assert added[7].attachments[0] == Media("image/png", PIXEL)
            assert added[8].result == {"rows": [1, 2]}
            started = [at for at, one in enumerate(events) if isinstance(one, ToolStarted)]
            ended = [at for at, one in enumerate(events) if isinstance(one, ToolEnded)]
            assert started[6] < ended[0], "all calls of a step are under way at once"

    asyncio.run(go())


def test_what_goes_wrong_at_a_server_is_an_answer_to_the_model(connect: Connect) -> None:
    calls: Calls = [
        ("fail", {"why": "no reason"}),
        ("wait", {}),
        ("add", {"a": "x", "b": 1}),
        ("no_such_tool", {}),
        ("add", {"a": 1, "b": 1}),
    ]

    async def go() -> None:
        loop = LoopSettings(tool_seconds=0.2)
        async with (
            connect(exclude=["mixed"]) as server,
            session_with(server, Talk(calls), loop=loop) as (session, _),
        ):
            assert await session.asend_message("try them") == "done"
            results = results_of(session.get_history())
            assert [one.is_error for one in results] == [True, True, True, True, False]
            said = [str(one.result) for one in results]
            for part, whole in zip(
                ("it failed: no reason", "timed out after 0.2 s", "valid integer", "no_such_tool"),
                said,
                strict=False,
            ):
                assert part in whole
            assert said[-1] == "2"

    asyncio.run(go())


def test_a_process_that_dies_amid_a_step_is_started_again_for_the_next() -> None:
    talk = Talk([("die", {}), ("wait", {})], [("add", {"a": 1, "b": 1})])

    async def go() -> None:
        loop = LoopSettings(tool_seconds=10)
        async with session_with(stdio(name="mine"), talk, loop=loop) as (session, _):
            assert await session.asend_message("go") == "done"
            died, waited, added = results_of(session.get_history())
            assert died.is_error
            assert waited.is_error
            assert "the connection to the MCP server 'mine' was lost" in str(died.result)
            assert added.result == "2"

    asyncio.run(go())


def test_a_server_that_is_gone_for_good_is_an_error_and_the_session_goes_on() -> None:
    talk = Talk([("add", {"a": 1, "b": 1})])

    async def go() -> None:
        with ExitStack() as stack:
            url = stack.enter_context(serving(HttpApp()))
            server = McpServerTools(url=f"{url}/mcp", name="mine", connect_timeout=5)
            async with session_with(server, talk) as (session, _):
                assert await session.asend_message("while it is there") == "done"
                await asyncio.to_thread(stack.close)
                assert await session.asend_message("once it is gone") == "done"
                first, second = results_of(session.get_history())
                assert (first.result, first.is_error) == ("2", False)
                assert second.is_error
                assert "'mine'" in str(second.result)
                assert "add" in talk.offered(), "it may come back"

    asyncio.run(go())


def test_a_schema_that_was_collected_leaves_the_request_and_is_found_again(
    connect: Connect,
) -> None:
    def script(request: Request) -> Reply:
        sent.append(request)
        names = [schema.name for schema in request.tools]
        last = request.messages[-1]
        if last.role is Role.TOOL:
            calls = FunctionCall("a", "add", {"a": 20, "b": 22})
            found = "find" in str(results_of([last])[0].name)
            return Reply(calls=(calls,)) if found else Reply(text="42")
        if "sum" in last.text:
            assert "add" not in names
            call = FunctionCall("f", "find_tools", {"query": "add two numbers"})
            return Reply(calls=(call,), thought="there may be a tool")
        return Reply(text="ok", thought="hm")

    sent: list[Request] = []

    async def go() -> None:
        config = GCConfig(target_percent=0.5, threshold_percent=90.0)
        plugin = gc(preserve_recent_turns=0)
        async with (
            connect(discoverable=True) as server,
            session_with(server, script, plugin=plugin, config=config) as (session, _),
        ):
            await session.asend_message("hello")
            before = session.get_context_usage()["total_tokens"]
            assert "add" in [schema.name for schema in sent[-1].tools]
            result = await session.amanual_gc()
            assert result is not None
            assert "add" not in session.state.window.tools_in_budget()
            assert session.get_context_usage()["total_tokens"] < before
            assert await session.asend_message("tell me the sum") == "42"
            assert "add" in [schema.name for schema in sent[-1].tools]
            assert "mixed" not in [schema.name for schema in sent[-1].tools]
            assert results_of(session.get_history())[-1].result == "42"

    asyncio.run(go())


def test_a_list_that_changes_amid_a_turn_changes_the_next_request(connect: Connect) -> None:
    changed = asyncio.Event()

    async def settle() -> str:
        """Wait until the list has changed."""
        await changed.wait()
        changed.clear()
        return "changed"

    talk = Talk(
        [("grow", {"name": "fresh"}), ("settle", {})],
        [("fresh", {})],
        [("shrink", {"name": "fresh"}), ("settle", {})],
        [("fresh", {})],
    )

    async def go() -> None:
        async with (
            connect() as server,
            session_with(None, talk, tools=[settle]) as (session, _),
        ):
            await session.aadd_tool_server(server)
            renew = server.on_change
            assert renew is not None

            def hear(*both: Any) -> None:
                renew(*both)
                changed.set()

            server.on_change = hear
            assert await session.asend_message("grow and shrink") == "done"
            assert ["fresh" in talk.offered(at) for at in range(5)] == [
                False, True, True, False, False,
            ]  # fmt: skip
            found, missed = results_of(session.get_history())[2::3]
            assert (found.result, found.is_error) == ("I am fresh", False)
            assert missed.is_error

    asyncio.run(go())


def test_a_server_goes_with_its_session(connect: Connect) -> None:
    async def go() -> None:
        async with connect() as server:
            async with session_with(server, Talk()) as (session, _):
                (add,) = (one for one in server.tools if one.schema.name == "add")
                assert await session.asend_message("hello") == "done"
            assert "was let go" in str((await add.call({"a": 1, "b": 1})).result)

    asyncio.run(go())


def test_a_server_whose_names_are_taken_is_refused_whole(connect: Connect) -> None:
    async def go() -> None:
        def add(a: int, b: int) -> int:
            """Add two numbers, here."""
            return a + b

        async with (
            connect() as server,
            session_with(None, Talk([("add", {"a": 1, "b": 1})]), tools=[add]) as (session, _),
        ):
            with pytest.raises(Exception, match="two tools are named 'add'"):
                await session.aadd_tool_server(server)
            assert await session.asend_message("add") == "done"
            assert "mixed" not in session.catalogue.names
            await server.aclose()

    asyncio.run(go())


def test_a_resumed_session_gets_its_server_again(connect: Connect, tmp_path: Path) -> None:
    talk = Talk([("add", {"a": 1, "b": 1})])

    async def go() -> None:
        chosen = {"folder": tmp_path, "session_id": NAME}
        async with connect() as server:
            async with session_with(server, talk, **chosen) as (session, _):
                assert await session.asend_message("before") == "done"
            provider = ScriptedProvider(talk, rules="anthropic", window=20_000)
            again = await resumed(provider, tmp_path, tools=[])
            assert schema_tokens(again) == (0, 0)
            await again.aadd_tool_server(server)
            held, fresh = schema_tokens(again)
            assert held == fresh > 0
            assert await again.asend_message("after") == "done"
            assert [one.result for one in results_of(again.get_history())] == ["2", "2"]
            await again.aclose()

    asyncio.run(go())
