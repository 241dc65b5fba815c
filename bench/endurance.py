"""Ten thousand steps in one session on a 32 K window: part of `make soak`.

With parallel calls, large results, errors and subagents, under the rules of a real API. What must
hold: no request refused, no overflow, a budget that equals a fresh count, memory that stays where
it was once the window was full, and a step that takes no longer at the end than in the beginning.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.busy_agent import BusyAgent, opened, prompt

from jaato.budget import InstructionSource
from jaato.events import Event, ModelCallEnded, ModelCallStarted, SubagentEnded, ToolEnded
from jaato.history import violations
from jaato.history.codec import from_dict, to_dict
from jaato.providers.scripted import ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.tokens import default_counter, message_tokens

STEPS: Final = 10_000
WINDOW: Final = 32_768
SHARE: Final = 10
"""The first and the last tenth are compared."""
LONGEST_TURN: Final = 50
FLAT: Final = 1.2
MEMORY_FLAT: Final = 1.1
STASH_BYTES: Final = 400
"""What a stash may hold in memory of each record: it grows for as long as a session goes on."""


@dataclass
class Seen:
    """What was observed."""

    steps: int = 0
    original: str = ""
    refused: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    peak: float = 0.0
    resident: dict[int, float] = field(default_factory=dict)
    objects: dict[int, int] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Every event of the session and of its subagents."""
        self.events[type(event).__name__] += 1
        if isinstance(event, ModelCallEnded):
            if event.error:
                self.refused.append(event.error)
            elif event.agent_id == "main":
                self.steps += 1
                self.times.append(time.perf_counter())
        elif isinstance(event, ModelCallStarted):
            self.peak = max(self.peak, event.tokens / WINDOW)
        elif isinstance(event, ToolEnded) and event.is_error:
            self.events["tool errors"] += 1
        elif isinstance(event, SubagentEnded) and event.error:
            self.refused.append(f"subagent: {event.error}")


async def run(
    steps: int, rules: str, strategy: str, folder: Path, seed: int = 0
) -> tuple[JaatoSession, Seen]:
    """The session at its end, and what was seen on the way."""
    agent, seen, chance = BusyAgent(seed), Seen(), random.Random(seed)
    provider: Any = ScriptedProvider(agent, rules=rules, window=WINDOW, chunk_chars=200)  # type: ignore[arg-type]
    session = await opened(agent, provider, folder, strategy=strategy)
    session.on(seen.hear)
    number, marks = 0, [steps * at // 10 for at in range(1, 11)]
    while seen.steps < steps:
        wanted = min(chance.randrange(1, LONGEST_TURN), max(steps - seen.steps - 1, 1))
        request = prompt(wanted, number)
        seen.original = seen.original or request
        await session.asend_message(request)
        number += 1
        while marks and seen.steps >= marks[0]:
            gc.collect()
            seen.resident[marks[0]] = resident_mb()
            seen.objects[marks[0]] = len(gc.get_objects())
            marks.pop(0)
    return session, seen


def resident_mb() -> float:
    """The memory of this process, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def differences(session: JaatoSession) -> list[str]:
    """Where the budget is not what a fresh count finds; nothing where it is."""
    counter = default_counter()
    budget, window = session.instruction_budget, session.state.window
    fresh = {
        InstructionSource.CONVERSATION: sum(
            message_tokens(counter, from_dict(to_dict(message)))
            for message in session.get_history()
        ),
        InstructionSource.SYSTEM: sum(counter.count_texts(list(window.system.values()))),
        InstructionSource.ENRICHMENT: sum(counter.count_texts(list(window.enrichment.values()))),
        InstructionSource.PLUGIN: sum(
            session.catalogue.schema_tokens(counter)[schema.name]
            for schema in session.catalogue.offered()
        ),
    }
    found = []
    for source, tokens in fresh.items():
        entry = budget.get_entry(source)
        held = entry.total_tokens() if entry is not None else 0
        if held != tokens:
            found.append(f"{source.value}: the budget says {held}, a fresh count {tokens}")
    found += [str(one) for one in violations(session.get_history())]
    return found


def slowdown(times: list[float]) -> float:
    """How much longer the last steps took than the first."""
    share = len(times) // SHARE
    return (times[-1] - times[-1 - share]) / (times[share] - times[0])


def breaches(session: JaatoSession, seen: Seen) -> list[str]:
    """What must hold and did not; time and memory are told apart, since they vary."""
    found = differences(session)
    found += [f"refused: {one}" for one in seen.refused]
    if seen.peak > 1:
        found.append(f"a request of {seen.peak:.0%} of the window was sent")
    original = session.get_history()[0].text
    if original != seen.original:
        found.append(f"the original request is gone: {original[:80]!r}")
    return found


def main() -> int:
    """Run, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rules", default="openai", choices=("openai", "anthropic", "google"))
    parser.add_argument("--strategy", default="gc_budget")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        session, seen = asyncio.run(
            run(
                arguments.steps,
                arguments.rules,
                arguments.strategy,
                Path(folder),
                arguments.seed,
            )
        )
        took = time.perf_counter() - began
        log = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
        found = breaches(session, seen)
        stash = session.runtime.stash
        records = 0 if stash is None else len(stash.entries())
        session.close()
    full = sorted(seen.resident)[1]
    last = seen.resident[arguments.steps // 10 * 10]
    # The first fifth of the records were there when the window was full.
    index = records * 0.8 * STASH_BYTES / 1e6
    grown = (last - index) / seen.resident[full]
    slower = slowdown(seen.times)
    print(f"{seen.steps:,} steps in {took:.0f} s; {dict(seen.events)}")
    print(f"refused {len(seen.refused)}, peak {seen.peak:.1%} of the window, log {log:.0f} MB")
    print("resident MB:", {at: round(mb) for at, mb in seen.resident.items()})
    print("objects:", seen.objects)
    print(f"memory from {full:,} steps on: {last / seen.resident[full]:.2f} x")
    print(
        f"  without the index of the stash ({records:,} records, {STASH_BYTES} bytes each): "
        f"{grown:.2f} x   (<= {MEMORY_FLAT} x)"
    )
    print(f"last tenth against first: {slower:.2f} x a step   (<= {FLAT} x)")
    for one in found:
        print("BREACH", one)
    return 1 if found or slower > FLAT or grown > MEMORY_FLAT else 0


if __name__ == "__main__":
    sys.exit(main())
