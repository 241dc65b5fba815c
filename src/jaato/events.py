"""Everything a session tells: one value per thing that happened. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaato.exchange import StopReason, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened in the session of `agent_id`."""

    agent_id: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """A prompt was taken into the history."""

    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """The turn is over. `error`: it failed, or was interrupted."""

    text: str
    steps: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStarted(Event):
    """A request goes out. `attempt` counts from 1; beyond 1 the pieces of the last are void."""

    model: str
    attempt: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStreamed(Event):
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtStreamed(Event):
    """A piece of a thought."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEnded(Event):
    """An answer is complete, or the call failed."""

    model: str
    usage: Usage | None = None
    stop: StopReason | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """A tool is called."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(Event):
    """A tool answered, with how many tokens, and whether by an error."""

    call_id: str
    name: str
    is_error: bool
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultShortened(Event):
    """A result was too large for the window; the full text is in the stash."""

    call_id: str
    name: str
    tokens_before: int
    tokens_after: int
    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdCrossed(Event):
    """The window filled past the threshold while the answer came."""

    percent_used: float
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected(Event):
    """A collection ran, well or not; `result` is its `GCResult`."""

    result: Any
    percent_before: float
    percent_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUpdated(Event):
    """The budget changed; `snapshot` is `InstructionBudget.snapshot()`."""

    snapshot: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStarted(Event):
    """A subagent was spawned by this agent."""

    child_id: str
    task: str
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEnded(Event):
    """A subagent is done."""

    child_id: str
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailed(Event):
    """A callback or hook raised. The turn went on."""

    callback: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed(Event):
    """Something a person may want to know: a repair, a torn log line, a retry."""

    text: str
