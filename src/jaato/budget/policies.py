"""What the budget can hold and how each kind may be collected: names, tables, and their reading."""

from __future__ import annotations

from enum import StrEnum
from math import ceil, inf


class InstructionSource(StrEnum):
    """Where tokens come from. THINKING is output only and outside the total."""

    SYSTEM = "system"
    PLUGIN = "plugin"
    ENRICHMENT = "enrichment"
    CONVERSATION = "conversation"
    THINKING = "thinking"


class GCPolicy(StrEnum):
    """What a collection may do with an entry."""

    LOCKED = "locked"
    PRESERVABLE = "preservable"
    PARTIAL = "partial"
    EPHEMERAL = "ephemeral"
    CONDITIONAL = "conditional"


class SystemChildType(StrEnum):
    """The known children of SYSTEM."""

    BASE = "base"
    CLIENT = "client"
    FRAMEWORK = "framework"
    SELECTED_REFERENCES = "selected_references"


class ConversationTurnType(StrEnum):
    """What a message is to its conversation."""

    ORIGINAL_REQUEST = "original_request"
    CLARIFICATION_Q = "clarification_q"
    CLARIFICATION_A = "clarification_a"
    TURN_SUMMARY = "turn_summary"
    WORKING = "working"


class PluginToolType(StrEnum):
    """Whether a tool's schema is always sent, or loaded when asked for."""

    CORE = "core"
    DISCOVERABLE = "discoverable"


DEFAULT_SOURCE_POLICIES: dict[InstructionSource, GCPolicy] = {
    InstructionSource.SYSTEM: GCPolicy.LOCKED,
    InstructionSource.PLUGIN: GCPolicy.PARTIAL,
    InstructionSource.ENRICHMENT: GCPolicy.EPHEMERAL,
    InstructionSource.CONVERSATION: GCPolicy.PARTIAL,
    InstructionSource.THINKING: GCPolicy.EPHEMERAL,
}

DEFAULT_SYSTEM_POLICIES: dict[SystemChildType, GCPolicy] = dict.fromkeys(
    SystemChildType, GCPolicy.LOCKED
)

DEFAULT_TURN_POLICIES: dict[ConversationTurnType, GCPolicy] = {
    ConversationTurnType.ORIGINAL_REQUEST: GCPolicy.LOCKED,
    ConversationTurnType.CLARIFICATION_Q: GCPolicy.PRESERVABLE,
    ConversationTurnType.CLARIFICATION_A: GCPolicy.PRESERVABLE,
    ConversationTurnType.TURN_SUMMARY: GCPolicy.PRESERVABLE,
    ConversationTurnType.WORKING: GCPolicy.EPHEMERAL,
}

DEFAULT_TOOL_POLICIES: dict[PluginToolType, GCPolicy] = {
    PluginToolType.CORE: GCPolicy.LOCKED,
    PluginToolType.DISCOVERABLE: GCPolicy.EPHEMERAL,
}

GC_POLICY_INDICATORS: dict[GCPolicy, str] = {
    GCPolicy.LOCKED: "🔒",
    GCPolicy.PRESERVABLE: "◑",
    GCPolicy.PARTIAL: "◐",
    GCPolicy.EPHEMERAL: "○",
    GCPolicy.CONDITIONAL: "◈",
}


def default_child_policy(source: InstructionSource, key: str) -> GCPolicy:
    """The policy of a child that was given none: by its known key, else its source's default."""
    if source is InstructionSource.SYSTEM and key in set(SystemChildType):
        return DEFAULT_SYSTEM_POLICIES[SystemChildType(key)]
    if source is InstructionSource.PLUGIN and key in set(PluginToolType):
        return DEFAULT_TOOL_POLICIES[PluginToolType(key)]
    if source is InstructionSource.CONVERSATION:
        if key in set(ConversationTurnType):
            return DEFAULT_TURN_POLICIES[ConversationTurnType(key)]
        if key.startswith("gc_summary"):
            return DEFAULT_TURN_POLICIES[ConversationTurnType.TURN_SUMMARY]
    return DEFAULT_SOURCE_POLICIES[source]


def estimate_tokens(text: str, chars_per_token: float = 4.0) -> int:
    """A rough count: characters over `chars_per_token`, rounded up; 0 for nothing.

    Never raises: a ratio that gives no count is read as 4.0. It undercounts logs, CJK and base64
    by half or more; `jaato.tokens` counts exactly.
    """
    if not text:
        return 0
    count = len(text) / chars_per_token if chars_per_token > 0 else inf
    return ceil(count if 0 < count < inf else len(text) / 4)
