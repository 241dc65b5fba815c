"""What a session is told about its model, its tools and its limits. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.history.message import NOTHING
from jaato.ports import Provider, Tool
from jaato.session.window import BASE

DEFAULT_TOOL_SECONDS = 120.0
DEFAULT_PARALLEL = 8
RESULT_SHARE = 0.25
"""Of the window, one result may take this much before it is shortened."""
LARGEST_RESULT = 25_000
"""Tokens of one result where the window is unknown, and never more than this."""

Enricher = Callable[[str], Any]
"""Is given the prompt; gives a text, or nothing. May be async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How the model is called."""

    max_output_tokens: int | None = None
    thinking: int | str | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How far a turn goes, and how tools are run."""

    max_steps: int | None = None
    tool_seconds: float | None = DEFAULT_TOOL_SECONDS
    parallel_calls: int = DEFAULT_PARALLEL
    max_result_tokens: int | None = None

    def largest_result(self, limit: int | None) -> int:
        """The tokens of one result, in a window of this size."""
        if self.max_result_tokens is not None:
            return self.max_result_tokens
        return LARGEST_RESULT if limit is None else min(int(limit * RESULT_SHARE), LARGEST_RESULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Everything that a session is opened with."""

    provider: str
    model: str
    provider_settings: Mapping[str, Any] = field(default_factory=dict)
    context_limit: int | None = None
    system_instructions: str | Mapping[str, str] = ""
    tools: tuple[Tool, ...] = ()
    enrichers: Mapping[str, Enricher] = field(default_factory=dict)
    plugin: GCPlugin | None = None
    gc_config: GCConfig | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    subagents: bool = True


def check_plugin(plugin: object, config: object) -> None:
    """Raise where something else is given for a plug-in and its configuration."""
    if plugin is not None and (isinstance(plugin, type) or not isinstance(plugin, GCPlugin)):
        raise UsageError(
            f"a {type(plugin).__name__} is no GC plug-in",
            hint="load_gc_plugin(name, options) gives one; load_gc_from_file() gives a pair",
        )
    if not isinstance(config, GCConfig | None):
        raise UsageError(
            f"a {type(config).__name__} is no GCConfig", hint="GCConfig(threshold_percent=80.0)"
        )


def as_parts(texts: str | Mapping[str, str]) -> dict[str, str]:
    """System instructions by part, those that say nothing left out."""
    given: object = texts
    if not isinstance(given, str | Mapping):
        given = {given: ""}
    parts: dict[Any, Any] = {BASE: given} if isinstance(given, str) else dict(given)
    for one in (*parts, *parts.values()):
        if not isinstance(one, str):
            raise UsageError(
                f"system instructions are text, not {one!r:.80}",
                hint="a text, or texts by their names",
            )
    return {key: text for key, text in parts.items() if text}


def checked_limit(limit: object) -> int | None:
    """A window in tokens, or None where it is unknown."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0):
        return limit
    raise UsageError(
        f"a context limit is a whole number above 0, not {limit!r:.80}",
        hint="leave it out where it is unknown",
    )


async def limit_of(provider: Provider, model: str, given: int | None) -> int | None:
    """The window of a model: as the caller says, else as the provider does."""
    if given is not None:
        return checked_limit(given)
    return checked_limit(await provider.context_limit(model))
