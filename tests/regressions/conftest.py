"""The four strategies, and budgets for pictures; every test of this folder begins with these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jaato.budget import InstructionBudget, budget_for
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.history import Message
from jaato.ports import TokenCounter
from jaato.testing import WordCounter
from jaato.tokens import count_messages

COUNTER = WordCounter()
SUMMARIZING = {"gc_summarize", "gc_hybrid"}


def short(conversation: str) -> str:
    return "what mattered"


def made(name: str, *, counter: TokenCounter = COUNTER, **options: Any) -> DrivenPlugin:
    if name in SUMMARIZING:
        options.setdefault("summarizer", short)
    else:
        options.pop("summarizer", None)
    plugin = load_gc_plugin(name, options)
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = counter
    return plugin


@pytest.fixture
def plugin_of() -> Callable[..., DrivenPlugin]:
    """A plug-in by name that counts words; the summarizing ones have a summarizer."""
    return made


@pytest.fixture(params=["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
def collector(request: pytest.FixtureRequest) -> Callable[..., DrivenPlugin]:
    """Makes one of the four strategies; a test that asks for it runs with each of them."""
    name = str(request.param)

    def make(**options: Any) -> DrivenPlugin:
        return made(name, **options)

    return make


@pytest.fixture
def budget_over() -> Callable[..., InstructionBudget]:
    """A budget that tracks a history, in a window that it fills to a percentage."""

    def build(history: Sequence[Message], percent: float = 85.0) -> InstructionBudget:
        counts = count_messages(COUNTER, history)
        return budget_for(history, counts, context_limit=max(int(sum(counts) * 100 / percent), 1))

    return build
