"""`gc_budget`: what leaves is decided by the policy of each budget entry, phase by phase."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.gc.detached import Detached, detached_entries
from jaato.gc.draft import Draft
from jaato.gc.drive import DrivenPlugin
from jaato.gc.ledger import CONVERSATION
from jaato.gc.plan import Plan
from jaato.gc.result import GCRemovalItem
from jaato.gc.situation import KEPT, ONLY_LOCKED, Situation
from jaato.gc.truncation import NOTHING_NEEDED, truncated
from jaato.history import RECALLED_MARK

EPHEMERAL = frozenset({GCPolicy.EPHEMERAL})
FREE = frozenset({GCPolicy.EPHEMERAL, GCPolicy.PARTIAL})
PRESERVABLE = frozenset({GCPolicy.PRESERVABLE})
PRESSED = "preservable_under_pressure"
NOTIFICATION = (
    "{items} older items were removed from this conversation to free {freed} tokens; "
    "{kept} turns remain."
)


class Candidate(NamedTuple):
    """Something a phase may take: oldest first, and within one step the largest first."""

    rank: tuple[float, int, int]
    """When it came, its place, and how small it is."""
    take: Callable[[], object]


_RANK = attrgetter("rank")


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
        turns = [entry for entry in loose if entry.turn is not None]
        others = [entry for entry in loose if entry.turn is None]
        # Generators: a phase looks for its candidates only when it is reached.
        _take(draft.has_freed_enough, _enrichment(draft, budget))
        _take(draft.has_freed_enough, _recalled(draft))
        _take(
            draft.has_freed_enough,
            _in_order(_schemas(draft, budget, GCPolicy.EPHEMERAL, "ephemeral")),
            _in_order(_loose(draft, others, EPHEMERAL, "ephemeral")),
            _outputs(draft, budget),
        )
        _take(draft.is_done, _turns(draft), _in_order(_loose(draft, turns, FREE, "partial_turn")))
        _take(draft.has_freed_enough, _old_steps(draft))
        if situation.under_pressure:
            _take(
                draft.is_done,
                _in_order(_schemas(draft, budget, GCPolicy.PRESERVABLE, PRESSED)),
                _in_order(_loose(draft, loose, PRESERVABLE, PRESSED)),
                _in_order(_preservable(draft)),
            )
        return draft.finish(_details(draft))


def _take(is_enough: Callable[[], bool], *candidates: Iterable[Candidate]) -> None:
    """Take from all of these, each in order, until it is enough."""
    if is_enough():
        return
    for candidate in heapq.merge(*candidates, key=_RANK):
        if is_enough():
            return
        candidate.take()


def _in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=_RANK)


def _details(draft: Draft) -> dict[str, Any]:
    situation = draft.situation
    account = draft.account()
    return {
        "target_tokens": situation.target_tokens,
        "tokens_to_free": situation.tokens_to_free,
        "tokens_freed": draft.freed,
        "enrichment_cleared": account["enrichment_bulk_clear"] > 0,
        "ephemeral_removed": account["ephemeral"],
        "partial_removed": account["partial_turn"],
        "preservable_removed": account[PRESSED],
        "steps_stubbed": account["old_step"],
    }


def _enrichment(draft: Draft, budget: InstructionBudget) -> Iterator[Candidate]:
    """Phase 1a: all of it at once, since every turn makes it anew; but nothing of it under lock."""
    entry = budget.get_entry(InstructionSource.ENRICHMENT)
    if entry is None or not entry.total_tokens():
        return
    if entry.is_free:
        yield Candidate((0.0, 0, 0), partial(_clear_enrichment, draft, None, entry))
        return
    for key, part in _with_policy(entry, GCPolicy.EPHEMERAL):
        yield Candidate((0.0, 0, 0), partial(_clear_enrichment, draft, key, part))


def _clear_enrichment(draft: Draft, key: str | None, entry: SourceEntry) -> None:
    # What the conversation accounts for is none of enrichment's, whatever its entry says.
    listed = sorted(set(_message_ids(entry)))
    ids = [one for one in listed if draft.situation.is_foreign(one)]
    reason = "enrichment_bulk_clear"
    tokens = entry.total_tokens()
    draft.clear_with_messages(GCRemovalItem(InstructionSource.ENRICHMENT, key, tokens, reason, ids))


def _message_ids(entry: SourceEntry) -> Iterator[str]:
    yield from entry.message_ids
    for child in entry.children.values():
        yield from _message_ids(child)


def _outputs(draft: Draft, budget: InstructionBudget) -> Iterator[Candidate]:
    """Phase 1b in the conversation: tool output becomes a stub, its pair stays.

    Turn by turn, so that only as many are looked into as the goal needs.
    """
    situation = draft.situation
    for index in _by_age(situation, budget):
        span = situation.spans[index]
        holder = situation.ledger.container(span.start)
        if holder is not None and holder.effective_gc_policy() is GCPolicy.EPHEMERAL:
            take = partial(draft.drop, index, "ephemeral", KEPT)
            yield Candidate((holder.created_at or 0.0, span.start, 0), take)
        else:
            yield from _stubs(draft, index, "ephemeral", span.stop)


def _by_age(situation: Situation, budget: InstructionBudget) -> list[int]:
    """The unprotected turns, oldest first: by position, unless the budget says otherwise."""
    source = budget.get_entry(CONVERSATION)
    ages = [entry.created_at or 0.0 for entry in source.children.values()] if source else []
    if ages == sorted(ages):
        return situation.old_turns

    def age(index: int) -> float:
        holder = situation.ledger.container(situation.spans[index].start)
        return holder.created_at or 0.0 if holder is not None else 0.0

    return sorted(situation.old_turns, key=age)


def _stubs(draft: Draft, index: int, reason: str, before: int) -> list[Candidate]:
    """The tool output of one turn that may be stubbed, up to a position, in order."""
    situation = draft.situation
    found = [
        Candidate((one.age, one.step, -one.tokens), partial(draft.stub, index, one, reason))
        for one in situation.ledger.outputs(situation.spans[index], before)
    ]
    return _in_order(found)


def _recalled(draft: Draft) -> Iterator[Candidate]:
    """Before all other tool output what was called back: it is kept, and has been read."""
    situation = draft.situation
    history, spare = situation.history, situation.steps_to_spare()
    if situation.write_stub is None:
        return
    for at, message in enumerate(history):
        # A stub is of all results of a message: what was read beside it would go too early.
        if not message.result_ids or any(RECALLED_MARK not in p.extra for p in message.parts):
            continue
        index = situation.spans.index_at(at)
        if index in situation.pinned or (index in situation.recent and at >= spare):
            continue
        for one in situation.ledger.outputs(situation.spans[index], at + 1):
            if one.at == at:
                yield Candidate((0.0, at, 0), partial(draft.stub, index, one, "ephemeral"))


def _turns(draft: Draft) -> Iterator[Candidate]:
    """Phase 2: whole turns, but for what is LOCKED or PRESERVABLE in them."""
    situation = draft.situation
    for index in situation.old_turns:
        take = partial(draft.drop, index, "partial_turn", KEPT)
        yield Candidate((0.0, situation.spans[index].start, 0), take)


def _old_steps(draft: Draft) -> Iterator[Candidate]:
    """Phase 2, the rest: a long recent turn loses the output of its old steps, never a step."""
    situation = draft.situation
    before = situation.steps_to_spare()
    for index in sorted(situation.recent - situation.pinned):
        yield from _stubs(draft, index, "old_step", before)


def _preservable(draft: Draft) -> Iterator[Candidate]:
    """Phase 3, under extreme pressure: clarifications and summaries, oldest first."""
    situation = draft.situation
    for index in sorted([*situation.old_turns, *situation.old_summaries]):
        left = draft.leaving(index, ONLY_LOCKED)
        if not left:
            continue
        located = situation.ledger.located(left[0])
        created_at = located.entry.created_at if located is not None else None
        take = partial(draft.drop, index, PRESSED, ONLY_LOCKED)
        yield Candidate((created_at or 0.0, situation.spans[index].start, 0), take)


def _schemas(
    draft: Draft, budget: InstructionBudget, policy: GCPolicy, reason: str
) -> Iterator[Candidate]:
    """The entries of PLUGIN that have a policy: discoverable tools, mostly."""
    source = budget.get_entry(InstructionSource.PLUGIN)
    for key, entry in _with_policy(source, policy) if source is not None else ():
        take = partial(_clear_schema, draft, key, entry, reason)
        yield Candidate((entry.created_at or 0.0, -1, -entry.total_tokens()), take)


def _clear_schema(draft: Draft, key: str, entry: SourceEntry, reason: str) -> None:
    """What is left of an entry: an earlier phase may have taken some of its children."""
    plugin = InstructionSource.PLUGIN
    tokens = entry.total_tokens() - draft.cleared_below(plugin, key)
    if tokens:
        draft.clear(GCRemovalItem(plugin, key, tokens, reason))


def _with_policy(
    entry: SourceEntry, policy: GCPolicy, path: str = ""
) -> Iterator[tuple[str, SourceEntry]]:
    """The topmost entries below one that have a policy and hold nothing stronger, by path.

    What stands below an entry that is LOCKED or PRESERVABLE is as safe as that, and an EPHEMERAL
    entry is as safe as what it holds.
    """
    if entry.effective_gc_policy() not in FREE and entry.effective_gc_policy() is not policy:
        return
    for key, child in entry.children.items():
        below = f"{path}/{key}" if path else key
        own = child.effective_gc_policy()
        if own is GCPolicy.EPHEMERAL and child.preservable_tokens():
            own = GCPolicy.PRESERVABLE
        if own is policy and not child.locked_tokens():
            if child.total_tokens():
                yield below, child
        else:
            yield from _with_policy(child, policy, below)


def _loose(
    draft: Draft, loose: Iterable[Detached], policies: frozenset[GCPolicy], reason: str
) -> Iterator[Candidate]:
    """Entries that no message stands behind: they are taken off the account."""
    for entry in loose:
        if entry.policy in policies:
            item = GCRemovalItem(CONVERSATION, entry.key, entry.tokens, reason)
            take = partial(draft.clear, item)
            yield Candidate((entry.created_at, entry.turn or 0, -entry.tokens), take)


def create_plugin() -> BudgetGCPlugin:
    """A new, uninitialised plug-in."""
    return BudgetGCPlugin()
