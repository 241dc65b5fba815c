"""`gc_budget`: what leaves is decided by the policy of each budget entry, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.gc.detached import Detached, detached_entries
from jaato.gc.draft import Draft
from jaato.gc.drive import DrivenPlugin
from jaato.gc.ledger import CONVERSATION
from jaato.gc.plan import Plan
from jaato.gc.result import GCRemovalItem
from jaato.gc.situation import KEPT, ONLY_LOCKED, Situation
from jaato.gc.truncation import NOTHING_NEEDED, truncated

NOTIFICATION = (
    "{items} older items were removed from this conversation to free {freed} tokens; "
    "{kept} turns remain."
)


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """Something a phase may take: oldest first, and within one step the largest first."""

    created_at: float
    order: int
    smallness: int
    take: Callable[[], object] = field(compare=False)


class BudgetGCPlugin(DrivenPlugin):
    """Removes by policy tier: enrichment, ephemeral, turns, and under pressure preservable."""

    name = "gc_budget"
    follows_continuous_mode = True

    def plan(self, situation: Situation) -> Plan:
        """Run the phases in order, each only as far as the goal needs."""
        draft = Draft(situation, NOTIFICATION)
        budget = situation.budget
        if budget is None:
            return truncated(draft, {"mode": "fallback_truncate"})
        if situation.is_content:
            return draft.nothing(NOTHING_NEEDED, _details(draft))
        loose = detached_entries(situation)
        _clear_enrichment(draft, budget)
        # Generators: a phase looks for its candidates only when it is reached.
        _take(draft, _ephemeral(draft, budget, loose))
        _take(draft, _turns(draft, loose))
        _take(draft, _old_steps(draft))
        if situation.under_pressure:
            _take(draft, _preservable(draft, budget, loose))
        return draft.finish(_details(draft))


def _take(draft: Draft, candidates: Iterator[Candidate]) -> None:
    if draft.is_done():
        return
    for candidate in sorted(candidates):
        if draft.is_done():
            return
        candidate.take()


def _details(draft: Draft) -> dict[str, Any]:
    situation = draft.situation
    return {
        "target_tokens": situation.target_tokens,
        "tokens_to_free": situation.tokens_to_free,
        "tokens_freed": draft.freed,
        "enrichment_cleared": draft.account("enrichment_bulk_clear") > 0,
        "ephemeral_removed": draft.account("ephemeral"),
        "partial_removed": draft.account("partial_turn"),
        "preservable_removed": draft.account("preservable_under_pressure"),
        "steps_stubbed": draft.account("old_step"),
    }


def _clear_enrichment(draft: Draft, budget: InstructionBudget) -> None:
    """Phase 1a: all of it at once, since every turn makes it anew."""
    entry = budget.get_entry(InstructionSource.ENRICHMENT)
    if entry is None or not entry.total_tokens() or entry.locked_tokens():
        return
    ids = sorted(_message_ids(entry))
    draft.clear(
        GCRemovalItem(
            InstructionSource.ENRICHMENT, None, entry.total_tokens(), "enrichment_bulk_clear", ids
        )
    )
    draft.drop_messages(set(ids), "enrichment_bulk_clear")


def _message_ids(entry: SourceEntry) -> Iterator[str]:
    yield from entry.message_ids
    for child in entry.children.values():
        yield from _message_ids(child)


def _ephemeral(
    draft: Draft, budget: InstructionBudget, loose: list[Detached]
) -> Iterator[Candidate]:
    """Phase 1b: discoverable schemas leave, tool output becomes a stub, its pair stays."""
    yield from _schemas(draft, budget, GCPolicy.EPHEMERAL, "ephemeral")
    yield from _loose(draft, loose, GCPolicy.EPHEMERAL, "ephemeral")
    situation = draft.situation
    for index in situation.old_turns:
        container = budget.get_child(CONVERSATION, f"turn_{situation.numbers[index]}")
        if container is not None and container.effective_gc_policy() is GCPolicy.EPHEMERAL:
            yield Candidate(
                container.created_at or 0.0,
                situation.spans[index].start,
                0,
                partial(draft.drop, index, "ephemeral", KEPT),
            )
        else:
            yield from _outputs(draft, index, "ephemeral")


def _outputs(
    draft: Draft, index: int, reason: str, before: int | None = None
) -> Iterator[Candidate]:
    """The tool output of one turn that may be stubbed, up to a position."""
    situation = draft.situation
    ledger = situation.ledger
    history = situation.history
    span = situation.spans[index]
    step, age = span.start, None
    for at in range(span.start, span.stop if before is None else min(span.stop, before)):
        if not history[at].result_ids:
            step, age = at, None
            continue
        located = ledger.located(at)
        if located is None:
            continue
        # One age for all results of a step, so that the largest of them goes first.
        age = located.entry.created_at or 0.0 if age is None else age
        if ledger.policy(at) in {GCPolicy.EPHEMERAL, GCPolicy.PARTIAL}:
            smallness = -located.entry.total_tokens()
            yield Candidate(age, step, smallness, partial(draft.stub, index, at, reason))


def _turns(draft: Draft, loose: list[Detached]) -> Iterator[Candidate]:
    """Phase 2: whole turns, but for what is LOCKED or PRESERVABLE in them."""
    situation = draft.situation
    for index in situation.old_turns:
        yield Candidate(
            0.0,
            situation.spans[index].start,
            0,
            partial(draft.drop, index, "partial_turn", KEPT),
        )
    for entry in loose:
        if entry.turn is not None and entry.policy in {GCPolicy.PARTIAL, GCPolicy.EPHEMERAL}:
            yield _clearing(draft, entry, "partial_turn", created_at=0.0)


def _old_steps(draft: Draft) -> Iterator[Candidate]:
    """Phase 2, the rest: a long recent turn loses the output of its old steps, never a step."""
    situation = draft.situation
    before = situation.steps_to_spare()
    for index in sorted(situation.recent - situation.pinned):
        yield from _outputs(draft, index, "old_step", before)


def _preservable(
    draft: Draft, budget: InstructionBudget, loose: list[Detached]
) -> Iterator[Candidate]:
    """Phase 3, under extreme pressure: clarifications and summaries, oldest first."""
    reason = "preservable_under_pressure"
    yield from _schemas(draft, budget, GCPolicy.PRESERVABLE, reason)
    yield from _loose(draft, loose, GCPolicy.PRESERVABLE, reason)
    situation = draft.situation
    for index in sorted([*situation.old_turns, *situation.old_summaries]):
        left = draft.leaving(index, ONLY_LOCKED)
        if not left:
            continue
        located = situation.ledger.located(left[0])
        created_at = located.entry.created_at if located is not None else None
        yield Candidate(
            created_at or 0.0,
            situation.spans[index].start,
            0,
            partial(draft.drop, index, reason, ONLY_LOCKED),
        )


def _schemas(
    draft: Draft, budget: InstructionBudget, policy: GCPolicy, reason: str
) -> Iterator[Candidate]:
    """The entries of PLUGIN that have a policy."""
    source = budget.get_entry(InstructionSource.PLUGIN)
    if source is None:
        return
    for key, entry in _with_policy(source, policy):
        item = GCRemovalItem(InstructionSource.PLUGIN, key, entry.total_tokens(), reason)
        yield Candidate(entry.created_at or 0.0, -1, -item.tokens_freed, partial(draft.clear, item))


def _with_policy(
    entry: SourceEntry, policy: GCPolicy, path: str = ""
) -> Iterator[tuple[str, SourceEntry]]:
    """The topmost entries of a policy that hold nothing stronger, with their paths."""
    for key, child in entry.children.items():
        below = f"{path}/{key}" if path else key
        stronger = child.locked_tokens()
        if policy is GCPolicy.EPHEMERAL:
            stronger += child.preservable_tokens()
        if child.effective_gc_policy() is policy and not stronger:
            if child.total_tokens():
                yield below, child
        else:
            yield from _with_policy(child, policy, below)


def _loose(
    draft: Draft, loose: list[Detached], policy: GCPolicy, reason: str
) -> Iterator[Candidate]:
    for entry in loose:
        if entry.policy is policy and not (entry.turn is not None and policy is GCPolicy.PARTIAL):
            yield _clearing(draft, entry, reason, created_at=entry.created_at)


def _clearing(draft: Draft, entry: Detached, reason: str, *, created_at: float) -> Candidate:
    item = GCRemovalItem(CONVERSATION, entry.key, entry.tokens, reason)
    return Candidate(created_at, entry.turn or 0, -entry.tokens, partial(draft.clear, item))


def create_plugin() -> BudgetGCPlugin:
    """A new, uninitialised plug-in."""
    return BudgetGCPlugin()
