"""One observed collection: what went in, what came out, and what may be read off the two."""

from __future__ import annotations

import copy
import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Kind, Message, Role, Span, span_starts, violations
from jaato.ports import TokenCounter
from jaato.tokens import default_counter, message_tokens

_TURN = re.compile(r"turn_(\d+)")


@dataclass(frozen=True, slots=True)
class Tracked:
    """What a budget says of one message."""

    policy: GCPolicy
    turn: int | None


@dataclass(frozen=True, kw_only=True)
class Collection:
    """One call of `collect`, observed from outside. Positions are those of `before`.

    `config` holds what really applied: the plug-in's own options are laid over it.
    `again` is the same collection tried once more on the outcome.
    """

    before: tuple[Message, ...]
    after: tuple[Message, ...]
    result: GCResult
    config: GCConfig
    reason: GCTriggerReason
    usage: Mapping[str, Any]
    counter: TokenCounter
    budget_before: InstructionBudget | None = None
    budget_after: InstructionBudget | None = None
    again: Collection | None = None

    @cached_property
    def position(self) -> dict[str, int]:
        """Where a message stood, by id."""
        return {message.message_id: at for at, message in enumerate(self.before)}

    @cached_property
    def left(self) -> frozenset[int]:
        """The positions of messages that are no longer there."""
        there = {message.message_id for message in self.after}
        return frozenset(
            at for at, message in enumerate(self.before) if message.message_id not in there
        )

    @cached_property
    def changed(self) -> dict[int, Message]:
        """Messages that are another object than before, by position."""
        position, before = self.position, self.before
        return {
            position[message.message_id]: message
            for message in self.after
            if message.message_id in position
            and before[position[message.message_id]] is not message
        }

    @cached_property
    def new(self) -> tuple[Message, ...]:
        """Messages that were not there before."""
        position = self.position
        return tuple(message for message in self.after if message.message_id not in position)

    @cached_property
    def tracked(self) -> dict[str, Tracked]:
        """What the budget said of each message before, by id."""
        return tracked_in(self.budget_before)

    @cached_property
    def locked(self) -> frozenset[int]:
        """The positions of messages whose entry, or one above it, is LOCKED."""
        return self._under(GCPolicy.LOCKED)

    @cached_property
    def preservable(self) -> frozenset[int]:
        """The positions of messages whose entry, or one above it, is PRESERVABLE."""
        return self._under(GCPolicy.PRESERVABLE)

    def _under(self, policy: GCPolicy) -> frozenset[int]:
        # A notice may leave at any time, whatever its entry says.
        return frozenset(
            at
            for at, message in enumerate(self.before)
            if message.kind is not Kind.NOTICE
            and message.message_id in self.tracked
            and self.tracked[message.message_id].policy is policy
        )

    @cached_property
    def under_pressure(self) -> bool:
        """Whether PRESERVABLE messages may go. Never in continuous mode."""
        pressure = self.config.pressure_percent
        if not pressure:
            return False
        if self.reason is GCTriggerReason.CONTEXT_LIMIT:
            return True
        percent = self.usage.get("percent_used")
        if percent is None and self.budget_before is not None and self.budget_before.context_limit:
            percent = self.budget_before.utilization_percent()
        return isinstance(percent, int | float) and percent >= pressure

    @cached_property
    def held(self) -> frozenset[int]:
        """LOCKED messages, and PRESERVABLE ones where the pressure does not let them go."""
        return self.locked if self.under_pressure else self.locked | self.preservable

    @cached_property
    def may_stay_behind(self) -> frozenset[int]:
        """What may stay when its turn leaves: LOCKED and PRESERVABLE, with step and opening."""
        # Pressure lets PRESERVABLE messages go; it makes none go.
        kept = self.locked | self.preservable
        behind = set(kept)
        for span in self.spans:
            if self.before[span.start].opens_turn and not kept.isdisjoint(span):
                behind.add(span.start)
        for group in self.pairs:
            if not kept.isdisjoint(group):
                behind.update(group)
        return frozenset(behind)

    @cached_property
    def leading_locked(self) -> tuple[int, ...]:
        """The LOCKED messages in front of all others; an old notice does not count."""
        leading: list[int] = []
        for at, message in enumerate(self.before):
            if at in self.locked:
                leading.append(at)
            elif message.kind is not Kind.NOTICE:
                break
        return tuple(leading)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Turns and summaries before, in order."""
        starts = span_starts(self.before)
        ends = [*starts, len(self.before)] if starts else []
        return tuple(Span(start, stop) for start, stop in pairwise(ends))

    @cached_property
    def turns(self) -> tuple[Span, ...]:
        """The turns before, oldest first. A notice by itself is none."""
        return tuple(
            span for span in self.spans if any(self.before[at].kind is Kind.PLAIN for at in span)
        )

    @cached_property
    def recent(self) -> tuple[Span, ...]:
        """The last `preserve_recent_turns` turns; the very last one in any case."""
        return self.turns[-max(self.config.preserve_recent_turns, 1) :]

    @cached_property
    def pinned(self) -> tuple[Span, ...]:
        """The turns that are pinned, by their number in the budget, else by their order."""
        pins = set(self.config.pinned_turn_indices)
        following, found = 0, []
        for span in self.turns:
            tracked = self.tracked.get(self.before[span.start].message_id)
            number = tracked.turn if tracked is not None else None
            if number is None:
                number = following
            # What earlier collections left of one turn may stand in several places.
            following = max(following, number + 1)
            if number in pins:
                found.append(span)
        return tuple(found)

    @cached_property
    def recent_steps_from(self) -> int:
        """Where the last `preserve_recent_steps` steps begin."""
        openings = [at for at, one in enumerate(self.before) if one.role is Role.MODEL]
        steps = self.config.preserve_recent_steps
        if steps <= 0:
            return len(self.before)
        return openings[-steps] if steps <= len(openings) else 0

    @cached_property
    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """Calls with their results: positions that go or stay together. The last may be pending."""
        groups: list[list[int]] = []
        for at, message in enumerate(self.before):
            if message.result_ids and groups:
                groups[-1].append(at)
            elif message.call_ids:
                groups.append([at])
        return tuple(map(tuple, groups))

    @cached_property
    def pending(self) -> tuple[int, ...]:
        """The trailing step whose calls are not all answered, if there is one."""
        if not self.pairs:
            return ()
        last = self.pairs[-1]
        calls = len(self.before[last[0]].call_ids)
        answers = sum(len(self.before[at].result_ids) for at in last)
        return last if answers < calls else ()

    def where(self, at: int) -> str:
        """A message for a reader of breaches."""
        return f"message {at} ({self.before[at].message_id})"


def tracked_in(budget: InstructionBudget | None) -> dict[str, Tracked]:
    """Each message that a budget names, with the strongest policy on the way down to it."""
    source = budget.get_entry(InstructionSource.CONVERSATION) if budget is not None else None
    return dict(_tracked(source, GCPolicy.EPHEMERAL, None)) if source is not None else {}


def _tracked(
    entry: SourceEntry, above: GCPolicy, turn: int | None
) -> Iterator[tuple[str, Tracked]]:
    own = entry.effective_gc_policy()
    policy = GCPolicy.LOCKED if GCPolicy.LOCKED in (own, above) else own
    if policy is not GCPolicy.LOCKED and above is GCPolicy.PRESERVABLE:
        policy = above
    for message_id in entry.message_ids:
        yield message_id, Tracked(policy, turn)
    for key, child in entry.children.items():
        number = _TURN.fullmatch(key)
        yield from _tracked(child, policy, int(number[1]) if number else turn)


def usage_of(budget: InstructionBudget) -> dict[str, Any]:
    """The `context_usage` that a session passes beside this budget."""
    return {
        "context_limit": budget.context_limit,
        "total_tokens": budget.total_tokens(),
        "percent_used": budget.utilization_percent() if budget.context_limit else None,
        "tokens_remaining": budget.available_tokens(),
    }


def run_collection(
    plugin: GCPlugin,
    history: Sequence[Message],
    config: GCConfig | None = None,
    *,
    budget: InstructionBudget | None = None,
    usage: Mapping[str, Any] | None = None,
    reason: GCTriggerReason = GCTriggerReason.THRESHOLD,
    options: Mapping[str, Any] | None = None,
    counter: TokenCounter | None = None,
    twice: bool = True,
) -> Collection:
    """Collect, and observe it. `history` and `budget` stay yours and as they are.

    `options` are what the plug-in was initialised with, `counter` is what it counts with (its own
    `counter` attribute, else the default one). `usage` follows from the budget where it is not
    given. `twice` collects once more on the outcome, for law 6. Raises AssertionError where
    `collect` itself changes its input.
    """
    if wrong := violations(history):
        raise UsageError(
            f"the history is broken before any collection: {wrong[0]}",
            hint="the laws speak of legal histories; mend it with jaato.history.repaired",
        )
    config = config if config is not None else GCConfig()
    if usage is None:
        usage = usage_of(budget) if budget is not None else {}
    if counter is None:
        counter = getattr(plugin, "counter", None) or default_counter()
    before = tuple(history)
    arguments = [dict(usage), copy.deepcopy(config), reason]
    after, result = _collected(plugin, before, arguments, budget)
    settled = copy.deepcopy(budget)
    if settled is not None and result.success:
        settle(settled, result, before, after, counter)
    again = None
    if twice and not violations(after):
        again = run_collection(
            plugin,
            after,
            config,
            budget=settled,
            usage=_usage_after(usage, settled, before, after, counter),
            # A second report of an overflow would be news, and a reason to free more.
            reason=GCTriggerReason.THRESHOLD if reason is GCTriggerReason.CONTEXT_LIMIT else reason,
            options=options,
            counter=counter,
            twice=False,
        )
    return Collection(
        before=before,
        after=tuple(after),
        result=result,
        config=config.overlaid(options or {}),
        reason=reason,
        usage=usage,
        counter=counter,
        budget_before=copy.deepcopy(budget),
        budget_after=settled,
        again=again,
    )


def _collected(
    plugin: GCPlugin,
    before: tuple[Message, ...],
    arguments: list[Any],
    budget: InstructionBudget | None,
) -> tuple[list[Message], GCResult]:
    history = list(before)
    untouched = budget.to_dict() if budget is not None else None
    if _takes_budget(plugin):
        arguments = [*arguments, budget]
    after, result = plugin.collect(history, *arguments)
    if len(history) != len(before) or any(map(_differ, history, before)):
        raise AssertionError("collect changed the history it was given: return a new list")
    if budget is not None and budget.to_dict() != untouched:
        raise AssertionError("collect changed the budget: report in removal_list what leaves")
    return after, result


def _takes_budget(plugin: GCPlugin) -> bool:
    # The first version of the contract had no budget; such plug-ins are welcome.
    try:
        inspect.signature(plugin.collect).bind(*(None,) * 5)
    except TypeError:
        return False
    return True


def _differ(one: Message, other: Message) -> bool:
    return one is not other


def _usage_after(
    usage: Mapping[str, Any],
    settled: InstructionBudget | None,
    before: Sequence[Message],
    after: Sequence[Message],
    counter: TokenCounter,
) -> dict[str, Any]:
    if settled is not None:
        return {**usage, **usage_of(settled)}
    was = sum(message_tokens(counter, message) for message in before)
    now = sum(message_tokens(counter, message) for message in after)
    share = now / was if was else 1.0
    later = dict(usage)
    for key, kind in (("total_tokens", int), ("percent_used", float)):
        said = usage.get(key)
        if isinstance(said, int | float) and math.isfinite(said):
            later[key] = kind(said * share)
    return later
