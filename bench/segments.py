"""What the segment engine costs from a thousand segments to a million: `python -m bench.segments`.

add      adding one segment to a full working set, with the incremental step it triggers
analyze  roots, mark, scores, the first 20 candidates
full     a collection down to half of the tokens, planned and carried out
load     a working set from its written form
memory   beyond the texts, per segment

All times are CPU times: the engine waits for nothing, and neighbours on the machine do not count.
Each figure has an exponent against the number of segments: of the largest size and the first.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from jaato.segments import (
    SEGMENT_TYPES,
    ContextSegment,
    Link,
    SegmentConfig,
    WorkingSet,
    analyze,
    carry_out,
    plan_collection,
    plan_step,
)

SIZES = (1_000, 10_000, 100_000)
NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
STEPS = 1_000
BUDGETS = {
    "add_p95_ms": "<= 10 ms at 100k, exponent <= 0.2",
    "analyze_p95_ms": "<= 200 ms at 100k, <= 2 s at 1M, exponent <= 1.1",
    "full_ms": "<= 1 s at 100k, exponent <= 1.1",
    "load_ms": "",
    "bytes_per_segment": "",
}


def project(size: int, seed: int = 1) -> list[ContextSegment]:
    """What an agent would have left behind: tasks of 400 segments, each with its files and tags.

    Two of three segments link to an earlier one: most to one near by, some to any at all, so that
    the current task leads to a good part of everything.
    """
    draw = random.Random(seed)
    return [one_segment(draw, at) for at in range(size)]


def one_segment(draw: random.Random, at: int) -> ContextSegment:
    """The segment that comes at this place."""
    task = at // 400
    kind = draw.choices(SEGMENT_TYPES, weights=(30, 20, 30, 8, 6, 6))[0]
    links = tuple(Link(to=f"s{_earlier(draw, at)}") for _ in range(draw.choice((0, 1, 1))))
    shown = kind == "code" or draw.random() < 0.2
    return ContextSegment(
        segment_id=f"s{at}",
        text="",
        type=kind,
        created_at=NOW + timedelta(seconds=at),
        last_touched_at=NOW + timedelta(seconds=at),
        tokens=draw.randrange(20, 580),
        pinned=draw.random() < 0.01,
        file_path=f"src/part_{task % 997}/file_{draw.randrange(20)}.py" if shown else None,
        tags=(f"bug-{task}-{draw.randrange(30)}",) if draw.random() < 0.3 else (),
        task_id=f"task-{task}",
        links=links,
    )


def _earlier(draw: random.Random, at: int) -> int:
    if draw.random() < 0.15:
        return draw.randrange(at + 1)
    return max(0, at - draw.randrange(1, 60))


def filled(size: int) -> WorkingSet:
    """A working set that grew to this size, its last task the current one."""
    working = WorkingSet(config=SegmentConfig())
    everything = project(size)
    for start in range(0, size, max(size // 10, 100)):
        working.add(everything[start : start + max(size // 10, 100)])
    working.set_task(everything[-1].task_id)
    return working


def seconds(action: Callable[[], object]) -> float:
    """How long it took, once."""
    start = time.process_time()
    action()
    return time.process_time() - start


def adding(working: WorkingSet, size: int) -> list[float]:
    """Each of many adds to a set that is at its soft limit, with its step."""
    working.configure(soft_limit_tokens=working.tokens)
    draw = random.Random(2)
    coming = [one_segment(draw, size + at) for at in range(STEPS)]
    times, taken = [], 0
    for one in coming:
        start = time.process_time()
        working.add([one])
        plan = plan_step(working, now=NOW)
        carry_out(working, plan)
        times.append(time.process_time() - start)
        taken += len(plan.verdicts)
    assert taken
    working.configure(soft_limit_tokens=None)
    return times


def p95(times: list[float]) -> float:
    """The time that one in twenty exceeds."""
    return statistics.quantiles(times, n=20)[-1]


def collecting(working: WorkingSet) -> float:
    """A full collection down to half of the tokens, carried out."""
    target = working.tokens // 2

    def collect() -> None:
        carry_out(working, plan_collection(working, now=NOW, target_tokens=target))

    took = seconds(collect)
    assert working.tokens <= target
    return took


def loading(size: int) -> float:
    """A state read back from its written form."""
    written = filled(size).to_dict()
    gc.collect()
    return seconds(lambda: WorkingSet.from_dict(written))


def measure(size: int) -> dict[str, float]:
    """All figures for one size; of what is done once in a round, the round disturbed least."""
    large = size > 100_000
    analyses, adds, fulls = [], [], []
    for _ in range(1 if large else 3):
        working = filled(size)
        gc.collect()
        analyses += [seconds(partial(analyze, working, now=NOW)) for _ in range(7)]
        adds += adding(working, size)
        fulls.append(collecting(working))
        working = WorkingSet()
    return {
        "segments": size,
        "add_p50_ms": statistics.median(adds) * 1e3,
        "add_p95_ms": p95(adds) * 1e3,
        "add_max_ms": max(adds) * 1e3,
        "analyze_p95_ms": p95(analyses) * 1e3,
        "full_ms": min(fulls) * 1e3,
        "load_ms": math.nan if large else loading(size) * 1e3,
        "bytes_per_segment": math.nan if large else memory(size),
    }


def memory(size: int) -> float:
    """Bytes per segment: values and all that is kept about them, the (empty) texts apart."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    working = filled(size)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(working) == size
    return used / size


def exponent(rows: list[dict[str, float]], figure: str) -> float:
    """How a figure grows with the number of segments: 0 not at all, 1 in proportion."""
    known = [row for row in rows if not math.isnan(row[figure])]
    first, last = known[0], known[-1]
    if first is last:
        return math.nan
    return math.log(last[figure] / first[figure]) / math.log(last["segments"] / first["segments"])


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = [measure(size) for size in arguments.sizes]
    if arguments.json:
        print(json.dumps(rows))
        return
    print("segment engine".ljust(20) + "".join(f"{row['segments']:>12,}" for row in rows))
    for figure in rows[0]:
        if figure == "segments":
            continue
        shown = "".join(f"{row[figure]:>12.2f}" for row in rows)
        grows = exponent(rows, figure)
        print(f"{figure:<20}{shown}   n^{grows:.2f}   {BUDGETS.get(figure, '')}")


if __name__ == "__main__":
    main()
