"""How the strategies' tables are read: a picture in, a picture out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jaato.budget import InstructionBudget, budget_for
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Message
from jaato.testing import WordCounter, sketch
from jaato.tokens import count_messages

COUNTER = WordCounter()


def plugin_of(name: str, **options: Any) -> DrivenPlugin:
    plugin = load_gc_plugin(name, options)
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = COUNTER
    return plugin


@pytest.fixture
def budget_over() -> Callable[..., InstructionBudget]:
    """A budget that tracks a history, in a window that it fills to a percentage."""

    def build(history: Sequence[Message], percent: float = 90.0) -> InstructionBudget:
        counts = count_messages(COUNTER, history)
        return budget_for(history, counts, context_limit=int(sum(counts) * 100 / percent))

    return build


@pytest.fixture
def collect() -> Callable[..., tuple[list[Message], GCResult]]:
    """Collects a picture (of 50-word messages) with a plug-in of this name; settles the budget."""

    def run(
        name: str,
        before: str | Sequence[Message],
        *,
        keep: int = 1,
        percent: float | None = None,
        budget: InstructionBudget | None = None,
        reason: GCTriggerReason = GCTriggerReason.THRESHOLD,
        config: GCConfig | None = None,
        **options: Any,
    ) -> tuple[list[Message], GCResult]:
        history = sketch(before, words=50) if isinstance(before, str) else list(before)
        config = config or GCConfig(preserve_recent_turns=keep)
        usage: dict[str, Any] = {}
        if percent is not None:
            total = sum(count_messages(COUNTER, history))
            usage = {"context_limit": int(total * 100 / percent), "percent_used": percent}
        after, result = plugin_of(name, **options).collect(history, usage, config, reason, budget)
        if budget is not None:
            settle(budget, result, history, after, COUNTER)
            assert budget.total_tokens() == result.tokens_after
        return after, result

    return run


@pytest.fixture
def make_plugin() -> Callable[..., DrivenPlugin]:
    """Loads a plug-in that counts words."""
    return plugin_of
