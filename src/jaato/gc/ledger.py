"""What each message costs and what may be done with it: one history beside its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.budget.conversation import Located, locate, turn_holding, turn_made_of
from jaato.gc.result import GCRemovalItem
from jaato.history import Kind, Message, Span
from jaato.ports import TokenCounter
from jaato.tokens import message_tokens

CONVERSATION = InstructionSource.CONVERSATION


class Output(NamedTuple):
    """A message of tool results, the step it belongs to, and what the budget says of it."""

    at: int
    step: int
    age: float
    tokens: int
    entry: SourceEntry
    prefix: str

    @property
    def key(self) -> str:
        """The path of its entry below CONVERSATION."""
        return f"{self.prefix}{self.entry.key}"


class Ledger:
    """Answers by position. Where a budget tracks a message it rules; otherwise the counter does.

    Everything is looked up when asked: a collection touches few of the messages it keeps.
    """

    def __init__(
        self, history: Sequence[Message], counter: TokenCounter, budget: InstructionBudget | None
    ) -> None:
        self.history = history
        self.counter = counter
        self.budget = budget
        self._containers: dict[str, GCPolicy] = {}
        self._plain: dict[int, SourceEntry | None] = {}
        self._ids: dict[int, list[str]] = {}
        self._located: dict[int, Located | None] = {}
        self._claimed: set[str] = set()
        self.is_exact = True
        """Whether every figure so far is the budget's own: not where entries share messages."""

    def located(self, at: int) -> Located | None:
        """Where the budget tracks a message."""
        if self.budget is None:
            return None
        if at not in self._located:
            found = locate(self.budget, self.history[at].message_id)
            # What only the source as a whole accounts for cannot be taken off it by name.
            self._located[at] = found if found is not None and found.path else None
        return self._located[at]

    def tokens(self, at: int) -> int:
        """What the message at this position costs."""
        if self.budget is None:
            return message_tokens(self.counter, self.history[at])
        located = self.located(at)
        if located is None:
            # The budget never counted it, so taking it away frees nothing there.
            return 0
        entry = located.entry
        if len(entry.message_ids) == 1:
            return entry.total_tokens()
        return min(message_tokens(self.counter, self.history[at]), entry.total_tokens())

    def policy(self, at: int, turn: int | None = None) -> GCPolicy:
        """The strongest policy on the way from CONVERSATION down to the message."""
        if self.budget is None:
            return GCPolicy.EPHEMERAL
        located = self.located(at)
        if located is None:
            whole = self.whole_turn(turn)
            if whole is None:
                return GCPolicy.EPHEMERAL
            return GCPolicy.LOCKED if whole.locked_tokens() else whole.effective_gc_policy()
        policy = located.entry.effective_gc_policy()
        container = located.path.rpartition("/")[0]
        above = self._containers.get(container)
        if above is None:
            above = self._containers[container] = self._strongest_above(container)
        return _stronger(policy, above)

    def _strongest_above(self, container: str) -> GCPolicy:
        assert self.budget is not None
        source = self.budget.get_entry(CONVERSATION)
        strongest = source.effective_gc_policy() if source is not None else GCPolicy.PARTIAL
        while container:
            entry = self.budget.get_child(CONVERSATION, container)
            if entry is not None:
                strongest = _stronger(strongest, entry.effective_gc_policy())
            container = container.rpartition("/")[0]
        return strongest

    def whole_turn(self, turn: int | None) -> SourceEntry | None:
        """A hand-made `turn_N` entry that lists no messages and so stands for its whole turn."""
        if self.budget is None or turn is None:
            return None
        entry = self.budget.get_child(CONVERSATION, f"turn_{turn}")
        return None if entry is None or lists_messages(entry) else entry

    def plain_turn(self, span: Span) -> SourceEntry | None:
        """The `turn_N` entry that holds exactly these messages and nothing worth sparing.

        Most turns are like that, and such a turn is dealt with as one thing.
        """
        if span.start not in self._plain:
            self._plain[span.start] = self._find_plain(span)
        return self._plain[span.start]

    def _find_plain(self, span: Span) -> SourceEntry | None:
        if self.budget is None:
            return None
        shown = [one.message_id for one in self.history[span.start : span.stop]]
        holder = turn_made_of(self.budget, shown)
        if holder is None or not (holder.is_free and self._source_is_free):
            return None
        self._ids[span.start] = shown
        return holder

    def container(self, at: int) -> SourceEntry | None:
        """The `turn_N` entry that a message is directly in."""
        if self.budget is None:
            return None
        return turn_holding(self.budget, self.history[at].message_id)

    def outputs(self, span: Span, before: int) -> Iterator[Output]:
        """The tool output of a turn that policy lets go, in order, up to a position."""
        history = self.history
        holder = self.plain_turn(span)
        entries = None if holder is None else list(holder.below())
        prefix = "" if holder is None else f"{holder.key}/"
        step, age = span.start, None
        for at in range(span.start, min(span.stop, before)):
            if not history[at].result_ids:
                step, age = at, None
                continue
            if entries is not None:
                entry = entries[at - span.start]
                is_free = True
            else:
                located = self.located(at)
                if located is None:
                    continue
                entry = located.entry
                prefix = located.path.removesuffix(entry.key)
                is_free = self.policy(at) in _FREE and len(entry.message_ids) == 1
            # One age for all results of a step, so that the largest of them goes first.
            age = entry.created_at or 0.0 if age is None else age
            if is_free:
                yield Output(at, step, age, entry.total_tokens(), entry, prefix)

    def whole_item(self, span: Span, holder: SourceEntry, reason: str) -> GCRemovalItem:
        """The account of a plain turn that leaves."""
        ids = self._ids[span.start]
        return GCRemovalItem(CONVERSATION, holder.key, holder.total_tokens(), reason, ids)

    @cached_property
    def _source_is_free(self) -> bool:
        source = self.budget.get_entry(CONVERSATION) if self.budget is not None else None
        return source is not None and source.gc_policy in _FREE

    def items(
        self, positions: Sequence[int], reason: str, turn: Callable[[], int | None] = lambda: None
    ) -> list[GCRemovalItem]:
        """The account of messages that leave together: one item where a whole container goes.

        `turn` is asked for the number of their turn only where the budget does not say.
        """
        history = self.history
        if self.budget is None:
            number = turn()
            return [
                GCRemovalItem(
                    CONVERSATION,
                    f"turn_{number}" if number is not None else "gc_summary",
                    sum(self.tokens(at) for at in positions),
                    reason,
                    [history[at].message_id for at in positions],
                )
            ]
        tracked: dict[str, dict[str, list[int]]] = {}
        entries: dict[str, SourceEntry] = {}
        untracked: list[int] = []
        for at in positions:
            located = self.located(at)
            if located is None:
                untracked.append(at)
                continue
            entries[located.path] = located.entry
            container = located.path.rpartition("/")[0]
            tracked.setdefault(container, {}).setdefault(located.path, []).append(at)
        items: list[GCRemovalItem] = []
        for container, paths in tracked.items():
            items += self._items_below(container, paths, entries, reason)
        untracked = self._unlisted_summaries(untracked, items, reason)
        whole = self.whole_turn(number := turn()) if untracked else None
        if whole is not None:
            ids = [history[at].message_id for at in untracked]
            freed = whole.total_tokens()
            items.append(GCRemovalItem(CONVERSATION, f"turn_{number}", freed, reason, ids))
        return items

    def _unlisted_summaries(
        self, untracked: list[int], items: list[GCRemovalItem], reason: str
    ) -> list[int]:
        """Account for summaries whose entry does not say so, oldest first; what else is untracked.

        The loop that the specification prints adds `gc_summary_N` without message ids.
        """
        root = self.budget.get_entry(CONVERSATION) if self.budget is not None else None
        rest: list[int] = []
        for at in untracked:
            entry = None
            if root is not None and self.history[at].kind is Kind.SUMMARY:
                unlisted = (
                    one
                    for one in root.below()
                    if one.key.startswith("gc_summary")
                    and one.key not in self._claimed
                    and not lists_messages(one)
                )
                entry = next(unlisted, None)
            if entry is None:
                rest.append(at)
                continue
            self._claimed.add(entry.key)
            ids = [self.history[at].message_id]
            items.append(GCRemovalItem(CONVERSATION, entry.key, entry.total_tokens(), reason, ids))
        return rest

    def _items_below(
        self,
        container: str,
        paths: dict[str, list[int]],
        entries: dict[str, SourceEntry],
        reason: str,
    ) -> list[GCRemovalItem]:
        assert self.budget is not None
        history = self.history
        holder = self.budget.get_child(CONVERSATION, container) if container else None
        leaves_whole = (
            holder is not None
            and not holder.message_ids
            and not holder.tokens
            and len(holder.children) == len(paths)
            and all(len(entries[path].message_ids) == len(at) for path, at in paths.items())
        )
        if leaves_whole:
            assert holder is not None
            ids = [history[at].message_id for positions in paths.values() for at in positions]
            freed = holder.total_tokens()
            return [GCRemovalItem(CONVERSATION, container, freed, reason, ids)]
        return [
            GCRemovalItem(
                CONVERSATION,
                path,
                self._freed(entries[path], positions),
                reason,
                [history[at].message_id for at in positions],
            )
            for path, positions in paths.items()
        ]

    def _freed(self, entry: SourceEntry, positions: list[int]) -> int:
        if len(entry.message_ids) == len(positions):
            return entry.total_tokens()
        self.is_exact = False
        return min(sum(self.tokens(at) for at in positions), entry.total_tokens())


def lists_messages(entry: SourceEntry) -> bool:
    """Whether the entry, or one below it, says which messages it stands for."""
    return bool(entry.message_ids) or any(map(lists_messages, entry.below()))


_FREE = frozenset({GCPolicy.EPHEMERAL, GCPolicy.PARTIAL})
_STRENGTH = {GCPolicy.LOCKED: 2, GCPolicy.PRESERVABLE: 1}


def _stronger(one: GCPolicy, other: GCPolicy) -> GCPolicy:
    return other if _STRENGTH.get(other, 0) > _STRENGTH.get(one, 0) else one
