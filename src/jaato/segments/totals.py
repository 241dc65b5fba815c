"""Tokens and segments by type, task and pin: kept, so that reading them costs nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from jaato.segments.segment import ContextSegment


@dataclass(slots=True, kw_only=True)
class Totals:
    """Sums over the live segments; what is zero is not listed, what has no task is under None."""

    segments: int = 0
    tokens: int = 0
    pinned_segments: int = 0
    pinned_tokens: int = 0
    segments_by_type: Counter[str] = field(default_factory=Counter)
    tokens_by_type: Counter[str] = field(default_factory=Counter)
    segments_by_task: Counter[str | None] = field(default_factory=Counter)
    tokens_by_task: Counter[str | None] = field(default_factory=Counter)

    def add(self, segment: ContextSegment, sign: int = 1) -> None:
        """Account for a segment that comes (1) or goes (-1)."""
        tokens = sign * segment.tokens
        self.segments += sign
        self.tokens += tokens
        if segment.pinned:
            self.pinned_segments += sign
            self.pinned_tokens += tokens
        kind, task = segment.type, segment.task_id
        self.segments_by_type[kind] += sign
        self.tokens_by_type[kind] += tokens
        self.segments_by_task[task] += sign
        self.tokens_by_task[task] += tokens
        if sign < 0:
            if not self.segments_by_type[kind]:
                del self.segments_by_type[kind], self.tokens_by_type[kind]
            if not self.segments_by_task[task]:
                del self.segments_by_task[task], self.tokens_by_task[task]
