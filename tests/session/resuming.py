"""Sessions that are left and resumed, and what must be the same afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.session.agents import gc, opened, read

from jaato.budget import InstructionSource
from jaato.exchange import Request
from jaato.ports import Provider
from jaato.session.blocking import JaatoSession
from jaato.session.opening import resume_session
from jaato.session.runtime import JaatoRuntime
from jaato.session.settings import SessionSettings
from jaato.tools.intake import as_tools

NAME: Final = "kept"


async def begun(provider: Provider, folder: Path, **settings: Any) -> JaatoSession:
    """A session with a log."""
    chosen = {"plugin": gc(preserve_recent_turns=1), "system_instructions": "be kind"}
    return await opened(provider, folder=folder, session_id=NAME, **chosen | settings)


async def resumed(
    provider: Provider, folder: Path, *, tools: list[Any] | None = None, **settings: Any
) -> JaatoSession:
    """The session of `begun`, from its log."""
    runtime = JaatoRuntime(_no_provider, folder=folder)
    runtime.adopt(provider)
    chosen = SessionSettings(
        provider=provider.name,
        model="scripted",
        tools=tuple(as_tools([read] if tools is None else tools)),
        **{"plugin": gc(preserve_recent_turns=1), **settings},
    )
    return await resume_session(runtime, chosen, NAME)


def request_of(session: JaatoSession) -> Request:
    """What the session would send now."""
    return session._model.request(session.catalogue.offered())


def assert_same(one: JaatoSession, other: JaatoSession) -> None:
    """Nothing tells one from the other, neither to a person nor to a provider."""
    assert one.get_history() == other.get_history()
    assert one.instruction_budget.snapshot() == other.instruction_budget.snapshot()
    assert one.get_context_usage() == other.get_context_usage()
    assert one.get_gc_history() == other.get_gc_history()
    assert one.state.pins == other.state.pins
    assert request_of(one).tools == request_of(other).tools
    assert request_of(one) == request_of(other)


def schema_tokens(session: JaatoSession) -> tuple[int, int]:
    """What the budget has for schemas, and what a fresh count finds."""
    entry = session.instruction_budget.get_entry(InstructionSource.PLUGIN)
    counts = session.catalogue.schema_tokens(session.state.counter)
    fresh = sum(counts[schema.name] for schema in session.catalogue.offered())
    return (0 if entry is None else entry.total_tokens()), fresh


def _no_provider(name: str, _settings: Any) -> Any:
    raise AssertionError(name)
