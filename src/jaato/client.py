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
from jaato.ports import Provider, Telemetry
from jaato.session.blocking import JaatoSession
from jaato.session.bridge import BRIDGE
from jaato.session.emitter import Listener
from jaato.session.opening import open_session, resume_session
from jaato.session.output import OutputCallback
from jaato.session.problems import NotConnectedError
from jaato.session.settings import (
    Enricher,
    LoopSettings,
    ModelSettings,
    SessionSettings,
    check_plugin,
)
from jaato.session.subagents import SubagentResult
from jaato.tools.intake import as_tools
from jaato.tools.mcp import McpServerTools
from jaato.wiring import PROVIDERS, SESSIONS_FOLDER, make_runtime

LOCAL_MODEL = "smollm2"


class JaatoClient:
    """Connects to a model, and keeps its context inside the window.

    Blocks; `session` has the same to await. Sessions are logged below `sessions` (None: in memory
    only), and can be resumed by their name.
    """

    def __init__(
        self,
        *,
        sessions: str | Path | None = SESSIONS_FOLDER,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.runtime = make_runtime(folder=sessions, telemetry=telemetry)
        self._settings = SessionSettings(provider="", model="")
        self._session: JaatoSession | None = None
        self._servers: list[McpServerTools] = []
        self._listeners: list[tuple[Listener, tuple[type[Event], ...]]] = []

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
        session_id: str | None = None,
        resume: str | None = None,
        **provider_settings: Any,
    ) -> JaatoSession:
        """Open a session with a model, or `resume` one.

        `connect(project, location, model)` is Google on Vertex AI, `connect("openai:gpt-5.5")` and
        `connect(provider="anthropic", model="…")` are the rest, `connect()` is the local model.
        `connect(resume="…")` goes on with the session's own; a model that is named comes instead.
        What else is given goes to the provider: `api_key`, `base_url` for compatible servers.
        """
        names_none = (provider, project, location, model) == (None,) * 4
        name, model, more = (
            ("", "", {})
            if resume is not None and names_none
            else _resolved(provider, project, location, model)
        )
        if not isinstance(provider, str | None):
            self.runtime.adopt(provider)
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
            loop=LoopSettings(max_steps=max_steps, max_result_tokens=max_result_tokens),
        )
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
        self._connect_servers(session)
        return session

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
        wanted = list(tools)
        made = tuple(as_tools(one for one in wanted if not isinstance(one, McpServerTools)))
        self._settings = replace(self._settings, tools=made)
        self._servers = [one for one in wanted if isinstance(one, McpServerTools)]
        if self._session is not None:
            self._session.configure_tools(made)
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

    def on(self, listener: Listener, *kinds: type[Event]) -> None:
        """Tell a listener of events, in this session and the next; of all kinds or of these."""
        self._listeners.append((listener, kinds))
        if self._session is not None:
            self._session.emitter.listen(listener, *kinds)

    def on_instruction_budget_updated(self, callback: Callable[[Mapping[str, Any]], Any]) -> None:
        """Tell a callback of each new budget of the main agent, as a snapshot."""

        def tell(event: Event) -> None:
            if isinstance(event, BudgetUpdated) and event.agent_id == "main":
                callback(event.snapshot)

        self.on(tell, BudgetUpdated)

    def set_ui_hooks(self, ui_hooks: Any) -> None:
        """Tell hooks of the budgets of every agent: `on_agent_instruction_budget_updated`."""

        def tell(event: Event) -> None:
            hook = getattr(ui_hooks, "on_agent_instruction_budget_updated", None)
            if hook is not None and isinstance(event, BudgetUpdated):
                hook(event.agent_id, event.snapshot)

        self.on(tell, BudgetUpdated)

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

    def switch_model(self, model: str, **settings: Any) -> None:
        """Go on with another model, `provider="…"` included; the limit follows it."""
        self.session.switch_model(model, **settings)

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


def _resolved(
    provider: str | Provider | None,
    project: str | None,
    location: str | None,
    model: str | None,
) -> tuple[str, str, dict[str, Any]]:
    """The provider's name, the model, and what the provider is told of a project."""
    if not isinstance(provider, str | None):
        return provider.name, model or project or "default", {}
    if provider is None and project and location and model:
        return "google", model, {"project": project, "location": location}
    if provider is not None:
        where = {"project": project, "location": location}
        wanted = model
        if provider != "google" and project is not None and model is None:
            wanted, where = project, {}
        return provider, wanted or _default_model(provider), {k: v for k, v in where.items() if v}
    spelled = model or project
    if spelled is None:
        return "local", LOCAL_MODEL, {}
    name, colon, rest = spelled.partition(":")
    if not colon and name in PROVIDERS:
        return name, _default_model(name), {}
    if not colon or not rest:
        raise UsageError(
            f"{spelled!r:.80} names no provider",
            hint='write "openai:gpt-5.5", or connect(provider=…, model=…); Vertex AI takes '
            "connect(project, location, model)",
        )
    return name, rest, {}


def _default_model(provider: str) -> str:
    if provider == "local":
        return LOCAL_MODEL
    if provider == "scripted":
        return "worker"
    raise UsageError(f"which model of {provider!r}?", hint='for example model="…"')
