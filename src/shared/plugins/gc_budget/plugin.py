"""`gc_budget`, under the name that its users import."""

from jaato.strategies.budget import (
    BudgetGCPlugin,
    create_plugin,
)

__all__ = [
    "BudgetGCPlugin",
    "create_plugin",
]
