"""The laws over very many generated histories: `make soak`.

Each history goes through every registered strategy under a configuration of its own, with and
without a budget. A breach is printed with the seed that shows it again (`--seed N --count 1`).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.protocol import GCPlugin
from jaato.gc.registry import discover_gc_plugins
from jaato.gc.result import GCTriggerReason
from jaato.testing import WordCounter, budget_of, check, random_history, run_collection
from jaato.tokens import history_tokens

COUNT = 200_000
BATCH = 500
COUNTER = WordCounter()
SUMMARIZERS = (None, lambda _text: "what was done", "extractive")
PRESSURES = (0.0, 30.0, 90.0)


@cache
def factories() -> dict[str, Callable[[], GCPlugin]]:
    """The registered plug-ins, looked up once: finding them takes longer than a collection."""
    return discover_gc_plugins()


def one(seed: int, strategy: str) -> str | None:
    """The breach that a seed shows, or None."""
    chance = random.Random(seed)
    history = random_history(chance)
    config = GCConfig(
        threshold_percent=80.0,
        target_percent=float(chance.randrange(80)),
        pressure_percent=chance.choice(PRESSURES),
        preserve_recent_turns=chance.randrange(5),
        preserve_recent_steps=chance.randrange(5),
        pinned_turn_indices=chance.sample(range(10), chance.randrange(3)),
        min_free_percent=chance.choice((0.0, 0.0, 5.0)),
        max_turns=chance.choice((None, 1, 3, 8)),
    )
    options: dict[str, Any] = {"notify_on_gc": chance.random() < 0.5}
    if strategy in {"gc_summarize", "gc_hybrid"}:
        options["summarizer"] = chance.choice(SUMMARIZERS)
    if strategy == "gc_hybrid":
        options["summarize_middle_turns"] = chance.randrange(5)
    budget, usage = None, None
    kind = chance.randrange(3)
    if kind == 0:
        budget = budget_of(history, COUNTER, tape=chance.randbytes(8))
    elif kind == 1:
        limit = max(history_tokens(COUNTER, history), 1)
        usage = {"context_limit": limit, "percent_used": chance.choice((50.0, 85.0, 99.0))}
    plugin = factories()[strategy]()
    assert isinstance(plugin, DrivenPlugin)
    plugin.initialize(options)
    plugin.counter = COUNTER
    try:
        check(
            run_collection(
                plugin,
                history,
                config,
                budget=budget,
                usage=usage,
                reason=chance.choice(list(GCTriggerReason)),
                options=options,
                counter=COUNTER,
            )
        )
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
        return f"seed {seed}, {strategy}: {type(error).__name__}: {error}"
    return None


def batch(start: int, stop: int) -> list[str]:
    """The breaches of a range of seeds."""
    found = []
    for seed in range(start, stop):
        for strategy in sorted(factories()):
            breach = one(seed, strategy)
            if breach:
                found.append(breach)
    return found


def main() -> int:
    """Run the batches over all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="histories, each per strategy")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    first, last = arguments.seed, arguments.seed + arguments.count
    ranges = [(at, min(at + BATCH, last)) for at in range(first, last, BATCH)]
    began, breaches = time.perf_counter(), 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, found in enumerate(pool.map(batch, *zip(*ranges, strict=True)), start=1):
            for breach in found[: max(20 - breaches, 0)]:
                print(breach, flush=True)
            breaches += len(found)
            if done % 20 == 0 or done == len(ranges):
                print(
                    f"{min(done * BATCH, arguments.count):,} histories, {breaches} breaches, "
                    f"{time.perf_counter() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    strategies = len(factories())
    print(
        f"{arguments.count:,} histories x {strategies} strategies = "
        f"{arguments.count * strategies:,} collections: {breaches} breaches"
    )
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
