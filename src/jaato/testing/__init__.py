"""For authors of GC plug-ins: pictures of histories, generated histories, and the laws to hold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaato.errors import MissingExtraError
from jaato.testing.budgeting import budget_of
from jaato.testing.collection import Collection, run_collection, usage_of
from jaato.testing.counting import WordCounter
from jaato.testing.decode import random_history
from jaato.testing.laws import LAWS, Law, check
from jaato.testing.sketch import SketchError, sketch, sketch_of

if TYPE_CHECKING:
    from jaato.testing.generate import broken_histories, budgets, histories

__all__ = [
    "LAWS",
    "Collection",
    "Law",
    "SketchError",
    "WordCounter",
    "broken_histories",
    "budget_of",
    "budgets",
    "check",
    "histories",
    "random_history",
    "run_collection",
    "sketch",
    "sketch_of",
    "usage_of",
]
_GENERATED = frozenset({"broken_histories", "budgets", "histories"})


def __getattr__(name: str) -> Any:
    """The hypothesis strategies, once they are asked for: the rest works without it."""
    if name not in _GENERATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        generate = import_module("jaato.testing.generate")
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingExtraError("hypothesis", extra="testing") from error
    return getattr(generate, name)
