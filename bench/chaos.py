"""Five hundred sessions, each with a fault at a random point: part of `make soak`.

Faults: a stream that breaks off, 429, 500, a context limit out of the blue, a tool that takes too
long, callbacks that raise, and the process killed and its session resumed. What must hold in each:
the history stays legal and the budget equal to a fresh count, every request is taken by the rules
of a real API, nothing that was acknowledged is lost, no call is made twice, and the work goes on.

A process is killed by itself, with SIGKILL: in the middle of the n-th write (a line is torn), or as
the n-th event is told.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.busy_agent import BusyAgent, opened, prompt
from bench.endurance import differences

from jaato.errors import JaatoError
from jaato.events import Event, ModelCallEnded, ModelCallStarted, TurnEnded
from jaato.exchange import RejectedError
from jaato.history import Message, violations
from jaato.providers.scripted import Fault, FaultKind, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.journal import journal_path, read_journal
from jaato.session.record import Added

RUNS: Final = 500
TURNS: Final = (9, 14, 6)
WINDOW: Final = 16_384
RULES: Final = ("openai", "anthropic", "google")
STRATEGIES: Final = ("gc_budget", "gc_truncate", "gc_summarize", "gc_hybrid")
FAULTS: Final = ("break", "429", "500", "context", "slow tool", "callback", "kill", "kill in write")
_ATTEMPTS: Final = 8
_SESSION: Final = "busy"


@dataclass(frozen=True)
class Case:
    """One run, by its seed."""

    seed: int

    @property
    def chance(self) -> random.Random:
        """The same numbers each time."""
        return random.Random(self.seed)

    @property
    def fault(self) -> str:
        """What happens."""
        return FAULTS[self.seed % len(FAULTS)]

    @property
    def rules(self) -> Any:
        """Whose rules hold."""
        return RULES[self.seed // len(FAULTS) % len(RULES)]

    @property
    def strategy(self) -> str:
        """Who collects."""
        return self.chance.choice(STRATEGIES)

    def provider(self, agent: BusyAgent, *, faulty: bool = True) -> ScriptedProvider:
        """The provider, which fails at one call, or at a few in a row."""
        kinds = {
            "break": FaultKind.NETWORK,
            "429": FaultKind.RATE_LIMIT,
            "500": FaultKind.SERVER,
            "context": FaultKind.CONTEXT_LIMIT,
        }
        kind = kinds.get(self.fault) if faulty else None
        chance = self.chance
        first, times, after = chance.randrange(1, 34), chance.choice((1, 1, 2, 4)), 0
        if kind is FaultKind.NETWORK:
            after = chance.randrange(6)
        # The model counts more than anybody thought, or has a smaller window.
        window = chance.choice((WINDOW, WINDOW * 3 // 4))

        def faults(call: int) -> Fault | None:
            if kind is None or not first <= call < first + times:
                return None
            return Fault(kind=kind, after_events=after, retry_after=0.0, window=window)

        return ScriptedProvider(agent, rules=self.rules, window=WINDOW, faults=faults)


class Watch:
    """What was acknowledged: a message is once a request holds it, or the turn is over."""

    def __init__(self, session: JaatoSession, tell: Callable[[str], None]) -> None:
        self._session = session
        self._told: set[str] = set()
        self._tell = tell
        self.rejected: list[str] = []

    def __call__(self, event: Event) -> None:
        """Hear every event."""
        if isinstance(event, ModelCallEnded) and (event.error or "").startswith(
            RejectedError.__name__
        ):
            self.rejected.append(str(event.error))
        if event.agent_id == "main" and isinstance(event, ModelCallStarted | TurnEnded):
            for message in self._session.get_history():
                if message.message_id not in self._told:
                    self._told.add(message.message_id)
                    self._tell(message.message_id)


def main_case(seed: int, folder: Path) -> list[str]:
    """The breaches of one run."""
    case = Case(seed)
    if case.fault.startswith("kill"):
        return killed(case, folder)
    return asyncio.run(within(case, folder))


async def within(case: Case, folder: Path) -> list[str]:
    """A fault inside the process."""
    ran: Counter[str] = Counter()
    agent = BusyAgent(case.seed, ran=lambda key: ran.update([key]))
    acknowledged: list[str] = []
    session = await opened(agent, case.provider(agent), folder, strategy=case.strategy)
    watch = Watch(session, acknowledged.append)
    session.on(watch)
    callback = None
    if case.fault == "callback":
        callback = raising(case.chance)
        session.on(callback)
        session.on_instruction_budget_updated(callback)
        session.add_enrichment("broken", callback)
    for number, steps in enumerate(TURNS):
        await worked(session, prompt(steps, number), callback)
        found = legal(session)
        if found:
            return found
    found = [f"{key} ran {times} times" for key, times in ran.items() if times > 1]
    found += [f"rejected: {one}" for one in watch.rejected]
    await session.aclose()
    return found + lost(folder, acknowledged)


async def worked(session: JaatoSession, text: str, callback: Any = None) -> None:
    """A turn to its end, whatever happens on the way."""
    attempt: Callable[[], Any] = partial(session.asend_message, text, callback, callback)
    for _ in range(_ATTEMPTS):
        try:
            await attempt()
        except JaatoError:
            attempt = session.acontinue_turn
        else:
            return
    raise RuntimeError("the turn did not end")


def raising(chance: random.Random) -> Callable[..., str]:
    """A callback that raises now and then."""

    def callback(*_: Any) -> str:
        if chance.random() < 0.3:
            raise chance.choice((ValueError, KeyError, RuntimeError))("from a callback")
        return ""

    return callback


def legal(session: JaatoSession) -> list[str]:
    """What is wrong with the history and the budget."""
    history = session.get_history()
    found = [str(one) for one in violations(history)] + differences(session)
    if history[0].text != prompt(TURNS[0], 0):
        found.append("the original request is gone")
    return found


def lost(folder: Path, acknowledged: Sequence[str]) -> list[str]:
    """What was acknowledged and is not in the log."""
    written = read_journal(journal_path(folder, _SESSION))
    there = {
        record.message.message_id for record, _, _ in written.records if isinstance(record, Added)
    }
    for record, _, _ in written.records:
        for piece in getattr(record, "pieces", ()):
            if isinstance(piece, Message):
                there.add(piece.message_id)
    return [
        f"message {one} was acknowledged and is lost" for one in acknowledged if one not in there
    ]


def killed(case: Case, folder: Path) -> list[str]:
    """The process dies, perhaps more than once; then its session is resumed and works on."""
    said, ran = folder / "said", folder / "ran"
    chance = case.chance
    for life in range(chance.choice((1, 1, 2, 3))):
        command = [sys.executable, "-m", "bench.chaos", "--child", str(folder), "--seed"]
        command += [str(case.seed), "--life", str(life)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- this file
        if done.returncode not in {0, -signal.SIGKILL}:
            return [f"the process ended with {done.returncode}: {done.stderr[-500:]}"]
        if done.returncode == 0:
            break
    calls = Counter(ran.read_text(encoding="utf-8").splitlines() if ran.exists() else ())
    found = [f"{key} ran {times} times" for key, times in calls.items() if times > 1]
    if not journal_path(folder, _SESSION).exists():
        return found
    told = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    found += asyncio.run(_resumed(case, folder))
    return found + lost(folder, [one for one in told if one])


async def _resumed(case: Case, folder: Path) -> list[str]:
    agent = BusyAgent(case.seed)
    provider = case.provider(agent, faulty=False)
    try:
        session = await opened(agent, provider, folder, resume=True, strategy=case.strategy)
    except JaatoError as error:
        # Killed before the session was told of: its first line was never whole.
        empty = not read_journal(journal_path(folder, _SESSION)).records
        return [] if empty else [f"it cannot be resumed: {error}"]
    watch = Watch(session, lambda _: None)
    session.on(watch)
    if session.get_history():
        await worked_on(session)
        found = legal(session)
    else:
        found = []
    await session.asend_message(prompt(5, 99))
    found += [f"rejected: {one}" for one in watch.rejected]
    await session.aclose()
    return found


async def worked_on(session: JaatoSession) -> None:
    """The turn that was cut off, to its end."""
    for _ in range(_ATTEMPTS):
        with suppress(JaatoError):
            await session.acontinue_turn()
            return
    raise RuntimeError("the turn did not end")


class Doomed:
    """The process that kills itself, and tells what it did in files that outlive it."""

    def __init__(self, case: Case, folder: Path, life: int) -> None:
        self._case, self._folder = case, folder
        self._chance = random.Random(f"{case.seed} {life}")
        self._left = self._chance.randrange(1, 160)
        self._said, self._effects = (self._opened(name) for name in ("said", "ran"))
        self._write = os.write

    async def work(self) -> None:
        """As far as it comes."""
        case, folder = self._case, self._folder
        agent = BusyAgent(case.seed, ran=lambda key: self._note(self._effects, key))
        exists = journal_path(folder, _SESSION).exists()
        provider = case.provider(agent, faulty=False)
        session = await opened(agent, provider, folder, resume=exists, strategy=case.strategy)
        session.on(Watch(session, lambda message: self._note(self._said, message)))
        if case.fault == "kill":
            session.on(self._hear)
        else:
            os.write = self._torn  # A write that is cut off cannot be had otherwise.
        if exists and session.get_history():
            await worked_on(session)
        done = sum(message.opens_turn for message in session.get_history())
        for number, steps in list(enumerate(TURNS))[done:]:
            await session.asend_message(prompt(steps, number))
        await session.aclose()

    def _opened(self, name: str) -> int:
        return os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _note(self, descriptor: int, line: str) -> None:
        self._write(descriptor, f"{line}\n".encode())

    def _is_time(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def _hear(self, _event: Event) -> None:
        if self._is_time():
            os.kill(os.getpid(), signal.SIGKILL)

    def _torn(self, descriptor: int, data: Any) -> int:
        if len(data) > 40 and self._is_time():
            self._write(descriptor, data[: self._chance.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        return self._write(descriptor, data)


def one(seed: int) -> list[str]:
    """A run in a folder of its own."""
    logging.disable(logging.CRITICAL)  # Each callback that raises is reported; that is not asked.
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = main_case(seed, Path(folder))
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
            found = [f"{type(error).__name__}: {error}"]
    case = Case(seed)
    return [f"seed {seed} ({case.fault}, {case.rules}, {case.strategy}): {what}" for what in found]


def main() -> int:
    """Run all, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path)
    parser.add_argument("--life", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.child is not None:
        asyncio.run(Doomed(Case(arguments.seed), arguments.child, arguments.life).work())
        return 0
    began, breaches = time.perf_counter(), 0
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(one, seeds):
            breaches += bool(found)
            for what in found[:3]:
                print(what[:600], flush=True)
    took = time.perf_counter() - began
    counts = Counter(Case(seed).fault for seed in seeds)
    print(f"{len(seeds)} runs in {took:.0f} s, {dict(counts)}: {breaches} with a breach")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
