"""Plans: what a collection will change, why, and what it costs. Values, applied elsewhere."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaato.gc.result import GCRemovalItem
from jaato.history import Edit, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Edits of one history, and the account of them."""

    edits: tuple[Edit, ...] = ()
    removals: tuple[GCRemovalItem, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    because: str = ""
    notification: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    edit_point: int | None = None
    tokens_invalidated: int = 0
    thoughts_invalidated: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether the plan leaves all as it is."""
        return not self.edits and not self.removals


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """What a strategy asks for while planning: these messages in at most `limit` tokens."""

    messages: tuple[Message, ...]
    tokens: int
    limit: int
    window: int | None
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The answer: a summary, and who wrote it."""

    text: str
    by: str
    note: str | None = None


Planning = Generator[Summarize, Digest, Plan]
"""A decision in the making: yields what it needs, returns the plan."""
