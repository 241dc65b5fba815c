"""One connection to an MCP server, held open by a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaato.errors import JaatoError
from jaato.tools.mcp_endpoint import Endpoint, Watch

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as ServerTool

log = logging.getLogger(__name__)

_MOST_PAGES = 1_000
_SECONDS_TO_CLOSE = 10.0
_SECONDS_TO_LEARN_WHY = 1.0
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 60.0


class McpConnectionError(JaatoError):
    """An MCP server cannot be reached, or was lost. `did_nothing`: no call had an effect."""

    def __init__(
        self, message: str, *, server: str, hint: str | None = None, did_nothing: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.server = server
        self.did_nothing = did_nothing


class Link:
    """An open connection. `on_tools` hears of every listing after the first."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        server: str,
        on_tools: Callable[[list[ServerTool]], None],
    ) -> None:
        self._endpoint = endpoint
        self._server = server
        self._on_tools = on_tools
        self._watch = Watch()
        self._stale = asyncio.Event()
        self._stopped = asyncio.Event()
        self._client: Client | None = None
        self._opened: asyncio.Future[list[ServerTool]] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        watch = self._watch
        return self._client is not None and not (watch.ended.is_set() or watch.is_forgotten)

    async def open(self, *, seconds: float) -> list[ServerTool]:
        """Connect; the tools of the server. Raises `McpConnectionError`."""
        self._opened = asyncio.get_running_loop().create_future()
        # The SDK's scopes must be left by the task that entered them, and calls come from any.
        self._task = asyncio.create_task(self._hold(self._opened), name=f"MCP {self._server}")
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._opened)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise McpConnectionError(
                    f"the MCP server {self._server!r} did not answer within {seconds:g} s",
                    server=self._server,
                    hint=await self._heard() or "is it an MCP server?",
                ) from error
            raise

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, seconds: float | None
    ) -> CallToolResult:
        """Call a tool. Raises `McpConnectionError` where the connection was lost meanwhile."""
        from mcp import MCPError  # noqa: PLC0415 -- an optional package
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT  # noqa: PLC0415 -- likewise

        assert self._client is not None
        try:
            return await self._client.call_tool(name, dict(arguments), seconds)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT and seconds is not None:
                raise TimeoutError from error
            if error.code == CONNECTION_CLOSED:
                raise await self._lost(error.message) from error
            if self._watch.is_forgotten:
                raise McpConnectionError(
                    f"the MCP server {self._server!r} has forgotten the session",
                    server=self._server,
                    did_nothing=True,
                ) from error
            raise

    async def _lost(self, message: str) -> McpConnectionError:
        self._watch.lost()
        await self._wound_up(_SECONDS_TO_LEARN_WHY)
        return McpConnectionError(
            f"the connection to the MCP server {self._server!r} was lost:"
            f" {self._watch.why or message}",
            server=self._server,
            hint="whether the call had its effect is not known; the next call connects again",
        )

    async def close(self) -> None:
        """Let go of the server. Returns when it is gone, or does not go in time."""
        self._stopped.set()
        if self._client is None and self._task is not None:
            # Still connecting, where nobody looks at events.
            self._task.cancel()
        if not await self._wound_up(_SECONDS_TO_CLOSE) and self._task is not None:
            log.warning("the MCP server %r does not let go of its connection", self._server)
            self._task.cancel()

    async def _wound_up(self, seconds: float) -> bool:
        if self._task is None or self._task.done():
            return True
        done, _ = await asyncio.wait({self._task}, timeout=seconds)
        return bool(done)

    async def _hold(self, opened: asyncio.Future[list[ServerTool]]) -> None:
        try:
            await self._held(opened)
        except Exception as error:  # noqa: BLE001 -- whoever waits is told
            cause = _cause(error)
            self._watch.lost(f"{type(cause).__name__}: {cause}" if str(cause) else repr(cause))
            if not opened.done():
                opened.set_exception(await self._unreachable(cause))
                # Nobody may be waiting any more.
                opened.exception()
        finally:
            self._client = None
            self._watch.ended.set()
            self._watch.stderr_is_inherited()
            opened.cancel()

    async def _held(self, opened: asyncio.Future[list[ServerTool]]) -> None:
        from mcp import Client  # noqa: PLC0415 -- an optional package
        from mcp_types import ToolListChangedNotification  # noqa: PLC0415 -- likewise

        async def heard(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._stale.set()

        # The list is kept here, so that a change is seen as one.
        transport = self._endpoint.open(self._watch)
        async with Client(transport, cache=None, message_handler=heard) as client:
            tools = await _listed(client)
            self._client = client
            if not opened.done():
                opened.set_result(tools)
            async with asyncio.TaskGroup() as tasks:
                ears = tasks.create_task(self._listen(client))
                lists = tasks.create_task(self._refresh(client))
                await self._over()
                ears.cancel()
                lists.cancel()

    async def _over(self) -> None:
        """Returns when somebody closes this, or the server is gone."""
        waiting = [asyncio.ensure_future(one.wait()) for one in (self._stopped, self._watch.ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def _refresh(self, client: Client) -> None:
        """List again whenever the list has changed."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                tools = await _listed(client)
            except Exception as error:  # noqa: BLE001 -- the last list serves until the next change
                log.info("the MCP server %r does not list its tools: %s", self._server, error)
            else:
                self._on_tools(tools)

    async def _listen(self, client: Client) -> None:
        """Hear of changes where the protocol tells them only to those who ask (from 2026-07-28)."""
        from mcp import MCPError  # noqa: PLC0415 -- an optional package
        from mcp.client.subscriptions import (  # noqa: PLC0415 -- likewise
            ListenNotSupportedError,
            SubscriptionLost,
        )

        offered = client.server_capabilities.tools
        if offered is None or not offered.list_changed:
            return
        delay = _FIRST_DELAY
        while True:
            with suppress(SubscriptionLost):
                try:
                    async with client.listen(tools_list_changed=True) as changes:
                        # What changed since the last listing was told to nobody.
                        self._stale.set()
                        async for _ in changes:
                            delay = _FIRST_DELAY
                            self._stale.set()
                except (ListenNotSupportedError, MCPError):
                    return
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _unreachable(self, cause: BaseException) -> McpConnectionError:
        text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        return McpConnectionError(
            f"the MCP server {self._server!r} cannot be reached: {text}",
            server=self._server,
            hint=await self._heard() or f"is {self._endpoint} right?",
        )

    async def _heard(self) -> str:
        words = await self._watch.last_words()
        return f"it said: {words}" if words else ""


async def _listed(client: Client) -> list[ServerTool]:
    """All pages of the tools. A server whose pages never end is cut off."""
    tools: list[ServerTool] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while len(seen) < _MOST_PAGES and cursor not in seen:
        seen.add(cursor)
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
    log.warning("an MCP server lists its tools without an end; %d were read", len(tools))
    return tools


def _cause(error: BaseException) -> BaseException:
    """The first thing that went wrong, out of the groups that the SDK wraps it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
