"""What reading and changing a budget costs, counted in calls and bytes, without a clock."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import pytest

from jaato.budget import InstructionBudget, InstructionSource
from jaato.budget.conversation import budget_for, forget, locate, shrink, track
from jaato.history import Message, Part

CONVERSATION = InstructionSource.CONVERSATION


def calls(act: Callable[[], object]) -> int:
    """How many functions an action calls, Python's and C's: its cost,"""
    count = 0

    def look(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def message(role: str) -> Message:
    return Message(role, (Part(text="x"),))


def long_budget(messages: int) -> InstructionBudget:
    made = [
        Message("model" if at % 10 else "user", (Part(text="x"),), f"id{at}")
        for at in range(messages)
    ]
    return budget_for(made, [250] * messages, context_limit=10**6)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda b: track(b, message("model"), 5), id="track"),
        pytest.param(lambda b: track(b, message("user"), 5), id="track a new turn"),
        pytest.param(lambda b: locate(b, "id55"), id="locate"),
        pytest.param(lambda b: locate(b, "nowhere"), id="locate what is not there"),
        pytest.param(lambda b: shrink(b, "id55", 3), id="shrink"),
        pytest.param(lambda b: forget(b, ["id55"]), id="forget"),
        pytest.param(lambda b: b.utilization_percent(), id="utilization"),
        pytest.param(lambda b: b.gc_headroom_percent(), id="headroom"),
        pytest.param(lambda b: b.remove_child(CONVERSATION, "turn_3/m32"), id="remove_child"),
        pytest.param(lambda b: b.add_child(CONVERSATION, "turn_3/x", 5), id="add_child"),
    ],
)
def test_costs_do_not_grow_with_the_session(act: Callable[[InstructionBudget], object]) -> None:
    costs = []
    for size in (100, 3000):
        budget = long_budget(size)
        locate(budget, "id0")
        costs.append(calls(lambda budget=budget: act(budget)))  # type: ignore[misc]  # bound now
    assert costs[0] == costs[1]
    assert costs[0] < 120


def test_forgetting_many_costs_little_for_each() -> None:
    budget = long_budget(3000)
    locate(budget, "id0")
    assert calls(lambda: forget(budget, [f"id{at}" for at in range(1000)])) < 5 * 1000


@pytest.mark.parametrize("step", [1, -1], ids=["in order", "backwards"])
def test_forgetting_a_part_of_one_long_turn_costs_little_for_each(step: int) -> None:
    made = [Message("model", (Part(text="x"),), f"id{at}") for at in range(3000)]
    budget = budget_for(made, [250] * 3000)
    leaving = [f"id{at}" for at in range(1, 3000)][::step]
    assert calls(lambda: forget(budget, leaving)) < 20 * 3000


def test_memory_per_message() -> None:
    messages = [Message("model" if at % 10 else "user", (Part(text="x"),)) for at in range(2000)]
    counts = [1000 + at for at in range(2000)]
    tracemalloc.start()
    try:
        budget = budget_for(messages, counts)
        locate(budget, messages[0].message_id)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / 2000 <= 600
