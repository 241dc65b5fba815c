"""The definitions that the specification prints, field by field."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry

REQUIRED = dataclasses.MISSING

SOURCE_ENTRY = [
    ("source", "InstructionSource", REQUIRED),
    ("tokens", "int", REQUIRED),
    ("gc_policy", "GCPolicy", REQUIRED),
    ("label", "str | None", None),
    ("children", "dict[str, SourceEntry]", dict),
    ("metadata", "dict[str, Any]", dict),
    ("created_at", "float | None", None),
    ("message_ids", "list[str]", list),
]
INSTRUCTION_BUDGET = [
    ("session_id", "str", REQUIRED),
    ("agent_id", "str", "main"),
    ("agent_type", "str | None", None),
    ("entries", "dict[InstructionSource, SourceEntry]", dict),
    ("context_limit", "int | None", None),
]


@pytest.mark.parametrize(
    ("cls", "printed"),
    [
        pytest.param(SourceEntry, SOURCE_ENTRY, id="SourceEntry"),
        pytest.param(InstructionBudget, INSTRUCTION_BUDGET, id="InstructionBudget"),
    ],
)
def test_fields_are_as_printed(cls: Any, printed: list[tuple[str, str, Any]]) -> None:
    ours = [
        (
            field.name,
            field.type,
            field.default if field.default_factory is REQUIRED else field.default_factory,
        )
        for field in dataclasses.fields(cls)
    ]
    assert ours == printed
    assert list(inspect.signature(cls).parameters) == [name for name, _, _ in printed]


def test_defaults_are_made_for_each_entry() -> None:
    one = SourceEntry(InstructionSource.PLUGIN, 1, GCPolicy.PARTIAL)
    two = SourceEntry(InstructionSource.PLUGIN, 1, GCPolicy.PARTIAL)
    assert (one.label, one.children, one.metadata, one.message_ids) == (None, {}, {}, [])
    one.children["x"] = SourceEntry(InstructionSource.PLUGIN, 2, GCPolicy.LOCKED)
    one.metadata["x"] = 1
    one.message_ids.append("x")
    assert (two.children, two.metadata, two.message_ids) == ({}, {}, [])


def test_a_missing_time_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaato.budget.entry.time.time", lambda: 7.0)
    entry = SourceEntry(InstructionSource.PLUGIN, 1, GCPolicy.PARTIAL)
    dated = SourceEntry(InstructionSource.PLUGIN, 1, GCPolicy.PARTIAL, created_at=0.0)
    assert (entry.created_at, dated.created_at) == (7.0, 0.0)


def test_dataclass_tools_work() -> None:
    child = SourceEntry(InstructionSource.PLUGIN, 2, GCPolicy.LOCKED, "core", created_at=1.0)
    entry = SourceEntry(
        InstructionSource.PLUGIN,
        1,
        GCPolicy.PARTIAL,
        "tools",
        {"core": child},
        {"a": [1]},
        2.0,
        ["i"],
    )
    written = dataclasses.asdict(entry)
    assert written["children"]["core"]["tokens"] == 2
    assert type(written["children"]) is dict
    bigger = dataclasses.replace(entry, tokens=10)
    assert (bigger.total_tokens(), entry.total_tokens()) == (12, 3)
    assert bigger.children["core"] is not child
    assert bigger != entry
    assert dataclasses.replace(bigger, tokens=1) == entry
    match entry:
        case SourceEntry(InstructionSource.PLUGIN, tokens, _, label):
            assert (tokens, label) == (1, "tools")
        case _:
            pytest.fail("fields match by position")
    assert "label='tools'" in repr(entry)
    with pytest.raises(TypeError):
        hash(entry)
