"""`gc_summarize`, under the name that its users import."""

from jaato.strategies.summarize import (
    SummarizeGCPlugin,
    create_plugin,
)

__all__ = [
    "SummarizeGCPlugin",
    "create_plugin",
]
