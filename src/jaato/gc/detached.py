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
    loose = [
        entry
        for entry in source.children.values()
        if not _shows_a_message(entry) and entry.total_tokens() and not lists_messages(entry)
    ]
    if not loose:
        return []
    shown = {number for number in situation.numbers if number is not None}
    found: dict[str, tuple[int | None, SourceEntry]] = {}
    for entry in loose:
        match = _TURN.match(entry.key)
        turn = int(match.group(1)) if match else None
        if turn not in shown:
            found[entry.key] = (turn, entry)
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


def _shows_a_message(entry: SourceEntry) -> bool:
    """The quick answer for nearly every entry: its first child names its message."""
    first = next(iter(entry.below()), entry)
    return bool(first.message_ids)
