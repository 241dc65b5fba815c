"""`gc_hybrid`, under the name that its users import."""

from jaato.strategies.hybrid import (
    HybridGCPlugin,
    create_plugin,
)

__all__ = [
    "HybridGCPlugin",
    "create_plugin",
]
