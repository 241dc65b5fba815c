"""jaato: a context garbage collector for LLM agents.

Names are imported when they are first asked for, so that `import jaato` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaato._version import __version__

if TYPE_CHECKING:
    from jaato.budget import (
        ConversationTurnType,
        GCPolicy,
        InstructionBudget,
        InstructionSource,
        SourceEntry,
    )
    from jaato.client import JaatoClient
    from jaato.gc.config import GCConfig
    from jaato.gc.protocol import GCPlugin
    from jaato.gc.registry import discover_gc_plugins, load_gc_plugin
    from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
    from jaato.gc.settle import settle
    from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
    from jaato.session.blocking import JaatoSession
    from jaato.session.runtime import JaatoRuntime
    from jaato.settings.profiles import discover_profiles
    from jaato.tokens import default_counter
    from jaato.tools.callables import tool
    from jaato.tools.mcp import McpServerTools
    from jaato.wiring import load_gc_from_file

__all__ = [
    "ConversationTurnType",
    "FunctionCall",
    "GCConfig",
    "GCPlugin",
    "GCPolicy",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "InstructionBudget",
    "InstructionSource",
    "JaatoClient",
    "JaatoRuntime",
    "JaatoSession",
    "McpServerTools",
    "Media",
    "Message",
    "Part",
    "Role",
    "SourceEntry",
    "ToolResult",
    "__version__",
    "default_counter",
    "discover_gc_plugins",
    "discover_profiles",
    "load_gc_from_file",
    "load_gc_plugin",
    "settle",
    "tool",
]

_HOMES = {
    "jaato.budget": (
        "ConversationTurnType",
        "GCPolicy",
        "InstructionBudget",
        "InstructionSource",
        "SourceEntry",
    ),
    "jaato.client": ("JaatoClient",),
    "jaato.gc.config": ("GCConfig",),
    "jaato.gc.protocol": ("GCPlugin",),
    "jaato.gc.registry": ("discover_gc_plugins", "load_gc_plugin"),
    "jaato.gc.result": ("GCRemovalItem", "GCResult", "GCTriggerReason"),
    "jaato.gc.settle": ("settle",),
    "jaato.history": ("FunctionCall", "Media", "Message", "Part", "Role", "ToolResult"),
    "jaato.session.blocking": ("JaatoSession",),
    "jaato.session.runtime": ("JaatoRuntime",),
    "jaato.settings.profiles": ("discover_profiles",),
    "jaato.tokens": ("default_counter",),
    "jaato.tools.callables": ("tool",),
    "jaato.tools.mcp": ("McpServerTools",),
    "jaato.wiring": ("load_gc_from_file",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'jaato' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
