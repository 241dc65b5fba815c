"""Who calls a tool: a value that the session sets around a call, and tools may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Which call this is: filled in where a parameter is annotated with it, unseen by the model."""

    session_id: str = ""
    agent_id: str = "main"
    call_id: str = ""
    turn: int = 0


_CURRENT: ContextVar[ToolContext] = ContextVar("jaato_tool_context", default=ToolContext())  # noqa: B039 -- frozen


def current_context() -> ToolContext:
    """The call that is being made; outside of one, a context that says nothing."""
    return _CURRENT.get()


@contextmanager
def calling(context: ToolContext) -> Iterator[None]:
    """Calls made inside belong to this context."""
    token = _CURRENT.set(context)
    try:
        yield
    finally:
        _CURRENT.reset(token)
