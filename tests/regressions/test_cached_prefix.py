"""What a result says of the prompt cache is what a provider will find; nothing is a guess."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.budget import InstructionSource
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.history import Message
from jaato.testing import WordCounter, budgets, histories, usage_of

COUNTER = WordCounter()
FRONT = {InstructionSource.SYSTEM, InstructionSource.PLUGIN}


@pytest.mark.laws
@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), history=histories(max_turns=6, max_messages=80))
def test_the_edit_point_is_where_the_first_message_differs(
    strategy: str, data: st.DataObject, history: list[Message]
) -> None:
    budget = data.draw(budgets(history, COUNTER))
    options = {"summarizer": "extractive"} if strategy in {"gc_summarize", "gc_hybrid"} else {}
    plugin = load_gc_plugin(strategy, {"notify_on_gc": data.draw(st.booleans()), **options})
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = COUNTER
    reason = data.draw(st.sampled_from(GCTriggerReason))
    config = GCConfig(preserve_recent_turns=data.draw(st.integers(1, 2)))
    after, result = plugin.collect(history, usage_of(budget), config, reason, budget)
    point = result.details.get("edit_point")
    if after == history:
        # Nothing, or what stands in front of every message, or what is sent behind them all.
        assert point in {0, None}
        return
    same = next(at for at in count() if after[at : at + 1] != history[at : at + 1])
    front = any(item.source in FRONT for item in result.removal_list)
    assert point == (0 if front else same)
    assert result.details["thoughts_invalidated"] == sum(one.thoughts for one in after[point:])
