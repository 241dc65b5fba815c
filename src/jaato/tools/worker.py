"""Running a function beside the event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """A function came back."""

    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """A function raised. A value, because a `StopIteration` cannot pass through a future."""

    error: BaseException


async def in_thread(function: Callable[[], T], *, name: str) -> Returned[T] | Raised:
    """What a function did, called with the context variables of the caller.

    Unlike in a pool, one that hangs takes no place from the others, and holds up nobody's exit:
    a thread cannot be stopped, so after a time-out it is left to itself.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Returned[T] | Raised] = loop.create_future()
    context = copy_context()

    def settle(done: Returned[T] | Raised) -> None:
        if not outcome.done():
            outcome.set_result(done)

    def run() -> None:
        done: Returned[T] | Raised
        try:
            done = Returned(context.run(function))
        except BaseException as error:  # noqa: BLE001 -- whoever awaits this decides
            done = Raised(error)
        # The loop may be closed by now; then nobody waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, done)

    threading.Thread(target=run, name=f"tool {name}", daemon=True).start()
    return await outcome
