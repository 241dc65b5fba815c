"""Entries of a hand-made budget that no message of the history stands behind."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jaato.budget import GCPolicy, SourceEntry
from jaato.gc.ledger import CONVERSATION, lists_messages
from jaato.gc.situation import Situation

_TURN = re.compile(r"turn_(\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """Tokens of CONVERSATION that a collection can only take off the account."""

    key: str
    turn: int | None
    tokens: int
    policy: GCPolicy
    created_at: float


def detached_entries(situation: Situation) -> list[Detached]:
    """The children of CONVERSATION that list no messages and are no turn of this history.

    The recent and pinned ones among them are left out, as are those that hold what is LOCKED.
    """
    source = situation.budget.get_entry(CONVERSATION) if situation.budget is not None else None
    if source is None:
        return []
    shown = {number for number in situation.numbers if number is not None}
    found: dict[str, tuple[int | None, SourceEntry]] = {}
    for key, entry in source.children.items():
        match = _TURN.match(key)
        turn = int(match.group(1)) if match else None
        if turn in shown or not entry.total_tokens() or lists_messages(entry):
            continue
        found[key] = (turn, entry)
    if not found:
        return []
    turns = sorted({*shown, *(turn for turn, _ in found.values() if turn is not None)})
    safe = {*turns[-max(situation.preserve_recent, 1) :], *situation.config.pinned_turn_indices}
    return [
        Detached(
            key=key,
            turn=turn,
            tokens=entry.total_tokens(),
            policy=entry.effective_gc_policy(),
            created_at=entry.created_at or 0.0,
        )
        for key, (turn, entry) in found.items()
        if turn not in safe and not entry.locked_tokens()
    ]
