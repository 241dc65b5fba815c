"""Messages in the budget: where they are, and that their sum is the conversation's total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.budget import (
    ConversationTurnType,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    SourceEntry,
)
from jaato.budget.conversation import (
    budget_for,
    forget,
    locate,
    shrink,
    track,
    turn_made_of,
)
from jaato.errors import UsageError
from jaato.history import Kind, Message, Part, ToolResult

CONVERSATION = InstructionSource.CONVERSATION


def history(picture: str) -> list[Message]:
    """Messages with their place as id: u user, a model, r result, S summary, N notice."""
    made = []
    for at, sign in enumerate(picture.split()):
        part = Part(function_response=ToolResult("c", "t", "x")) if sign == "r" else Part(text="x")
        role = {"a": "model", "r": "tool"}.get(sign, "user")
        kind = {"S": Kind.SUMMARY, "N": Kind.NOTICE}.get(sign, Kind.PLAIN)
        made.append(Message(role, (part,), f"id{at}", kind))
    return made


def budget_of(picture: str) -> InstructionBudget:
    messages = history(picture)
    return budget_for(messages, range(1, len(messages) + 1), context_limit=1000)


def paths(budget: InstructionBudget) -> list[str]:
    found = []
    for key, child in budget.entries[CONVERSATION].children.items():
        found += [f"{key}/{below}" for below in child.children] or [key]
    return found


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("u a", "turn_0/original_request turn_0/m2", id="one turn"),
        pytest.param(
            "u a r a u a",
            "turn_0/original_request turn_0/m2 turn_0/m3 turn_0/m4 turn_1/m5 turn_1/m6",
            id="results open no turn",
        ),
        pytest.param("a u", "turn_0/m1 turn_1/original_request", id="before the first request"),
        pytest.param(
            "S u a", "gc_summary_1 turn_0/original_request turn_0/m2", id="a summary is no turn"
        ),
        pytest.param(
            "u S S a", "turn_0/original_request turn_0/m2 gc_summary_1 gc_summary_2", id="a chain"
        ),
        pytest.param("N u N", "gc_notice turn_0/original_request", id="the last notice stays"),
    ],
)
def test_where_messages_go(picture: str, expected: str) -> None:
    assert paths(budget_of(picture)) == expected.split()


def test_what_tracking_writes() -> None:
    budget = budget_of("u a S N")
    written = [
        (child.label, child.gc_policy, child.metadata["type"], child.message_ids, child.created_at)
        for child in (budget.get_child(CONVERSATION, path) for path in paths(budget))
        if child is not None
    ]
    assert written == [
        ("Original request", GCPolicy.LOCKED, "original_request", ["id0"], 0.0),
        (None, GCPolicy.EPHEMERAL, "working", ["id1"], 1.0),
        ("Context Summary", GCPolicy.PRESERVABLE, "turn_summary", ["id2"], 2.0),
        ("GC notice", GCPolicy.EPHEMERAL, "notice", ["id3"], 3.0),
    ]
    turn = budget.get_child(CONVERSATION, "turn_0")
    assert turn is not None
    assert (turn.tokens, turn.gc_policy, turn.metadata, turn.label, turn.created_at) == (
        0,
        GCPolicy.PARTIAL,
        {"turn": 0},
        "Turn 0",
        0.0,
    )


def test_metadata_of_one_message_is_its_own() -> None:
    budget = budget_of("u a a")
    one, two = (budget.get_child(CONVERSATION, f"turn_0/m{k}") for k in (2, 3))
    assert one is not None
    assert two is not None
    one.metadata["pinned"] = True
    assert two.metadata == {"type": "working"}


@pytest.mark.parametrize(
    ("turn_type", "policy"),
    [
        pytest.param("clarification_q", GCPolicy.PRESERVABLE, id="by name"),
        *(
            pytest.param(kind, policy, id=kind.value)
            for kind, policy in zip(
                ConversationTurnType,
                [GCPolicy.LOCKED, *[GCPolicy.PRESERVABLE] * 3, GCPolicy.EPHEMERAL],
                strict=True,
            )
        ),
    ],
)
def test_a_turn_type_decides_the_policy(turn_type: Any, policy: GCPolicy) -> None:
    budget = budget_of("u")
    entry = track(budget, history("u a")[1], 5, turn_type=turn_type)
    assert (entry.gc_policy, entry.key) == (policy, "m2")
    assert entry.metadata == {"type": str(turn_type)}


def test_a_first_message_that_is_said_to_be_no_request_is_none() -> None:
    budget = InstructionBudget("s")
    first, second = history("u u")
    assert track(budget, first, 1, turn_type=ConversationTurnType.WORKING).key == "m1"
    assert track(budget, second, 1).key == "original_request"


@pytest.mark.parametrize(
    ("kind", "tokens", "turn_type"),
    [
        pytest.param(Kind.PLAIN, -1, None, id="tokens of a message"),
        pytest.param(Kind.SUMMARY, -1, None, id="tokens of a summary"),
        pytest.param(Kind.NOTICE, -1, None, id="tokens of a notice"),
        pytest.param(Kind.PLAIN, 1, "chatter", id="an unknown turn type"),
    ],
)
def test_what_cannot_be_tracked_leaves_no_trace(kind: Kind, tokens: int, turn_type: Any) -> None:
    budget = budget_of("u a N")
    before = budget.entries[CONVERSATION].to_dict()
    with pytest.raises(UsageError):
        track(budget, Message("user", (Part(text="x"),), "new", kind), tokens, turn_type=turn_type)
    assert budget.entries[CONVERSATION].to_dict() == before


def test_numbers_are_never_used_again() -> None:
    budget = budget_of("u a u a S")
    assert forget(budget, ["id2", "id3", "id4"]) == 3 + 4 + 5
    budget.restore_conversation_from_snapshot(budget.get_conversation_snapshot())
    for message in history("x x x x x u a S")[5:]:
        track(budget, message, 1)
    assert paths(budget)[2:] == ["turn_2/m5", "turn_2/m6", "gc_summary_2"]


def test_a_turn_goes_on_after_all_of_it_was_forgotten() -> None:
    budget = budget_of("u a u a")
    forget(budget, ["id2", "id3"])
    assert track(budget, history("u a u a a")[4], 1).key == "m5"
    assert paths(budget)[-1] == "turn_1/m5"


def by_hand() -> InstructionBudget:
    """What programs write that know nothing of `track`."""
    budget = InstructionBudget.create_default("s")
    budget.add_child(CONVERSATION, "turn_3", 90, message_ids=["p", "q", "r"])
    budget.add_child(CONVERSATION, "question", 10, metadata={"turn": 4}, message_ids=["s"])
    budget.add_child(CONVERSATION, "notes", 10, message_ids=["t"])
    outer = budget.add_child(CONVERSATION, "turn_5", 7, message_ids=["u", "v"])
    outer.children["m9"] = SourceEntry(CONVERSATION, 5, GCPolicy.EPHEMERAL, message_ids=["v"])
    return budget


@pytest.mark.parametrize(
    ("message_id", "path", "turn"),
    [
        pytest.param("q", "turn_3", 3, id="one of several in a turn"),
        pytest.param("s", "question", 4, id="the turn from metadata"),
        pytest.param("t", "notes", None, id="no turn"),
        pytest.param("u", "turn_5", 5, id="a container's own"),
        pytest.param("v", "turn_5/m9", 5, id="the deepest of several"),
    ],
)
def test_entries_built_by_hand_are_found(message_id: str, path: str, turn: int | None) -> None:
    budget = by_hand()
    found = locate(budget, message_id)
    assert found is not None
    assert (found.path, found.turn) == (path, turn)
    assert budget.get_child(CONVERSATION, path) is found.entry


def test_tracking_goes_on_where_a_hand_stopped() -> None:
    budget = by_hand()
    user, model, summary = history("u a S")
    for message in (user, model, summary):
        track(budget, message, 1)
    assert paths(budget)[-3:] == ["turn_6/m10", "turn_6/m11", "gc_summary_1"]
    budget.add_child(CONVERSATION, "turn_7", 5)
    budget.add_child(CONVERSATION, "gc_summary_2", 5)
    for message in (user, summary):
        track(budget, message, 1)
    assert paths(budget)[-2:] == ["turn_8/m12", "gc_summary_3"]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda e, _: e.children["turn_0"].children.pop("m2"), id="taken out"),
        pytest.param(lambda e, _: e.children.clear(), id="cleared"),
        pytest.param(lambda e, _: setattr(e, "children", {}), id="children assigned"),
        pytest.param(lambda _, b: b.set_entry(CONVERSATION, 0), id="source replaced"),
        pytest.param(lambda _, b: setattr(b, "entries", {}), id="entries assigned"),
        pytest.param(
            lambda e, _: setattr(e.children["turn_0"].children["m2"], "message_ids", ["other"]),
            id="ids assigned",
        ),
        pytest.param(
            lambda e, _: e.children["turn_0"].children["m2"].message_ids.clear(), id="ids cleared"
        ),
    ],
)
def test_edits_by_hand_are_noticed(
    edit: Callable[[SourceEntry, InstructionBudget], object],
) -> None:
    budget = budget_of("u a")
    assert locate(budget, "id1") is not None
    edit(budget.entries[CONVERSATION], budget)
    assert locate(budget, "id1") is None
    assert shrink(budget, "id1", 0) == 0
    assert forget(budget, ["id1"]) == 0


def test_what_a_hand_adds_is_found() -> None:
    budget = budget_of("u a")
    assert locate(budget, "late") is None
    budget.add_child(CONVERSATION, "turn_0/late", 5, message_ids=["late"])
    found = locate(budget, "late")
    assert found is not None
    assert found.path == "turn_0/late"
    found.entry.message_ids = ["later"]
    assert locate(budget, "later") is not None


def test_shrinking() -> None:
    budget = by_hand()
    assert shrink(budget, "s", 4) == 6
    assert shrink(budget, "p", 10) == 20
    assert shrink(budget, "q", 10, before=40) == 30
    assert shrink(budget, "unknown", 10) == 0
    turn = budget.get_child(CONVERSATION, "turn_3")
    assert turn is not None
    assert (turn.tokens, turn.message_ids) == (40, ["p", "q", "r"])


@pytest.mark.parametrize(
    ("ids", "freed", "left"),
    [
        pytest.param(["p"], 30, "turn_3 question notes turn_5/m9", id="an equal share"),
        pytest.param({"p": 80}, 80, "turn_3 question notes turn_5/m9", id="the count given"),
        pytest.param({"p": 800}, 90, "turn_3 question notes turn_5/m9", id="never below 0"),
        pytest.param(["p", "q", "r"], 90, "question notes turn_5/m9", id="all of an entry"),
        pytest.param(["u", "v"], 12, "turn_3 question notes", id="an entry and what is below"),
        pytest.param(["v"], 3 + 1 + 5, "turn_3 question notes turn_5", id="held twice"),
        pytest.param(["unknown"], 0, "turn_3 question notes turn_5/m9", id="unknown"),
        pytest.param([], 0, "turn_3 question notes turn_5/m9", id="none"),
    ],
)
def test_forgetting_from_entries_built_by_hand(ids: Any, freed: int, left: str) -> None:
    budget = by_hand()
    before = budget.total_tokens()
    assert forget(budget, ids) == freed
    assert before - budget.total_tokens() == freed
    assert paths(budget) == left.split()


def test_a_whole_turn_is_found_by_its_messages() -> None:
    budget = budget_of("u a u a a S")
    turn = budget.get_child(CONVERSATION, "turn_1")
    assert turn_made_of(budget, ["id2", "id3", "id4"]) is turn
    assert turn_made_of(budget, ["id2", "id3"]) is None
    assert turn_made_of(budget, ["id5"]) is None
    assert turn_made_of(budget, ["unknown"]) is None


def test_a_whole_turn_is_found_after_an_edit_by_hand() -> None:
    budget = budget_of("u a u a")
    root = budget.entries[CONVERSATION]
    moved = root.children.pop("turn_1")
    root.children["turn_7"] = moved
    assert turn_made_of(budget, ["id2", "id3"]) is moved
    root.children["turn_7"] = moved.duplicate()
    assert turn_made_of(budget, ["id2", "id3"]) is root.children["turn_7"]


def test_a_message_held_twice_leaves_both_places_with_its_turn() -> None:
    budget = budget_of("u a u a")
    budget.add_child(CONVERSATION, "notes", 50, message_ids=["id3"])
    assert forget(budget, ["id2", "id3"]) == 3 + 4 + 50
    assert paths(budget) == ["turn_0/original_request", "turn_0/m2"]
    assert locate(budget, "id3") is None


def test_a_turn_whose_messages_leave_in_any_order_leaves_whole() -> None:
    budget = budget_of("u a u a a")
    assert forget(budget, ["id4", "id0", "id2", "id3"]) == 5 + 1 + 3 + 4
    assert paths(budget) == ["turn_0/m2"]


def test_ids_of_the_source_itself() -> None:
    budget = InstructionBudget.create_default("s")
    budget.set_entry(CONVERSATION, 100, message_ids=["p", "q"])
    found = locate(budget, "p")
    assert found is not None
    assert (found.path, found.turn) == ("", None)
    assert forget(budget, ["p"]) == 50
    assert forget(budget, ["q"]) == 50
    assert budget.entries[CONVERSATION].message_ids == []


def test_no_conversation_holds_nothing() -> None:
    budget = InstructionBudget("s")
    assert locate(budget, "x") is None
    assert (shrink(budget, "x", 1), forget(budget, ["x"])) == (0, 0)


def test_counts_and_messages_come_in_pairs() -> None:
    with pytest.raises(UsageError, match="2 messages and 1 counts"):
        budget_for(history("u a"), [1])


@given(
    st.lists(st.tuples(st.sampled_from("uarS"), st.integers(0, 500)), max_size=30),
    st.data(),
)
def test_the_sum_over_messages_is_the_total(
    told: list[tuple[str, int]], data: st.DataObject
) -> None:
    messages = history(" ".join(sign for sign, _ in told))
    counts = {
        message.message_id: tokens for message, (_, tokens) in zip(messages, told, strict=True)
    }
    budget = budget_for(messages, list(counts.values()))

    def agree() -> None:
        assert budget.total_tokens() == sum(counts.values())
        for message in messages:
            found = locate(budget, message.message_id)
            if message.message_id in counts:
                assert found is not None
                assert found.entry.tokens == counts[message.message_id]
                assert budget.get_child(CONVERSATION, found.path) is found.entry
                assert found.turn is None or found.path.startswith(f"turn_{found.turn}/")
            else:
                assert found is None

    agree()
    for message_id in data.draw(st.sets(st.sampled_from(sorted(counts) or ["x"]))) & set(counts):
        freed = shrink(budget, message_id, 1)
        assert freed == counts[message_id] - 1
        counts[message_id] = 1
    agree()
    gone = data.draw(st.sets(st.sampled_from(sorted(counts) or ["x"])))
    assert forget(budget, gone) == sum(counts.pop(name, 0) for name in gone)
    assert forget(budget, gone) == 0
    agree()
    assert all(
        child.children or child.message_ids
        for child in budget.entries[CONVERSATION].children.values()
    )
