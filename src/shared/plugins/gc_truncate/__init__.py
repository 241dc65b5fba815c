"""`gc_truncate`, under the name that its users import."""

from jaato.strategies.truncate import (
    TruncateGCPlugin,
    create_plugin,
)

__all__ = [
    "TruncateGCPlugin",
    "create_plugin",
]
