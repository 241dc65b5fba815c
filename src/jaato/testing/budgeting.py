"""Budgets for histories under test: plain ones, and ones of many sources and policies."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.budget.conversation import budget_for, locate
from jaato.history import Kind, Message
from jaato.ports import TokenCounter
from jaato.tokens import count_messages

_FULL_PERCENT = (85, 95, 65, 50, 105, 91)
"""How full a window without a given limit is."""
_POLICIES = (GCPolicy.PRESERVABLE, GCPolicy.LOCKED, GCPolicy.PRESERVABLE, GCPolicy.EPHEMERAL)
_TOKENS = (40, 0, 300, 5_000)


def budget_of(
    history: Sequence[Message],
    counter: TokenCounter,
    *,
    context_limit: int | None = None,
    tape: bytes = b"",
) -> InstructionBudget:
    """The budget of a history, counted message by message.

    A tape varies it: the first byte says how full the window is where no limit is given, the
    second which other sources there are, and each later pair which message gets which policy.
    """
    counts = count_messages(counter, history)
    budget = budget_for(history, counts, session_id="testing", context_limit=context_limit)
    if not tape:
        return budget
    sources = tape[1] if len(tape) > 1 else 0
    if sources & 1:
        budget.set_entry(InstructionSource.ENRICHMENT, _TOKENS[sources >> 6])
    if sources & 2:
        budget.add_child(
            InstructionSource.PLUGIN, "core", 60, gc_policy=GCPolicy.LOCKED, label="Core tools"
        )
    if sources & 4:
        for name in ("search", "browse"):
            budget.add_child(InstructionSource.PLUGIN, name, 70, gc_policy=GCPolicy.EPHEMERAL)
    if sources & 8:
        budget.set_entry(InstructionSource.SYSTEM, _TOKENS[sources >> 6])
    plain = [message for message in history if message.kind is not Kind.NOTICE]
    for where, which in zip(tape[2::2], tape[3::2], strict=False):
        located = locate(budget, plain[where % len(plain)].message_id) if plain else None
        if located is not None:
            located.entry.gc_policy = _POLICIES[which % len(_POLICIES)]
    if context_limit is None:
        percent = _FULL_PERCENT[tape[0] % len(_FULL_PERCENT)]
        budget.context_limit = max(budget.total_tokens() * 100 // percent, 1)
    return budget
