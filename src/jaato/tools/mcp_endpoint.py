"""Where an MCP server is, how its streams are opened, and how the end of them is noticed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO
from urllib.parse import urlsplit, urlunsplit

from jaato.history.message import NOTHING

if TYPE_CHECKING:
    from types import TracebackType

    import httpx2
    from mcp.client._transport import TransportStreams
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage

log = logging.getLogger(__name__)

_LAST_LINES = 20
_SECONDS_FOR_LAST_WORDS = 1.0
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Stdio:
    """A server that is started, and spoken to through its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    cwd: str | Path | None = None

    def __str__(self) -> str:
        return self.command

    @asynccontextmanager
    async def open(self, watch: Watch) -> AsyncIterator[TransportStreams]:
        """Its streams; leaving stops it."""
        from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 -- optional

        parameters = StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
        )
        async with stdio_client(parameters, errlog=watch.stderr()) as (read, write):
            watch.stderr_is_inherited()
            yield _Watched(read, watch), write


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A server that runs somewhere, and is spoken to over streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING, repr=False)
    connect_timeout: float = 30.0

    def __str__(self) -> str:
        # Keys are often part of an address, and errors go to the model.
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @asynccontextmanager
    async def open(self, watch: Watch) -> AsyncIterator[TransportStreams]:
        """Its streams; leaving ends the session."""
        import httpx2  # noqa: PLC0415 -- comes with mcp
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 -- optional

        async def seen(response: httpx2.Response) -> None:
            # So the protocol says that the server has forgotten a session.
            if response.status_code == _NOT_FOUND and "mcp-session-id" in response.request.headers:
                watch.is_forgotten = True

        # How long an answer may take is for each call to say, and streams of events are quiet.
        timeout = httpx2.Timeout(self.connect_timeout, read=None)
        async with (
            httpx2.AsyncClient(
                headers=dict(self.headers), timeout=timeout, event_hooks={"response": [seen]}
            ) as client,
            streamable_http_client(self.url, http_client=client) as (read, write),
        ):
            yield _Watched(read, watch), write


class Endpoint(Protocol):
    """Where a server is, and how its streams are opened."""

    def open(self, watch: Watch) -> AbstractAsyncContextManager[TransportStreams]:
        """The streams of a connection; leaving ends it."""
        ...


class Watch:
    """Learns that a connection has ended, and why."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.why = ""
        self.is_forgotten = False
        """Whether the server knows nothing of us any more."""
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._listener: threading.Thread | None = None
        self._pipe: TextIO | None = None

    def lost(self, why: str = "") -> None:
        """The connection is of no use any more."""
        self.why = self.why or why
        self.ended.set()

    def stderr(self) -> TextIO:
        """Where a server may write its complaints: they are logged, and the last ones kept."""
        reading, writing = os.pipe()
        source = os.fdopen(reading, "rb")
        self._pipe = os.fdopen(writing, "w")

        def listen() -> None:
            with source:
                for line in source:
                    text = line.decode("utf-8", "replace").rstrip()
                    log.debug("MCP server: %s", text)
                    self._said.append(text)

        # A thread, because not every event loop reads pipes.
        self._listener = threading.Thread(target=listen, name="MCP server stderr", daemon=True)
        self._listener.start()
        return self._pipe

    def stderr_is_inherited(self) -> None:
        """The server has its own end of the pipe; with ours open, it would never end."""
        if self._pipe is not None:
            self._pipe.close()

    async def last_words(self) -> str:
        """The end of what the server complained of."""
        self.stderr_is_inherited()
        if self._listener is not None:
            await asyncio.to_thread(self._listener.join, _SECONDS_FOR_LAST_WORDS)
        return "\n".join(self._said).strip()


class _Watched:
    """A stream that tells when it ends; the SDK does not."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._watch.lost()
            raise

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)
