"""Truncation as a decision: `gc_truncate`, and `gc_budget` where it has no budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaato.gc.draft import Draft
from jaato.gc.plan import Plan

NOTHING_NEEDED = "the window is at or below its target already"


def truncated(draft: Draft, extra: Mapping[str, Any] | None = None) -> Plan:
    """Drop turns, oldest first, until the goal is reached."""
    situation = draft.situation
    if not situation.is_content:
        candidates = sorted([*situation.old_turns, *situation.old_summaries])
        draft.drop_oldest(candidates, "truncated")
    details = {
        "turns_before": situation.turn_count,
        "turns_after": draft.turns_kept,
        "preserve_count": len(situation.protected),
        **(extra or {}),
    }
    if situation.is_content:
        return draft.nothing(NOTHING_NEEDED, details)
    return draft.finish(details)
