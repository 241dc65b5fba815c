"""An agent that does all that a session must survive. Decides by what it is sent, and a seed.

A prompt says how many steps a turn has ("work for 12 steps"). A step makes parallel calls with
small, large and far too large results, failing tools, unknown ones and ones that take too long; it
writes long arguments, thinks, spawns subagents, looks for tools, and calls back what left.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.history import FunctionCall, Message, Role
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.opening import open_session, resume_session
from jaato.session.runtime import JaatoRuntime
from jaato.session.settings import SessionSettings
from jaato.tokens import as_text
from jaato.tools.callables import tool
from jaato.tools.intake import as_tools
from jaato.wiring import open_stash

_STEPS: Final = re.compile(r"work for (\d+) steps")
_HANDLE: Final = re.compile(r'recall\("(\w+)"\)')
_CHILD_STEPS: Final = 4
_TOO_LONG_SECONDS: Final = 0.01

Ran = Callable[[str], None]
"""Is told the key of each call that has its effect."""


def prompt(steps: int, number: int = 0) -> str:
    """A prompt for a turn of so many steps."""
    return f"Request {number}: work for {steps} steps, and remember marker_{number}_{steps}."


class BusyAgent:
    """The script of the provider, and the tools that it calls."""

    def __init__(self, seed: int = 0, *, ran: Ran | None = None) -> None:
        self._seed = seed
        self._ran = ran

    def __call__(self, request: Request) -> Reply:
        """The next step, by nothing but the conversation."""
        turn = _present_turn(request.messages)
        task = turn[0].text if turn else ""
        wanted = _STEPS.search(task)
        at = sum(message.role is Role.MODEL for message in turn)
        if wanted is None or at >= int(wanted[1]):
            return Reply(text=f"Done after {at} steps.")
        # Short, since it stands in every call, and each call's own.
        key = f"{_tag(task)}.{at}"
        chance = random.Random(f"{self._seed} {key}")
        offered = {schema.name for schema in request.tools}
        is_child = task.startswith("Child")
        calls = [
            FunctionCall(f"call_{at}_{n}", name, arguments)
            for n, (name, arguments) in enumerate(
                self._wanted(chance, key, turn, offered, is_child=is_child)
            )
        ]
        thought = f"I wonder about part {at}." if chance.random() < 0.5 else ""
        return Reply(text=f"Step {at}.", thought=thought, calls=tuple(calls))

    def tools(self) -> list[Any]:
        """What it calls."""
        ran = self._ran

        def told(key: str) -> None:
            if ran is not None:
                ran(key)

        def read(path: str, lines: int, key: str) -> str:
            """Read a file."""
            told(key)
            return "\n".join(
                f"{path}:{at} value_{at * 7919 % 997} = compute({at})" for at in range(lines)
            )

        def write(path: str, text: str, key: str) -> dict[str, Any]:
            """Write a file."""
            told(key)
            return {"path": path, "written": len(text)}

        def fail(key: str) -> str:
            """Fail, always."""
            told(key)
            raise LookupError(f"nothing is known of {key}")

        async def wait(key: str) -> str:
            """Take longer than there is time."""
            told(key)
            await asyncio.sleep(60)
            return "never"

        def weigh(path: str, key: str) -> int:
            """Weigh a file."""
            told(key)
            return len(path)

        return [
            read,
            write,
            fail,
            tool(wait, timeout=_TOO_LONG_SECONDS),
            tool(weigh, discoverable=True),
        ]

    def _wanted(
        self,
        chance: random.Random,
        key: str,
        turn: list[Message],
        offered: set[str],
        *,
        is_child: bool,
    ) -> list[tuple[str, dict[str, Any]]]:
        choice = chance.random()
        if choice < 0.02 and not is_child and "spawn_subagent" in offered:
            task = f"Child of {key}: work for {_CHILD_STEPS} steps."
            return [("spawn_subagent", {"task": task})]
        if choice < 0.06:
            wrong = [("no_such_tool", {"key": key})]
            late = [("wait", {"key": f"{key} wait"}), ("fail", {"key": f"{key} fail"})]
            return wrong if choice < 0.04 else late
        if choice < 0.10:
            if "weigh" in offered:
                return [("weigh", {"path": "a/b.py", "key": f"{key} weigh"})]
            return [("find_tools", {"query": "weigh a file"})]
        if choice < 0.15:
            handle = _last_handle(turn)
            if handle is not None:
                return [("recall", {"handle": handle})]
        return self._work(chance, choice, key)

    @staticmethod
    def _work(chance: random.Random, choice: float, key: str) -> list[tuple[str, dict[str, Any]]]:
        """Files written and read, as in most steps."""
        if choice < 0.22:
            text = "\n".join(f"line {line} of {key}" for line in range(chance.randrange(10, 60)))
            return [("write", {"path": f"w{choice:.3f}.py", "text": text, "key": f"{key} write"})]
        lines = 2_000 if choice > 0.98 else 400 if choice > 0.95 else chance.randrange(3, 40)
        count = chance.choice((1, 1, 2, 3, 4)) if lines < 100 else 1
        return [
            ("read", {"path": f"src/p{n}_{choice:.4f}.py", "lines": lines, "key": f"{key} {n}"})
            for n in range(count)
        ]


def _tag(task: str) -> str:
    """A short name for a turn: the number of its request, or what its parent calls it."""
    return task.partition(":")[0].rpartition(" ")[2]


def _present_turn(messages: Any) -> list[Message]:
    """The messages of the present turn, its prompt first."""
    turn: list[Message] = []
    for message in reversed(messages):
        turn.append(message)
        if message.opens_turn:
            break
    return turn[::-1]


def _last_handle(turn: list[Message]) -> str | None:
    for message in turn:
        for part in message.parts:
            if part.function_response is not None:
                found = _HANDLE.search(as_text(part.function_response.result))
                if found:
                    return found[1]
    return None


def settings_for(agent: BusyAgent, provider: ScriptedProvider, **more: Any) -> SessionSettings:
    """How sessions of this agent are set up."""
    strategy = more.pop("strategy", "gc_budget")
    config = more.pop("config", None) or GCConfig()
    options = {"summarizer": "extractive"} if strategy in {"gc_summarize", "gc_hybrid"} else {}
    return SessionSettings(
        provider=provider.name,
        model="scripted",
        system_instructions="You work on a source tree. Keep to the task.",
        tools=tuple(as_tools(agent.tools())),
        enrichers={"clock": lambda said: f"The prompt has {len(said)} characters."},
        plugin=load_gc_plugin(strategy, {"preserve_recent_turns": 2, **options}),
        gc_config=config,
        **more,
    )


def runtime_for(provider: ScriptedProvider, folder: Path | None) -> JaatoRuntime:
    """A runtime that knows this provider alone."""
    place = ":memory:" if folder is None else folder / "stash"
    runtime = JaatoRuntime(_no_provider, folder=folder, open_stash=lambda: open_stash(place))
    runtime.adopt(provider)
    return runtime


async def opened(
    agent: BusyAgent,
    provider: ScriptedProvider,
    folder: Path | None,
    *,
    session_id: str = "busy",
    resume: bool = False,
    **more: Any,
) -> JaatoSession:
    """A session of this agent, new or from its log."""
    runtime, settings = runtime_for(provider, folder), settings_for(agent, provider, **more)
    if resume:
        return await resume_session(runtime, settings, session_id)
    return await open_session(runtime, settings, session_id=session_id)


def _no_provider(name: str, _settings: Any) -> Any:
    raise LookupError(name)
