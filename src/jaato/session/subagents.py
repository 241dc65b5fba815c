"""Subagents: children with a session and a budget of their own, on their parent's runtime."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from jaato.errors import UsageError
from jaato.events import SubagentEnded, SubagentStarted
from jaato.exchange import ToolOutput, ToolSchema
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.protocol import GCPlugin
from jaato.session.emitter import told
from jaato.session.journal import LONGEST_NAME, journal_path
from jaato.session.runtime import ChildSettings

if TYPE_CHECKING:
    from jaato.session.session import AsyncSession

DEEPEST: Final = 3
"""Children of children of children: beyond that an agent only hands its task on."""
SPAWN_TOOL: Final = "spawn_subagent"
INTERRUPTED: Final = "it was interrupted"
_PINS: Final = "pinned_turn_indices"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentResult:
    """What a child came to. `text` is its last answer."""

    agent_id: str
    session_id: str
    text: str
    error: str | None = None
    collections: int = 0
    total_tokens: int = 0

    @property
    def success(self) -> bool:
        """Whether it ended by an answer."""
        return self.error is None


class Subagents:
    """Spawns the children of one session."""

    def __init__(self, parent: AsyncSession, *, depth: int) -> None:
        self._parent = parent
        self._depth = depth
        self._count = 0
        self._running: list[AsyncSession] = []

    def interrupt(self) -> bool:
        """End the turns of all children; whether there was one."""
        ended = [child.interrupt() for child in self._running]
        return any(ended)

    async def spawn(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a child do a task. Its failure is a result; only a wrong call raises."""
        _check_call(task, profile, inline_config)
        if self._depth >= DEEPEST:
            raise UsageError(
                f"subagents may be {DEEPEST} deep, and this one is",
                hint="let it do the task itself",
            )
        parent = self._parent
        settings = parent.runtime.child(profile, inline_config)
        agent_id = self._next_id(settings.name)
        facts = {
            "session_id": parent.session_id,
            "child_id": agent_id,
            "profile": profile or settings.name,
            "task": task,
        }
        parent.emitter.emit(
            SubagentStarted(agent_id=parent.agent_id, child_id=agent_id, task=task, profile=profile)
        )
        done = SubagentResult(agent_id=agent_id, session_id="", text="", error=INTERRUPTED)
        try:
            with parent.runtime.telemetry.span("subagent", **facts) as span:
                try:
                    child = await self._opened(agent_id, settings)
                    self._running.append(child)
                    try:
                        done = await _run(child, task, agent_id)
                    finally:
                        self._running.remove(child)
                except Exception as failed:  # noqa: BLE001 -- a plug-in's or provider's fault too
                    done = replace(done, error=told(failed))
                if done.error is not None:
                    span.set(error=done.error)
                span.set(text=done.text)
        finally:
            # Whoever was told of its beginning waits for the end.
            parent.emitter.emit(
                SubagentEnded(
                    agent_id=parent.agent_id, child_id=agent_id, text=done.text, error=done.error
                )
            )
        return done

    def _next_id(self, name: str) -> str:
        """An id that no child has, nor has had in the life of the session before it was resumed."""
        parent = self._parent
        folder = parent.runtime.folder
        while True:
            self._count += 1
            agent_id = f"{parent.agent_id}.{name}-{self._count}"
            session_id = child_session_id(parent.session_id, agent_id)
            if folder is None or not journal_path(folder, session_id).exists():
                return agent_id

    async def _opened(self, agent_id: str, settings: ChildSettings) -> AsyncSession:
        opener = self._parent.open_child
        if opener is None:
            raise UsageError(
                "this session opens no children", hint="open it with jaato.session.opening"
            )
        return await opener(self._parent, agent_id, settings, self._depth + 1)


async def _run(child: AsyncSession, task: str, agent_id: str) -> SubagentResult:
    try:
        try:
            text, error = await child.asend_message(task), None
        except Exception as failed:  # noqa: BLE001 -- whatever ended it, there is a session to tell of
            text, error = "", told(failed)
    finally:
        await child.aclose()
    return SubagentResult(
        agent_id=agent_id,
        session_id=child.session_id,
        text=text,
        error=error,
        collections=len(child.get_gc_history()),
        total_tokens=child.instruction_budget.total_tokens(),
    )


