"""The plug-in contract and its loaders, under the name that their users import."""

from jaato.gc.config import (
    GCConfig,
)
from jaato.gc.marks import (
    create_gc_notification_message,
    create_summary_message,
)
from jaato.gc.protocol import (
    GC_PLUGIN_ENTRY_POINT,
    GCPlugin,
)
from jaato.gc.registry import (
    discover_gc_plugins,
    load_gc_plugin,
)
from jaato.gc.result import (
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
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
from jaato.wiring import (
    load_gc_from_file,
)

__all__ = [
    "GC_PLUGIN_ENTRY_POINT",
    "GCConfig",
    "GCPlugin",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "Turn",
    "create_gc_notification_message",
    "create_summary_message",
    "discover_gc_plugins",
    "ensure_tool_call_integrity",
    "estimate_history_tokens",
    "estimate_message_tokens",
    "estimate_turn_tokens",
    "flatten_turns",
    "get_preserved_indices",
    "load_gc_from_file",
    "load_gc_plugin",
    "split_into_turns",
]
