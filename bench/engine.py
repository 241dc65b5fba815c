"""What the engine costs per step, all but the provider and the tools: part of `make bench`.

A session holds a history of so many messages, in a window that is never full; then one turn makes
STEPS steps of one call each. Measured is the turn without what the provider and the tool took.

memory  the session in memory
logged  the session with its log on disk, as it is by default
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from jaato.events import Event
from jaato.exchange import (
    Finished,
    Request,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolOutput,
    ToolSchema,
    Usage,
)
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.history import FunctionCall, Message, Part, Role
from jaato.session.opening import open_session
from jaato.session.runtime import JaatoRuntime
from jaato.session.settings import SessionSettings
from jaato.testing.agent_session import agent_session

SIZES = (200, 2_000, 20_000)
STEPS = 200
ROUNDS = 5
BUDGET_MS = 2.0
FLAT = 1.2


class Instant:
    """A provider that answers at once, and knows how long it took: a call, until told to stop."""

    name = "instant"
    binds_thoughts = False

    def __init__(self) -> None:
        self.seconds = 0.0
        self.left = 0

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Twenty pieces of text, and a call."""
        del request
        began = time.perf_counter()
        self.left -= 1
        parts = [Part(text="I look at the next one. " * 4)]
        if self.left > 0:
            call = FunctionCall(f"c{self.left}", "look", {"path": f"src/{self.left}.py"})
            parts.append(Part(function_call=call))
        stop = StopReason.TOOL_CALLS if self.left > 0 else StopReason.END
        usage = Usage(input_tokens=None, output_tokens=30)
        end = Finished(Message(Role.MODEL, parts), usage, stop)
        self.seconds += time.perf_counter() - began
        for _ in range(20):
            yield TextDelta("I lo")
        yield end

    async def context_limit(self, model: str) -> int | None:
        """Large enough for everything here."""
        del model
        return 100_000_000

    async def aclose(self) -> None:
        """Nothing is open."""


class Look:
    """A tool that answers at once with some 250 tokens."""

    schema = ToolSchema(name="look", description="Look at a file.")
    discoverable = False
    timeout: float | None = None

    def __init__(self) -> None:
        self.seconds = 0.0

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """The file."""
        began = time.perf_counter()
        path = arguments["path"]
        text = "\n".join(f"{path}:{line} value_{line} = compute({line})" for line in range(18))
        self.seconds += time.perf_counter() - began
        return ToolOutput(result=text)


async def per_step(messages: int, folder: Path | None) -> float:
    """Seconds a step, beyond provider and tool: of the round that was disturbed least."""
    provider, look = Instant(), Look()
    runtime = JaatoRuntime(_no_provider, folder=folder)
    runtime.adopt(provider)
    settings = SessionSettings(
        provider=provider.name,
        model="instant",
        system_instructions="Work.",
        tools=(look,),
        enrichers={"notes": lambda _prompt: "Remember the notes."},
        plugin=load_gc_plugin("gc_budget"),
        gc_config=GCConfig(),
    )
    session = await open_session(runtime, settings)
    session.on(_heard)
    for message in agent_session(messages // 10, steps=4, lines=33):
        session.state.add(message)
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        provider.left, provider.seconds, look.seconds = STEPS, 0.0, 0.0
        began = time.perf_counter()
        await session.asend_message("go on")
        took = time.perf_counter() - began - provider.seconds - look.seconds
        rounds.append(took / STEPS)
    await session.aclose()
    return min(rounds)


def _heard(event: Event) -> None:
    """A listener, as every user interface has one."""


def _no_provider(name: str, _settings: Any) -> Any:
    raise LookupError(name)


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    rows: dict[str, list[float]] = {"memory": [], "logged": []}
    for size in arguments.sizes:
        rows["memory"].append(asyncio.run(per_step(size, None)) * 1e3)
        with tempfile.TemporaryDirectory() as folder:
            rows["logged"].append(asyncio.run(per_step(size, Path(folder))) * 1e3)
    if arguments.json:
        print(json.dumps({"messages": list(arguments.sizes), **rows}))
        return
    print(f"engine, ms a step beyond provider and tool   (<= {BUDGET_MS:g} ms, flat)")
    for name, figures in rows.items():
        shown = "  ".join(
            f"{size:>7,} messages {figure:6.3f}"
            for size, figure in zip(arguments.sizes, figures, strict=True)
        )
        print(f"  {name:<7} {shown}   last / first {figures[-1] / figures[0]:.2f} x")


if __name__ == "__main__":
    main()
