"""Makes a budget agree with the history that a collection left, whoever wrote the plug-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jaato.budget import InstructionBudget, InstructionSource
from jaato.budget.conversation import forget, locate, shrink, track
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
    _remove_unshown(budget, result)
    # What both end with is the same, and found without looking at a message: most of a history.
    same = _common_tail(before, after)
    head, new_head = before[: len(before) - same], after[: len(after) - same]
    remaining = {message.message_id for message in new_head}
    leaving = {one.message_id: one for one in head if one.message_id not in remaining}
    if leaving:
        forget(budget, _Weights(leaving, counter))
    known = set(map(id, head))
    for at, message in enumerate(new_head):
        if id(message) in known:
            continue
        tokens = message_tokens(counter, message)
        if locate(budget, message.message_id) is None or message.kind is Kind.NOTICE:
            _add(budget, after, at, tokens)
        else:
            shrink(budget, message.message_id, tokens)


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
    """How many messages at the end are equal. Lists compare in C, by identity first."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _remove_unshown(budget: InstructionBudget, result: GCResult) -> None:
    for item in result.removal_list:
        if item.child_key is None:
            if item.source is InstructionSource.CONVERSATION:
                continue
            entry = budget.get_entry(item.source)
            if entry is not None:
                entry.children.clear()
                entry.tokens = 0
            continue
        child = budget.get_child(item.source, item.child_key)
        if child is not None and not lists_messages(child):
            budget.remove_child(item.source, item.child_key)


def _add(budget: InstructionBudget, after: Sequence[Message], at: int, tokens: int) -> None:
    message = after[at]
    if message.kind is not Kind.PLAIN or at == 0:
        track(budget, message, tokens)
        return
    # A plug-in that rewrites messages under new ids puts them into the turn they stand in.
    neighbour = locate(budget, after[at - 1].message_id)
    if neighbour is None or "/" not in neighbour.path:
        track(budget, message, tokens)
        return
    turn = neighbour.path.rpartition("/")[0]
    budget.add_child(
        InstructionSource.CONVERSATION,
        f"{turn}/{message.message_id}",
        tokens,
        message_ids=[message.message_id],
    )
