"""One entry and its children: what may be stored, what is refused, what is kept."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.budget import GCPolicy, InstructionSource, SnapshotError, SourceEntry
from jaato.budget.children import Children
from jaato.errors import UsageError


def entry(
    tokens: int = 0, policy: GCPolicy = GCPolicy.EPHEMERAL, **children: SourceEntry
) -> SourceEntry:
    return SourceEntry(
        InstructionSource.CONVERSATION, tokens, policy, children=children, created_at=1.0
    )


def listing(*message_ids: str, **children: SourceEntry) -> SourceEntry:
    one = entry(1, GCPolicy.EPHEMERAL, **children)
    one.message_ids = list(message_ids)
    return one


@pytest.mark.parametrize(
    ("turn", "is_so"),
    [
        pytest.param(entry(a=listing("p"), b=listing("q")), True, id="an entry for each"),
        pytest.param(entry(a=listing("q"), b=listing("p")), False, id="in another order"),
        pytest.param(entry(a=listing("p")), False, id="one is missing"),
        pytest.param(entry(a=listing("p"), b=listing("q"), c=listing("r")), False, id="one more"),
        pytest.param(entry(a=listing("p", "q"), b=listing()), False, id="two in one entry"),
        pytest.param(entry(a=listing("p"), b=listing()), False, id="an entry without a message"),
        pytest.param(entry(7, a=listing("p"), b=listing("q")), False, id="tokens of its own"),
        pytest.param(
            listing("p", a=listing("p"), b=listing("q")), False, id="a message of its own"
        ),
        pytest.param(
            entry(a=listing("p"), b=listing("q", below=listing("r"))), False, id="more below"
        ),
        pytest.param(entry(), False, id="nothing below"),
    ],
)
def test_whether_a_turn_is_nothing_but_its_messages(turn: SourceEntry, is_so: bool) -> None:
    assert turn.is_made_of(["p", "q"]) is is_so


@pytest.mark.parametrize(
    "tokens",
    [-1, True, 1.5, math.nan, math.inf, -2.0, "7", None],
    ids=["negative", "bool", "part", "nan", "inf", "negative float", "text", "none"],
)
def test_tokens_that_are_no_count_are_refused(tokens: Any) -> None:
    with pytest.raises(UsageError, match="whole number"):
        entry(tokens)
    parent = entry(1, a=entry(2))
    with pytest.raises(UsageError, match="whole number"):
        parent.children["a"].tokens = tokens
    assert parent.total_tokens() == 3


def test_a_whole_float_is_a_count() -> None:
    one = entry(3.0)  # type: ignore[arg-type]  # callers divide
    assert (one.tokens, type(one.tokens)) == (3, int)


def test_names_of_members_are_understood() -> None:
    one = SourceEntry("plugin", 1, "locked")
    assert one.source is InstructionSource.PLUGIN
    assert one.gc_policy is GCPolicy.LOCKED
    one.source = "system"  # type: ignore[assignment]  # callers read it from JSON
    assert one.source is InstructionSource.SYSTEM
    with pytest.raises(UsageError, match="'pinned' is no GCPolicy"):
        SourceEntry("plugin", 1, "pinned")


@pytest.mark.parametrize(
    ("policy", "locked", "preservable", "eligible"),
    [
        pytest.param(GCPolicy.LOCKED, 5, 0, 0, id="locked"),
        pytest.param(GCPolicy.PRESERVABLE, 0, 5, 0, id="preservable"),
        pytest.param(GCPolicy.PARTIAL, 0, 0, 5, id="partial"),
        pytest.param(GCPolicy.EPHEMERAL, 0, 0, 5, id="ephemeral"),
        pytest.param(GCPolicy.CONDITIONAL, 0, 0, 5, id="conditional is ephemeral at first"),
    ],
)
def test_own_tokens_count_under_the_own_policy(
    policy: GCPolicy, locked: int, preservable: int, eligible: int
) -> None:
    one = entry(5, policy, below=entry(7, GCPolicy.LOCKED))
    assert one.total_tokens() == 12
    assert one.locked_tokens() == locked + 7
    assert one.preservable_tokens() == preservable
    assert one.gc_eligible_tokens() == eligible


@pytest.mark.parametrize(
    ("decide", "policy"),
    [
        pytest.param(None, GCPolicy.EPHEMERAL, id="nobody to ask"),
        pytest.param(lambda _: GCPolicy.LOCKED, GCPolicy.LOCKED, id="what it says"),
        pytest.param(lambda _: "preservable", GCPolicy.PRESERVABLE, id="a name"),
        pytest.param(lambda _: GCPolicy.CONDITIONAL, GCPolicy.EPHEMERAL, id="no way out"),
        pytest.param(lambda _: 1 / 0, GCPolicy.EPHEMERAL, id="it raises"),
        pytest.param(lambda _: None, GCPolicy.EPHEMERAL, id="it says nothing"),
    ],
)
def test_a_callable_decides_a_conditional_entry(
    decide: Callable[[SourceEntry], Any] | None, policy: GCPolicy
) -> None:
    one = entry(5, GCPolicy.CONDITIONAL)
    root = entry(0, GCPolicy.PARTIAL, turn=entry(0, GCPolicy.PARTIAL, one=one))
    one.register_condition(decide)
    assert one.effective_gc_policy() is policy
    assert root.locked_tokens() == (5 if policy is GCPolicy.LOCKED else 0)
    assert root.preservable_tokens() == (5 if policy is GCPolicy.PRESERVABLE else 0)
    assert root.gc_eligible_tokens() == (5 if policy is GCPolicy.EPHEMERAL else 0)
    assert one.indicator() == "◈"


def test_a_condition_that_asks_for_what_depends_on_it_comes_to_an_end() -> None:
    one = entry(5, GCPolicy.CONDITIONAL)
    one.register_condition(lambda it: GCPolicy.LOCKED if it.gc_eligible_tokens() else it.gc_policy)
    assert one.effective_gc_policy() in GCPolicy


def test_a_condition_is_asked_each_time() -> None:
    answers = [GCPolicy.LOCKED]
    one = entry(5, GCPolicy.CONDITIONAL)
    one.register_condition(lambda _: answers[0])
    root = entry(0, GCPolicy.PARTIAL, one=one)
    assert (root.locked_tokens(), root.gc_eligible_tokens()) == (5, 0)
    answers[0] = GCPolicy.PARTIAL
    assert (root.locked_tokens(), root.gc_eligible_tokens()) == (0, 5)
    one.gc_policy = GCPolicy.PRESERVABLE
    assert (root.preservable_tokens(), root.gc_eligible_tokens()) == (5, 0)


def test_an_entry_has_one_parent_at_a_time() -> None:
    one = entry(5)
    left, right = entry(a=one), entry()
    right.children["b"] = one
    assert right.children["b"] == one
    assert right.children["b"] is not one
    one.tokens = 7
    assert (left.total_tokens(), right.total_tokens()) == (7, 5)
    right.children["b"] = left.children.pop("a")
    assert right.children["b"] is one
    assert (left.total_tokens(), right.total_tokens()) == (0, 7)


def test_a_detached_entry_changes_nobody() -> None:
    one = entry(5)
    parent = entry(a=one)
    del parent.children["a"]
    one.tokens = 100
    assert parent.total_tokens() == 0


def test_children_may_be_filtered_in_place_of_the_old() -> None:
    kept, dropped = entry(1), entry(2)
    parent = entry(kept=kept, dropped=dropped)
    root = entry(parent=parent)
    parent.children = {key: one for key, one in parent.children.items() if one is kept}
    assert parent.children["kept"] is kept
    kept.tokens = 10
    dropped.tokens = 100
    assert root.total_tokens() == 10


def test_children_that_were_replaced_can_come_back() -> None:
    parent = entry(a=entry(1))
    root = entry(parent=parent)
    saved = parent.children
    parent.children = {}
    assert root.total_tokens() == 0
    saved["b"] = entry(2)
    parent.children = saved
    assert parent.children is saved
    saved["a"].tokens = 10
    assert root.total_tokens() == 12


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(lambda top, low: low.children.update(x=top), id="update"),
        pytest.param(lambda _, low: low.children.__setitem__("x", low), id="itself"),
        pytest.param(lambda top, low: low.children.setdefault("x", top), id="setdefault"),
        pytest.param(lambda top, low: setattr(low, "children", {"x": top}), id="assignment"),
    ],
)
def test_cycles_are_refused(store: Callable[[SourceEntry, SourceEntry], None]) -> None:
    low = entry(2)
    top = entry(1, mid=entry(0, low=low))
    with pytest.raises(UsageError, match="cannot hold itself"):
        store(top, low)
    assert top.total_tokens() == 3
    assert low.children == {}


def test_a_mapping_cannot_be_stored_below_itself() -> None:
    low = entry(2)
    top = entry(1, low=low)
    saved = top.children
    top.children = {}
    with pytest.raises(UsageError, match="cannot hold itself"):
        low.children = saved
    assert (top.total_tokens(), low.total_tokens()) == (1, 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("x", {"tokens": 1}, id="a dict is no entry"),
        pytest.param("x", None, id="none is no entry"),
        pytest.param(1, entry(1), id="a number is no key"),
    ],
)
def test_what_is_no_entry_is_refused(key: Any, value: Any) -> None:
    parent = entry(1, a=entry(2))
    with pytest.raises(UsageError):
        parent.children[key] = value
    with pytest.raises(UsageError):
        parent.children = {"a": parent.children["a"], key: value}
    assert parent.total_tokens() == 3


def test_missing_keys_behave_as_in_a_dict() -> None:
    parent = entry()
    for take in (lambda: parent.children.pop("x"), parent.children.popitem):
        with pytest.raises(KeyError):
            take()
    with pytest.raises(KeyError):
        del parent.children["x"]
    assert parent.children.pop("x", None) is None
    assert parent.children.copy() == parent.children | {} == {}
    assert type(parent.children | {}) is dict


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
leaves = st.builds(
    SourceEntry,
    source=st.sampled_from(InstructionSource),
    tokens=st.integers(0, 10**6),
    gc_policy=st.sampled_from(GCPolicy),
    label=st.none() | st.text(),
    metadata=st.dictionaries(st.text(), values, max_size=2),
    created_at=st.floats(0, 2e9),
    message_ids=st.lists(st.text(), max_size=3),
)


@st.composite
def _over(draw: st.DrawFn, inner: st.SearchStrategy[SourceEntry]) -> SourceEntry:
    one = draw(leaves)
    one.children = draw(st.dictionaries(st.text(), inner, max_size=3))
    return one


trees = st.recursive(leaves, _over, max_leaves=8)


@given(trees)
def test_an_entry_survives_being_written_and_copied(one: SourceEntry) -> None:
    read = SourceEntry.from_dict(json.loads(json.dumps(one.to_dict())))
    for twin in (read, copy.deepcopy(one), copy.copy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301 -- our own bytes
        assert twin == one
        assert twin.to_dict() == one.to_dict()
        assert twin.sums == one.sums
    assert copy.deepcopy(one.children) == dict(one.children)
    assert isinstance(one.children, Children)


def test_a_deep_copy_is_independent_and_keeps_the_condition() -> None:
    one = entry(5, GCPolicy.CONDITIONAL)
    one.metadata["tags"] = ["a"]
    one.register_condition(lambda _: GCPolicy.LOCKED)
    twin = copy.deepcopy(one)
    twin.metadata["tags"].append("b")
    twin.message_ids.append("x")
    assert one.metadata == {"tags": ["a"]}
    assert one.message_ids == []
    assert twin.effective_gc_policy() is GCPolicy.LOCKED


def test_written_metadata_is_what_json_can_hold() -> None:
    one = entry()
    one.metadata = {1: {GCPolicy.LOCKED, 2.5}, "when": object, "pair": (1, None)}  # type: ignore[dict-item]
    written = json.loads(json.dumps(one.to_dict()))["metadata"]
    assert sorted(map(str, written["1"])) == ["2.5", "locked"]
    assert written["when"] == "<class 'object'>"
    assert written["pair"] == [1, None]


GOOD = entry(1, a=entry(2)).to_dict()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        pytest.param({"tokens": -1}, "top", id="negative tokens"),
        pytest.param({"tokens": "many"}, "top", id="tokens as text"),
        pytest.param({"gc_policy": "pinned"}, "top", id="unknown policy"),
        pytest.param({"source": 3}, "top", id="unknown source"),
        pytest.param({"label": 3}, "top", id="label"),
        pytest.param({"created_at": "2026-11-18"}, "top", id="time as text"),
        pytest.param({"message_ids": "m1"}, "top", id="ids as text"),
        pytest.param({"message_ids": [1]}, "top", id="ids as numbers"),
        pytest.param({"metadata": [1]}, "top", id="metadata"),
        pytest.param({"children": [1]}, "top", id="children"),
        pytest.param({"children": {"a": 1}}, "top/a", id="a child that is no entry"),
        pytest.param({"children": {"a": {"tokens": 1}}}, "top/a", id="fields missing"),
        pytest.param({"children": {"a": GOOD | {"tokens": 0.5}}}, "top/a", id="a bad child"),
    ],
)
def test_a_broken_entry_says_where(change: dict[str, Any], where: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        SourceEntry.from_dict(GOOD | change, where="top")
    assert caught.value.where == where
    assert where in str(caught.value)


def test_what_older_writers_left_out_has_its_default() -> None:
    one = SourceEntry.from_dict({"source": "plugin", "tokens": 4, "gc_policy": "locked"})
    assert (one.label, one.children, one.metadata, one.message_ids) == (None, {}, {}, [])
    assert one.created_at is not None
