"""A small MCP server for tests: an ASGI app, or a process that speaks over its standard streams.

`python mcp_tools.py` speaks the present protocol and the one before, `--legacy` the older alone.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
PAGE = 2


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def mixed() -> CallToolResult:
    """Give one of each kind of content."""
    return CallToolResult(
        content=[
            TextContent(text="seen:"),
            ImageContent(data=encoded(PIXEL), mime_type="image/png"),
            AudioContent(data=encoded(b"RIFF"), mime_type="audio/wav"),
            ImageContent(data="no base64!", mime_type="image/png"),
            ResourceLink(name="log", uri="file:///log", mime_type="text/plain"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="A")),
            EmbeddedResource(
                resource=BlobResourceContents(
                    uri="file:///b", blob=encoded(b"\0\1"), mime_type="application/x-b"
                )
            ),
        ]
    )


def facts() -> CallToolResult:
    """Give structured content only."""
    return CallToolResult(content=[], structured_content={"rows": [1, 2]})


def fail(why: str) -> str:
    """Fail in words."""
    raise ToolError(f"it failed: {why}")


def read(path: str = "x") -> str:
    """Have a name that no provider takes."""
    return path


def surroundings(name: str) -> str:
    """Say where it runs, and a variable of its environment."""
    return f"{Path.cwd()} {os.environ.get(name)}"


def die() -> str:
    """End the process."""
    os._exit(3)


async def wait() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return "over"


async def grow(name: str, ctx: Context[Any, Any]) -> str:
    """Have one more tool from now on."""
    server_of(ctx).add_tool(lambda: f"I am {name}", name=name, description="New.")
    await tell(ctx)
    return "grown"


async def shrink(name: str, ctx: Context[Any, Any]) -> str:
    """Have one tool less from now on."""
    server_of(ctx).remove_tool(name)
    await tell(ctx)
    return "shrunk"


def server_of(ctx: Context[Any, Any]) -> MCPServer[Any]:
    server = ctx._mcp_server
    assert server is not None
    return server


async def tell(ctx: Context[Any, Any]) -> None:
    """Say that the list has changed, in both protocols."""
    await ctx.notify_tools_changed()
    if ctx.request_context.protocol_version < "2026":
        await ctx.request_context.session.send_tool_list_changed()


def build(*, is_process: bool = False) -> MCPServer[Any]:
    """The server, with all that a client has to cope with. Its list has pages of two tools."""
    server: MCPServer[Any] = MCPServer("tools for tests", log_level="CRITICAL")
    for one in (add, mixed, facts, fail, surroundings, wait, grow, shrink):
        server.add_tool(one)
    server.add_tool(read, name="read.file/now")
    if is_process:
        server.add_tool(die)

    async def listed(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        tools = await server.list_tools()
        rest = start + PAGE
        return ListToolsResult(
            tools=tools[start:rest], next_cursor=str(rest) if rest < len(tools) else None
        )

    server._lowlevel_server.add_request_handler("tools/list", PaginatedRequestParams, listed)
    return server


class HttpApp:
    """The server over HTTP. It keeps the headers it was sent, and forgets sessions on demand."""

    def __init__(self, *, legacy: bool = False) -> None:
        self.headers: list[dict[str, str]] = []
        self.legacy = legacy
        self._server = build()
        self._app: ASGIApp = self._server.streamable_http_app()
        self._ready: asyncio.Event | None = None
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ready is None:
            self._ready = asyncio.Event()
            # It has tasks of its own, and no server that runs its lifespan.
            self._running = asyncio.create_task(self._run(self._ready))
        await self._ready.wait()
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        self.headers.append(headers)
        if self.legacy and headers.get("mcp-protocol-version", "") >= "2026":
            await Response(status_code=400)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def forget(self) -> None:
        """Know none of the sessions any more, as after a restart."""
        self._server.session_manager._server_instances.clear()

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._server.session_manager.run():
            ready.set()
            await asyncio.Event().wait()


def answering(answer: Callable[[], Response]) -> Starlette:
    """A server that is no MCP server: the same answer to everything."""

    async def endpoint(_: Any) -> Response:
        return answer()

    return Starlette(routes=[Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"])])


async def _speak_the_older_protocol() -> None:
    lowlevel = build(is_process=True)._lowlevel_server
    async with stdio_server() as (read, write):
        await serve_loop(lowlevel, read, write, lifespan_state={})


if __name__ == "__main__":
    if "--legacy" in sys.argv:
        anyio.run(_speak_the_older_protocol)
    else:
        build(is_process=True).run("stdio")
