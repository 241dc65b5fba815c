"""The tools of an MCP server, started as a process or reached over HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import ToolOutput, ToolSchema
from jaato.history.message import NOTHING
from jaato.ports import Tool
from jaato.tools.mcp_content import name_for, output_of_result, schema_of
from jaato.tools.mcp_endpoint import Http, Stdio
from jaato.tools.mcp_link import Link, McpConnectionError
from jaato.tools.results import failure, refusal

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ServerTool

log = logging.getLogger(__name__)

OnChange = Callable[[tuple[Tool, ...], tuple[Tool, ...]], object]
"""Is told the tools before and after; `Catalogue.renew` is one."""


class McpTool:
    """One tool of an MCP server."""

    def __init__(
        self,
        server: McpServerTools,
        schema: ToolSchema,
        *,
        server_name: str,
        discoverable: bool,
        timeout: float | None,
    ) -> None:
        self.schema: ToolSchema = schema
        self.discoverable: bool = discoverable
        self.timeout: float | None = timeout
        self.server_name = server_name
        """What the server calls it."""
        self._server = server

    def __repr__(self) -> str:
        return f"McpTool({self.schema.name!r})"

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """Have the server run it. Whatever goes wrong is an output."""
        return await self._server.call(self.server_name, arguments)


class McpServerTools:
    """An MCP server as a source of tools: `await connect()`, use `tools`, `await aclose()`.

    A server that is lost during a call makes an error of that call; the next one connects again,
    once. `prefix` goes in front of every name; `include` and `exclude` hold names as the server
    has them, or patterns such as `"read_*"`; `on_change` hears of tools that come, go or change.
    """

    def __init__(
        self,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] = NOTHING,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] = NOTHING,
        name: str = "",
        prefix: str = "",
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        discoverable: bool = False,
        timeout: float | None = None,
        connect_timeout: float = 30.0,
        on_change: OnChange | None = None,
    ) -> None:
        if (command is None) == (url is None):
            raise UsageError(
                "an MCP server is either started or reached",
                hint="give command= (and args=), or url=, and not both",
            )
        if isinstance(args, str) or isinstance(include, str) or isinstance(exclude, str):
            raise UsageError(
                "args, include and exclude of an MCP server are lists",
                hint='write args=["--flag"], include=["read_*"]',
            )
        if find_spec("mcp") is None:
            raise MissingExtraError("mcp", extra="mcp")
        self._endpoint: Stdio | Http
        if url is not None:
            self._endpoint = Http(url=url, headers=headers, connect_timeout=connect_timeout)
        else:
            assert command is not None
            self._endpoint = Stdio(command=command, args=tuple(args), env=env, cwd=cwd)
        self.name = name or prefix.rstrip("_-") or str(self._endpoint)
        self.on_change = on_change
        self._prefix = prefix
        self._include = include
        self._exclude = exclude
        self._discoverable = discoverable
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._tools: tuple[McpTool, ...] = ()
        self._link: Link | None = None
        self._is_closed = False
        self._connecting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"McpServerTools({self.name!r})"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the server as it last listed them; none before `connect()`."""
        return self._tools

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connect and list the tools, if that is not done. Raises `McpConnectionError`."""
        self._is_closed = False
        async with self._connecting:
            if self._link is not None and self._link.is_open:
                return
            listed = await self._relinked()
            try:
                self._take(listed)
            except BaseException:
                assert self._link is not None
                await self._link.close()
                raise

    async def aclose(self) -> None:
        """Let go of the server; one that was started is stopped."""
        self._is_closed = True
        async with self._connecting:
            link, self._link = self._link, None
            if link is not None:
                await link.close()

    async def call(self, server_name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool by the name that the server has for it. Whatever goes wrong is an output."""
        try:
            result = await self._called(server_name, arguments)
        except McpConnectionError as error:
            return refusal(str(error))
        except TimeoutError:
            return refusal(f"timed out after {self._timeout:g} s")
        except Exception as error:  # noqa: BLE001 -- it is the model's to read
            return _told(error)
        return output_of_result(result)

    async def _called(self, server_name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        link = await self._linked()
        try:
            return await link.call(server_name, arguments, seconds=self._timeout)
        except McpConnectionError as error:
            if not error.did_nothing:
                raise
        # Servers forget sessions that were idle; a new one is all they ask for.
        link = await self._linked()
        return await link.call(server_name, arguments, seconds=self._timeout)

    async def _linked(self) -> Link:
        """An open connection: the one there is, or a new one."""
        async with self._connecting:
            if self._is_closed:
                raise McpConnectionError(
                    f"the MCP server {self.name!r} was let go", server=self.name
                )
            if self._link is None or not self._link.is_open:
                self._refresh(await self._relinked())
            assert self._link is not None
            return self._link

    async def _relinked(self) -> list[ServerTool]:
        if self._link is not None:
            await self._link.close()
        self._link = None
        link = Link(self._endpoint, server=self.name, on_tools=self._refresh)
        listed = await link.open(seconds=self._connect_timeout)
        self._link = link
        return listed

    def _refresh(self, listed: Sequence[ServerTool]) -> None:
        """Have these tools; what goes wrong with it is nobody's call to answer for."""
        try:
            self._take(listed)
        except Exception:
            log.exception("the tools of the MCP server %r were not taken over", self.name)

    def _take(self, listed: Sequence[ServerTool]) -> None:
        """Have these tools from now on; what did not change stays the same object."""
        before = {tool.schema.name: tool for tool in self._tools}
        after: dict[str, McpTool] = {}
        seen: set[str] = set()
        for one in listed:
            # A server whose pages overlap lists a tool twice; it is one tool all the same.
            if one.name in seen or not self._is_wanted(one.name):
                continue
            seen.add(one.name)
            name = name_for(one.name, prefix=self._prefix, taken=after)
            schema = schema_of(one, name)
            old = before.get(name)
            if old is not None and (old.schema, old.server_name) == (schema, one.name):
                after[name] = old
                continue
            after[name] = McpTool(
                self,
                schema,
                server_name=one.name,
                discoverable=self._discoverable,
                timeout=self._timeout,
            )
        previous, self._tools = self._tools, tuple(after.values())
        if self._tools != previous and self.on_change is not None:
            try:
                self.on_change(previous, self._tools)
            except BaseException:
                # Whoever refused them has the old ones still.
                self._tools = previous
                raise

    def _is_wanted(self, name: str) -> bool:
        if any(fnmatchcase(name, one) for one in self._exclude):
            return False
        return self._include is None or any(fnmatchcase(name, one) for one in self._include)


def _told(error: Exception) -> ToolOutput:
    """An error of the server in its own words; one of the SDK with its type."""
    from mcp import MCPError  # noqa: PLC0415 -- an optional package

    return refusal(error.message) if isinstance(error, MCPError) else failure(error)
