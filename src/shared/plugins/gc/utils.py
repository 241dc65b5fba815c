"""Turns and marks, under the name that their users import."""

from jaato.gc.marks import (
    create_gc_notification_message,
    create_summary_message,
)
from jaato.gc.turn_lists import (
    Turn,
    ensure_tool_call_integrity,
    estimate_history_tokens,
    estimate_message_tokens,
    estimate_turn_tokens,
    flatten_turns,
    get_preserved_indices,
    split_into_turns,
)

__all__ = [
    "Turn",
    "create_gc_notification_message",
    "create_summary_message",
    "ensure_tool_call_integrity",
    "estimate_history_tokens",
    "estimate_message_tokens",
    "estimate_turn_tokens",
    "flatten_turns",
    "get_preserved_indices",
    "split_into_turns",
]
