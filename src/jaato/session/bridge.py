"""The synchronous face: one event loop in a thread of its own, for callers that do not await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from jaato.errors import UsageError

T = TypeVar("T")


class Bridge:
    """Runs coroutines for synchronous callers. Starts with the first, ends with the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; started when it is first asked for."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="jaato-sessions", daemon=True
                ).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it, and waits until it has tidied up."""
        loop = self.loop
        if _running() is loop:
            work.close()
            raise UsageError(
                "a synchronous call from inside a tool or callback would wait for itself",
                hint="use the method of the same name that begins with 'a', and await it",
            )
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            with suppress(CancelledError, TimeoutError):
                future.exception(timeout=10)
            raise


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


BRIDGE = Bridge()
