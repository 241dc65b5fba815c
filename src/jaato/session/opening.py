"""How sessions begin: new, from a log, or as the child of another."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import replace

from jaato.errors import UsageError
from jaato.session.blocking import JaatoSession
from jaato.session.journal import Journal, journal_path
from jaato.session.record import Opened
from jaato.session.runtime import ChildSettings, JaatoRuntime
from jaato.session.session import AsyncSession
from jaato.session.settings import SessionSettings
from jaato.session.state import State
from jaato.session.subagents import inherited


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
        provider = runtime.provider(settings.provider, settings.provider_settings)
        limit = settings.context_limit or await provider.context_limit(settings.model)
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
        session = JaatoSession(runtime, settings, state, provider, journal=journal, depth=depth)
        session.open_child = open_child
        session.set_system_instructions(settings.system_instructions)
        return session


async def resume_session(
    runtime: JaatoRuntime, settings: SessionSettings, session_id: str, *, depth: int = 0
) -> JaatoSession:
    """A session from its log, as it was: its model and its limit too."""
    if runtime.folder is None:
        raise UsageError("this runtime keeps no logs", hint="give it a folder")
    path = journal_path(runtime.folder, session_id)
    with runtime.telemetry.span("session", session_id=session_id, agent_id="main", resumed=True):
        journal, written = await asyncio.to_thread(Journal.resume, path)
        try:
            counter = runtime.counter_for(settings.model)
            state = State.replayed(written.records, counter)
            state.write_to(journal)
            if state.provider != settings.provider:
                settings = replace(settings, provider=state.provider, provider_settings={})
            settings = replace(settings, model=state.window.model)
            provider = runtime.provider(settings.provider, settings.provider_settings)
            session = JaatoSession(runtime, settings, state, provider, journal=journal, depth=depth)
        except BaseException:
            journal.close()
            raise
        session.open_child = open_child
        session.torn_bytes = written.torn
        if settings.system_instructions:
            session.set_system_instructions(settings.system_instructions)
        return session


async def open_child(
    parent: AsyncSession, agent_id: str, child: ChildSettings, depth: int
) -> JaatoSession:
    """A session for a subagent: like its parent's, but for what its settings say."""
    own = parent.settings
    plugin, config = inherited(child, parent.collector.plugin, parent.collector.config)
    tools = own.tools
    if child.tools is not None:
        tools = tuple(tool for tool in tools if tool.schema.name in child.tools)
    is_same = child.model is None and child.provider is None
    loop = own.loop if child.max_steps is None else replace(own.loop, max_steps=child.max_steps)
    settings = replace(
        own,
        provider=child.provider or parent.state.provider,
        model=child.model or parent.state.window.model,
        provider_settings=own.provider_settings if child.provider is None else {},
        context_limit=parent.state.window.limit if is_same else None,
        system_instructions=child.system_instructions or own.system_instructions,
        tools=tools,
        plugin=plugin,
        gc_config=config,
        loop=loop,
    )
    name = f"{parent.session_id}.{agent_id.removeprefix('main.')}"
    session = await open_session(
        parent.runtime,
        settings,
        session_id=name,
        agent_id=agent_id,
        parent_id=parent.session_id,
        depth=depth,
    )
    session.emitter.forward_to(parent.emitter)
    return session
