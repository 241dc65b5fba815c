"""Whoever wrote the plug-in, and whatever it reports: the budget follows the history it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.budget.conversation import budget_for, locate, track
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Kind, Message, Part
from jaato.testing import WordCounter, budgets, histories, sketch
from jaato.tokens import count_messages, history_tokens, message_tokens

COUNTER = WordCounter()
CONVERSATION = InstructionSource.CONVERSATION
PLUGIN = InstructionSource.PLUGIN
ENRICHMENT = InstructionSource.ENRICHMENT
PICTURE = "u c1 r1 a s u a u c1 r1 a n u a"
History = Sequence[Message]


def reported(*items: GCRemovalItem, success: bool = True) -> GCResult:
    """What a third-party plug-in says it did; its figures are of its own making."""
    return GCResult(
        success, len(items), 7, 5, "third_party", GCTriggerReason.MANUAL, removal_list=list(items)
    )


def before() -> tuple[list[Message], InstructionBudget]:
    history = sketch(PICTURE, words=20)
    budget = budget_for(history, count_messages(COUNTER, history), created_at=1_000.0)
    budget.set_entry(InstructionSource.SYSTEM, 100)
    budget.set_entry(ENRICHMENT, 30)
    budget.add_child(PLUGIN, "search", 70, GCPolicy.EPHEMERAL)
    for at, policy in ((2, GCPolicy.LOCKED), (9, GCPolicy.PRESERVABLE)):
        located = locate(budget, f"m{at}")
        assert located is not None
        located.entry.gc_policy = policy
        located.entry.label = f"kept {at}"
    return history, budget


def weight(budget: InstructionBudget) -> int:
    entry = budget.get_entry(CONVERSATION)
    assert entry is not None
    return entry.total_tokens()


def entries(budget: InstructionBudget) -> dict[str, dict[str, object]]:
    """What is known of each message that the budget lists, but for its tokens."""
    found: dict[str, dict[str, object]] = {}

    def walk(entry: SourceEntry) -> None:
        for message_id in entry.message_ids:
            assert message_id not in found, f"{message_id} is listed twice"
            found[message_id] = {
                "created_at": entry.created_at,
                "label": entry.label,
                "policy": entry.gc_policy,
                "metadata": dict(entry.metadata),
            }
        for child in entry.children.values():
            walk(child)

    walk(budget.entries[CONVERSATION])
    return found


def copied(message: Message, *, text: str | None = None, new_id: bool = False) -> Message:
    parts = message.parts if text is None else (Part(text=text),)
    message_id = f"new {message.message_id}" if new_id else message.message_id
    return Message(message.role, parts, message_id, message.kind, message.extra)


def summary(text: str = "in short") -> Message:
    return Message("user", (Part(text=text),), "a summary", Kind.SUMMARY)


def notice(text: str = "gone") -> Message:
    return Message("user", (Part(text=text),), "a notice", Kind.NOTICE)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(list, id="nothing"),
        pytest.param(lambda _: [], id="everything leaves"),
        pytest.param(lambda h: h[4:], id="the first turn leaves"),
        pytest.param(lambda h: h[:4], id="all but the first turn leaves"),
        pytest.param(lambda h: [*h[:1], *h[12:]], id="all between the request and the last turn"),
        pytest.param(lambda h: h[::2], id="every other message leaves"),
        pytest.param(lambda h: [copied(m) for m in h], id="every message is copied"),
        pytest.param(lambda h: [copied(m) for m in h[5:]], id="what stays is copied"),
        pytest.param(lambda h: [*h[:2], copied(h[2], text="cut"), *h[3:]], id="a result is cut"),
        pytest.param(
            lambda h: [m if m.kind is Kind.NOTICE else copied(m, text="cut down") for m in h],
            id="every message is cut down",
        ),
        pytest.param(lambda h: [*h[:13], copied(h[13], text="w " * 99)], id="the last one grows"),
        pytest.param(lambda h: h[::-1], id="the order is turned around"),
        pytest.param(lambda h: [*h[5:7], *h[:5], *h[7:]], id="a turn moves to the front"),
        pytest.param(lambda h: [*h[:4], *h[7:], *h[4:7]], id="a turn moves to the end"),
        pytest.param(lambda h: [copied(m, new_id=True) for m in h], id="all ids are new"),
        pytest.param(
            lambda h: [*h[:5], copied(h[5], new_id=True), *h[6:]], id="an id in the middle is new"
        ),
        pytest.param(lambda h: [copied(h[0], new_id=True), *h[1:]], id="the first id is new"),
        pytest.param(lambda h: [summary(), *h[12:]], id="a summary for the old turns"),
        pytest.param(lambda h: [*h[:1], summary(), *h[12:]], id="a summary behind the request"),
        pytest.param(lambda h: [*h, copied(h[1], new_id=True)], id="a message at the end"),
        pytest.param(lambda h: [*h[:11], *h[12:]], id="the notice leaves"),
        pytest.param(lambda h: [notice(), *h[:11], *h[12:]], id="the notice is replaced"),
        pytest.param(lambda h: [notice(), *h[5:11], *h[12:]], id="a turn for a notice"),
    ],
)
@pytest.mark.parametrize(
    "items",
    [
        pytest.param((), id="it reports nothing"),
        pytest.param((GCRemovalItem(CONVERSATION, "turn_0", 10),), id="it reports a turn"),
        pytest.param((GCRemovalItem(CONVERSATION, "turn_0", 1),) * 3, id="it reports it thrice"),
        pytest.param((GCRemovalItem(CONVERSATION, "turn_77", 10),), id="a key of its own"),
        pytest.param((GCRemovalItem(CONVERSATION, "turn_0/m99", 10),), id="a path of its own"),
        pytest.param((GCRemovalItem(CONVERSATION, "", 10),), id="an empty key"),
        pytest.param((GCRemovalItem(CONVERSATION, "//", 10),), id="a key of slashes"),
        pytest.param((GCRemovalItem(CONVERSATION, None, 10),), id="the whole conversation"),
        pytest.param((GCRemovalItem(CONVERSATION, "turn_3", -5, "", ["m0"]),), id="odd figures"),
        pytest.param((GCRemovalItem(ENRICHMENT, "none", 5),), id="a child that is not there"),
    ],
)
def test_the_budget_agrees_with_what_the_plug_in_left(
    after: Callable[[History], list[Message]], items: tuple[GCRemovalItem, ...]
) -> None:
    history, budget = before()
    known = entries(budget)
    others = budget.total_tokens() - weight(budget)
    left = after(history)
    settle(budget, reported(*items), history, left, COUNTER)
    assert weight(budget) == history_tokens(COUNTER, left)
    assert budget.total_tokens() == weight(budget) + others
    later = entries(budget)
    assert set(later) == {message.message_id for message in left}
    for message in left:
        if message.message_id in known:
            assert later[message.message_id] == known[message.message_id]


def test_what_stays_keeps_its_very_entry() -> None:
    history, budget = before()
    kept = {m.message_id: locate(budget, m.message_id) for m in history[5:]}
    settle(budget, reported(), history, [copied(message) for message in history[5:]], COUNTER)
    for message_id, located in kept.items():
        now = locate(budget, message_id)
        assert now is not None
        assert located is not None
        if located.entry.metadata["type"] != "notice":
            assert now.entry is located.entry
        assert (now.path, now.turn) == (located.path, located.turn)


def test_a_failed_collection_is_not_settled() -> None:
    history, budget = before()
    untouched = budget.to_dict()
    item = GCRemovalItem(ENRICHMENT, None, 30)
    settle(budget, reported(item, success=False), history, history[4:], COUNTER)
    assert budget.to_dict() == untouched


def test_the_removal_list_decides_what_no_history_shows() -> None:
    history, budget = before()
    budget.add_child(CONVERSATION, "turn_40", 500)
    items = (
        GCRemovalItem(ENRICHMENT, None, 30),
        GCRemovalItem(PLUGIN, "search", 70),
        GCRemovalItem(CONVERSATION, "turn_40", 500),
    )
    settle(budget, reported(*items), history, history, COUNTER)
    assert budget.total_tokens() == 100 + history_tokens(COUNTER, history)
    assert budget.get_child(PLUGIN, "search") is None
    assert budget.get_child(CONVERSATION, "turn_40") is None


def test_a_turn_that_is_reported_and_stays_is_still_counted() -> None:
    history, budget = before()
    settle(budget, reported(GCRemovalItem(CONVERSATION, "turn_0", 10)), history, history, COUNTER)
    assert locate(budget, "m0") is not None


def test_a_summary_is_preservable_and_gets_the_next_number() -> None:
    history, budget = before()
    settle(budget, reported(), history, [*history[:5], summary(), *history[12:]], COUNTER)
    source = budget.entries[CONVERSATION]
    assert [key for key in source.children if key.startswith("gc")] == [
        "gc_summary_1",
        "gc_summary_2",
    ]
    assert source.children["gc_summary_2"].gc_policy is GCPolicy.PRESERVABLE


def test_nothing_new_is_locked() -> None:
    history, budget = before()
    left = [notice(), summary(), *(copied(message, new_id=True) for message in history[5:])]
    settle(budget, reported(), history, left, COUNTER)
    assert {one["policy"] for one in entries(budget).values()}.isdisjoint({GCPolicy.LOCKED})


def test_a_message_under_a_new_id_belongs_to_the_turn_it_stands_in() -> None:
    history, budget = before()
    renamed = copied(history[6], new_id=True)
    settle(budget, reported(), history, [*history[:6], renamed, *history[7:]], COUNTER)
    located, neighbour = locate(budget, renamed.message_id), locate(budget, "m5")
    assert located is not None
    assert neighbour is not None
    assert located.turn == neighbour.turn


def test_turns_keep_counting_where_they_left_off() -> None:
    history, budget = before()
    settle(budget, reported(), history, history[12:], COUNTER)
    (late,) = sketch("u", first=100)
    assert track(budget, late, 5).message_ids == ["m100"]
    located = locate(budget, "m100")
    assert located is not None
    assert located.turn == 4


@given(data=st.data(), history=histories(max_turns=6))
def test_any_choice_of_messages_is_settled_to_the_token(
    data: st.DataObject, history: list[Message]
) -> None:
    budget = data.draw(budgets(history, COUNTER))
    offset = weight(budget) - history_tokens(COUNTER, history)
    known = entries(budget)
    kept = data.draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history)))
    cut = data.draw(st.sets(st.integers(0, 30)))
    left = [
        copied(message, text="cut") if at in cut else message
        for at, message in enumerate(history)
        if kept[at]
    ]
    settle(budget, reported(), history, left, COUNTER)
    assert weight(budget) - history_tokens(COUNTER, left) == offset
    later = entries(budget)
    notices = {message.message_id for message in history if message.kind is Kind.NOTICE}
    assert {key: one for key, one in later.items() if key not in notices} == {
        message.message_id: known[message.message_id]
        for message in left
        if message.message_id not in notices
    }


def test_settling_counts_only_what_is_new_to_it() -> None:
    history, budget = before()
    counted: list[str] = []

    class Recording(WordCounter):
        def count_texts(self, texts: Sequence[str]) -> list[int]:
            counted.extend(texts)
            return super().count_texts(texts)

    assert all(message_tokens(COUNTER, message) for message in history)
    settle(budget, reported(), history, [*history[:1], summary(), *history[12:]], Recording())
    assert counted == ["in short"]
