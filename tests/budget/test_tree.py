"""The budget as its users read and change it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from jaato.budget import (
    DEFAULT_SOURCE_POLICIES,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    SnapshotError,
    SourceEntry,
)
from jaato.errors import UsageError

SYSTEM, PLUGIN, ENRICHMENT, CONVERSATION, THINKING = InstructionSource


@pytest.fixture
def budget() -> InstructionBudget:
    """A window of 1000 with something of everything: 600 tokens, and 900 of thinking."""
    made = InstructionBudget.create_default("s-1", context_limit=1000)
    made.add_child(SYSTEM, "base", 100)
    made.add_child(PLUGIN, "core", 50)
    made.add_child(PLUGIN, "discoverable", 60)
    made.update_tokens(ENRICHMENT, 40)
    turn = made.add_child(CONVERSATION, "turn_0", 0, metadata={"turn": 0})
    made.add_child(CONVERSATION, "turn_0/original_request", 30, message_ids=["msg-1"])
    made.add_child(
        CONVERSATION, "turn_0/m2", 220, GCPolicy.EPHEMERAL, created_at=5.0, message_ids=["msg-2"]
    )
    made.add_child(CONVERSATION, "gc_summary_1", 100, label="Context Summary")
    made.update_tokens(THINKING, 900)
    assert list(turn.children) == ["original_request", "m2"]
    return made


def test_a_default_budget_has_every_source_under_its_policy() -> None:
    budget = InstructionBudget.create_default("s", agent_id="a", agent_type="sub", context_limit=9)
    assert {source: entry.gc_policy for source, entry in budget.entries.items()} == (
        DEFAULT_SOURCE_POLICIES
    )
    assert (budget.agent_id, budget.agent_type, budget.context_limit) == ("a", "sub", 9)
    assert budget.total_tokens_all() == 0


def test_totals(budget: InstructionBudget) -> None:
    assert budget.total_tokens() == 600
    assert budget.total_tokens_all() == 1500
    assert budget.locked_tokens() == 100 + 50 + 30
    assert budget.preservable_tokens() == 100
    assert budget.gc_eligible_tokens() == 60 + 40 + 220
    assert budget.utilization_percent() == 60.0
    assert budget.available_tokens() == 400
    assert budget.gc_headroom_percent() == 32.0


def test_an_unknown_limit_is_never_a_guess(budget: InstructionBudget) -> None:
    budget.context_limit = None
    assert budget.utilization_percent() == 0.0
    assert budget.gc_headroom_percent() == 0.0
    assert budget.available_tokens() is None


def test_a_window_may_be_overfull(budget: InstructionBudget) -> None:
    budget.context_limit = 400
    assert budget.utilization_percent() == 150.0
    assert budget.available_tokens() == 0


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "128k"], ids=repr)
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="None while it is unknown"):
        InstructionBudget("s", context_limit=limit)
    budget = InstructionBudget("s", context_limit=5)
    with pytest.raises(UsageError):
        budget.context_limit = limit
    assert budget.context_limit == 5


@pytest.mark.parametrize(
    ("source", "key", "policy"),
    [
        pytest.param(SYSTEM, "framework", GCPolicy.LOCKED, id="system child"),
        pytest.param(SYSTEM, "mine", GCPolicy.LOCKED, id="unknown system child"),
        pytest.param(PLUGIN, "core", GCPolicy.LOCKED, id="core tools"),
        pytest.param(PLUGIN, "discoverable", GCPolicy.EPHEMERAL, id="discoverable tools"),
        pytest.param(PLUGIN, "grep", GCPolicy.PARTIAL, id="a tool"),
        pytest.param(ENRICHMENT, "memory", GCPolicy.EPHEMERAL, id="enrichment"),
        pytest.param(CONVERSATION, "turn_3", GCPolicy.PARTIAL, id="a turn"),
        pytest.param(CONVERSATION, "original_request", GCPolicy.LOCKED, id="the request"),
        pytest.param(CONVERSATION, "clarification_q", GCPolicy.PRESERVABLE, id="a question"),
        pytest.param(CONVERSATION, "working", GCPolicy.EPHEMERAL, id="working"),
        pytest.param(CONVERSATION, "gc_summary_7", GCPolicy.PRESERVABLE, id="a summary"),
        pytest.param(THINKING, "x", GCPolicy.EPHEMERAL, id="thinking"),
    ],
)
def test_a_child_without_a_policy(source: InstructionSource, key: str, policy: GCPolicy) -> None:
    budget = InstructionBudget("s")
    assert budget.add_child(source, key, 5).gc_policy is policy
    assert budget.entries[source].gc_policy is DEFAULT_SOURCE_POLICIES[source]


def test_a_child_takes_the_place_of_its_namesake(budget: InstructionBudget) -> None:
    budget.add_child(CONVERSATION, "turn_0/m2", 20)
    assert budget.total_tokens() == 400
    assert list(budget.entries[CONVERSATION].children) == ["turn_0", "gc_summary_1"]


def test_setting_an_entry_replaces_it_and_updating_keeps_its_children(
    budget: InstructionBudget,
) -> None:
    budget.update_tokens(PLUGIN, 1)
    assert budget.total_tokens() == 601
    entry = budget.set_entry(PLUGIN, 7, label="tools", metadata={"n": 1})
    assert budget.get_entry(PLUGIN) is entry
    assert budget.total_tokens() == 497
    assert (entry.label, entry.metadata, entry.gc_policy) == ("tools", {"n": 1}, GCPolicy.PARTIAL)


def test_paths(budget: InstructionBudget) -> None:
    deep = budget.get_child(CONVERSATION, "turn_0/m2")
    assert deep is budget.entries[CONVERSATION].children["turn_0"].children["m2"]
    exact = budget.add_child(PLUGIN, "mcp/files", 5)
    assert budget.entries[PLUGIN].children["mcp/files"] is exact
    below = budget.add_child(PLUGIN, "mcp/files/read/all", 5)
    assert exact.children == {"read/all": below}
    assert budget.get_child(PLUGIN, "mcp/files/read/all") is below
    budget.add_child(PLUGIN, "mcp", 1)
    assert budget.get_child(PLUGIN, "mcp/files") is exact
    assert budget.get_child(PLUGIN, "mcp/files/read/all") is below
    for missing in ("turn_0/m9", "turn_9/m2", "m2", "", "/", "turn_0/"):
        assert budget.get_child(CONVERSATION, missing) is None
    assert budget.get_child(CONVERSATION, None) is None


def test_removing_says_whether_it_did(budget: InstructionBudget) -> None:
    assert budget.remove_child(CONVERSATION, "turn_0/m2")
    assert not budget.remove_child(CONVERSATION, "turn_0/m2")
    assert not budget.remove_child(CONVERSATION, None)
    assert budget.total_tokens() == 380
    assert budget.remove_child(CONVERSATION, "turn_0")
    assert not InstructionBudget("s").remove_child(PLUGIN, "core")


def test_the_bulk_clear_of_the_specification(budget: InstructionBudget) -> None:
    entry = budget.get_entry(CONVERSATION)
    assert entry is not None
    entry.tokens = 0
    entry.children.clear()
    assert budget.total_tokens() == 250


def test_entries_built_by_hand_count() -> None:
    budget = InstructionBudget(
        "s",
        entries={
            PLUGIN: SourceEntry(
                PLUGIN, 5, GCPolicy.PARTIAL, children={"x": SourceEntry(PLUGIN, 6, GCPolicy.LOCKED)}
            )
        },
        context_limit=100,
    )
    assert budget.utilization_percent() == 11.0
    budget.entries["system"] = SourceEntry(SYSTEM, 9, GCPolicy.LOCKED)  # type: ignore[index]  # a str is a StrEnum's equal
    assert budget.entries[SYSTEM].tokens == 9
    assert budget.locked_tokens() == 15
    budget.entries = {SYSTEM: budget.entries[SYSTEM]}
    budget.entries[SYSTEM].tokens = 10
    assert budget.total_tokens() == 10


@pytest.mark.parametrize(
    ("key", "match"),
    [
        pytest.param("tools", "no InstructionSource", id="an unknown source"),
        pytest.param(PLUGIN, "cannot stand for", id="an entry of another source"),
    ],
)
def test_entries_that_do_not_belong_are_refused(
    budget: InstructionBudget, key: Any, match: str
) -> None:
    kept = budget.entries[CONVERSATION]
    wrong = SourceEntry(SYSTEM, 1, GCPolicy.LOCKED)
    with pytest.raises(UsageError, match=match):
        budget.entries[key] = wrong
    with pytest.raises(UsageError, match=match):
        budget.entries = {CONVERSATION: kept, key: wrong}
    assert budget.total_tokens() == 600
    assert budget.entries[CONVERSATION] is kept


def test_a_budget_survives_being_written_and_copied(budget: InstructionBudget) -> None:
    for twin in (
        InstructionBudget.from_dict(json.loads(json.dumps(budget.to_dict()))),
        InstructionBudget.from_dict(json.loads(json.dumps(budget.snapshot()))),
        copy.deepcopy(budget),
        copy.copy(budget),
        pickle.loads(pickle.dumps(budget)),  # noqa: S301 -- our own bytes
    ):
        assert twin == budget
        assert twin.snapshot() == budget.snapshot()
        twin.entries[CONVERSATION].children["turn_0"].tokens = 1000
        assert (twin.total_tokens(), budget.total_tokens()) == (1600, 600)


def test_a_snapshot_shows_the_whole_panel_and_stays_as_it_was(budget: InstructionBudget) -> None:
    shot = budget.snapshot()
    written = json.dumps(shot)
    budget.entries[CONVERSATION].children.clear()
    budget.entries[SYSTEM].metadata["x"] = 1
    assert json.dumps(shot) == written
    assert {key: value for key, value in shot.items() if key != "entries"} == {
        "version": 1,
        "session_id": "s-1",
        "agent_id": "main",
        "agent_type": None,
        "context_limit": 1000,
        "total_tokens": 600,
        "total_tokens_all": 1500,
        "utilization_percent": 60.0,
        "available_tokens": 400,
        "gc_eligible_tokens": 320,
        "locked_tokens": 180,
        "preservable_tokens": 100,
        "gc_headroom_percent": 32.0,
    }
    assert list(shot["entries"]) == [source.value for source in InstructionSource]
    turn = shot["entries"]["conversation"]["children"]["turn_0"]
    assert (turn["total_tokens"], turn["indicator"]) == (250, "◐")
    assert turn["children"]["m2"] == {
        "source": "conversation",
        "tokens": 220,
        "gc_policy": "ephemeral",
        "label": None,
        "children": {},
        "metadata": {},
        "created_at": 5.0,
        "message_ids": ["msg-2"],
        "total_tokens": 220,
        "gc_eligible_tokens": 220,
        "effective_gc_policy": "ephemeral",
        "indicator": "○",
    }


@pytest.mark.parametrize("whole", [False, True], ids=["conversation", "whole budget"])
def test_restoring_keeps_times_and_ids(budget: InstructionBudget, whole: bool) -> None:
    shot = json.loads(
        json.dumps(budget.snapshot() if whole else budget.get_conversation_snapshot())
    )
    other = InstructionBudget.create_default("s-2")
    other.add_child(CONVERSATION, "turn_9", 999)
    other.restore_conversation_from_snapshot(shot)
    assert other.entries[CONVERSATION] == budget.entries[CONVERSATION]
    restored = other.get_child(CONVERSATION, "turn_0/m2")
    assert restored is not None
    assert (restored.created_at, restored.message_ids) == (5.0, ["msg-2"])
    assert other.total_tokens() == 350


def test_a_missing_conversation_is_written_as_an_empty_one() -> None:
    budget = InstructionBudget("s")
    budget.restore_conversation_from_snapshot(budget.get_conversation_snapshot())
    assert budget.entries[CONVERSATION].total_tokens() == 0


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param({}, id="an empty mapping"),
        pytest.param({"version": 2}, id="a later version"),
        pytest.param({"version": "1"}, id="a version as text"),
        pytest.param({"entries": []}, id="entries as a list"),
        pytest.param({"session_id": "s", "entries": [1]}, id="entries as a full list"),
        pytest.param({"session_id": "s", "entries": {"system": None}}, id="no entry"),
        pytest.param({"source": "system", "tokens": 1, "gc_policy": "locked"}, id="another source"),
    ],
)
def test_a_broken_snapshot_changes_nothing(budget: InstructionBudget, broken: Any) -> None:
    before = budget.snapshot()
    with pytest.raises(SnapshotError):
        budget.restore_conversation_from_snapshot(broken)
    assert budget.snapshot() == before
    with pytest.raises(SnapshotError):
        InstructionBudget.from_dict(broken)
