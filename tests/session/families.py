"""Parents whose children a test can look at, after they are done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.session.agents import opened, steps_of_turn

from jaato.exchange import Request
from jaato.history import FunctionCall
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.session import AsyncSession
from jaato.wiring import make_runtime

TASK = "the child's task"
Script = Callable[[Request], Reply]


def noted(session: AsyncSession) -> list[AsyncSession]:
    """The children that a session opens from now on."""
    children: list[AsyncSession] = []
    opener = session.open_child
    assert opener is not None

    async def open_and_note(*arguments: Any) -> AsyncSession:
        children.append(await opener(*arguments))
        return children[-1]

    session.open_child = open_and_note
    return children


def spawning(*calls: dict[str, Any], child: Script | None = None) -> Script:
    """Makes these calls of `spawn_subagent` at once, then answers; children do as they are told."""

    def script(request: Request) -> Reply:
        if request.messages[0].text.startswith(TASK):
            return child(request) if child is not None else Reply(text="the child's answer")
        if steps_of_turn(request):
            return Reply(text="the parent's answer")
        made = [FunctionCall(f"c{at}", "spawn_subagent", call) for at, call in enumerate(calls)]
        return Reply(calls=tuple(made))

    return script


async def parent(
    script: Script | None = None,
    *,
    folder: Path | None = None,
    profiles: Path | str = "no-profiles",
    rules: Any = "openai",
    **settings: Any,
) -> tuple[JaatoSession, list[AsyncSession]]:
    """A session that can spawn children, and the list that they will stand in."""
    runtime = make_runtime(folder=folder, profiles=profiles)
    provider = ScriptedProvider(script or spawning({"task": TASK}), rules=rules)
    session = await opened(provider, runtime=runtime, **settings)
    return session, noted(session)
