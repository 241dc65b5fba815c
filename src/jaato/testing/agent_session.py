"""A made-up coding agent at work: the same session every time, of any length, without a model."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jaato.history import FunctionCall, Message, Part, Role, ToolResult

_REQUESTS = (
    "Add retries with backoff to the payment client; keep the public API as it is.",
    "Why does the nightly import skip rows? Find out before you change anything.",
    "Rename the settings module and fix every import.",
    "The report page is slow: measure first, then make it faster.",
    "Write the missing tests for the date parser.",
)
_WORDS = [
    "client",
    "retry",
    "timeout",
    "session",
    "import",
    "parser",
    "row",
    "value",
    "config",
    "handler",
    "request",
    "error",
    "total",
    "page",
    "cache",
    "query",
    "index",
    "result",
    "user",
    "date",
    "batch",
    "worker",
    "signal",
    "table",
    "token",
    "buffer",
]


def agent_session(
    turns: int, *, steps: int = 4, lines: int = 24, seed: int = 0, done: bool = True
) -> list[Message]:
    """A history of so many turns, each with so many tool calls, each result of so many lines."""
    chance = random.Random(seed)  # noqa: S311 -- made-up text, not a secret
    return list(_session(chance, turns, steps, lines, done=done))


def _session(
    chance: random.Random, turns: int, steps: int, lines: int, *, done: bool
) -> Iterator[Message]:
    made = 0

    def message(role: Role, *parts: Part) -> Message:
        nonlocal made
        made += 1
        return Message(role, parts, f"session-{made}")

    for turn in range(turns):
        yield message(Role.USER, Part(text=_REQUESTS[turn % len(_REQUESTS)]))
        for step in range(steps):
            path = f"src/{chance.choice(_WORDS)}/{chance.choice(_WORDS)}_{turn}_{step}.py"
            call = FunctionCall(f"call_{turn}_{step}", "read_file", {"path": path})
            yield message(Role.MODEL, Part(text=f"I look at {path}."), Part(function_call=call))
            result = ToolResult(call.id, "read_file", _source(chance, lines))
            yield message(Role.TOOL, Part(function_response=result))
        if done or turn < turns - 1:
            found = " ".join(chance.choices(_WORDS, k=12))
            yield message(Role.MODEL, Part(text=f"Done. What mattered: {found}."))


def _source(chance: random.Random, lines: int) -> str:
    return "\n".join(
        f"{number:4}  {chance.choice(_WORDS)}_{chance.randrange(1000)} = "
        f"{chance.choice(_WORDS)}({chance.choice(_WORDS)}, {chance.randrange(10_000)})"
        for number in range(lines)
    )
