"""The contract of a GC plug-in, as the specification of record prints it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from jaato.budget import InstructionBudget
from jaato.gc.config import GCConfig
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message

GC_PLUGIN_ENTRY_POINT = "jaato.gc_plugins"
"""The entry-point group through which every plug-in comes, the built-ins too."""


@runtime_checkable
class GCPlugin(Protocol):
    """Decides when to collect, and what the history becomes."""

    @property
    def name(self) -> str:
        """The name it is registered under."""
        ...

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Take the plug-in's own options."""
        ...

    def shutdown(self) -> None:
        """Let go of whatever it holds."""
        ...

    def should_collect(
        self, context_usage: dict[str, Any], config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Whether now is the time, and why."""
        ...

    def collect(
        self,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """The new history and what happened. Changes neither `history` nor `budget`."""
        ...
