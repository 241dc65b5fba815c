"""The nine laws of a collection, each as a function from what was observed to its breaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.gc.result import GCRemovalItem
from jaato.history import Kind, Message, Part, violations
from jaato.testing.collection import Collection, tracked_in
from jaato.tokens import message_tokens


@dataclass(frozen=True, slots=True)
class Law:
    """One law: its number in the design, what it says, and what breaks it."""

    number: int
    statement: str
    breaches: Callable[[Collection], tuple[str, ...]]

    def __str__(self) -> str:
        return f"law {self.number}: {self.statement}"


def check(collection: Collection) -> None:
    """Raise AssertionError with every breach of every law; return if all hold."""
    broken = [
        f"{law}\n" + "\n".join(f"  - {breach}" for breach in found)
        for law in LAWS
        if (found := law.breaches(collection))
    ]
    if broken:
        raise AssertionError(f"{collection.result.plugin_name} breaks\n" + "\n".join(broken))


def _pairs_stay_whole(seen: Collection) -> Iterator[str]:
    for violation in violations(seen.after):
        yield f"after it, {violation}"
    for group in seen.pairs:
        gone = [at for at in group if at in seen.left]
        if gone and len(gone) < len(group):
            yield f"{seen.where(gone[0])} left, the rest of its call and results stayed"
    for at in seen.pending:
        if at in seen.left or at in seen.changed:
            yield f"{seen.where(at)} belongs to a pending call"


def _what_is_protected_stays(seen: Collection) -> Iterator[str]:
    for at in sorted(seen.held):
        if at in seen.left or at in seen.changed:
            policy = "LOCKED" if at in seen.locked else "PRESERVABLE, without pressure,"
            yield f"{seen.where(at)} is {policy} and {_fate(seen, at)}"
    for turns, kind in ((seen.pinned, "pinned"), (seen.recent, "recent")):
        for at in (at for turn in turns for at in turn):
            old = kind == "recent" and at < seen.recent_steps_from
            if at in seen.left and not _is_notice(seen.before[at]):
                yield f"{seen.where(at)} is in a {kind} turn and left"
            elif at in seen.changed and not old:
                yield f"{seen.where(at)} is in a {kind} turn and was changed"


def _the_request_stands_first(seen: Collection) -> Iterator[str]:
    # An old notice stays where it was; a new one may have no legal place but the first.
    front = [
        one
        for one in seen.after
        if not _is_notice(one) or (one in seen.new and not _stands_in_front(seen, one))
    ]
    for place, at in enumerate(seen.leading_locked):
        if len(front) <= place or front[place].message_id != seen.before[at].message_id:
            yield f"{seen.where(at)} is LOCKED and no longer stands first"
    if seen.budget_before is None or seen.budget_after is None:
        return
    later = tracked_in(seen.budget_after)
    for at in sorted(seen.locked):
        entry = later.get(seen.before[at].message_id)
        if entry is None or entry.policy is not GCPolicy.LOCKED:
            yield f"{seen.where(at)} is not LOCKED in the budget any more"
    for message in seen.new:
        entry = later.get(message.message_id)
        if entry is not None and entry.policy is GCPolicy.LOCKED:
            yield f"a new {message.kind.value} ({message.message_id}) is LOCKED"


def _turns_stay_whole(seen: Collection) -> Iterator[str]:
    for turn in seen.turns:
        own = [at for at in turn if not _is_notice(seen.before[at])]
        if seen.left.isdisjoint(own):
            continue
        for at in own:
            if at not in seen.left and at not in seen.may_stay_behind:
                yield f"{seen.where(at)} stayed, others of its turn left"
    for at, message in sorted(seen.changed.items()):
        if not _same_shape(seen.before[at], message):
            yield f"{seen.where(at)} was changed in more than its content"


def _order_is_kept(seen: Collection) -> Iterator[str]:
    places = [
        seen.position[one.message_id] for one in seen.after if one.message_id in seen.position
    ]
    for earlier, later in pairwise(places):
        if later <= earlier:
            yield f"{seen.where(later)} came behind {seen.where(earlier)}"
    for message in seen.new:
        if message.kind is Kind.PLAIN:
            yield f"{message.message_id} ({message.role.value}) was invented"
    notices = [message for message in seen.after if _is_notice(message)]
    for message in seen.new:
        if message.kind is Kind.SUMMARY and not _fills_a_gap(seen, message):
            yield f"the summary {message.message_id} stands where nothing left"
        if not _is_notice(message):
            continue
        if len(notices) > 1:
            yield f"{len(notices)} notices stand after it"
        if not _stands_in_front(seen, message):
            yield "the notice does not stand directly behind the leading LOCKED messages"


def _twice_is_once(seen: Collection) -> Iterator[str]:
    again = seen.again
    if again is None:
        return
    if len(again.after) != len(seen.after):
        yield f"the second time {len(seen.after)} messages became {len(again.after)}"
    elif any(one is not other for one, other in zip(again.after, seen.after, strict=True)):
        yield "the second time messages were changed"
    if again.result.tokens_freed and again.result.success:
        yield f"the second time {again.result.tokens_freed} tokens were freed"


def _budget_agrees(seen: Collection) -> Iterator[str]:
    before, after, result = seen.budget_before, seen.budget_after, seen.result
    yield from _counted_once(seen)
    if before is None or after is None:
        return
    for item in result.removal_list:
        if not _exists(before, item):
            yield f"no entry {item.source.value}/{item.child_key} is in the budget"
    totals = (before.total_tokens(), after.total_tokens())
    for said, total, when in zip(
        (result.tokens_before, result.tokens_after), totals, ("before", "after"), strict=True
    ):
        if said != total:
            yield f"tokens_{when} is {said}, the budget {when} it says {total}"
    drift = [
        _conversation(budget) - _tracked_tokens(seen, messages, budget)
        for budget, messages in ((before, seen.before), (after, seen.after))
    ]
    if drift[0] != drift[1]:
        yield f"budget and history differ by {drift[1]} tokens after it, by {drift[0]} before"
    expected = {one.message_id for one in seen.after if one.message_id in seen.tracked}
    expected |= {one.message_id for one in seen.new}
    for message_id in sorted(set(tracked_in(after)) ^ expected):
        yield f"{message_id} is in only one of budget and history"
    freed = sum(item.tokens_freed for item in result.removal_list)
    added = sum(message_tokens(seen.counter, message) for message in seen.new)
    if freed - added != result.tokens_before - result.tokens_after:
        yield (
            f"removal_list frees {freed}, new messages take {added}: "
            f"that is not {result.tokens_before} - {result.tokens_after}"
        )


def _failure_changes_nothing(seen: Collection) -> Iterator[str]:
    result = seen.result
    if result.success:
        return
    if not result.error:
        yield "it failed and does not say why in `error`"
    if len(seen.after) != len(seen.before) or seen.changed or seen.left or seen.new:
        yield "it failed and changed the history"
    if result.removal_list or result.tokens_freed:
        yield "it failed and reports what it removed"


def _what_stays_is_untouched(seen: Collection) -> Iterator[str]:
    if seen.before and not seen.after:
        yield "nothing is left"
    if seen.after and seen.after[0].result_ids:
        yield "it starts with the result of a tool"
    for at, message in sorted(seen.changed.items()):
        if message == seen.before[at]:
            yield f"{seen.where(at)} was copied for nothing"
    for at in seen.turns[-1] if seen.turns else ():
        message = seen.before[at]
        if not message.thoughts:
            continue
        if at in seen.left or _thoughts(message) != _thoughts(seen.changed.get(at, message)):
            yield f"{seen.where(at)} holds thoughts of the open turn and {_fate(seen, at)}"


def _fate(seen: Collection, at: int) -> str:
    return "left" if at in seen.left else "was changed"


def _is_notice(message: Message) -> bool:
    return message.kind is Kind.NOTICE


def _thoughts(message: Message) -> tuple[Part, ...]:
    return tuple(part for part in message.parts if part.thought is not None)


def _same_shape(before: Message, after: Message) -> bool:
    return (before.role, before.kind, *map(_shape, before.parts)) == (
        after.role,
        after.kind,
        *map(_shape, after.parts),
    )


def _shape(part: Part) -> tuple[str, ...]:
    if part.function_call is not None:
        return "call", part.function_call.id, part.function_call.name
    if part.function_response is not None:
        response = part.function_response
        return "result", response.call_id, response.name, str(response.is_error)
    if part.thought is not None:
        return ("thought",)
    return ("media",) if part.inline_data is not None else ("text",)


def _fills_a_gap(seen: Collection, summary: Message) -> bool:
    """Whether messages left just here. What may stay behind can stand on either side of it."""
    place = seen.after.index(summary)

    def bounds(message: Message) -> bool:
        at = seen.position.get(message.message_id)
        if at is None or _is_notice(message):
            return False
        return at not in seen.may_stay_behind or message.kind is Kind.SUMMARY

    earlier = [one for one in seen.after[:place] if bounds(one)]
    later = next((one for one in seen.after[place + 1 :] if bounds(one)), None)
    start = seen.position[earlier[-1].message_id] + 1 if earlier else 0
    stop = seen.position[later.message_id] if later is not None else len(seen.before)
    return any(at in seen.left and not _is_notice(seen.before[at]) for at in range(start, stop))


def _stands_in_front(seen: Collection, notice: Message) -> bool:
    """Whether all in front of it is LOCKED, and the LOCKED messages that led are in front of it."""
    others = [message for message in seen.after if message is not notice]
    first = len(seen.leading_locked)
    last = 0
    while last < len(others) and seen.position.get(others[last].message_id, -1) in seen.locked:
        last += 1
    # Where the LOCKED messages end inside a call and its results, either side of them will do.
    while first > 0 and not _is_cut(others, first):
        first -= 1
    while last < len(others) and not _is_cut(others, last):
        last += 1
    return first <= seen.after.index(notice) <= last


def _is_cut(history: list[Message], at: int) -> bool:
    calls = Counter(call for message in history[:at] for call in message.call_ids)
    calls.subtract(call for message in history[:at] for call in message.result_ids)
    return not any(calls.values())


def _counted_once(seen: Collection) -> Iterator[str]:
    listed = Counter(
        message_id for item in seen.result.removal_list for message_id in item.message_ids
    )
    for message_id, times in listed.items():
        if times > 1:
            yield f"{message_id} is in {times} items of removal_list"
        if message_id not in seen.position:
            yield f"{message_id} is in removal_list and was not in the history"
    for item in seen.result.removal_list:
        if item.tokens_freed < 0:
            yield f"{item.source.value}/{item.child_key} frees {item.tokens_freed} tokens"


def _exists(budget: InstructionBudget, item: GCRemovalItem) -> bool:
    if item.child_key is None:
        return budget.get_entry(item.source) is not None
    return budget.get_child(item.source, item.child_key) is not None


def _conversation(budget: InstructionBudget) -> int:
    entry = budget.get_entry(InstructionSource.CONVERSATION)
    return entry.total_tokens() if entry is not None else 0


def _tracked_tokens(
    seen: Collection, messages: tuple[Message, ...], budget: InstructionBudget
) -> int:
    tracked = tracked_in(budget)
    return sum(
        message_tokens(seen.counter, message)
        for message in messages
        if message.message_id in tracked
    )


def _law(number: int, statement: str, breaches: Callable[[Collection], Iterator[str]]) -> Law:
    return Law(number, statement, lambda collection: tuple(breaches(collection)))


LAWS: tuple[Law, ...] = (
    _law(1, "a call and its results stay or go together", _pairs_stay_whole),
    _law(2, "what is LOCKED, pinned or recent stays", _what_is_protected_stays),
    _law(3, "the user's LOCKED request stays first, for ever", _the_request_stands_first),
    _law(4, "a turn goes whole or stays whole", _turns_stay_whole),
    _law(5, "order is kept, only summaries and one notice are new", _order_is_kept),
    _law(6, "collecting twice in a row changes nothing the second time", _twice_is_once),
    _law(7, "budget and history agree to the token", _budget_agrees),
    _law(8, "a failed collection changes nothing and says so", _failure_changes_nothing),
    _law(
        9,
        "never empty, never a result first, what stays is the same object",
        _what_stays_is_untouched,
    ),
)
