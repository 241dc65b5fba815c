"""The single source of truth for usage: what fills the window, and what may leave it."""

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

__all__ = [
    "DEFAULT_SOURCE_POLICIES",
    "DEFAULT_SYSTEM_POLICIES",
    "DEFAULT_TOOL_POLICIES",
    "DEFAULT_TURN_POLICIES",
    "GC_POLICY_INDICATORS",
    "ConversationTurnType",
    "GCPolicy",
    "InstructionSource",
    "PluginToolType",
    "SystemChildType",
    "estimate_tokens",
]
