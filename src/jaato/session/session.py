"""One agent, whose context always fits: what may be asked of it, for callers that await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jaato.budget import InstructionBudget
from jaato.errors import JaatoError, UsageError
from jaato.events import BudgetUpdated, Event
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.plan import Plan
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Media, Message
from jaato.kept import Filter, Hit
from jaato.ports import Provider, Tool
from jaato.session.calls import Calls
from jaato.session.collector import Collector
from jaato.session.emitter import Emitter, Listener, name_of
from jaato.session.journal import Journal
from jaato.session.model_call import ModelCall, asked
from jaato.session.output import Output, OutputCallback, ThresholdOutput
from jaato.session.problems import SessionBusyError
from jaato.session.recall import RecallTool
from jaato.session.record import Pinned, Reset, Switched, SystemSet
from jaato.session.room import Room
from jaato.session.runner import Runner
from jaato.session.runtime import ChildSettings, JaatoRuntime
from jaato.session.settings import (
    Enricher,
    SessionSettings,
    as_parts,
    check_plugin,
    limit_of,
)
from jaato.session.state import State
from jaato.session.subagents import SpawnTool, SubagentResult, Subagents
from jaato.tools.catalogue import Catalogue
from jaato.tools.mcp import McpServerTools

ChildOpener = Callable[["AsyncSession", str, ChildSettings, int], Awaitable["AsyncSession"]]


class TurnInterruptedError(JaatoError):
    """`interrupt()` ended the turn. What was finished is kept; `continue_turn()` goes on."""


class AsyncSession:
    """One agent: its history, its budget, its loop. `jaato.session.opening` opens it."""

    def __init__(
        self,
        runtime: JaatoRuntime,
        settings: SessionSettings,
        state: State,
        provider: Provider,
        *,
        journal: Journal | None = None,
        depth: int = 0,
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.state = state
        self.journal = journal
        self.agent_id = state.opened.agent_id
        self.emitter = Emitter(self.agent_id)
        self.catalogue = Catalogue()
        self.subagents = Subagents(self, depth=depth)
        telemetry = runtime.telemetry
        self.collector = Collector(
            state,
            self.emitter,
            telemetry,
            plugin=settings.plugin,
            config=settings.gc_config,
            stash=lambda: runtime.stash,
        )
        self._model = ModelCall(state, self.emitter, telemetry, provider, settings.model_settings)
        self._room = Room(state, self.collector, self._model.reserve)
        calls = Calls(state, self.emitter, telemetry, self.catalogue, settings.loop)
        self._runner = Runner(
            state,
            self.emitter,
            collector=self.collector,
            room=self._room,
            model=self._model,
            calls=calls,
            catalogue=self.catalogue,
            settings=settings.loop,
            telemetry=telemetry,
        )
        self._runner.enrichers = dict(settings.enrichers)
        self.open_child: ChildOpener | None = None
        self._installed: tuple[Tool, ...] = ()
        self._servers: list[McpServerTools] = []
        self._task: asyncio.Task[str] | None = None
        self._is_interrupted = False
        self._is_changing = False
        self.torn_bytes = 0
        """How much of an unfinished last line the log had when it was resumed."""
        self._use(provider)
        self._install(settings.tools)

    def begin(self) -> None:
        """Make the budget agree with what is offered, before anybody looks."""
        self._runner.follow_tools()

    # Closing

    async def aclose(self) -> None:
        """Let tool servers go and end the log. The provider stays open: it is the runtime's."""
        for server in self._servers:
            server.on_change = None
            await server.aclose()
        self._servers.clear()
        if self.journal is not None:
            self.journal.sync()
            self.journal.close()

    # Talking

    async def asend_message(
        self,
        prompt: str,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
        *,
        attachments: Sequence[Media] = (),
        turn_type: str | None = None,
    ) -> str:
        """Send a prompt, run the turn it opens, and return the model's last text."""
        work = self._runner.send(prompt, attachments=attachments, turn_type=turn_type)
        return await self._turn(work, on_output, on_gc_threshold)

    async def acontinue_turn(
        self,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
    ) -> str:
        """Go on where an error, an interruption or a crash ended a turn."""
        return await self._turn(self._runner.go_on(), on_output, on_gc_threshold)

    def interrupt(self) -> bool:
        """End the running turn, from any thread; without one, the turns of spawned children.

        False where none is running.
        """
        task = self._task
        if task is None or task.done():
            return self.subagents.interrupt()
        self._is_interrupted = True
        task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    async def _turn(
        self,
        work: Any,
        on_output: OutputCallback | None,
        on_gc_threshold: Callable[[float, float], Any] | None,
    ) -> str:
        try:
            self._must_be_idle("another message")
        except SessionBusyError:
            work.close()
            raise
        listeners: list[Listener] = []
        if on_output is not None:
            listeners.append(Output(self.agent_id, on_output))
        if on_gc_threshold is not None:
            listeners.append(ThresholdOutput(self.agent_id, on_gc_threshold))
        self._is_interrupted = False
        self._task = asyncio.ensure_future(work)
        with self.emitter.listening(*listeners):
            try:
                return await self._task
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if self._is_interrupted and not (current and current.cancelling()):
                    raise TurnInterruptedError(
                        "the turn was interrupted", hint="continue_turn() goes on with it"
                    ) from None
                raise
            finally:
                if self.journal is not None:
                    self.journal.sync()

    # Collecting

    async def amanual_gc(self) -> GCResult | None:
        """Collect now. None where no plug-in is installed."""
        with self._exclusively("a collection"):
            result = await self.collector.collect(GCTriggerReason.MANUAL)
            self._runner.follow_tools()
            return result

    def preview_gc(self) -> Plan | None:
        """What a collection would do now; None where the plug-in cannot say."""
        plugin = self.collector.plugin
        if not isinstance(plugin, DrivenPlugin):
            return None
        return plugin.preview(
            self.state.history,
            self.get_context_usage(),
            self.collector.effective,
            GCTriggerReason.MANUAL,
            self.state.budget,
        )

    def set_gc_plugin(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Collect with this plug-in from now on. `gc_summarize` and its like may ask the model."""
        check_plugin(plugin, config)
        self.collector.install(plugin, config)
        self._offer_model()

    def get_gc_history(self) -> list[GCResult]:
        """Every collection so far, oldest first (the last thousand)."""
        return list(self.state.results)

    def pin(self, turn: int) -> None:
        """Keep a turn, by its absolute number, whatever happens."""
        if type(turn) is not int or turn < 0:
            raise UsageError(f"{turn!r:.80} is no turn", hint="turns are counted from 0")
        self._set_pins({*self.state.pins, turn})

    def unpin(self, turn: int) -> None:
        """Treat a turn like any other again."""
        self._set_pins(set(self.state.pins) - {turn})

    def _set_pins(self, turns: Iterable[int]) -> None:
        self.state.commit(Pinned(turns=tuple(sorted(turns))))

    # Looking

    @property
    def session_id(self) -> str:
        """The name it is resumed by."""
        return self.state.session_id

    @property
    def instruction_budget(self) -> InstructionBudget:
        """What fills the window."""
        return self.state.budget

    def get_history(self) -> list[Message]:
        """The messages that the model will see."""
        return list(self.state.history)

    def get_context_usage(self) -> dict[str, Any]:
        """How full the window is."""
        return self.state.window.usage()

    def recall(self, handle: str) -> str | None:
        """The full text behind a handle that a stub or a shortened result names."""
        return self.collector.keeper.get(handle)

    def search_stash(
        self,
        query: str = "",
        *,
        turn: int | None = None,
        file: str | None = None,
        tool: str | None = None,
        limit: int = 10,
    ) -> list[Hit]:
        """What has left this session's window: by words, turn, file or tool; best or last first."""
        stash = self.collector.keeper.stash
        if stash is None:
            return []
        where = Filter(session=self.session_id, turn=turn, file=file, tool=tool)
        if query.strip():
            return stash.search(query, where, limit)
        entries = stash.entries(where, limit)
        return [Hit(entry=entry, score=0.0, excerpt=entry.about.label) for entry in entries]

    def on(self, listener: Listener, *kinds: type[Event]) -> Callable[[], None]:
        """Tell a listener of events; what is returned ends it."""
        return self.emitter.listen(listener, *kinds)

    def on_instruction_budget_updated(
        self, callback: Callable[[Mapping[str, Any]], Any]
    ) -> Callable[[], None]:
        """Tell a callback of each new budget, as a snapshot."""

        def tell(event: Event) -> Any:
            if isinstance(event, BudgetUpdated) and event.agent_id == self.agent_id:
                return callback(event.snapshot)
            return None

        tell.__qualname__ = name_of(callback)
        return self.emitter.listen(tell, BudgetUpdated)

    # Changing

    def set_system_instructions(self, texts: str | Mapping[str, str]) -> None:
        """What the model is told before everything; by part, or as one text."""
        parts = as_parts(texts)
        if {key: text for key, text in parts.items() if text} != self.state.window.system:
            self.state.commit(SystemSet(texts=parts))
            self.collector.drop_bound_thoughts()

    def add_enrichment(self, name: str, enricher: Enricher) -> None:
        """Ask a callable for context at each turn. It is given the prompt."""
        self._runner.enrichers[name] = enricher
        # Subagents get it too, from the settings.
        enrichers = {**self.settings.enrichers, name: enricher}
        self.settings = replace(self.settings, enrichers=enrichers)

    def configure_tools(self, tools: Iterable[Tool]) -> None:
        """Offer these tools from now on, in the place of all others."""
        self._must_be_idle("a change of tools")
        for server in self._servers:
            # It stays open, and what it tells of a change would bring its tools back.
            server.on_change = None
        self._offer(tools)
        self._runner.follow_tools()

    async def aadd_tool_server(self, server: McpServerTools) -> None:
        """Offer the tools of an MCP server as well, for as long as the session is open."""
        with self._exclusively("a change of tools"):
            await server.connect()
            if server not in self._servers:
                self._servers.append(server)
            self._renew(server.tools, server.tools)
            server.on_change = self._renew
            self._runner.follow_tools()

    def _renew(self, before: Iterable[Tool], after: Iterable[Tool]) -> None:
        gone = list(before)
        self._offer([*(tool for tool in self.settings.tools if tool not in gone), *after])

    def _offer(self, tools: Iterable[Tool]) -> None:
        wanted = tuple(tools)
        self._install(wanted)
        self.settings = replace(self.settings, tools=wanted)

    async def aswitch_model(
        self,
        model: str,
        *,
        provider: str | None = None,
        provider_settings: Mapping[str, Any] | None = None,
        context_limit: int | None = None,
    ) -> None:
        """Go on with another model; the limit follows it."""
        with self._exclusively("a change of models"):
            name = provider or self.state.provider
            own = self.settings.provider_settings if name == self.state.provider else {}
            settings = own if provider_settings is None else provider_settings
            chosen = self.runtime.provider(name, settings)
            limit = await limit_of(chosen, model, context_limit)
            self.take_model(chosen, name, model, limit)
            self.settings = replace(
                self.settings, provider=name, model=model, provider_settings=settings
            )
            self.collector.tell_budget()

    def take_model(self, chosen: Provider, name: str, model: str, limit: int | None) -> None:
        """Speak with another model from now on."""
        self.state.commit(Switched(provider=name, model=model, limit=limit))
        # What one model needs back of its thoughts means nothing to another.
        self.collector.binds_thoughts = True
        self.collector.drop_bound_thoughts()
        self.collector.forget_failures()
        self._use(chosen)

    async def aspawn_subagent(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a subagent do a task."""
        return await self.subagents.spawn(task, profile, inline_config)

    def reset(self) -> None:
        """Forget everything said; instructions, tools and settings stay."""
        self._must_be_idle("a reset")
        self.state.commit(Reset())
        self.collector.forget_failures()
        self.collector.tell_budget()

    def _must_be_idle(self, what: str) -> None:
        if self._is_changing or (self._task is not None and not self._task.done()):
            raise SessionBusyError(what)

    @contextmanager
    def _exclusively(self, what: str) -> Iterator[None]:
        """For what takes its time, and must not overlap with a turn."""
        self._must_be_idle(what)
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False

    def _use(self, provider: Provider) -> None:
        self._model.provider = provider
        self.collector.binds_thoughts = provider.binds_thoughts
        self._offer_model()

    def _offer_model(self) -> None:
        plugin = self.collector.plugin
        if isinstance(plugin, DrivenPlugin):
            plugin.counter = self.state.counter
            plugin.offer_model(self._summarized)
            plugin.write_stubs(self.collector.keeper.write_stub)

    async def _summarized(self, prompt: str) -> str:
        """What the session's own model answers: how summaries are made."""
        window = self.state.window
        return await asked(self._model.provider, window.model, prompt, window.reserve(None))

    def _largest_result(self) -> int:
        return self.settings.loop.largest_result(self.state.window.limit)

    def _install(self, tools: Iterable[Tool]) -> None:
        own = list(tools)
        if own:
            own.append(
                RecallTool(
                    self.collector.keeper,
                    self.state.counter,
                    self._largest_result,
                    session_id=self.session_id,
                    can_search=self.runtime.has_stash,
                )
            )
            if self.settings.subagents:
                own.append(SpawnTool(self.subagents, self.runtime.profiles()))
        self.catalogue.renew(self._installed, own)
        self._installed = tuple(own)
