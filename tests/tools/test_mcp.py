"""Tools of MCP servers: real ones, as processes and over HTTP, well and ill."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from tests.servers.harness import serving
from tests.servers.mcp_tools import PIXEL, HttpApp, answering

from jaato.errors import UsageError
from jaato.exchange import ToolOutput
from jaato.history import Media
from jaato.ports import Tool
from jaato.tools import Catalogue, McpConnectionError, McpServerTools

HERE = Path(__file__).parent
SERVER = str(HERE.parent / "servers" / "mcp_tools.py")
FAULTY = str(HERE / "faulty_mcp_server.py")
NAMES = ("add", "mixed", "facts", "fail", "surroundings", "wait", "grow", "shrink", "read_file_now")

Connect = Callable[..., AbstractAsyncContextManager[McpServerTools]]


@asynccontextmanager
async def connected(server: McpServerTools) -> AsyncIterator[McpServerTools]:
    async with asyncio.timeout(60):
        async with server:
            yield server


def started(*arguments: str, script: str = SERVER, **options: Any) -> McpServerTools:
    return McpServerTools(command=sys.executable, args=[script, *arguments], **options)


def faulty(fault: str, *arguments: str, **options: Any) -> McpServerTools:
    return started(fault, *arguments, script=FAULTY, name="faulty", **options)


def run(awaitable: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await awaitable()

    asyncio.run(within())


async def call(server: McpServerTools, name: str, /, **arguments: Any) -> ToolOutput:
    (tool,) = (tool for tool in server.tools if tool.schema.name == name)
    return await tool.call(arguments)


def names(server: McpServerTools) -> tuple[str, ...]:
    return tuple(tool.schema.name for tool in server.tools)


@pytest.fixture(
    params=["stdio", "stdio, the older protocol", "HTTP", "HTTP, the older protocol"],
)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Connects to the same server, in each of the ways there are."""
    legacy = request.param.endswith("older protocol")

    @asynccontextmanager
    async def connecting(**options: Any) -> AsyncIterator[McpServerTools]:
        if request.param.startswith("stdio"):
            async with connected(started(*["--legacy"] * legacy, **options)) as server:
                yield server
        else:
            with serving(HttpApp(legacy=legacy)) as url:
                async with connected(McpServerTools(url=f"{url}/mcp", **options)) as server:
                    yield server

    return connecting


def test_the_tools_of_a_server_are_tools(connect: Connect) -> None:
    async def story() -> None:
        async with connect(timeout=30) as server:
            # All pages of the list, under names that every provider takes.
            assert set(NAMES) <= set(names(server))
            assert all(isinstance(tool, Tool) for tool in server.tools)
            add = server.tools[0]
            assert (add.discoverable, add.timeout) == (False, 30)
            assert add.schema.description == "Add two numbers."
            assert add.schema.parameters["required"] == ["a", "b"]

            assert await call(server, "add", a=1, b=2) == ToolOutput(result="3")
            assert await call(server, "read_file_now", path="p") == ToolOutput(result="p")
            assert await call(server, "facts") == ToolOutput(result={"rows": [1, 2]})
            failed = await call(server, "fail", why="no reason")
            assert failed.is_error
            assert "it failed: no reason" in failed.result
            refused = await call(server, "add", a="x", b=1)
            assert refused.is_error
            assert "valid integer" in refused.result

            mixed = await call(server, "mixed")
            assert mixed == ToolOutput(
                result="seen:\n"
                "(image/png, 70 bytes, attached)\n"
                "(audio/wav, 4 bytes, attached)\n"
                "(image/png, which the server did not write as base64)\n"
                "log <file:///log> (text/plain)\n"
                "<file:///a>\nA\n"
                "(file:///b: application/x-b, 2 bytes, attached)",
                attachments=(
                    Media("image/png", PIXEL),
                    Media("audio/wav", b"RIFF"),
                    Media("application/x-b", b"\0\1", "file:///b"),
                ),
            )

            # Calls are made from any task, and at once.
            outputs = await asyncio.gather(*(call(server, "add", a=n, b=n) for n in range(20)))
            assert [output.result for output in outputs] == [str(2 * n) for n in range(20)]

    run(story)