def _check_call(task: object, profile: object, inline_config: object) -> None:
    if not isinstance(task, str) or not task.strip():
        raise UsageError(
            f"a task is a text, not {task!r:.80}", hint="say what to do, complete in itself"
        )
    if not isinstance(profile, str | None):
        raise UsageError(f"a profile is named by a text, not {profile!r:.80}", hint="its name")
    if not isinstance(inline_config, Mapping | None):
        raise UsageError(
            f"inline_config is not {inline_config!r:.80}", hint="an object, as in a profile's file"
        )


def child_session_id(parent_id: str, agent_id: str) -> str:
    """The name of a child's session: its parent's, and its own, whatever a profile is called."""
    own = agent_id.rpartition(".")[2]
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in own)
    name = f"{parent_id}.{plain}"
    data = name.encode()
    if len(data) <= LONGEST_NAME:
        return name
    # The end is kept, which tells brothers apart; the hash tells cousins apart. A file's name is
    # limited in bytes.
    mark = blake2b(data, digest_size=6).hexdigest()
    head = data[: LONGEST_NAME - 40].decode(errors="ignore")
    return f"{head}-{mark}-{name[-20:]}"


class SpawnTool:
    """`spawn_subagent` for the model."""

    discoverable = False
    timeout: float | None = 3600.0

    def __init__(self, subagents: Subagents, profiles: Mapping[str, str]) -> None:
        self._subagents = subagents
        self.schema = _spawn_schema(profiles)

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """The child's answer, or what went wrong."""
        done = await self._subagents.spawn(
            arguments.get("task", ""), arguments.get("profile"), arguments.get("inline_config")
        )
        return ToolOutput(result=done.error or done.text, is_error=not done.success)


def _spawn_schema(profiles: Mapping[str, str]) -> ToolSchema:
    """What a model is told; it can name no profile that it does not know of."""
    properties = {"task": {"type": "string", "description": "What to do, complete in itself."}}
    if profiles:
        told = "; ".join(f"{name}: {what}" if what else name for name, what in profiles.items())
        properties["profile"] = {"type": "string", "description": f"Who does it. {told}"}
    properties["inline_config"] = {
        "type": "object",
        "description": "Settings of a profile, for this one time; `gc` among them.",
    }
    return ToolSchema(
        name=SPAWN_TOOL,
        description="Let a subagent with a context of its own do a task, and get its answer. "
        "Give it everything it has to know: it does not see this conversation.",
        parameters={
            "type": "object",
            "properties": properties,
            "required": ["task"],
            "additionalProperties": False,
        },
    )


def inherited(
    settings: ChildSettings, plugin: GCPlugin | None, config: GCConfig
) -> tuple[GCPlugin | None, GCConfig]:
    """The collector of a child: its own, else one like its parent's, with nothing left out."""
    if settings.gc is not None:
        own, own_config = settings.gc
    elif plugin is None:
        return None, copy.deepcopy(config)
    else:
        # Turn numbers are a conversation's own: the parent's pins mean nothing to a child.
        rest = {key: value for key, value in config.plugin_config.items() if key != _PINS}
        own, own_config = _like(plugin), replace(config, pinned_turn_indices=[], plugin_config=rest)
    return own, own_config


def _like(plugin: GCPlugin) -> GCPlugin:
    """A plug-in with the same options but for pins, and no memory of another conversation."""
    if isinstance(plugin, DrivenPlugin):
        twin = _twin(plugin)
        twin._options.pop(_PINS, None)  # noqa: SLF001 -- a twin that nobody else has seen yet
        return twin
    try:
        return copy.deepcopy(plugin)
    except Exception:  # noqa: BLE001 -- somebody else's may hold anything; then it is shared
        return plugin


def _twin(plugin: DrivenPlugin) -> DrivenPlugin:
    try:
        return plugin.twin()
    except TypeError:  # its class is not made from nothing
        twin = copy.copy(plugin)
        twin.initialize(plugin._options)  # noqa: SLF001 -- which forgets the conversation
        return twin
