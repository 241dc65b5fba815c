"""Each law catches a plug-in that breaks it, and a good plug-in breaks none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.budget import InstructionBudget, InstructionSource
from jaato.budget.conversation import locate
from jaato.gc.config import GCConfig
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.history import Kind, Message, Part, ToolResult
from jaato.testing import (
    LAWS,
    Collection,
    WordCounter,
    budget_of,
    budgets,
    check,
    histories,
    run_collection,
    sketch,
    sketch_of,
)
from jaato.tokens import history_tokens, message_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
ONE_RECENT = GCConfig(preserve_recent_turns=1)
Outcome = tuple[list[Message], GCResult]


class Plain:
    """A good plug-in: turns leave, oldest first, but for those that hold anything worth keeping."""

    name = "plain"
    counter = COUNTER

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def should_collect(
        self, context_usage: dict[str, Any], config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return False, None

    def collect(
        self,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Outcome:
        nothing = GCResult(
            success=True, items_collected=0, tokens_before=0, tokens_after=0,
            plugin_name=self.name, trigger_reason=reason,
        )  # fmt: skip
        # What is protected is read off the same place as the laws do: this is no oracle.
        seen = Collection(
            before=tuple(history), after=(), result=nothing, config=config, reason=reason,
            usage=context_usage, counter=COUNTER, budget_before=budget,
        )  # fmt: skip
        total = budget.total_tokens() if budget else history_tokens(COUNTER, history)
        limit = budget.context_limit if budget else None
        target = int(limit * config.target_percent / 100) if limit else 0
        items: list[GCRemovalItem] = []
        gone: set[str] = set()
        for turn in seen.turns:
            kept = seen.locked | seen.preservable
            if turn in (*seen.recent, *seen.pinned) or not kept.isdisjoint(turn):
                continue
            if total - sum(item.tokens_freed for item in items) <= target:
                break
            for message in (history[at] for at in turn):
                if message.kind is Kind.PLAIN:
                    items.append(item_of(message, budget))
                    gone.add(message.message_id)
        freed = sum(item.tokens_freed for item in items)
        result = replace(
            nothing,
            items_collected=len(items),
            tokens_before=total,
            tokens_after=total - freed,
            removal_list=items,
        )
        return [message for message in history if message.message_id not in gone], result


def item_of(message: Message, budget: InstructionBudget | None) -> GCRemovalItem:
    located = locate(budget, message.message_id) if budget is not None else None
    key = located.path if located else "turn_0"
    tokens = message_tokens(COUNTER, message)
    return GCRemovalItem(CONVERSATION, key, tokens, "oldest", [message.message_id])


Spoil = Callable[[list[Message], list[Message], GCResult], list[Message]]


class Spoilt(Plain):
    """The good plug-in, and something done to its outcome."""

    name = "spoilt"

    def __init__(self, spoil: Spoil) -> None:
        self.spoil = spoil

    def collect(
        self,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Outcome:
        after, result = super().collect(history, context_usage, config, reason, budget)
        return self.spoil(list(history), after, result), result


def keeping(*places: int) -> Spoil:
    """Only the messages that stood at these positions stay."""
    return lambda before, *_: [before[at] for at in places if at < len(before)]


def adding(at: int, token: str) -> Spoil:
    """A message from nowhere."""
    new = sketch(token, first=900)
    return lambda _, after, *__: [*after[:at], *new, *after[at:]]


def changing(at: int, into: Callable[[Message], Message]) -> Spoil:
    def spoil(before: list[Message], after: list[Message], result: GCResult) -> list[Message]:
        return [into(one) if at < len(before) and one is before[at] else one for one in after]

    return spoil


def reporting(change: Callable[[GCResult], None]) -> Spoil:
    def spoil(before: list[Message], after: list[Message], result: GCResult) -> list[Message]:
        change(result)
        return after

    return spoil


def failing(*, error: str | None = "no", keeps: bool = True, removes: bool = False) -> Spoil:
    def spoil(before: list[Message], after: list[Message], result: GCResult) -> list[Message]:
        result.success, result.error = False, error
        if not removes:
            result.removal_list, result.tokens_after = [], result.tokens_before
        return before if keeps else after

    return spoil


def shortened(message: Message) -> Message:
    stubs = (
        Part(function_response=replace(part.function_response, result="gone"))
        if part.function_response
        else part
        for part in message.parts
    )
    return message.with_parts(stubs)


def without_last_part(message: Message) -> Message:
    return message.with_parts(message.parts[:-1])


def other_call_id(message: Message) -> Message:
    return message.with_parts([Part(function_response=ToolResult("1", "other", "gone"))])


def copied(message: Message) -> Message:
    return message.with_parts(message.parts)


def thoughtless(message: Message) -> Message:
    return message.with_parts(part for part in message.parts if part.thought is None)


def free_twice(result: GCResult) -> None:
    result.removal_list += result.removal_list[:1]


def forget_the_list(result: GCResult) -> None:
    result.removal_list = []


def invent_a_key(result: GCResult) -> None:
    for item in result.removal_list:
        item.child_key = "turn_99/m1"


def claim_more(result: GCResult) -> None:
    result.tokens_after -= 1


def start_lower(result: GCResult) -> None:
    result.tokens_before -= 1


LONG = "u a u c1 r1 a u a u a"
BAD = [
    pytest.param(1, LONG, keeping(0, 1, 2, 4, 5, 6, 7, 8, 9), id="a call leaves, its result stays"),
    pytest.param(1, LONG, keeping(0, 1, 2, 3, 5, 6, 7, 8, 9), id="a result leaves, its call stays"),
    pytest.param(1, "u a u c1,2 r1", keeping(0, 1, 2), id="a pending call leaves"),
    pytest.param(1, "u a u c1,2 r1", changing(4, shortened), id="a pending step is stubbed"),
    pytest.param(2, LONG, keeping(0, 1, 2, 3, 4, 5, 6, 7), id="the last turn leaves"),
    pytest.param(2, LONG, changing(9, shortened), id="a recent answer is replaced"),
    pytest.param(2, "u a u c1 r1", changing(4, shortened), id="a recent step is stubbed"),
    pytest.param(2, LONG, keeping(6, 7, 8, 9), id="the LOCKED request leaves"),
    pytest.param(3, LONG, keeping(6, 7, 8, 9), id="the LOCKED request is no longer first"),
    pytest.param(3, LONG, adding(0, "s"), id="a summary takes the place of the request"),
    pytest.param(3, LONG, adding(0, "n"), id="a notice takes the place of the request"),
    pytest.param(4, LONG, keeping(0, 1, 2, 5, 6, 7, 8, 9), id="a step leaves, its turn stays"),
    pytest.param(4, LONG, keeping(0, 1, 2, 3, 4, 5, 6, 8, 9), id="an answer leaves"),
    pytest.param(4, "u c1 r1+m a u", changing(2, without_last_part), id="a part leaves"),
    pytest.param(4, "u c1 r1 a u", changing(2, other_call_id), id="a result gets another name"),
    pytest.param(5, LONG, keeping(0, 1, 6, 7, 2, 3, 4, 5, 8, 9), id="turns change places"),
    pytest.param(5, LONG, adding(1, "a"), id="an answer is invented"),
    pytest.param(5, LONG, adding(1, "n n"), id="two notices"),
    pytest.param(5, LONG, adding(4, "n"), id="a notice at the end"),
    pytest.param(5, LONG, adding(4, "s"), id="a summary behind what it does not stand for"),
    pytest.param(6, LONG, adding(1, "n"), id="a notice at every collection"),
    pytest.param(7, LONG, reporting(forget_the_list), id="the removal list is forgotten"),
    pytest.param(7, LONG, reporting(invent_a_key), id="a key that the budget does not have"),
    pytest.param(7, LONG, reporting(free_twice), id="a message is freed twice"),
    pytest.param(7, LONG, reporting(claim_more), id="more is freed than was removed"),
    pytest.param(7, LONG, reporting(start_lower), id="it starts from another total"),
    pytest.param(7, LONG, adding(1, "s"), id="a summary that is not counted"),
    pytest.param(8, LONG, failing(error=None), id="a failure without an error"),
    pytest.param(8, LONG, failing(keeps=False), id="a failure that removes turns"),
    pytest.param(8, LONG, failing(removes=True), id="a failure that reports removals"),
    pytest.param(9, LONG, keeping(), id="nothing is left"),
    pytest.param(9, "u c1 r1 a u", keeping(2, 3, 4), id="a result stands first"),
    pytest.param(9, "u a u a", changing(0, copied), id="a message is copied for nothing"),
    pytest.param(9, "u a u tc1 r1", changing(3, thoughtless), id="an open loop loses a thought"),
]


def collected(
    plugin: Plain, history: Sequence[Message], config: GCConfig = ONE_RECENT, limit: int = 100
) -> Collection:
    budget = budget_of(history, COUNTER, context_limit=limit)
    return run_collection(plugin, history, config, budget=budget)


def broken_by(collection: Collection) -> set[int]:
    return {law.number for law in LAWS if law.breaches(collection)}


@pytest.mark.parametrize(("number", "picture", "spoil"), BAD)
def test_a_bad_plug_in_is_caught(number: int, picture: str, spoil: Spoil) -> None:
    collection = collected(Spoilt(spoil), sketch(picture, words=20))
    assert number in broken_by(collection)
    with pytest.raises(AssertionError, match=f"law {number}: "):
        check(collection)


def test_every_law_has_a_bad_plug_in_that_breaks_it() -> None:
    assert [law.number for law in LAWS] == list(range(1, 10))
    assert {case.values[0] for case in BAD} == {law.number for law in LAWS}


@pytest.mark.parametrize(
    ("picture", "left"),
    [
        pytest.param(LONG, "u a u a", id="old turns leave, the LOCKED request and its turn stay"),
        pytest.param("u a", "u a", id="one turn stays"),
        pytest.param("", "", id="nothing stays nothing"),
        pytest.param("u a u c1,2 r1", "u a u c1,2 r1", id="a pending call stays"),
    ],
)
def test_a_good_plug_in_breaks_no_law(picture: str, left: str) -> None:
    collection = collected(Plain(), sketch(picture, words=20))
    check(collection)
    assert sketch_of(collection.after) == left


@given(st.data())
def test_a_good_plug_in_breaks_no_law_on_anything_generated(data: st.DataObject) -> None:
    history = data.draw(histories(max_turns=6, max_messages=80))
    budget = data.draw(st.none() | budgets(history, COUNTER))
    config = GCConfig(
        preserve_recent_turns=data.draw(st.integers(0, 3)),
        # Without a budget a turn has no number that outlives a collection.
        pinned_turn_indices=data.draw(st.sampled_from([[], [0], [1, 3]])) if budget else [],
    )
    check(run_collection(Plain(), history, config, budget=budget))