def test_a_list_that_changes_is_read_again(connect: Connect) -> None:
    async def story() -> None:
        changes: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        catalogue = Catalogue(loaded=False)

        def changed(before: tuple[Tool, ...], after: tuple[Tool, ...]) -> None:
            catalogue.renew(before, after)
            changes.put_nowait(tuple(tool.schema.name for tool in after))

        async with connect(prefix="x_", discoverable=True, on_change=changed) as server:
            first = server.tools
            assert await changes.get() == names(server) == catalogue.discoverable
            assert (await call(server, "x_grow", name="fresh")).result == "grown"
            assert await changes.get() == (*(tool.schema.name for tool in first), "x_fresh")
            # What did not change is the same as before.
            assert server.tools[: len(first)] == first
            assert (await catalogue.call("x_fresh", {})).result == "I am fresh"
            assert catalogue.loaded == ("x_fresh",)
            assert (await call(server, "x_shrink", name="fresh")).result == "shrunk"
            await changes.get()
            assert server.tools == first
            assert catalogue.get("x_fresh") is None

    run(story)


def test_a_call_that_takes_too_long_is_given_up_and_the_server_goes_on(connect: Connect) -> None:
    async def story() -> None:
        async with connect(timeout=0.05) as server:
            output = await call(server, "wait")
            assert output == ToolOutput(result="timed out after 0.05 s", is_error=True)
            server._timeout = None
            output = await Catalogue(server.tools).call("wait", {}, timeout=0.05)
            assert output == ToolOutput(result="timed out after 0.05 s", is_error=True)
            assert (await call(server, "add", a=1, b=1)).result == "2"

    run(story)


def test_it_can_be_let_go_and_connected_again(connect: Connect) -> None:
    async def story() -> None:
        async with connect(name="mine") as server:
            await server.connect()
            add = server.tools[0]
            await server.aclose()
            await server.aclose()
            output = await add.call({"a": 1, "b": 1})
            assert output == ToolOutput(result="the MCP server 'mine' was let go", is_error=True)
            await server.connect()
            assert server.tools[0] is add
            assert (await add.call({"a": 1, "b": 1})).result == "2"

    run(story)


