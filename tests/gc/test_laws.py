"""The laws, as properties of every registered plug-in over generated histories."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import discover_gc_plugins
from jaato.gc.result import GCTriggerReason
from jaato.history import Message
from jaato.testing import WordCounter, budgets, check, histories, run_collection

COUNTER = WordCounter()
FACTORIES = discover_gc_plugins()
EXAMPLES = 2_000


def short(_conversation: str) -> str:
    return "what was done"


@st.composite
def situations(draw: st.DrawFn, history: list[Message]) -> dict[str, Any]:
    """Everything but the history: configuration, options, budget, reason."""
    figures = draw(st.binary(min_size=10, max_size=10))
    target = figures[0] % 80
    config = GCConfig(
        threshold_percent=80.0,
        target_percent=float(target),
        pressure_percent=(0.0, 30.0, 90.0)[figures[1] % 3],
        preserve_recent_turns=figures[2] % 5,
        preserve_recent_steps=figures[3] % 4,
        pinned_turn_indices=[figures[4] % 8] if figures[4] % 2 else [],
        min_free_percent=(0.0, 5.0)[figures[5] % 2],
        max_turns=figures[6] % 6 + 1 if figures[6] % 2 else None,
    )
    options: dict[str, Any] = {"notify_on_gc": bool(figures[7] % 2)}
    summarizer = (None, short, "extractive")[figures[8] % 3]
    reason = list(GCTriggerReason)[figures[9] % len(GCTriggerReason)]
    budget = draw(budgets(history, COUNTER)) if draw(st.booleans()) else None
    usage = None
    if budget is None and draw(st.booleans()):
        total = sum(COUNTER.count_texts([m.text for m in history])) + len(history) * 4
        usage = {"context_limit": total, "percent_used": 85.0}
    return {
        "config": config,
        "options": options,
        "summarizer": summarizer,
        "middle": figures[8] % 4,
        "reason": reason,
        "budget": budget,
        "usage": usage,
    }


@pytest.mark.laws
@pytest.mark.parametrize("strategy", sorted(FACTORIES))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), history=histories())
def test_a_collection_keeps_every_law(
    strategy: str, data: st.DataObject, history: list[Message]
) -> None:
    drawn = data.draw(situations(history))
    options = dict(drawn["options"])
    if strategy in {"gc_summarize", "gc_hybrid"}:
        options["summarizer"] = drawn["summarizer"]
    if strategy == "gc_hybrid":
        options["summarize_middle_turns"] = drawn["middle"]
    plugin = FACTORIES[strategy]()
    assert isinstance(plugin, DrivenPlugin)
    plugin.initialize(options)
    plugin.counter = COUNTER
    check(
        run_collection(
            plugin,
            history,
            drawn["config"],
            budget=drawn["budget"],
            usage=drawn["usage"],
            reason=drawn["reason"],
            options=options,
            counter=COUNTER,
        )
    )
