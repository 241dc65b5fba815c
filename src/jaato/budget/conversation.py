"""CONVERSATION as sessions and strategies use it: which message is where, and what it weighs.

The source holds `turn_<N>` containers with an entry per message below (`original_request` or
`m<k>`), and `gc_summary_<n>` and `gc_notice` beside them. N, k and n count for the session's life;
the counters live in the source's metadata, so that a snapshot carries them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

from jaato.budget.children import Children
from jaato.budget.entry import SourceEntry
from jaato.budget.index import MessageIndex
from jaato.budget.policies import (
    DEFAULT_TURN_POLICIES,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
)
from jaato.budget.tree import InstructionBudget
from jaato.errors import UsageError
from jaato.history import Kind, Message

COUNTERS = "counters"
NOTICE_KEY = "gc_notice"
ORIGINAL_KEY = ConversationTurnType.ORIGINAL_REQUEST.value

_TURN_KEY = re.compile(r"turn_(\d{1,12})", re.ASCII)
_MESSAGE_KEY = re.compile(r"m(\d{1,12})", re.ASCII)
_SUMMARY_KEY = re.compile(r"gc_summary_(\d{1,12})", re.ASCII)
_CONVERSATION = InstructionSource.CONVERSATION
_ORIGINAL = ConversationTurnType.ORIGINAL_REQUEST
_WORKING = ConversationTurnType.WORKING
_SUMMARY = ConversationTurnType.TURN_SUMMARY
# Shared by all entries of a type; an entry makes its own dict when its metadata is asked for.
_METADATA = {
    kind: MappingProxyType({"type": kind}) for kind in (*map(str, ConversationTurnType), "notice")
}


@dataclass(frozen=True, slots=True)
class Located:
    """Where a message is in the budget: a path below CONVERSATION, its entry, its turn."""

    path: str
    entry: SourceEntry
    turn: int | None


def track(
    budget: InstructionBudget,
    message: Message,
    tokens: int,
    *,
    turn_type: ConversationTurnType | None = None,
    created_at: float | None = None,
) -> SourceEntry:
    """Count a message that the history got. Its cost does not grow with the session.

    A message that opens a turn opens the next one; the first of a session is its original
    request, LOCKED unless `turn_type` says that it is something else. A summary or notice stands
    beside the turns, and a notice takes the place of the one before.
    """
    root = budget.entries.get(_CONVERSATION)
    if root is None:
        root = budget.set_entry(_CONVERSATION, 0, created_at=created_at)
    counters = root.metadata.get(COUNTERS)
    if counters is None:
        counters = root.metadata[COUNTERS] = _counted(root)
    indexed = budget.index.is_current(root) or budget.index.begins_with(root)
    if message.kind is Kind.PLAIN:
        entry = _track_in_turn(
            root, counters, message, tokens, turn_type=turn_type, created_at=created_at
        )
    else:
        entry = _track_beside(budget, root, counters, message, tokens, created_at=created_at)
    if indexed:
        budget.index.add(entry)
        budget.index.follow(root)
    return entry


def _track_in_turn(
    root: SourceEntry,
    counters: dict[str, Any],
    message: Message,
    tokens: int,
    *,
    turn_type: ConversationTurnType | None,
    created_at: float | None,
) -> SourceEntry:
    kind = _WORKING if turn_type is None else _turn_type(turn_type)
    original = message.opens_turn and not counters["original"] and turn_type in (None, _ORIGINAL)
    if original:
        kind = _ORIGINAL
    entry = SourceEntry(
        _CONVERSATION,
        tokens,
        DEFAULT_TURN_POLICIES[kind],
        "Original request" if original else None,
        None,
        _METADATA[kind],
        created_at,
        [message.message_id],
    )
    if message.opens_turn or not counters["turns"]:
        while f"turn_{counters['turns']}" in root.children:
            counters["turns"] += 1
        counters["turns"] += 1
    turn = counters["turns"] - 1
    container = root.children.get(f"turn_{turn}")
    if container is None:
        container = root.children[f"turn_{turn}"] = SourceEntry(
            _CONVERSATION,
            0,
            GCPolicy.PARTIAL,
            f"Turn {turn}",
            None,
            {"turn": turn},
            entry.created_at,
        )
    counters["messages"] += 1
    while f"m{counters['messages']}" in container.children:
        counters["messages"] += 1
    key = ORIGINAL_KEY if original else f"m{counters['messages']}"
    counters["original"] = counters["original"] or original
    container.children[key] = entry
    return entry


def _track_beside(
    budget: InstructionBudget,
    root: SourceEntry,
    counters: dict[str, Any],
    message: Message,
    tokens: int,
    *,
    created_at: float | None,
) -> SourceEntry:
    is_summary = message.kind is Kind.SUMMARY
    entry = SourceEntry(
        _CONVERSATION,
        tokens,
        DEFAULT_TURN_POLICIES[_SUMMARY] if is_summary else GCPolicy.EPHEMERAL,
        "Context Summary" if is_summary else "GC notice",
        None,
        _METADATA[_SUMMARY if is_summary else "notice"],
        created_at,
        [message.message_id],
    )
    if not is_summary:
        if (old := root.children.get(NOTICE_KEY)) is not None:
            budget.index.drop(old)
        root.children[NOTICE_KEY] = entry
        return entry
    counters["summaries"] += 1
    while f"gc_summary_{counters['summaries']}" in root.children:
        counters["summaries"] += 1
    root.children[f"gc_summary_{counters['summaries']}"] = entry
    return entry


def locate(budget: InstructionBudget, message_id: str) -> Located | None:
    """Where a message is. A dict lookup, but for the first one after an edit by hand."""
    root = budget.entries.get(_CONVERSATION)
    entry = None if root is None else budget.index.find(root, message_id)
    if root is None or entry is None:
        return None
    above: list[SourceEntry] = []
    path = ""
    at = entry
    while at is not root and at.holder is not None:
        above.append(at)
        path = f"{at.key}/{path}" if path else at.key
        at = cast("SourceEntry", at.holder.owner)
    return Located(path, entry, _turn_of(above))


def entry_of(budget: InstructionBudget, message_id: str) -> SourceEntry | None:
    """The entry that holds a message."""
    root = budget.entries.get(_CONVERSATION)
    return None if root is None else budget.index.find(root, message_id)


def turn_holding(budget: InstructionBudget, message_id: str) -> SourceEntry | None:
    """The `turn_<N>` container that a message is directly in, if it is in one."""
    root = budget.entries.get(_CONVERSATION)
    entry = entry_of(budget, message_id)
    holder = None if entry is None else entry.holder
    owner = None if holder is None else holder.owner
    if not isinstance(owner, SourceEntry) or owner is root or owner.holder is None:
        return None
    return owner if owner.holder.owner is root else None


def turn_made_of(budget: InstructionBudget, message_ids: list[str]) -> SourceEntry | None:
    """The `turn_<N>` container that is nothing but an entry for each of these messages, if any."""
    root = budget.entries.get(_CONVERSATION)
    turn = budget.index.container(message_ids[0])
    if turn is None or turn.holder is None or turn.holder.owner is not root:
        turn = turn_holding(budget, message_ids[0])
    # This looks at every message, so what the index says need not be checked.
    return turn if turn is not None and turn.is_made_of(message_ids) else None


def shrink(
    budget: InstructionBudget, message_id: str, tokens: int, *, before: int | None = None
) -> int:
    """Set what a message weighs now, and return the tokens freed (below 0 where it grew).

    In an entry that holds several messages the change is against `before`, else against an equal
    share. A message that the budget does not hold frees 0.
    """
    entry = entry_of(budget, message_id)
    return 0 if entry is None else reweigh(entry, tokens, before=before)


def reweigh(entry: SourceEntry, tokens: int, *, before: int | None = None) -> int:
    """`shrink` for a message whose entry is known."""
    old = entry.tokens
    others = len(entry.message_ids) - 1
    if others:
        weight = old // (others + 1) if before is None else before
        entry.tokens = max(0, old - weight) + tokens
    else:
        entry.tokens = tokens
    return old - entry.tokens


def rename(budget: InstructionBudget, old: str, new: str) -> None:
    """Let another message take the place of one: its entry stays as it is, but for the id."""
    root = budget.entries.get(_CONVERSATION)
    entry = None if root is None else budget.index.find(root, old)
    if root is not None and entry is not None:
        entry.message_ids = [new if one == old else one for one in entry.message_ids]
        budget.index.refresh(root)


def keep_only(budget: InstructionBudget, message_id: str, weights: Sequence[int]) -> int:
    """Let as many entries hold a repeated id as there are weights, and set those; how many hold it.

    Entries that hold other messages as well are left alone.
    """
    root = budget.entries.get(_CONVERSATION)
    if root is None:
        return 0
    budget.index.refresh(root)
    single = [one for one in budget.index.holders(message_id) if one.message_ids == [message_id]]
    for entry, weight in zip(single, weights, strict=False):
        entry.tokens = weight
    gone = _Gone(root)
    for entry in single[len(weights) :]:
        gone.add(entry)
    gone.leave()
    budget.index.refresh(root)
    return min(len(single), len(weights))


def locate_notice(budget: InstructionBudget) -> str | None:
    """The id of the notice that the budget holds, if any."""
    root = budget.entries.get(_CONVERSATION)
    entry = None if root is None else root.at_path(NOTICE_KEY)
    return entry.message_ids[0] if entry is not None and entry.message_ids else None


def forget(budget: InstructionBudget, message_ids: Collection[str] | Mapping[str, int]) -> int:
    """Take messages out, and return the tokens that this removed.

    An entry goes with its last message, a container with its last entry. An entry that also
    holds other messages keeps their part: what it weighs less the counts, where a mapping from
    id to tokens gives them, else in proportion to the ids that stay.
    """
    root = budget.entries.get(_CONVERSATION)
    if root is None or not message_ids:
        return 0
    before = root.total_tokens()
    index = budget.index
    index.refresh(root)
    gone = _Gone(root)
    shared: dict[int, SourceEntry] = {}
    for message_id in _without_whole_turns(root, index, list(message_ids), gone):
        for entry in index.take(message_id):
            ids, below = entry.message_ids, entry.below()
            # What lies below a message's entry is a part of it, unless it is a message too.
            is_whole = not (below and any(map(_lists_messages, below)))
            if is_whole and ids == [message_id] and entry is not root:
                gone.add(entry)
            elif message_id in ids:
                shared[id(entry)] = entry
    if shared:
        names = message_ids if isinstance(message_ids, Mapping) else frozenset(message_ids)
        for entry in shared.values():
            _forget_some(entry, names)
            gone.add_if_empty(entry)
    gone.leave()
    index.follow(root)
    return before - root.total_tokens()


def _without_whole_turns(
    root: SourceEntry, index: MessageIndex, message_ids: list[str], gone: _Gone
) -> Iterator[str]:
    """The ids that do not go with a whole container, which is dealt with as one thing."""
    at = 0
    tried: set[int] = set()
    while at < len(message_ids):
        holder = index.container(message_ids[at])
        if holder is not None and holder is not root and id(holder) not in tried:
            tried.add(id(holder))
            entries = holder.below()
            ids = message_ids[at : at + len(entries)]
            if holder.is_made_of(ids) and index.take_all(ids, entries):
                gone.add(holder)
                at += len(ids)
                continue
        yield message_ids[at]
        at += 1


def _lists_messages(entry: SourceEntry) -> bool:
    return bool(entry.message_ids) or any(map(_lists_messages, entry.below()))


class _Gone:
    """Entries to be taken out: one walk to the root per mapping, not per entry."""

    def __init__(self, root: SourceEntry) -> None:
        self.root = root
        self.level: dict[int, tuple[Children[Any] | None, list[str]]] = {}
        self.last: tuple[Children[Any] | None, list[str]] = (None, [])

    def add(self, entry: SourceEntry) -> None:
        holder = entry.holder
        if holder is None:
            return
        if holder is not self.last[0]:
            # Most neighbours go together, and so find their place at once.
            self.last = self.level.setdefault(id(holder), (holder, []))
        self.last[1].append(entry.key)

    def add_if_empty(self, entry: SourceEntry) -> None:
        if entry is not self.root and not (entry.tokens or entry.message_ids or entry.below()):
            self.add(entry)

    def leave(self) -> None:
        while self.level:
            level, self.level = self.level, {}
            self.last = (None, [])
            for holder, keys in level.values():
                assert holder is not None
                owner = holder.owner
                if (
                    len(keys) == len(holder)
                    and isinstance(owner, SourceEntry)
                    and owner is not self.root
                    and not (owner.tokens or owner.message_ids)
                ):
                    self.add(owner)  # The container goes as it is, with all that is in it.
                else:
                    holder.discard(keys)


def _forget_some(entry: SourceEntry, names: Collection[str] | Mapping[str, int]) -> None:
    ids = entry.message_ids
    left = [one for one in ids if one not in names]
    if not left:
        entry.tokens = 0
    elif isinstance(names, Mapping):
        entry.tokens = max(0, entry.tokens - sum(names[one] for one in ids if one in names))
    else:
        entry.tokens = entry.tokens * len(left) // len(ids)
    entry.message_ids = left


def budget_for(
    history: Sequence[Message],
    counts: Sequence[int],
    *,
    session_id: str = "history",
    context_limit: int | None = None,
    created_at: float = 0.0,
) -> InstructionBudget:
    """A budget for a history that has none; each message is a second younger than the last."""
    if len(history) != len(counts):
        raise UsageError(
            f"{len(history)} messages and {len(counts)} counts", hint="give one count per message"
        )
    budget = InstructionBudget.create_default(
        session_id, context_limit=context_limit, created_at=created_at
    )
    for age, (message, tokens) in enumerate(zip(history, counts, strict=True)):
        track(budget, message, tokens, created_at=created_at + age)
    return budget


def _turn_type(value: object) -> ConversationTurnType:
    try:
        return ConversationTurnType(value)  # type: ignore[arg-type]  # checked by the call itself
    except ValueError:
        known = ", ".join(ConversationTurnType)
        raise UsageError(f"{value!r} is no turn type", hint=f"one of {known}") from None


@lru_cache(maxsize=1024)  # All messages of a turn ask for the number of the same one.
def _number(pattern: re.Pattern[str], key: str) -> int | None:
    found = pattern.fullmatch(key)
    return None if found is None else int(found[1])


def _turn_of(above: Sequence[SourceEntry]) -> int | None:
    """The absolute turn: what a `turn_<N>` above says, else what metadata says."""
    for entry in above:
        key = entry.key
        if key.startswith("turn_") and (turn := _number(_TURN_KEY, key)) is not None:
            return turn
    for entry in above:
        if type(turn := entry.metadata.get("turn")) is int:
            return turn
    return None


def _counted(root: SourceEntry) -> dict[str, Any]:
    """The counters as the entries show them, for a conversation that was built by hand."""
    keys = [child.key for child in root.below()]
    below = [child.key for entry in root.below() for child in entry.below()]
    turns, messages, summaries = (
        max((n for key in some if (n := _number(pattern, key)) is not None), default=start)
        for pattern, some, start in (
            (_TURN_KEY, keys, -1),
            (_MESSAGE_KEY, below, 0),
            (_SUMMARY_KEY, keys, 0),
        )
    )
    return {
        "turns": turns + 1,
        "messages": messages,
        "summaries": summaries,
        "original": turns >= 0 or ORIGINAL_KEY in keys,
    }
