"""Makes a budget agree with the history that a collection left, whoever wrote the plug-in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import is_

from jaato.budget import InstructionBudget, InstructionSource
from jaato.budget.conversation import (
    entry_of,
    forget,
    keep_only,
    locate,
    locate_notice,
    rename,
    reweigh,
    track,
)
from jaato.gc.ledger import lists_messages
from jaato.gc.result import GCResult
from jaato.history import Kind, Message
from jaato.ports import TokenCounter
from jaato.tokens import message_tokens


def settle(
    budget: InstructionBudget,
    result: GCResult,
    before: Sequence[Message],
    after: Sequence[Message],
    counter: TokenCounter,
) -> None:
    """Bring the budget from `before` to `after`.

    The conversation is settled by what really changed, not by what the plug-in says it removed:
    keys that do not exist, or a list that was forgotten, cannot make the two drift. The removal
    list decides for what no history shows (tool schemas, enrichment, entries without messages).
    """
    if not result.success:
        return
    # What both end with is the same, and found without looking at a message: most of a history.
    same = _common_tail(before, after)
    head, new_head = before[: len(before) - same], after[: len(after) - same]
    leaving = {message.message_id: message for message in head}
    tail = {message.message_id for message in before[len(before) - same :]}
    repeats = len(leaving) < len(head) or len(tail) < same or not tail.isdisjoint(leaving)
    new = [at for at, one in enumerate(new_head) if leaving.pop(one.message_id, None) is not one]
    # Where each has found one of its id that had not been found, none of them occurs twice.
    if len(leaving) != len(head) - len(new_head):
        ids = {message.message_id for message in new_head}
        repeats = repeats or len(ids) < len(new_head) or not tail.isdisjoint(ids)
    if repeats:
        _settle_repeats(budget, before, after, counter)
        head, new_head = before, after
        remaining = {message.message_id for message in after}
        leaving = {one.message_id: one for one in head if one.message_id not in remaining}
        known = set(map(id, head))
        new = [at for at, message in enumerate(after) if id(message) not in known]
    for at, old in _renamed(head, new_head, leaving, new).items():
        rename(budget, old, new_head[at].message_id)
        del leaving[old]
    if leaving:
        forget(budget, _Weights(leaving, counter))
    _remove_unshown(budget, result)
    for at in new:
        message = new_head[at]
        tokens = message_tokens(counter, message)
        entry = entry_of(budget, message.message_id)
        if entry is None:
            _add(budget, after, at, tokens)
        else:
            reweigh(entry, tokens)


def _settle_repeats(
    budget: InstructionBudget,
    before: Sequence[Message],
    after: Sequence[Message],
    counter: TokenCounter,
) -> None:
    """Ids that occur more than once, in broken data: an entry for each message that has one."""
    times = Counter(message.message_id for message in before)
    there: dict[str, list[int]] = {}
    for at, message in enumerate(after):
        there.setdefault(message.message_id, []).append(at)
    several = {message_id for message_id, count in times.items() if count > 1}
    several.update(message_id for message_id, places in there.items() if len(places) > 1)
    for message_id in sorted(several):
        places = there.get(message_id, [])
        weights = [message_tokens(counter, after[at]) for at in places]
        for at in places[keep_only(budget, message_id, weights) :]:
            _add(budget, after, at, message_tokens(counter, after[at]))


def _renamed(
    head: Sequence[Message],
    new_head: Sequence[Message],
    leaving: Mapping[str, Message],
    new: Sequence[int],
) -> dict[int, str]:
    """New messages that stand for one that left, by position: the next one, of the same role.

    A plug-in that rewrites a message under a new id means the same place, policy and turn.
    """
    found: dict[int, str] = {}
    candidates = [at for at in new if new_head[at].kind is Kind.PLAIN] if leaving else []
    if not candidates:
        return found
    place = {message.message_id: at for at, message in enumerate(head)}
    for at in (one for one in candidates if new_head[one].message_id not in place):
        if at == 0:
            behind = 0
        else:
            last = new_head[at - 1].message_id
            last = found.get(at - 1, last)
            if last not in place:
                continue
            behind = place[last] + 1
        if behind < len(head):
            old = head[behind]
            is_next = old.message_id in leaving and old.role is new_head[at].role
            if is_next and old.message_id not in found.values():
                found[at] = old.message_id
    return found


class _Weights(Mapping[str, int]):
    """What messages weigh, counted only where an entry holds several and so has to ask."""

    def __init__(self, messages: Mapping[str, Message], counter: TokenCounter) -> None:
        self._messages = messages
        self._counter = counter

    def __getitem__(self, message_id: str) -> int:
        return message_tokens(self._counter, self._messages[message_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def _common_tail(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages at the end are the same objects."""
    same = bytes(map(is_, reversed(one), reversed(other)))
    change = same.find(0)
    return len(same) if change < 0 else change


def _remove_unshown(budget: InstructionBudget, result: GCResult) -> None:
    """What no history shows: sources and entries without messages, but nothing under lock."""
    entries = budget.entries
    for item in result.removal_list or ():
        # Third parties write these; what makes no sense takes nothing off the account.
        source, key = entries.get(item.source), item.child_key
        if source is None:
            continue
        is_shown = source.source is InstructionSource.CONVERSATION
        if isinstance(key, str):
            child = source.at_path(key)
            if child is None or (is_shown and lists_messages(child)) or child.locked_tokens():
                continue
            budget.remove_child(source.source, key)
        elif not is_shown and not source.locked_tokens() and key is None:
            source.children.clear()
            source.tokens = 0


def _add(budget: InstructionBudget, after: Sequence[Message], at: int, tokens: int) -> None:
    """Track a message that was not there before, in the turn it stands in."""
    message = after[at]
    neighbour = locate(budget, after[at - 1].message_id) if at else None
    if message.kind is Kind.PLAIN and neighbour is not None and "/" in neighbour.path:
        turn = neighbour.path.rpartition("/")[0]
        key = _free_key(budget, f"{turn}/{message.message_id}")
    elif message.kind is Kind.NOTICE and locate_notice(budget) in {one.message_id for one in after}:
        # `track` would let the new notice take the place of the one that is still there.
        key = _free_key(budget, f"gc_notice_{message.message_id}")
    else:
        track(budget, message, tokens)
        return
    ids = [message.message_id]
    budget.add_child(InstructionSource.CONVERSATION, key, tokens, message_ids=ids)


def _free_key(budget: InstructionBudget, key: str) -> str:
    while budget.get_child(InstructionSource.CONVERSATION, key) is not None:
        key += "+"
    return key
