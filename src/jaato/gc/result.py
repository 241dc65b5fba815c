"""What a collection reports: values that cross the plug-in contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jaato.budget import InstructionSource


class GCTriggerReason(StrEnum):
    """Why a collection runs."""

    THRESHOLD = "threshold"
    MANUAL = "manual"
    TURN_LIMIT = "turn_limit"
    PRE_MESSAGE = "pre_message"
    CONTEXT_LIMIT = "context_limit"


@dataclass
class GCRemovalItem:
    """One thing that left (or shrank): a child of a source, or the whole source.

    `child_key` is a path below the source (`turn_3`, `turn_3/m2`); None clears the source.
    """

    source: InstructionSource
    child_key: str | None = None
    tokens_freed: int = 0
    reason: str = ""
    message_ids: list[str] = field(default_factory=list)


@dataclass
class GCResult:
    """The outcome of one collection."""

    success: bool
    items_collected: int
    tokens_before: int
    tokens_after: int
    plugin_name: str
    trigger_reason: GCTriggerReason
    notification: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    removal_list: list[GCRemovalItem] = field(default_factory=list)

    @property
    def tokens_freed(self) -> int:
        """How much smaller the window became."""
        return self.tokens_before - self.tokens_after
