"""The single source of truth for usage: what fills the window, and what may leave it."""

from jaato.budget.conversation import Located, budget_for, forget, locate, shrink, track
from jaato.budget.entry import SourceEntry
from jaato.budget.policies import (
    DEFAULT_SOURCE_POLICIES,
    DEFAULT_SYSTEM_POLICIES,
    DEFAULT_TOOL_POLICIES,
    DEFAULT_TURN_POLICIES,
    GC_POLICY_INDICATORS,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
    PluginToolType,
    SystemChildType,
    estimate_tokens,
)
from jaato.budget.snapshot import SNAPSHOT_VERSION, SnapshotError
from jaato.budget.tree import InstructionBudget

__all__ = [
    "DEFAULT_SOURCE_POLICIES",
    "DEFAULT_SYSTEM_POLICIES",
    "DEFAULT_TOOL_POLICIES",
    "DEFAULT_TURN_POLICIES",
    "GC_POLICY_INDICATORS",
    "SNAPSHOT_VERSION",
    "ConversationTurnType",
    "GCPolicy",
    "InstructionBudget",
    "InstructionSource",
    "Located",
    "PluginToolType",
    "SnapshotError",
    "SourceEntry",
    "SystemChildType",
    "budget_for",
    "estimate_tokens",
    "forget",
    "locate",
    "shrink",
    "track",
]
