"""Every definition that the specification prints, held against ours: fields, members, tables."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from shared.instruction_budget import (
    DEFAULT_SOURCE_POLICIES,
    DEFAULT_SYSTEM_POLICIES,
    DEFAULT_TOOL_POLICIES,
    DEFAULT_TURN_POLICIES,
    GC_POLICY_INDICATORS,
    ConversationTurnType,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    PluginToolType,
    SourceEntry,
    SystemChildType,
    estimate_tokens,
)
from shared.plugins import gc, gc_budget, gc_hybrid, gc_summarize, gc_truncate
from shared.plugins.gc import (
    GC_PLUGIN_ENTRY_POINT,
    GCConfig,
    GCPlugin,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    Turn,
)
from shared.plugins.model_provider.types import FunctionCall, Message, Part, Role, ToolResult
from shared.plugins.subagent.config import GCProfileConfig, SubagentProfile, discover_profiles

NEEDED = inspect.Parameter.empty
LOCKED, PRESERVABLE = GCPolicy.LOCKED, GCPolicy.PRESERVABLE
PARTIAL, EPHEMERAL = GCPolicy.PARTIAL, GCPolicy.EPHEMERAL
PLUGINS = [
    gc_truncate.TruncateGCPlugin,
    gc_summarize.SummarizeGCPlugin,
    gc_hybrid.HybridGCPlugin,
    gc_budget.BudgetGCPlugin,
]

# In the order in which they are printed; an empty list or dict stands for a default factory.
FIELDS: dict[type, dict[str, Any]] = {
    SourceEntry: {
        "source": NEEDED,
        "tokens": NEEDED,
        "gc_policy": NEEDED,
        "label": None,
        "children": {},
        "metadata": {},
        "created_at": None,
        "message_ids": [],
    },
    InstructionBudget: {
        "session_id": NEEDED,
        "agent_id": "main",
        "agent_type": None,
        "entries": {},
        "context_limit": None,
    },
    GCRemovalItem: {
        "source": NEEDED,
        "child_key": None,
        "tokens_freed": 0,
        "reason": "",
        "message_ids": [],
    },
    GCResult: {
        "success": NEEDED,
        "items_collected": NEEDED,
        "tokens_before": NEEDED,
        "tokens_after": NEEDED,
        "plugin_name": NEEDED,
        "trigger_reason": NEEDED,
        "notification": None,
        "details": {},
        "error": None,
        "removal_list": [],
    },
    GCConfig: {
        "threshold_percent": 80.0,
        "target_percent": 60.0,
        "pressure_percent": 90.0,
        "max_turns": None,
        "auto_trigger": True,
        "check_before_send": True,
        "preserve_recent_turns": 5,
        "pinned_turn_indices": [],
        "plugin_config": {},
    },
    GCProfileConfig: {
        "type": "truncate",
        "threshold_percent": 80.0,
        "target_percent": None,
        "pressure_percent": None,
        "preserve_recent_turns": 5,
        "notify_on_gc": True,
        "summarize_middle_turns": None,
        "max_turns": None,
        "plugin_config": {},
    },
    SubagentProfile: {
        "name": NEEDED,
        "description": "",
        "plugins": [],
        "plugin_configs": {},
        "system_instructions": None,
        "model": None,
        "provider": None,
        "max_turns": None,
        "auto_approved": False,
        "icon": None,
        "gc": None,
    },
    Turn: {"index": NEEDED, "messages": [], "estimated_tokens": 0},
    FunctionCall: {"id": NEEDED, "name": NEEDED, "args": {}},
    ToolResult: {
        "call_id": NEEDED,
        "name": NEEDED,
        "result": None,
        "is_error": False,
        "attachments": (),
    },
}
# What follows the printed fields is ours, and may be left out.
EXTENDED = {
    GCConfig: ("preserve_recent_steps", "min_free_percent", "stash", "stub_content"),
}

MEMBERS: dict[type[Enum], str] = {
    InstructionSource: "SYSTEM PLUGIN ENRICHMENT CONVERSATION THINKING",
    GCPolicy: "LOCKED PRESERVABLE PARTIAL EPHEMERAL CONDITIONAL",
    SystemChildType: "BASE CLIENT FRAMEWORK SELECTED_REFERENCES",
    ConversationTurnType: "ORIGINAL_REQUEST CLARIFICATION_Q CLARIFICATION_A TURN_SUMMARY WORKING",
    PluginToolType: "CORE DISCOVERABLE",
    GCTriggerReason: "THRESHOLD MANUAL TURN_LIMIT PRE_MESSAGE CONTEXT_LIMIT",
    Role: "USER MODEL TOOL",
}

SIGNATURES: dict[str, tuple[Callable[..., Any], str]] = {
    "create_default": (InstructionBudget.create_default, "session_id *"),
    "set_entry": (InstructionBudget.set_entry, "self source tokens *"),
    "get_entry": (InstructionBudget.get_entry, "self source"),
    "get_child": (InstructionBudget.get_child, "self source child_key"),
    "update_tokens": (InstructionBudget.update_tokens, "self source tokens"),
    "add_child": (
        InstructionBudget.add_child,
        "self source child_key tokens gc_policy label metadata *",
    ),
    "remove_child": (InstructionBudget.remove_child, "self source child_key"),
    "restore_conversation_from_snapshot": (
        InstructionBudget.restore_conversation_from_snapshot,
        "self snapshot",
    ),
    "Message": (Message, "role parts message_id *"),
    "estimate_tokens": (estimate_tokens, "text chars_per_token"),
    "load_gc_plugin": (gc.load_gc_plugin, "name config"),
    "load_gc_from_file": (gc.load_gc_from_file, "path *"),
    "discover_gc_plugins": (gc.discover_gc_plugins, ""),
    "ensure_tool_call_integrity": (gc.ensure_tool_call_integrity, "history trace_fn"),
    "get_preserved_indices": (gc.get_preserved_indices, "total recent pinned"),
    "split_into_turns": (gc.split_into_turns, "history"),
    "flatten_turns": (gc.flatten_turns, "turns"),
    "discover_profiles": (discover_profiles, "dir base_path *"),
    "from_dict": (GCProfileConfig.from_dict, "data"),
}
CONTRACT = {
    "initialize": {"config": None},
    "shutdown": {},
    "should_collect": {"context_usage": NEEDED, "config": NEEDED},
    "collect": {
        "history": NEEDED,
        "context_usage": NEEDED,
        "config": NEEDED,
        "reason": NEEDED,
        "budget": None,
    },
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


def default_of(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return NEEDED if field.default_factory is dataclasses.MISSING else field.default_factory()


def by_name(cls: type) -> Any:
    return cls.__name__


@pytest.mark.parametrize("cls", FIELDS, ids=by_name)
def test_fields_and_their_defaults_are_as_printed(cls: Any) -> None:
    ours = {field.name: default_of(field) for field in dataclasses.fields(cls)}
    assert list(ours) == [*FIELDS[cls], *EXTENDED.get(cls, ())]
    assert {name: ours[name] for name in FIELDS[cls]} == FIELDS[cls]


@pytest.mark.parametrize("cls", FIELDS, ids=by_name)
def test_fields_may_be_given_by_position(cls: Any) -> None:
    parameters = list(inspect.signature(cls).parameters.values())
    assert [parameter.name for parameter in parameters][: len(FIELDS[cls])] == list(FIELDS[cls])
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


@pytest.mark.parametrize("cls", [cls for cls in FIELDS if cls not in {ToolResult, FunctionCall}])
def test_mutable_defaults_are_not_shared(cls: Any) -> None:
    made = [
        field for field in dataclasses.fields(cls) if isinstance(default_of(field), list | dict)
    ]
    for field in made:
        assert field.default_factory is not dataclasses.MISSING
        assert field.default_factory() is not field.default_factory()


@pytest.mark.parametrize("kind", MEMBERS, ids=by_name)
def test_enum_members_are_as_printed(kind: type[Enum]) -> None:
    assert [member.name for member in kind] == MEMBERS[kind].split()
    assert {member.value for member in kind} == {member.name.lower() for member in kind}


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_are_as_printed(name: str) -> None:
    function, printed = SIGNATURES[name]
    ours = list(inspect.signature(function).parameters)
    expected = printed.split()
    if expected[-1:] == ["*"]:
        expected.pop()
        ours = ours[: len(expected)]
    assert ours == expected


@pytest.mark.parametrize("cls", [GCPlugin, *PLUGINS], ids=by_name)
@pytest.mark.parametrize("method", CONTRACT)
def test_the_contract_is_as_printed(cls: type, method: str) -> None:
    _, *parameters = inspect.signature(getattr(cls, method)).parameters.values()
    assert {parameter.name: parameter.default for parameter in parameters} == CONTRACT[method]


@pytest.mark.parametrize("cls", PLUGINS, ids=by_name)
def test_a_plug_in_satisfies_the_protocol_and_knows_its_name(cls: Any) -> None:
    module = inspect.getmodule(cls)
    assert module is not None
    plugin = module.create_plugin()
    assert isinstance(plugin, cls)
    assert isinstance(plugin, GCPlugin)
    assert f"{plugin.name.removeprefix('gc_').title()}GCPlugin" == cls.__name__


def test_the_protocol_has_a_name_property() -> None:
    assert isinstance(inspect.getattr_static(GCPlugin, "name"), property)
    assert not isinstance(object(), GCPlugin)
    assert GC_PLUGIN_ENTRY_POINT == "jaato.gc_plugins"


def test_default_policies_are_as_printed() -> None:
    assert DEFAULT_SOURCE_POLICIES == {
        InstructionSource.SYSTEM: LOCKED,
        InstructionSource.PLUGIN: PARTIAL,
        InstructionSource.ENRICHMENT: EPHEMERAL,
        InstructionSource.CONVERSATION: PARTIAL,
        InstructionSource.THINKING: EPHEMERAL,
    }
    assert set(DEFAULT_SYSTEM_POLICIES) == set(SystemChildType)
    assert set(DEFAULT_SYSTEM_POLICIES.values()) == {LOCKED}
    assert DEFAULT_TOOL_POLICIES == {
        PluginToolType.CORE: LOCKED,
        PluginToolType.DISCOVERABLE: EPHEMERAL,
    }
    assert DEFAULT_TURN_POLICIES == {
        ConversationTurnType.ORIGINAL_REQUEST: LOCKED,
        ConversationTurnType.CLARIFICATION_Q: PRESERVABLE,
        ConversationTurnType.CLARIFICATION_A: PRESERVABLE,
        ConversationTurnType.TURN_SUMMARY: PRESERVABLE,
        ConversationTurnType.WORKING: EPHEMERAL,
    }
    assert {policy.name: sign for policy, sign in GC_POLICY_INDICATORS.items()} == {
        "LOCKED": "🔒",
        "PRESERVABLE": "◑",
        "PARTIAL": "◐",
        "EPHEMERAL": "○",
        "CONDITIONAL": "◈",
    }


@pytest.mark.parametrize(
    ("pressure", "is_continuous"),
    [
        pytest.param(90.0, False, id="a pressure"),
        pytest.param(0, True, id="zero"),
        pytest.param(None, True, id="none"),
    ],
)
def test_continuous_mode_is_a_property(pressure: float | None, is_continuous: bool) -> None:
    assert isinstance(inspect.getattr_static(GCConfig, "continuous_mode"), property)
    assert GCConfig(pressure_percent=pressure).continuous_mode is is_continuous


def test_tokens_freed_is_a_property() -> None:
    result = GCResult(True, 2, 900, 350, "gc_custom", GCTriggerReason.MANUAL)
    assert isinstance(inspect.getattr_static(GCResult, "tokens_freed"), property)
    assert result.tokens_freed == 550


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("JAATO_GC_THRESHOLD", "threshold_percent"),
        ("JAATO_GC_TARGET", "target_percent"),
        ("JAATO_GC_PRESSURE", "pressure_percent"),
    ],
)
def test_the_environment_changes_a_default_only(
    variable: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "70")
    assert getattr(GCConfig(), field) == 70.0
    explicit: dict[str, Any] = {field: 71.0}
    assert getattr(GCConfig(**explicit), field) == 71.0


def test_a_message_gets_an_id_where_it_is_given_none() -> None:
    one, other = (Message(role=Role.USER, parts=[Part(text="hello")]) for _ in range(2))
    assert one.message_id
    assert one.message_id != other.message_id
    assert Message(Role.USER, [Part(text="hello")], "msg-7").message_id == "msg-7"


@pytest.mark.parametrize(
    "kind", ["text", "thought", "function_call", "function_response", "inline_data"]
)
def test_a_part_holds_exactly_one_thing(kind: str) -> None:
    values: dict[str, Any] = {
        "text": "t",
        "thought": "t",
        "function_call": FunctionCall("c1", "read", {}),
        "function_response": ToolResult("c1", "read", "r"),
        "inline_data": {"mime_type": "image/png", "data": b"."},
    }
    part = Part(**{kind: values[kind]})
    assert [name for name in values if getattr(part, name) is not None] == [kind]
    with pytest.raises(ValueError, match="exactly one"):
        Part(**{kind: values[kind], ("thought" if kind == "text" else "text"): "too much"})


def test_the_surface_of_the_budget_and_its_entries() -> None:
    budget = InstructionBudget.create_default("s-1", context_limit=1_000)
    assert list(budget.entries) == list(InstructionSource)
    entry = budget.add_child(InstructionSource.PLUGIN, "core", 100)
    budget.update_tokens(InstructionSource.ENRICHMENT, 150)
    budget.add_child(InstructionSource.CONVERSATION, "gc_summary_1", 50)
    budget.set_entry(InstructionSource.THINKING, 25)
    assert (budget.total_tokens(), budget.total_tokens_all()) == (300, 325)
    assert (budget.locked_tokens(), budget.preservable_tokens()) == (100, 50)
    assert (budget.gc_eligible_tokens(), budget.gc_headroom_percent()) == (150, 15.0)
    assert (budget.utilization_percent(), budget.available_tokens()) == (30.0, 700)
    assert (entry.total_tokens(), entry.locked_tokens()) == (100, 100)
    assert (entry.gc_eligible_tokens(), entry.preservable_tokens()) == (0, 0)
    assert (entry.effective_gc_policy(), entry.indicator()) == (LOCKED, "🔒")
    assert {"created_at", "message_ids"} <= entry.to_dict().keys()
    assert budget.get_child(InstructionSource.PLUGIN, "core") is entry
    assert budget.remove_child(InstructionSource.PLUGIN, "core") is True
    assert budget.remove_child(InstructionSource.PLUGIN, "core") is False


def test_a_conversation_comes_back_from_a_snapshot() -> None:
    budget = InstructionBudget.create_default("s-1")
    budget.add_child(
        InstructionSource.CONVERSATION, "turn_3", 800, created_at=7.5, message_ids=["msg-7"]
    )
    for snapshot in (budget.snapshot(), budget.get_conversation_snapshot()):
        restored = InstructionBudget.create_default("s-2")
        restored.restore_conversation_from_snapshot(snapshot)
        turn = restored.get_child(InstructionSource.CONVERSATION, "turn_3")
        assert turn is not None
        assert (turn.tokens, turn.created_at, turn.message_ids) == (800, 7.5, ["msg-7"])
