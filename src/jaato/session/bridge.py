"""Between loops: callers that do not await, and callers whose loop is not the one of a session.

Connections belong to the loop that opened them, so whatever a session does is done in its loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from jaato.errors import UsageError

T = TypeVar("T")

TIDYING_SECONDS: Final = 10.0
"""How long Ctrl-C waits until what it cancelled has recorded what it did."""


class Bridge:
    """Runs coroutines for synchronous callers. Starts with the first, ends with the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; started when it is first asked for."""
        with self._lock:
            # A forked child has the loop's memory and not its thread: it would wait for ever.
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="jaato-sessions", daemon=True
                ).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop | None = None) -> T:
        """The result of a coroutine. Ctrl-C cancels it, and waits until it has tidied up.

        `home`: the loop that it belongs to, as long as that one runs.
        """
        loop = home if home is not None and home.is_running() else self.loop
        if running_loop() is loop:
            work.close()
            raise UsageError(
                "a synchronous call from inside a tool or callback would wait for itself",
                hint="use the method of the same name that begins with 'a', and await it",
            )
        job: _Job[T] = _Job(work)
        # With the caller's context variables, so that a trace goes on in the loop's thread.
        loop.call_soon_threadsafe(job.start, loop)
        try:
            return job.outcome.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(job.cancel)
            with suppress(CancelledError, TimeoutError):
                job.outcome.exception(timeout=TIDYING_SECONDS)
            raise


async def arun(work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop | None) -> T:
    """The result of a coroutine that belongs to another loop. Cancelling it waits for its end."""
    if home is None or home is asyncio.get_running_loop() or not home.is_running():
        return await work
    job: _Job[T] = _Job(work)
    home.call_soon_threadsafe(job.start, home)
    outcome = asyncio.wrap_future(job.outcome)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        home.call_soon_threadsafe(job.cancel)
        await asyncio.wait([outcome])
        raise


class _Job(Generic[T]):
    """A coroutine in the loop, and what came of it for the thread that waits.

    Unlike `asyncio.run_coroutine_threadsafe`, a cancelled one is done when it has ended, and not
    as soon as it is asked to.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._work)
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
            self.outcome.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


BRIDGE = Bridge()
