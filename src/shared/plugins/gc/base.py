"""The plug-in contract, under the name that its users import."""

from jaato.gc.config import (
    GCConfig,
)
from jaato.gc.protocol import (
    GC_PLUGIN_ENTRY_POINT,
    GCPlugin,
)
from jaato.gc.result import (
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
)

__all__ = [
    "GC_PLUGIN_ENTRY_POINT",
    "GCConfig",
    "GCPlugin",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
]
