"""How sessions begin: new, from a log, or as the child of another."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import replace

from jaato.errors import UsageError
from jaato.events import Noticed
from jaato.ports import Tool
from jaato.session.blocking import JaatoSession
from jaato.session.journal import Journal, Written, journal_path
from jaato.session.record import Opened, Switched
from jaato.session.runtime import ChildSettings, JaatoRuntime
from jaato.session.session import AsyncSession
from jaato.session.settings import (
    SessionSettings,
    as_parts,
    check_plugin,
    checked_limit,
    limit_of,
)
from jaato.session.state import State
from jaato.session.subagents import child_session_id, inherited


async def open_session(
    runtime: JaatoRuntime,
    settings: SessionSettings,
    *,
    session_id: str | None = None,
    agent_id: str = "main",
    parent_id: str | None = None,
    depth: int = 0,
) -> JaatoSession:
    """A new session."""
    name = session_id or f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    with runtime.telemetry.span("session", session_id=name, agent_id=agent_id, resumed=False):
        check_plugin(settings.plugin, settings.gc_config)
        system = as_parts(settings.system_instructions)
        provider = runtime.provider(settings.provider, settings.provider_settings)
        limit = await limit_of(provider, settings.model, settings.context_limit)
        counter = runtime.counter_for(settings.model)
        opened = Opened(
            session_id=name,
            agent_id=agent_id,
            provider=settings.provider,
            model=settings.model,
            limit=limit,
            counter=counter.name,
            parent_id=parent_id,
        )
        at = time.time()
        journal = None
        if runtime.folder is not None:
            journal = Journal.create(journal_path(runtime.folder, name))
            journal.append(opened, at)
        state = State(opened, counter, at=at)
        state.write_to(journal)
        try:
            session = JaatoSession(runtime, settings, state, provider, journal=journal, depth=depth)
            session.open_child = open_child
            session.set_system_instructions(system)
            session.begin()
        except BaseException:
            if journal is not None:
                journal.close()
                # Nobody was told of it, and its name shall be free again.
                journal.path.unlink(missing_ok=True)
            raise
        return session


async def resume_session(
    runtime: JaatoRuntime, settings: SessionSettings, session_id: str, *, depth: int = 0
) -> JaatoSession:
    """A session from its log, as it was; what `settings` name (a model, a limit) comes instead.

    Settings without a provider go on with the one of the log.
    """
    if runtime.folder is None:
        raise UsageError("this runtime keeps no logs", hint="give it a folder")
    check_plugin(settings.plugin, settings.gc_config)
    path = journal_path(runtime.folder, session_id)
    with runtime.telemetry.span("session", session_id=session_id, agent_id="main", resumed=True):
        journal, written = await asyncio.to_thread(Journal.resume, path)
        try:
            state = _replayed(runtime, written)
            state.write_to(journal)
            session = await _gone_on_with(runtime, settings, state, journal, depth)
        except BaseException:
            journal.close()
            raise
        session.open_child = open_child
        session.torn_bytes = written.torn
        return session


def _replayed(runtime: JaatoRuntime, written: Written) -> State:
    opened = written.records[0][0] if written.records else None
    # By the model it was opened with: another counter would give another budget.
    model = opened.model if isinstance(opened, Opened) else None
    return State.replayed(written.records, runtime.counter_for(model))


async def _gone_on_with(
    runtime: JaatoRuntime,
    settings: SessionSettings,
    state: State,
    journal: Journal,
    depth: int,
) -> JaatoSession:
    """A session around a state: as it was, but for what its settings name."""
    known = (state.provider, state.window.model, state.window.limit)
    name = settings.provider or known[0]
    model = settings.model or (known[1] if name == known[0] else "")
    if not model:
        raise UsageError(
            f"which model of {name!r}? The session was with {known[1]!r} of {known[0]!r}",
            hint='for example model="…"',
        )
    provider = runtime.provider(name, settings.provider_settings)
    settings = replace(settings, provider=name, model=model)
    session = JaatoSession(runtime, settings, state, provider, journal=journal, depth=depth)
    if (name, model) != known[:2]:
        limit = await limit_of(provider, model, settings.context_limit)
        session.take_model(provider, name, model, limit)
    elif settings.context_limit not in {None, known[2]}:
        limit = checked_limit(settings.context_limit)
        state.commit(Switched(provider=name, model=model, limit=limit))
    if settings.system_instructions:
        session.set_system_instructions(settings.system_instructions)
    session.begin()
    return session


async def open_child(
    parent: AsyncSession, agent_id: str, child: ChildSettings, depth: int
) -> JaatoSession:
    """A session for a subagent: like its parent's, but for what its settings say."""
    own = parent.settings
    plugin, config = inherited(child, parent.collector.plugin, parent.collector.config)
    name = child.provider or parent.state.provider
    model = child.model or parent.state.window.model
    is_same = (name, model) == (parent.state.provider, parent.state.window.model)
    loop = own.loop if child.max_steps is None else replace(own.loop, max_steps=child.max_steps)
    settings = replace(
        own,
        provider=name,
        model=model,
        provider_settings=own.provider_settings if name == parent.state.provider else {},
        context_limit=parent.state.window.limit if is_same else None,
        system_instructions=child.system_instructions or dict(parent.state.window.system),
        tools=_tools_of(parent, agent_id, child),
        plugin=plugin,
        gc_config=config,
        loop=loop,
    )
    session = await open_session(
        parent.runtime,
        settings,
        session_id=child_session_id(parent.session_id, agent_id),
        agent_id=agent_id,
        parent_id=parent.session_id,
        depth=depth,
    )
    session.emitter.forward_to(parent.emitter)
    return session


def _tools_of(parent: AsyncSession, agent_id: str, child: ChildSettings) -> tuple[Tool, ...]:
    tools = parent.settings.tools
    if child.tools is None:
        return tools
    unknown = set(child.tools) - {tool.schema.name for tool in tools}
    if unknown:
        names = ", ".join(sorted(unknown))
        text = f"{agent_id} was to have tools that its parent has not: {names}"
        parent.emitter.emit(Noticed(agent_id=parent.agent_id, text=text))
    return tuple(tool for tool in tools if tool.schema.name in child.tools)
