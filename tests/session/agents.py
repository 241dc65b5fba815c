"""Agents for session tests: scripts that decide from what they see, and sessions around them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.budget import InstructionSource
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.history import FunctionCall, Role
from jaato.ports import Provider
from jaato.providers.scripted import Reply
from jaato.session.blocking import JaatoSession
from jaato.session.opening import open_session
from jaato.session.runtime import JaatoRuntime
from jaato.session.settings import SessionSettings
from jaato.tokens import message_tokens
from jaato.tools.intake import as_tools

Script = Callable[[Request], Reply]


def steps_of_turn(request: Request) -> int:
    """How many model messages the present turn has so far."""
    steps = 0
    for message in reversed(request.messages):
        if message.opens_turn:
            return steps
        steps += message.role is Role.MODEL
    return steps


def worker(steps: int, *, calls: int = 1, lines: int = 40, thought: str = "") -> Script:
    """Reads files for so many steps, then answers."""

    def script(request: Request) -> Reply:
        at = steps_of_turn(request)
        if at >= steps:
            return Reply(text=f"done after {at} steps")
        made = tuple(
            FunctionCall(f"call-{at}-{n}", "read", {"path": f"f{at}_{n}.py", "lines": lines})
            for n in range(calls)
        )
        return Reply(text=f"step {at}", thought=thought, calls=made)

    return script


def read(path: str, lines: int = 40) -> str:
    """Read a file.

    Args:
        path: Which.
        lines: How many lines it has.
    """
    return "\n".join(f"{path}:{at} value_{at * 7919 % 997} = compute({at})" for at in range(lines))


def gc(name: str = "gc_budget", **options: Any) -> Any:
    return load_gc_plugin(name, options)


async def opened(
    provider: Provider,
    *,
    tools: list[Any] | None = None,
    folder: Path | None = None,
    limit: int | None = 16_000,
    plugin: Any = None,
    config: GCConfig | None = None,
    session_id: str | None = None,
    runtime: JaatoRuntime | None = None,
    **settings: Any,
) -> JaatoSession:
    """A session with a scripted provider; without a plug-in nothing is collected."""
    runtime = runtime or JaatoRuntime(_no_provider, folder=folder)
    runtime.adopt(provider)
    return await open_session(
        runtime,
        SessionSettings(
            provider=provider.name,
            model="scripted",
            context_limit=limit,
            tools=tuple(as_tools([read] if tools is None else tools)),
            plugin=plugin,
            gc_config=config,
            **settings,
        ),
        session_id=session_id,
    )


def _no_provider(name: str, _settings: Any) -> Any:
    raise AssertionError(f"no provider {name!r} was adopted")


def assert_agrees(session: JaatoSession) -> None:
    """Budget and history agree, to the token."""
    counter = session.state.counter
    entry = session.instruction_budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    fresh = sum(message_tokens(counter, message) for message in session.get_history())
    assert entry.total_tokens() == fresh
