"""What the collector costs, as ratios within one run: `make bench`.

floor    a bare list copy plus one comparison per message (of its count), on the same history
usage    reading the usage of a budget and asking should_collect
add      adding one message, its tokens known, to history and budget
collect  from 85 % to 60 % of the window, and settling the budget
memory   beyond the messages themselves, per message
import   `import jaato` above bare Python
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from jaato.budget import InstructionBudget
from jaato.budget.conversation import budget_for, track
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import Message, Part, Role
from jaato.testing.agent_session import agent_session
from jaato.tokens import count_messages, default_counter

SIZES = (100, 1_000, 10_000, 100_000)
STRATEGIES = ("gc_truncate", "gc_hybrid", "gc_summarize", "gc_budget")
BUDGETS = {
    "usage": "<= 10 us, flat",
    "add": "flat",
    "collect": "<= 10 x floor",
    "memory": "<= 1 KB a message",
    "import": "<= 100 ms",
}


def best(action: Callable[[], object], *, repeats: int = 7) -> float:
    """The shortest of several runs, in seconds: the one that was disturbed least."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def session(messages: int) -> list[Message]:
    """A history of so many messages of about 250 tokens: requests, calls, results, answers."""
    return agent_session(messages // 10, steps=4, lines=33)[:messages]


def usage_of(budget: InstructionBudget) -> dict[str, Any]:
    """What a session passes to `should_collect`."""
    return {
        "context_limit": budget.context_limit,
        "total_tokens": budget.total_tokens(),
        "percent_used": budget.utilization_percent(),
        "tokens_remaining": budget.available_tokens(),
    }


def floor(history: list[Message], tokens: list[int]) -> float:
    """The least anyone could do: copy, and look at one number per message."""

    def scan() -> list[Message]:
        return [message for message, count in zip(list(history), tokens, strict=True) if count >= 0]

    return best(scan)


def measure(size: int) -> dict[str, Any]:
    """All figures for one size."""
    counter = default_counter()
    history = session(size)
    counts = count_messages(counter, history)
    total = sum(counts)
    limit = int(total / 0.85)
    base = floor(history, counts)
    row: dict[str, Any] = {
        "messages": len(history),
        "tokens": total,
        "tokens_per_message": round(total / len(history)),
        "floor_ms": base * 1e3,
    }

    budget = budget_for(history, counts, session_id="bench", context_limit=limit)
    config = GCConfig(threshold_percent=80.0, target_percent=60.0, min_free_percent=0.0)
    plugin = load_gc_plugin("gc_budget")
    rounds = 2_000

    def ask() -> None:
        for _ in range(rounds):
            plugin.should_collect(usage_of(budget), config)

    row["usage_us"] = best(ask) / rounds * 1e6
    # Every message is new: tracking one twice is another thing, and slower.
    batches = [[Message(Role.MODEL, [Part(text="x")]) for _ in range(rounds)] for _ in range(7)]
    grown, messages = budget_for(history, counts, context_limit=limit), list(history)

    def add() -> None:
        for message in batches.pop():
            messages.append(message)
            track(grown, message, 5)

    row["add_us"] = best(add, repeats=len(batches)) / rounds * 1e6

    for name in STRATEGIES:
        options = {"summarizer": _short} if name in {"gc_summarize", "gc_hybrid"} else {}
        row[name] = _collect(name, options, history, counts, limit, config, base)
    return row


def _short(_conversation: str) -> str:
    """A summarizer that costs nothing, so that only the collector is timed."""
    return "What was done so far."


def _collect(
    name: str,
    options: dict[str, Any],
    history: list[Message],
    counts: list[int],
    limit: int,
    config: GCConfig,
    base: float,
) -> dict[str, float]:
    plugin = load_gc_plugin(name, options)
    times, settling = [], []
    counter = default_counter()
    for _ in range(5 if len(history) > 50_000 else 25):
        budget = budget_for(history, counts, session_id="bench", context_limit=limit)
        usage = usage_of(budget)
        gc.collect()
        start = time.perf_counter()
        after, result = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD, budget)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        settle(budget, result, history, after, counter)
        settling.append(time.perf_counter() - start)
        assert result.success
        assert budget.total_tokens() == result.tokens_after
        assert budget.utilization_percent() <= 60.0
    return {
        "collect_x_floor": min(times) / base,
        "settle_x_floor": min(settling) / base,
        "total_x_floor": (min(times) + min(settling)) / base,
        "ms": (min(times) + min(settling)) * 1e3,
        "items": result.items_collected,
    }


def memory(size: int) -> float:
    """Bytes that history and budget need per message, beyond the messages."""
    counter = default_counter()
    history = session(size)
    counts = count_messages(counter, history)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    budget = budget_for(history, counts, session_id="memory", context_limit=1_000_000)
    messages = list(history)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(messages) == size
    assert budget.total_tokens() == sum(counts)
    return used / size


def import_ms() -> tuple[float, list[str]]:
    """How long `import jaato` takes above bare Python, and which edges it loads."""

    def run(code: str) -> float:
        times = []
        for _ in range(9):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 -- our own code
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    edges = "splintr tiktoken hypothesis numpy pydantic textual openai anthropic google".split()  # noqa: SIM905 -- reads as a sentence
    code = f"import jaato, sys; print(*[m for m in {edges!r} if m in sys.modules])"
    loaded = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    return (run("import jaato") - run("pass")) * 1e3, loaded


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    rows = [measure(size) for size in arguments.sizes]
    per_message = memory(10_000)
    took, loaded = import_ms()
    if arguments.json:
        print(json.dumps({"rows": rows, "bytes_per_message": per_message, "import_ms": took}))
        return
    for row in rows:
        print(
            f"\n{row['messages']:,} messages, {row['tokens']:,} tokens "
            f"({row['tokens_per_message']} each); floor {row['floor_ms']:.3f} ms"
        )
        print(f"  usage + should_collect {row['usage_us']:6.2f} us   ({BUDGETS['usage']})")
        print(f"  add a message          {row['add_us']:6.2f} us   ({BUDGETS['add']})")
        for name in STRATEGIES:
            one = row[name]
            print(
                f"  {name:<13} {one['collect_x_floor']:6.1f} x floor"
                f" + settle {one['settle_x_floor']:5.1f} x"
                f"  = {one['ms']:8.2f} ms, {one['items']} items   ({BUDGETS['collect']})"
            )
    print(f"\nmemory beyond the messages: {per_message:.0f} bytes each   ({BUDGETS['memory']})")
    print(f"import jaato: {took:.1f} ms above bare Python   ({BUDGETS['import']})")
    print(f"edges loaded by it: {loaded or 'none'}")


if __name__ == "__main__":
    main()