class TestProcess:
    def test_it_gets_its_surroundings(self, tmp_path: Path) -> None:
        folder = tmp_path.resolve()

        async def story() -> None:
            server = started(cwd=tmp_path, env={"KEY": "value"}, include=["surroundings"])
            async with connected(server):
                assert names(server) == ("surroundings",)
                output = await call(server, "surroundings", name="KEY")
                assert output.result == f"{folder} value"

        run(story)

    def test_a_server_that_dies_makes_an_error_and_is_started_again(self) -> None:
        async def story() -> None:
            async with connected(started(name="mine")) as server:
                output = await call(server, "die")
                assert output == ToolOutput(
                    result="the connection to the MCP server 'mine' was lost: Connection closed"
                    " (whether the call had its effect is not known; the next call connects again)",
                    is_error=True,
                )
                assert (await call(server, "add", a=1, b=1)).result == "2"

        run(story)

    def test_calls_that_wait_are_told_when_it_dies(self) -> None:
        async def story() -> None:
            async with connected(faulty("nothing")) as server:
                outputs = await asyncio.gather(*(call(server, "quit") for _ in range(5)))
                assert all(output.is_error for output in outputs)
                assert (await call(server, "pid")).result.isdigit()

        run(story)

    def test_a_server_that_was_killed_between_calls_is_started_again(self) -> None:
        async def story() -> None:
            async with connected(faulty("nothing")) as server:
                before = (await call(server, "pid")).result
                assert server._link is not None
                os.kill(int(before), signal.SIGKILL)
                await server._link._watch.ended.wait()
                after = await call(server, "pid")
                assert not after.is_error
                assert after.result != before

        run(story)

    def test_a_server_that_cannot_start_again_says_why_until_it_can(self, tmp_path: Path) -> None:
        async def story() -> None:
            lock = tmp_path / "lock"
            async with connected(faulty("starts once", str(lock))) as server:
                assert (await call(server, "quit")).is_error
                output = await call(server, "pid")
                assert output == ToolOutput(
                    result="the MCP server 'faulty' cannot be reached: MCPError: Connection closed"
                    " (it said: the lock is taken)",
                    is_error=True,
                )
                lock.unlink()
                assert (await call(server, "pid")).result.isdigit()

        run(story)

    def test_it_is_stopped_when_it_is_let_go(self) -> None:
        async def story() -> None:
            async with connected(faulty("nothing")) as server:
                pid = int((await call(server, "pid")).result)
                await server.aclose()
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)

        run(story)

    def test_it_is_stopped_when_the_program_ends_without_letting_go(self) -> None:
        async def story() -> int:
            server = faulty("nothing")
            await server.connect()
            return int((await call(server, "pid")).result)

        pid = asyncio.run(story())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    def test_it_serves_another_event_loop(self) -> None:
        server = faulty("nothing")

        async def story() -> str:
            await server.connect()
            result: str = (await call(server, "pid")).result
            return result

        first, second = asyncio.run(story()), asyncio.run(story())
        assert first != second
        asyncio.run(server.aclose())

    @pytest.mark.parametrize(
        ("server", "fact", "hint"),
        [
            pytest.param(
                lambda: McpServerTools(command="no-such-command-anywhere"),
                "'no-such-command-anywhere' cannot be reached: FileNotFoundError",
                "is no-such-command-anywhere right?",
                id="no such command",
            ),
            pytest.param(
                lambda: faulty("no start"),
                "'faulty' cannot be reached: MCPError: Connection closed",
                "it said: no key: set FAULTY_KEY",
                id="it ends at once",
            ),
            pytest.param(
                lambda: faulty("silence", connect_timeout=0.3),
                "'faulty' did not answer within 0.3 s",
                "is it an MCP server?",
                id="it says nothing",
            ),
            pytest.param(
                lambda: McpServerTools(command="/bin/echo", args=["hello"]),
                "'/bin/echo' cannot be reached",
                "right?",
                id="it is something else",
            ),
        ],
    )
    def test_a_server_that_cannot_be_started_is_said_to_be(
        self, server: Callable[[], McpServerTools], fact: str, hint: str
    ) -> None:
        async def story() -> None:
            made = server()
            with pytest.raises(McpConnectionError, match=fact) as told:
                await made.connect()
            assert hint in (told.value.hint or "")
            assert made.tools == ()
            assert repr(made) == f"McpServerTools({told.value.server!r})"

        run(story)

    def test_a_connection_that_is_given_up_leaves_no_process(self) -> None:
        async def story() -> None:
            server = faulty("silence")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await server.connect()
            assert server._link is None
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert [task for task in others if task.get_name().startswith("MCP")] == []

        run(story)

    def test_chatter_on_its_output_is_passed_over(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.CRITICAL)

        async def story() -> None:
            async with connected(faulty("chatter")) as server:
                assert (await call(server, "pid")).result.isdigit()

        run(story)

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            pytest.param("odd", "ValidationError: ", id="content of a kind that there is not"),
            pytest.param(
                "typed",
                "RuntimeError: Invalid structured content returned by tool typed",
                id="data that is not what it promised",
            ),
        ],
    )
    def test_an_answer_that_makes_no_sense_is_an_error(self, name: str, words: str) -> None:
        async def story() -> None:
            async with connected(faulty("nothing")) as server:
                output = await call(server, name)
                assert output.is_error
                assert output.result.startswith(words)
                assert (await call(server, "pid")).result.isdigit()

        run(story)

    @pytest.mark.parametrize(
        ("fault", "listed"),
        [
            pytest.param("pages without an end", (), id="ever new pages"),
            pytest.param("pages in a circle", ("page0", "page1", "page2"), id="the same pages"),
        ],
    )
    def test_a_list_without_an_end_is_cut(self, fault: str, listed: tuple[str, ...]) -> None:
        async def story() -> None:
            async with connected(faulty(fault)) as server:
                assert names(server) == listed

        run(story)

    def test_names_that_no_provider_takes_are_changed_and_stay_apart(self) -> None:
        async def story() -> None:
            async with connected(faulty("names that clash")) as server:
                assert names(server) == (
                    "a_b",
                    "a_b_2",
                    "a_b_3",
                    "_1st",
                    "_",
                    "x" * 64,
                    "x" * 62 + "_2",
                    "gr__e",
                )

        run(story)


