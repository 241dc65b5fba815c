"""What only a careless plug-in reports or leaves: settling is as sure with it as without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, budget_for
from jaato.budget.conversation import locate
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Kind, Message, Part
from jaato.testing import WordCounter, sketch
from jaato.tokens import count_messages, history_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
MANUAL = GCTriggerReason.MANUAL


def tracked(history: Sequence[Message]) -> InstructionBudget:
    return budget_for(history, count_messages(COUNTER, history), created_at=1_000.0)


def settled(
    budget: InstructionBudget,
    before: Sequence[Message],
    after: Sequence[Message],
    *items: GCRemovalItem,
) -> int:
    """What CONVERSATION weighs after a third-party plug-in has reported these items."""
    result = GCResult(True, len(items), 0, 0, "third_party", MANUAL, removal_list=list(items))
    settle(budget, result, before, after, COUNTER)
    source = budget.get_entry(CONVERSATION)
    assert source is not None
    return source.total_tokens()


def again(message: Message, *, text: str, message_id: str | None = None) -> Message:
    part = Part(text=text)
    return Message(message.role, (part,), message_id or message.message_id, message.kind)


def test_it_survives_a_source_written_as_text() -> None:
    history = sketch("u a u a", words=20)
    budget = tracked(history)
    item = GCRemovalItem("conversation", None, 10)  # type: ignore[arg-type]  # from JSON, say
    assert settled(budget, history, history[2:], item) == history_tokens(COUNTER, history[2:])


@pytest.mark.parametrize("key", [5, ("turn_0",), ["turn_0"]], ids=str)
def test_it_survives_a_key_that_is_no_text(key: Any) -> None:
    history = sketch("u a u a", words=20)
    item = GCRemovalItem(CONVERSATION, key, 10)
    left = settled(tracked(history), history, history[2:], item)
    assert left == history_tokens(COUNTER, history[2:])


def test_it_survives_a_removal_list_that_is_none() -> None:
    history = sketch("u a u a", words=20)
    budget = tracked(history)
    result = GCResult(True, 1, 0, 0, "third_party", MANUAL)
    result.removal_list = None  # type: ignore[assignment]  # a third-party mistake
    settle(budget, result, history, history[2:], COUNTER)
    assert budget.total_tokens() == history_tokens(COUNTER, history[2:])


def test_it_takes_nothing_locked_off_the_account() -> None:
    # No plug-in can take the system instructions out of a request, whatever it lists.
    history = sketch("u a u a", words=20)
    budget = tracked(history)
    budget.set_entry(InstructionSource.SYSTEM, 100)
    budget.add_child(InstructionSource.PLUGIN, "core", 50)
    items = (
        GCRemovalItem(InstructionSource.SYSTEM, None, 100),
        GCRemovalItem(InstructionSource.PLUGIN, "core", 50),
    )
    settled(budget, history, history[2:], *items)
    assert budget.locked_tokens() >= 150


@pytest.mark.parametrize("left", [(2, 3, 4, 5), (0, 1, 4, 5)], ids=["the second", "the first"])
def test_it_forgets_only_the_one_of_two_messages_with_an_id_that_left(
    left: Sequence[int],
) -> None:
    history = sketch("u a u a u a", words=20)
    history[3] = again(history[3], text="z " * 30, message_id="m1")
    after = [history[at] for at in left]
    assert settled(tracked(history), history, after) == history_tokens(COUNTER, after)


def test_it_counts_every_notice_that_a_plug_in_leaves() -> None:
    history = sketch("u a u a", words=20)
    notices = [Message("user", (Part(text="gone"),), f"n{at}", Kind.NOTICE) for at in range(2)]
    after = [*notices, *history]
    assert settled(tracked(history), history, after) == history_tokens(COUNTER, after)


def test_it_keeps_what_is_known_of_a_notice_that_stays_under_its_id() -> None:
    history = sketch("u a n u a", words=20)
    budget = tracked(history)
    settled(budget, history, [*history[:2], again(history[2], text="gone"), *history[3:]])
    located = locate(budget, "m2")
    assert located is not None
    assert located.entry.created_at == 1_002.0


@pytest.mark.parametrize(
    "places",
    [
        pytest.param((0, 1, 2, 3, 1), id="again at the end"),
        pytest.param((3, 0, 1, 2, 3), id="again at the front"),
        pytest.param((0, 1, 0, 2, 3), id="again before what stays"),
        pytest.param((0, 0, 2, 3), id="in the place of another"),
        pytest.param((2, 2, 3), id="in the place of two others"),
    ],
)
def test_it_counts_a_message_that_a_plug_in_returns_twice(places: Sequence[int]) -> None:
    history = sketch("u a u a", words=20)
    after = [history[at] for at in places]
    assert settled(tracked(history), history, after) == history_tokens(COUNTER, after)


def test_it_keeps_turn_numbers_where_the_first_message_gets_a_new_id() -> None:
    history = sketch("u a u a u a", words=20)
    budget = tracked(history)
    settled(budget, history, [again(history[0], text="u", message_id="new"), *history[1:]])
    located = locate(budget, "new")
    assert located is not None
    assert located.turn == 0


def test_it_keeps_the_request_locked_where_a_plug_in_gives_it_a_new_id() -> None:
    history = sketch("u a u a", words=20)
    budget = tracked(history)
    settled(budget, history, [again(history[0], text="u", message_id="new"), *history[1:]])
    located = locate(budget, "new")
    assert located is not None
    assert located.entry.gc_policy is GCPolicy.LOCKED
