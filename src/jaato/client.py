"""`JaatoClient`: the face for programs. Names and keys in, a wired session out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from jaato.budget import InstructionBudget
from jaato.errors import UsageError
from jaato.events import BudgetUpdated, Event, Noticed
from jaato.gc.config import GCConfig
from jaato.gc.plan import Plan
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCResult
from jaato.history import Media, Message
from jaato.model_names import check_names, provider_in, resolved
from jaato.ports import Provider, Telemetry
from jaato.session.blocking import JaatoSession
from jaato.session.bridge import BRIDGE
from jaato.session.emitter import Listener, name_of
from jaato.session.opening import open_session, resume_session
from jaato.session.output import OutputCallback
from jaato.session.problems import NotConnectedError
from jaato.session.settings import (
    DEFAULT_PARALLEL,
    DEFAULT_TOOL_SECONDS,
    Enricher,
    LoopSettings,
    ModelSettings,
    SessionSettings,
    as_parts,
    check_plugin,
    checked_limit,
)
from jaato.session.subagents import SubagentResult
from jaato.tools.catalogue import Catalogue
from jaato.tools.intake import as_tools
from jaato.tools.mcp import McpServerTools
from jaato.wiring import (
    DEFAULT_STASH,
    PROFILES_FOLDER,
    SESSIONS_FOLDER,
    StashPlace,
    make_runtime,
)


class JaatoClient:
    """Connects to a model, and keeps its context inside the window.

    Blocks; `session` has the same to await. Sessions are logged below `sessions` (None: in memory
    only), and can be resumed by their name. What leaves a window is kept in the `stash`: a folder,
    the address of a Valkey server, a stash, or None for none.
    """

    def __init__(
        self,
        *,
        sessions: str | Path | None = SESSIONS_FOLDER,
        profiles: str | Path = PROFILES_FOLDER,
        telemetry: Telemetry | None = None,
        stash: StashPlace = DEFAULT_STASH,
    ) -> None:
        self.runtime = make_runtime(
            folder=sessions, profiles=profiles, telemetry=telemetry, stash=stash
        )
        self._settings = SessionSettings(provider="", model="")
        self._session: JaatoSession | None = None
        self._servers: list[McpServerTools] = []
        self._listeners: list[tuple[Listener, tuple[type[Event], ...]]] = []
        self._end_hooks: Callable[[], None] | None = None

    # Connecting

    def connect(
        self,
        project: str | None = None,
        location: str | None = None,
        model: str | None = None,
        *,
        provider: str | Provider | None = None,
        context_limit: int | None = None,
        system_instructions: str | Mapping[str, str] = "",
        max_output_tokens: int | None = None,
        thinking: int | str | None = None,
        options: Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        max_result_tokens: int | None = None,
        tool_seconds: float | None = DEFAULT_TOOL_SECONDS,
        parallel_calls: int = DEFAULT_PARALLEL,
        subagents: bool = True,
        session_id: str | None = None,
        resume: str | None = None,
        **provider_settings: Any,
    ) -> JaatoSession:
        """Open a session with a model, or `resume` one.

        `connect(project, location, model)` is Google on Vertex AI, `connect("openai:gpt-5.5")` and
        `connect(provider="anthropic", model="…")` are the rest, `connect()` is the local model.
        `connect(resume="…")` goes on with the session's own; a model that is named comes instead.
        What else is given goes to the provider: `api_key`, `base_url` for compatible servers.
        A wrong name or setting leaves the session that is there.
        """
        if resume is not None and session_id is not None:
            raise UsageError(
                f"a session that is resumed cannot become session_id={session_id!r:.80}",
                hint="leave it out: a session keeps its own name",
            )
        _check_counts(
            max_output_tokens=max_output_tokens,
            max_steps=max_steps,
            max_result_tokens=max_result_tokens,
            parallel_calls=parallel_calls,
        )
        _check_options(options)
        checked_limit(context_limit)
        as_parts(system_instructions)
        name, model, more = resolved(provider, project, location, model, resumes=resume is not None)
        self._adopt(provider, provider_settings)
        if name == "local" and context_limit is not None and isinstance(provider, str | None):
            # Its window is not found, but made.
            more["context_limit"] = context_limit
        settings = replace(
            self._settings,
            provider=name,
            model=model,
            provider_settings={**more, **provider_settings},
            context_limit=context_limit,
            system_instructions=system_instructions,
            model_settings=ModelSettings(
                max_output_tokens=max_output_tokens, thinking=thinking, options=dict(options or {})
            ),
            loop=LoopSettings(
                max_steps=max_steps,
                max_result_tokens=max_result_tokens,
                tool_seconds=tool_seconds,
                parallel_calls=parallel_calls,
            ),
            subagents=subagents,
        )
        if name:
            self.runtime.provider(name, settings.provider_settings)
        self.close()
        if resume is None:
            opening = open_session(self.runtime, settings, session_id=session_id)
        else:
            opening = resume_session(self.runtime, settings, resume)
        session = self._session = BRIDGE.run(opening)
        self._settings = settings
        for listener, kinds in self._listeners:
            session.emitter.listen(listener, *kinds)
        if session.torn_bytes:
            text = f"the log ended in an unfinished line of {session.torn_bytes} bytes: left out"
            session.emitter.emit(Noticed(agent_id=session.agent_id, text=text))
        try:
            self._connect_servers(session)
        except BaseException:
            self.close()
            raise
        return session

    def _adopt(self, provider: str | Provider | None, settings: Mapping[str, Any] | None) -> None:
        """Take a provider that was made elsewhere."""
        if isinstance(provider, str | None):
            return
        if settings:
            raise UsageError(
                f"{', '.join(settings)}: settings for a provider that is made already",
                hint=f"give them to {type(provider).__name__}(…)",
            )
        self.runtime.adopt(provider)

    @property
    def session(self) -> JaatoSession:
        """The session; raises where there is none yet."""
        if self._session is None:
            raise NotConnectedError
        return self._session

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        return self._session is not None

    def list_sessions(self) -> list[str]:
        """The sessions that can be resumed, newest first."""
        return self.runtime.list_sessions()

    def close(self) -> None:
        """End the session; it can be resumed."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        BRIDGE.run(self.runtime.aclose())

    # Setting up; before or after connecting

    def configure_tools(self, tools: Iterable[Any]) -> None:
        """Offer tools, in the place of all others.

        A tool is a Python callable, a `Tool`, a ready schema with a handler, or an
        `McpServerTools`: a server, with all its tools.
        """
        wanted = _listed(tools)
        made = tuple(as_tools(one for one in wanted if not isinstance(one, McpServerTools)))
        Catalogue(made)  # refuses what no session could offer
        if self._session is not None:
            self._session.configure_tools(made)
        self._settings = replace(self._settings, tools=made)
        before = self._servers
        self._servers = [one for one in wanted if isinstance(one, McpServerTools)]
        for server in before:
            if server not in self._servers:
                # Else what it tells of a change would bring its tools back.
                server.on_change = None
                BRIDGE.run(server.aclose())
        if self._session is not None:
            self._connect_servers(self._session)

    def _connect_servers(self, session: JaatoSession) -> None:
        for server in self._servers:
            BRIDGE.run(session.aadd_tool_server(server))

    def set_gc_plugin(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Collect with this plug-in."""
        check_plugin(plugin, config)
        self._settings = replace(self._settings, plugin=plugin, gc_config=config)
        if self._session is not None:
            self._session.set_gc_plugin(plugin, config)

    def add_enrichment(self, name: str, enricher: Enricher) -> None:
        """Ask a callable for context at each turn. It is given the prompt."""
        enrichers = {**self._settings.enrichers, name: enricher}
        self._settings = replace(self._settings, enrichers=enrichers)
        if self._session is not None:
            self._session.add_enrichment(name, enricher)

    def on(self, listener: Listener, *kinds: type[Event]) -> Callable[[], None]:
        """Tell a listener of events, in this session and the next; of all kinds or of these.

        What is returned ends it.
        """
        pair = (listener, kinds)
        self._listeners.append(pair)
        if self._session is not None:
            self._session.emitter.listen(listener, *kinds)

        def stop() -> None:
            if pair in self._listeners:
                self._listeners.remove(pair)
                if self._session is not None:
                    self._session.emitter.ignore(listener)

        return stop

    def on_instruction_budget_updated(self, callback: Callable[[Mapping[str, Any]], Any]) -> None:
        """Tell a callback of each new budget of this client's own agent, as a snapshot."""

        def tell(event: Event) -> Any:
            own = None if self._session is None else self._session.agent_id
            if isinstance(event, BudgetUpdated) and event.agent_id == own:
                return callback(event.snapshot)
            return None

        tell.__qualname__ = name_of(callback)
        self.on(tell, BudgetUpdated)

    def set_ui_hooks(self, ui_hooks: Any) -> None:
        """Tell hooks of the budgets of every agent: `on_agent_instruction_budget_updated`.

        They take the place of the hooks before; None only ends those.
        """
        if self._end_hooks is not None:
            self._end_hooks()
            self._end_hooks = None
        hook = getattr(ui_hooks, "on_agent_instruction_budget_updated", None)
        if hook is None:
            return

        def tell(event: Event) -> Any:
            assert isinstance(event, BudgetUpdated)
            return hook(event.agent_id, event.snapshot)

        tell.__qualname__ = name_of(hook)
        self._end_hooks = self.on(tell, BudgetUpdated)

    # Talking

    def send_message(
        self,
        prompt: str,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
        *,
        attachments: Sequence[Media] = (),
        turn_type: str | None = None,
    ) -> str:
        """Send a prompt, run the turn it opens, and return the model's last text."""
        return self.session.send_message(
            prompt, on_output, on_gc_threshold, attachments=attachments, turn_type=turn_type
        )

    async def asend_message(
        self,
        prompt: str,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
        *,
        attachments: Sequence[Media] = (),
        turn_type: str | None = None,
    ) -> str:
        """The same, for callers that await."""
        return await self.session.asend_message(
            prompt, on_output, on_gc_threshold, attachments=attachments, turn_type=turn_type
        )

    def continue_turn(
        self,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
    ) -> str:
        """Go on where an error, an interruption or a crash ended a turn."""
        return self.session.continue_turn(on_output, on_gc_threshold)

    def interrupt(self) -> bool:
        """End the running turn, from another thread. False where none is running."""
        return self.session.interrupt()

    def spawn_subagent(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a subagent do a task, with a session and a budget of its own."""
        return self.session.spawn_subagent(task, profile, inline_config)

    def switch_model(
        self,
        model: str,
        *,
        provider: str | Provider | None = None,
        provider_settings: Mapping[str, Any] | None = None,
        context_limit: int | None = None,
    ) -> None:
        """Go on with another model, of another provider too; the limit follows it."""
        session = self.session
        check_names(provider, model=model)
        if not model:
            raise UsageError(f"model is {model!r}", hint="it is the name of a model")
        self._adopt(provider, provider_settings)
        named = provider if isinstance(provider, str | None) else provider.name
        if named is None:
            named, model = provider_in(model)
        session.switch_model(
            model,
            provider=named,
            provider_settings=provider_settings,
            context_limit=context_limit,
        )

    def reset_session(self) -> None:
        """Forget everything said; instructions, tools and settings stay."""
        self.session.reset()

    # Collecting and looking

    def manual_gc(self) -> GCResult | None:
        """Collect now. None where no plug-in is installed."""
        return self.session.manual_gc()

    def preview_gc(self) -> Plan | None:
        """What a collection would do now."""
        return self.session.preview_gc()

    def pin(self, turn: int) -> None:
        """Keep a turn, by its number, whatever happens."""
        self.session.pin(turn)

    def unpin(self, turn: int) -> None:
        """Treat a turn like any other again."""
        self.session.unpin(turn)

    def get_gc_history(self) -> list[GCResult]:
        """Every collection so far, oldest first."""
        return self.session.get_gc_history()

    def get_context_usage(self) -> dict[str, Any]:
        """How full the window is."""
        return self.session.get_context_usage()

    def get_history(self) -> list[Message]:
        """The messages that the model will see."""
        return self.session.get_history()

    @property
    def instruction_budget(self) -> InstructionBudget:
        """What fills the window."""
        return self.session.instruction_budget


def _listed(tools: object) -> list[Any]:
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        return as_tools(tools)  # type: ignore[arg-type]  # it says what is wrong with it
    return list(tools)


def _check_options(options: object) -> None:
    if not isinstance(options, Mapping | None):
        raise UsageError(
            f"options are {options!r:.80}", hint='a mapping, such as {"temperature": 0}'
        )


def _check_counts(**counts: object) -> None:
    for key, value in counts.items():
        if value is not None and (type(value) is not int or value < 1):
            raise UsageError(
                f"{key} is {value!r:.80}",
                hint="a whole number above 0; leave it out for the default",
            )
