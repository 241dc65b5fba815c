"""A short run of `make soak`'s endurance: what must hold there at ten thousand steps, at 400."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from bench.endurance import breaches, run

from jaato.session.journal import journal_path, read_journal

STEPS = 400


@pytest.mark.parametrize("rules", ["openai", "anthropic", "google"])
def test_a_long_session_is_never_refused_and_its_budget_stays_exact(
    rules: str, tmp_path: Path
) -> None:
    async def go() -> None:
        session, seen = await run(STEPS, rules, "gc_budget", tmp_path)
        assert breaches(session, seen) == []
        assert seen.steps >= STEPS
        # Else it was no test of a collector, nor of the tools that go wrong.
        for kind in ("Collected", "ResultShortened", "SubagentEnded", "tool errors"):
            assert seen.events[kind], kind
        await session.aclose()

    asyncio.run(go())
    for log in tmp_path.glob("*.jsonl"):
        assert read_journal(log).torn == 0
    assert journal_path(tmp_path, "busy").exists()