class TestWhichTools:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            pytest.param({"include": ["add", "fail"]}, ["add", "fail"], id="only these"),
            pytest.param({"include": []}, [], id="none"),
            pytest.param(
                {"include": ["*o*"], "exclude": ["grow"]},
                ["surroundings", "read_file_now"],
                id="patterns",
            ),
            pytest.param(
                {"exclude": ["[a-r]*", "wait"], "prefix": "t-"},
                ["t-surroundings", "t-shrink"],
                id="all but these, with a prefix",
            ),
            pytest.param(
                {"include": ["read.file/now"], "prefix": "files."},
                ["files_read_file_now"],
                id="by the names that the server has",
            ),
        ],
    )
    def test_some_are_wanted_and_some_are_not(
        self, options: dict[str, Any], expected: list[str]
    ) -> None:
        async def story() -> None:
            with serving(HttpApp()) as url:
                async with connected(McpServerTools(url=f"{url}/mcp", **options)) as server:
                    assert list(names(server)) == expected

        run(story)

    def test_tools_that_nobody_can_take_are_an_error_of_the_first_connection(self) -> None:
        async def story() -> None:
            with serving(HttpApp()) as url:
                first = McpServerTools(url=f"{url}/mcp")
                async with connected(first):
                    catalogue = Catalogue(first.tools)
                    second = McpServerTools(url=f"{url}/mcp", on_change=catalogue.renew)
                    with pytest.raises(UsageError, match="two tools are named 'add'"):
                        await second.connect()
                    assert second.tools == ()
                    assert not second._link.is_open if second._link else True

        run(story)

    def test_later_ones_are_logged_and_the_old_ones_stay(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def story() -> None:
            with serving(HttpApp()) as url:
                async with connected(McpServerTools(url=f"{url}/mcp", name="mine")) as server:
                    before = server.tools
                    refused = asyncio.Event()

                    def refuse(*_: object) -> None:
                        refused.set()
                        raise ValueError("no")

                    server.on_change = refuse
                    await call(server, "grow", name="fresh")
                    await refused.wait()
                    assert (await call(server, "add", a=1, b=1)).result == "2"
                    assert server.tools == before
                    server.on_change = None

        run(story)
        assert "the tools of the MCP server 'mine' were not taken over" in caplog.text


class TestHttp:
    def test_headers_are_sent_with_everything(self) -> None:
        async def story() -> None:
            app = HttpApp()
            with serving(app) as url:
                server = McpServerTools(url=f"{url}/mcp", headers={"Authorization": "Bearer k"})
                async with connected(server):
                    await call(server, "add", a=1, b=1)
            assert {seen.get("authorization") for seen in app.headers} == {"Bearer k"}

        run(story)

    def test_a_session_that_the_server_has_forgotten_is_opened_again(self) -> None:
        async def story() -> None:
            app = HttpApp(legacy=True)
            with serving(app) as url:
                async with connected(McpServerTools(url=f"{url}/mcp")) as server:
                    app.forget()
                    # Nothing was done, so nobody needs to hear of it.
                    assert await call(server, "add", a=1, b=2) == ToolOutput(result="3")
                    sessions = {seen.get("mcp-session-id") for seen in app.headers}
                    assert len(sessions - {None}) == 2

        run(story)

    @pytest.mark.parametrize("legacy", [False, True], ids=["now", "the older protocol"])
    def test_a_server_that_goes_away_makes_errors_until_it_is_back(self, *, legacy: bool) -> None:
        async def story() -> None:
            with serving(HttpApp(legacy=legacy)) as url:
                server = McpServerTools(url=f"{url}/mcp", name="mine")
                async with asyncio.timeout(60):
                    await server.connect()
            lost = await call(server, "add", a=1, b=1)
            assert lost.is_error
            assert "the MCP server 'mine'" in lost.result
            again = await call(server, "add", a=1, b=1)
            assert again.is_error
            assert "the MCP server 'mine' cannot be reached: ConnectError" in again.result
            await server.aclose()

        run(story)

    @pytest.mark.parametrize(
        ("answer", "fact"),
        [
            pytest.param(lambda: Response(status_code=404), "Not Found", id="404"),
            pytest.param(lambda: Response(status_code=401), "error response", id="401"),
            pytest.param(lambda: Response(status_code=500), "error response", id="500"),
            pytest.param(lambda: PlainTextResponse("hi"), "content type", id="a page"),
            pytest.param(
                lambda: Response("{}", media_type="application/json"), "parse", id="other JSON"
            ),
        ],
    )
    def test_what_is_no_mcp_server_is_said_to_be_none(
        self,
        answer: Callable[[], Response],
        fact: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.CRITICAL)

        async def story() -> None:
            with serving(answering(answer)) as url:
                server = McpServerTools(url=f"{url}/mcp?key=secret", connect_timeout=10)
                with pytest.raises(McpConnectionError, match=fact) as told:
                    await server.connect()
                assert f"is {url}/mcp right?" in str(told.value)
                assert "secret" not in str(told.value)

        run(story)

    def test_nobody_there(self) -> None:
        async def story() -> None:
            server = McpServerTools(url="http://user:secret@127.0.0.1:1/mcp")
            with pytest.raises(McpConnectionError, match="ConnectError") as told:
                await server.connect()
            assert "secret" not in str(told.value)

        run(story)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        pytest.param({}, "either started or reached", id="neither"),
        pytest.param({"command": "a", "url": "http://b"}, "either started or reached", id="both"),
        pytest.param({"command": "a", "args": "-x"}, "lists", id="args in one"),
        pytest.param({"command": "a", "include": "x"}, "lists", id="include in one"),
        pytest.param({"command": "a", "exclude": "x"}, "lists", id="exclude in one"),
    ],
)
def test_a_server_that_makes_no_sense_is_refused(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=fact) as told:
        McpServerTools(**options)
    assert told.value.hint
