"""The budget, under the name that its users import."""

from jaato.budget import (
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

__all__ = [
    "DEFAULT_SOURCE_POLICIES",
    "DEFAULT_SYSTEM_POLICIES",
    "DEFAULT_TOOL_POLICIES",
    "DEFAULT_TURN_POLICIES",
    "GC_POLICY_INDICATORS",
    "ConversationTurnType",
    "GCPolicy",
    "InstructionBudget",
    "InstructionSource",
    "PluginToolType",
    "SourceEntry",
    "SystemChildType",
    "estimate_tokens",
]
