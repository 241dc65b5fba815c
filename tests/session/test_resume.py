"""A session is resumed to the byte, at whatever moment its process ended."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import assert_agrees, gc, read, worker
from tests.session.resuming import NAME, assert_same, begun, resumed, schema_tokens

from jaato.budget import GCPolicy, InstructionSource
from jaato.events import Event, ModelCallEnded, ModelCallStarted, Noticed, ToolStarted, TurnEnded
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.calls import INTERRUPTED
from jaato.session.journal import journal_path, read_journal
from jaato.session.state import State
from jaato.tokens import message_tokens
from jaato.tools.callables import tool
from jaato.tools.intake import as_tools

ORIGINAL = "please read everything and tell me about value_7"


def provider_of(script: Callable[[Request], Reply], rules: Any = "anthropic") -> ScriptedProvider:
    return ScriptedProvider(script, rules=rules, window=16_000)


def run(work: Any) -> Any:
    return asyncio.run(work)


# --- As it was.


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
@pytest.mark.parametrize("rules", ["openai", "anthropic", "google"])
def test_it_is_as_it_was_and_nothing_was_written(rules: Any, strategy: str, tmp_path: Path) -> None:
    async def go() -> None:
        script = worker(4, calls=2, lines=60, thought="hm, this one next")
        provider, plugin = provider_of(script, rules), gc(strategy, preserve_recent_turns=2)
        session = await begun(
            provider, tmp_path, plugin=plugin, enrichers={"clock": lambda said: f"noon: {said}"}
        )
        await session.asend_message(ORIGINAL)
        session.pin(1)
        for at in range(5):
            await session.asend_message(f"go on with {at}")
        assert session.get_gc_history()
        await session.aclose()
        path = journal_path(tmp_path, NAME)
        written = path.read_bytes()

        again = await resumed(provider, tmp_path, plugin=plugin)
        assert_same(session, again)
        handles = [f"r{at}" for at in range(1, 4)]
        assert [again.recall(one) for one in handles] == [session.recall(one) for one in handles]
        assert again.torn_bytes == 0
        assert path.read_bytes() == written
        assert await again.asend_message("and on") == "done after 4 steps"
        assert_agrees(again)
        await again.aclose()

    run(go())


def test_every_earlier_state_can_be_rebuilt(tmp_path: Path) -> None:
    async def go() -> None:
        provider = provider_of(worker(4, calls=2, lines=60, thought="hm"))
        session = await begun(provider, tmp_path)
        path = journal_path(tmp_path, NAME)
        seen: list[tuple[int, Any, Any]] = []

        def look(_event: Event) -> None:
            window = session.state.window
            budget = session.instruction_budget.snapshot()
            seen.append((path.stat().st_size, budget, (list(window.history), window.usage())))

        session.on(look)
        for at in range(4):
            await session.asend_message(f"go on with {at}")
        await session.aclose()
        records, counter = read_journal(path).records, session.state.counter
        ends = [where for _, _, where in records[1:]] + [path.stat().st_size]
        assert len(seen) > 100
        for number, end in enumerate(ends, start=1):
            state = State.replayed(records[:number], counter)
            conversation = state.budget.get_entry(InstructionSource.CONVERSATION)
            held = 0 if conversation is None else conversation.total_tokens()
            assert held == sum(message_tokens(counter, one) for one in state.history)
            assert violations(state.history) == ()
            for size, budget, window in seen:
                if size == end:
                    assert state.budget.snapshot() == budget
                    assert (state.history, state.window.usage()) == window

    run(go())


# --- Tools that are not what they were.


def weigh(path: str) -> str:
    """Weigh a file, however large it is."""
    return path


def measure(path: str) -> str:
    """Measure how long a file is."""
    return path


def read_more(path: str, lines: int = 40) -> str:
    """Read a file; and this says so much more of it than before that it costs other tokens.

    Args:
        path: Which, below the root of the project, never outside of it.
        lines: How many lines it has, from the first to the last of them.
    """
    return read(path, lines)


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([read, weigh], id="the same"),
        pytest.param([read], id="one is gone"),
        pytest.param([], id="all are gone"),
        pytest.param([read, weigh, measure], id="one has come"),
        pytest.param([tool(read_more, name="read"), weigh], id="one says more of itself"),
        pytest.param([read, tool(weigh, discoverable=True)], id="one may be unloaded now"),
    ],
)
@pytest.mark.parametrize("is_resumed", [False, True], ids=["in one life", "resumed in between"])
def test_the_budget_agrees_with_the_tools_before_any_call(
    tools: list[Any], *, is_resumed: bool, tmp_path: Path
) -> None:
    async def go() -> None:
        provider = provider_of(worker(1, thought="hm"))
        session = again = await begun(provider, tmp_path, tools=[read, weigh])
        await session.asend_message(ORIGINAL)
        if is_resumed:
            await session.aclose()
            again = await resumed(provider, tmp_path, tools=tools)
        else:
            session.configure_tools(as_tools(tools))
        held, fresh = schema_tokens(again)
        assert held == fresh
        entry = again.instruction_budget.get_entry(InstructionSource.PLUGIN)
        assert entry is not None
        may_leave = {
            name
            for name, child in entry.children.items()
            if child.effective_gc_policy() is not GCPolicy.LOCKED
        }
        assert may_leave == set(again.catalogue.loaded)
        assert await again.asend_message("go on") == "done after 1 steps"
        await again.aclose()

    run(go())


def test_schemas_that_came_back_keep_their_order_and_bound_thoughts_with_it(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        def script(request: Request) -> Reply:
            wanted = request.messages[-1].text.partition("find ")[2]
            if wanted:
                return Reply(calls=(FunctionCall("f", "find_tools", {"query": wanted}),))
            return Reply(text="ok", thought="hm")

        tools = [read, tool(weigh, discoverable=True), tool(measure, discoverable=True)]
        provider = provider_of(script)
        config = GCConfig(target_percent=0.5, threshold_percent=90.0)
        session = await begun(provider, tmp_path, tools=tools, config=config)
        await session.asend_message(ORIGINAL)
        await session.amanual_gc()
        assert not session.state.window.tools_in_budget().keys() & {"measure", "weigh"}
        await session.asend_message("find measure")
        await session.asend_message("find weigh")
        assert session.catalogue.loaded == ("measure", "weigh")
        await session.aclose()
        again = await resumed(provider, tmp_path, tools=tools, gc_config=config)
        assert_same(session, again)
        assert await again.asend_message("go on") == "ok"
        await again.aclose()

    run(go())


# --- Thoughts that are bound to what stood before them.


@pytest.mark.parametrize("is_resumed", [False, True], ids=["in one life", "resumed in between"])
@pytest.mark.parametrize(
    "say",
    [
        pytest.param(lambda _prompt: "it is noon", id="the same words each turn"),
        pytest.param(lambda prompt: f"you said {prompt}", id="other words each turn"),
        pytest.param(lambda prompt: "" if "one" in prompt else "noon", id="words now and then"),
    ],
)
def test_thoughts_behind_an_enrichment_that_moved_on_are_not_replayed(
    say: Callable[[str], str], *, is_resumed: bool, tmp_path: Path
) -> None:
    async def go() -> None:
        provider = provider_of(worker(2, lines=5, thought="hm, this one next"))
        errors: list[str] = []
        replayed: list[int] = []

        def listen(event: Event) -> None:
            if isinstance(event, ModelCallEnded) and event.error:
                errors.append(event.error)

        session = await begun(provider, tmp_path, enrichers={"clock": say})
        session.on(listen)
        for prompt in ("zero", "one", "two", "three"):
            await session.asend_message(prompt)
            replayed.append(sum(bool(one.thoughts) for one in session.get_history()))
            if is_resumed:
                await session.aclose()
                session = await resumed(provider, tmp_path, enrichers={"clock": say})
                session.on(listen)
        assert errors == []
        assert all(replayed), "within its turn a thought is replayed"
        await session.aclose()

    run(go())


# --- A process that ends where it should not.


MOMENTS = {
    "before the first answer": (ModelCallStarted, 1, 1),
    "as a tool runs": (ToolStarted, 3, 4),
    "as the model reads the results": (ModelCallStarted, 3, 5),
    "as the turn ends": (TurnEnded, 1, 6),
}


@pytest.mark.parametrize("how", ["continued", "asked anew"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_calls_that_were_open_are_answered_and_never_repeated(
    moment: str, how: str, tmp_path: Path
) -> None:
    kind, count, messages = MOMENTS[moment]
    left = tmp_path / "left"
    left.mkdir()
    ran: list[str] = []
    ran_before: list[str] = []

    def look(path: str, lines: int = 1) -> str:
        """Look at a file."""
        ran.append(path)
        return path * lines

    tools = [tool(look, name="read")]

    async def go() -> None:
        provider = provider_of(worker(2, calls=2, thought="hm"))
        session = await begun(provider, tmp_path / "first", tools=tools)
        seen = 0

        def end(event: Event) -> None:
            nonlocal seen
            seen += isinstance(event, kind)
            if isinstance(event, kind) and seen == count:
                # What a process that dies now leaves behind.
                shutil.copy(journal_path(tmp_path / "first", NAME), left)
                ran_before.extend(ran)

        session.on(end)
        await session.asend_message(ORIGINAL)
        await session.aclose()
        ran.clear()

        again = await resumed(provider, left, tools=tools)
        notices: list[Event] = []
        again.on(notices.append, Noticed)
        assert len(again.get_history()) == messages
        is_open = moment == "as a tool runs"
        answer = await (
            again.acontinue_turn() if how == "continued" else again.asend_message("go on")
        )
        assert answer == "done after 2 steps"
        assert violations(again.get_history()) == ()
        assert_agrees(again)
        told = [
            result
            for message in again.get_history()
            for part in message.parts
            if (result := part.function_response) is not None and result.result == INTERRUPTED
        ]
        assert [one.is_error for one in told] == [True, True] * is_open
        assert len(notices) == is_open
        if how == "continued":
            assert not set(ran) & set(ran_before)
        await again.aclose()

    run(go())


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99], ids=["its start", "half", "nearly all"])
def test_a_torn_last_line_is_dropped_and_reported(kept: float, tmp_path: Path) -> None:
    async def go() -> None:
        provider = provider_of(worker(2, thought="hm"))
        session = await begun(provider, tmp_path)
        await session.asend_message(ORIGINAL)
        await session.aclose()
        path = journal_path(tmp_path, NAME)
        whole = path.read_bytes()
        *_, last = whole.splitlines(keepends=True)
        torn = last[: max(int(len(last) * kept), 1)]
        path.write_bytes(whole + torn)
        again = await resumed(provider, tmp_path)
        assert again.torn_bytes == len(torn)
        assert path.read_bytes() == whole
        assert_same(session, again)
        assert await again.asend_message("go on") == "done after 2 steps"
        await again.aclose()
        last_time = await resumed(provider, tmp_path)
        assert last_time.torn_bytes == 0
        assert_same(again, last_time)
        await last_time.aclose()

    run(go())
