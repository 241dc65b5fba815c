"""The scripted provider keeps what every provider promises, under the rules of every API."""

from __future__ import annotations

import asyncio

import pytest
from tests.providers.provider_contract import CHECKS, Check, answered, ignores_bare_thoughts, raises

from jaato.exchange import ContextLimitError, Request, StopReason, ToolSchema
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.providers.scripted_rules import Rules

ALL_RULES = ("openai", "anthropic", "google", None)
TOOLS = (ToolSchema(name="read_file", description="Reads a file."),)


def talks(request: Request) -> Reply:
    """Thinks, says a few lines, and calls two tools where there are any."""
    number = len(request.messages)
    calls = tuple(
        FunctionCall(
            f"call_{number}_{n}", "read_file", {"path": f"{n}.txt", "lines": [1, 2.5, None]}
        )
        for n in range(2 if request.tools else 0)
    )
    return Reply(thought="Let me see. " * 9, text="Grüße aus 東京 🎉\n" * 8, calls=calls)


def asked(text: str = "Read both files.") -> Request:
    return Request(
        model="gemini-3-pro", messages=(Message.from_text(Role.USER, text),), tools=TOOLS
    )


@pytest.fixture(params=ALL_RULES, ids=str)
def rules(request: pytest.FixtureRequest) -> Rules | None:
    rules: Rules | None = request.param
    return rules


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("script", [talks, None], ids=["a script", "the worker"])
def test_it_keeps_the_contract(check: Check, rules: Rules | None, script: object) -> None:
    provider = ScriptedProvider(talks if script else None, rules=rules, window=100_000)
    asyncio.run(check(provider, asked()))


def test_a_tool_loop_goes_round(rules: Rules | None) -> None:
    provider = ScriptedProvider(talks, rules=rules, window=100_000)

    async def loop() -> list[StopReason]:
        request, stops = asked(), []
        for _ in range(3):
            finished = await answered(provider, request)
            stops.append(finished.stop)
            kept = [part for part in finished.message.parts if part.thought is None or part.extra]
            results = [
                Part(function_response=ToolResult(call.id, call.name, f"text of {call.args}"))
                for call in finished.message.function_calls
            ]
            request = Request(
                model=request.model,
                tools=TOOLS,
                messages=(
                    *request.messages,
                    finished.message.with_parts(kept),
                    Message(Role.TOOL, results),
                ),
            )
        return stops

    assert asyncio.run(loop()) == [StopReason.TOOL_CALLS] * 3


def test_bare_thoughts_are_not_sent(rules: Rules | None) -> None:
    asyncio.run(ignores_bare_thoughts(ScriptedProvider(talks, rules=rules), "m"))


def test_what_does_not_fit_is_refused_with_the_limit(rules: Rules | None) -> None:
    provider = ScriptedProvider(talks, rules=rules, window=12_000)
    request = asked("word " * 13_000)
    error = asyncio.run(raises(provider, request, ContextLimitError))
    assert error.limit == 12_000
    asyncio.run(answered(provider, asked()))
