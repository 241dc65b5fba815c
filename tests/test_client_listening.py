"""What a client tells, to callbacks that raise too; other models; loops, threads, interruptions."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import gc, read, steps_of_turn, worker
from tests.test_client import connected, say

from jaato.client import JaatoClient
from jaato.errors import UsageError
from jaato.events import BudgetUpdated, CallbackFailed, Event, TurnEnded
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.problems import SessionBusyError
from jaato.session.session import TurnInterruptedError

SECONDS = 30.0
"""How long a test waits for a thread that is stuck."""


class Panel:
    """The hooks of a user interface."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def on_agent_instruction_budget_updated(
        self, agent_id: str, snapshot: Mapping[str, Any]
    ) -> None:
        self.seen.append((agent_id, snapshot["total_tokens"]))


def spawner(request: Request) -> Reply:
    """Has a child do its task; the child answers."""
    if request.messages[0].text == "the child's task":
        return Reply(text="the child's answer")
    if steps_of_turn(request):
        return Reply(text="done")
    task = {"task": "the child's task"}
    return Reply(calls=(FunctionCall("c1", "spawn_subagent", task),))


@pytest.mark.parametrize("when", ["before connecting", "after it"])
def test_budgets_are_told_the_main_agents_to_callbacks_and_everybodys_to_hooks(when: str) -> None:
    snapshots: list[Mapping[str, Any]] = []
    panel = Panel()

    def set_up(client: JaatoClient) -> None:
        client.on_instruction_budget_updated(snapshots.append)
        client.set_ui_hooks(panel)

    client = JaatoClient(sessions=None)
    client.configure_tools([read])
    if when == "before connecting":
        set_up(client)
    client.connect(provider=ScriptedProvider(spawner), context_limit=16_000)
    if when == "after it":
        set_up(client)
    client.send_message("let somebody do it")
    assert snapshots[-1] == client.instruction_budget.snapshot()
    assert {agent for agent, _ in panel.seen} == {"main", "main.subagent-1"}
    assert panel.seen[-1] == ("main", snapshots[-1]["total_tokens"])
    told = len(snapshots)
    client.set_gc_plugin(gc("gc_truncate", preserve_recent_turns=0), GCConfig(target_percent=1.0))
    client.manual_gc()
    assert len(snapshots) > told
    assert snapshots[-1] == client.instruction_budget.snapshot()


def test_hooks_take_the_place_of_the_hooks_before() -> None:
    first, second = Panel(), Panel()
    client = connected(say("ok"))
    client.set_ui_hooks(first)
    client.set_ui_hooks(second)
    client.send_message("one")
    assert first.seen == []
    assert second.seen
    told = len(second.seen)
    client.set_ui_hooks(None)
    client.send_message("two")
    assert len(second.seen) == told


def test_hooks_may_know_other_things_only() -> None:
    client = connected(say("ok"))
    client.set_ui_hooks(object())
    assert client.send_message("hello") == "ok"


def test_the_budget_of_a_child_that_was_resumed_is_told_too(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.configure_tools([read])
    client.connect(provider=ScriptedProvider(spawner), session_id="s")
    client.send_message("let somebody do it")
    snapshots: list[Mapping[str, Any]] = []
    client.on_instruction_budget_updated(snapshots.append)
    client.connect(resume="s.subagent-1")
    assert client.session.agent_id == "main.subagent-1"
    client.send_message("the child's task")
    assert snapshots[-1] == client.instruction_budget.snapshot()


def raising(*_arguments: Any) -> None:
    raise RuntimeError("no")


class BrokenPanel:
    def on_agent_instruction_budget_updated(self, *_arguments: Any) -> None:
        raise RuntimeError("no")


SendOptions = Mapping[str, Any]


@pytest.mark.parametrize(
    ("set_up", "options", "name"),
    [
        pytest.param(None, {"on_output": raising}, "raising", id="on_output"),
        pytest.param(None, {"on_gc_threshold": raising}, "raising", id="on_gc_threshold"),
        pytest.param(lambda client: client.on(raising), {}, "raising", id="a listener"),
        pytest.param(
            lambda client: client.on(raising, TurnEnded), {}, "raising", id="a listener of a kind"
        ),
        pytest.param(
            lambda client: client.on_instruction_budget_updated(raising),
            {},
            "raising",
            id="on_instruction_budget_updated",
        ),
        pytest.param(
            lambda client: client.set_ui_hooks(BrokenPanel()),
            {},
            "BrokenPanel.on_agent_instruction_budget_updated",
            id="a hook",
        ),
        pytest.param(
            lambda client: client.add_enrichment("clock", raising), {}, "raising", id="an enricher"
        ),
    ],
)
def test_a_callback_that_raises_is_reported_by_its_name_and_the_turn_goes_on(
    set_up: Callable[[JaatoClient], None] | None,
    options: SendOptions,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = connected(say("a long answer " * 600), limit=3_000, tools=[])
    client.set_gc_plugin(
        gc("gc_truncate", preserve_recent_turns=0), GCConfig(threshold_percent=50.0)
    )
    heard: list[Event] = []
    client.on(heard.append)
    if set_up is not None:
        set_up(client)
    with caplog.at_level(logging.WARNING):
        assert client.send_message("hello", **options).startswith("a long answer")
    failed = {(e.callback, e.error) for e in heard if isinstance(e, CallbackFailed)}
    assert failed == {(name, "RuntimeError: no")}
    assert f"the callback {name} raised" in caplog.text
    assert isinstance([e for e in heard if isinstance(e, TurnEnded)][-1], TurnEnded)
    assert len(client.get_history()) == 2


def test_a_callback_that_is_to_be_awaited_is_reported_and_not_silently_lost() -> None:
    heard: list[Event] = []

    async def later(*_arguments: Any) -> None:
        heard.append(Event())

    client = connected(say("ok"), tools=[])
    failed: list[CallbackFailed] = []
    client.on(failed.append, CallbackFailed)  # type: ignore[arg-type]  # only that kind comes
    client.on_instruction_budget_updated(later)
    assert client.send_message("hello", on_output=later) == "ok"
    assert heard == []
    assert {event.error for event in failed} == {
        "TypeError: it is a coroutine, and callbacks are not awaited"
    }


def test_a_listener_hears_the_kinds_it_asked_for_in_this_session_and_the_next() -> None:
    kinds: list[str] = []
    client = JaatoClient(sessions=None)
    client.on(lambda event: kinds.append(type(event).__name__), TurnEnded, BudgetUpdated)
    for _ in range(2):
        client.connect(provider=ScriptedProvider(say("ok")))
        client.send_message("hello")
    assert kinds == ["TurnEnded", "BudgetUpdated"] * 2


# Another model


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        pytest.param({"provider": "small"}, 8_000, id="what its provider says"),
        pytest.param(
            {"provider": "small", "context_limit": 6_000}, 6_000, id="what the caller says"
        ),
        pytest.param({}, None, id="unknown is unknown, and not what it was"),
    ],
)
def test_the_limit_follows_the_model(arguments: dict[str, Any], limit: int | None) -> None:
    client = connected(worker(3, lines=60), limit=40_000)
    client.set_gc_plugin(gc(preserve_recent_turns=1))
    client.runtime.adopt(ScriptedProvider(worker(1), name="small", window=8_000))
    for at in range(4):
        client.send_message(f"turn {at}")
    assert client.get_context_usage()["total_tokens"] > 8_000
    client.switch_model("little", **arguments)
    usage = client.get_context_usage()
    assert (usage["model"], usage["context_limit"]) == ("little", limit)
    assert client.instruction_budget.context_limit == limit
    assert client.send_message("and now?").startswith("done after")
    assert violations(client.get_history()) == ()
    if limit is not None:
        assert client.get_context_usage()["percent_used"] < 100


def test_a_provider_that_is_made_already_may_be_switched_to() -> None:
    client = connected(say("from the first"))
    client.send_message("hello")
    client.switch_model("m", provider=ScriptedProvider(say("from the second"), name="second"))
    assert client.send_message("and now?") == "from the second"


@pytest.mark.parametrize(
    ("model", "arguments", "fact", "hint"),
    [
        pytest.param("", {}, "model is ''", "name of a model", id="no name"),
        pytest.param(3, {}, "model is 3", "name of a model", id="a number"),
        pytest.param("m", {"provider": "scirpted"}, "'scirpted'", "'scripted'", id="mistyped"),
        pytest.param("m", {"provider": 3}, "3 is no provider", "instance", id="no provider"),
        pytest.param("m", {"context_limit": 0}, "not 0", "leave it out", id="no window"),
    ],
)
def test_a_model_that_cannot_be_leaves_the_one_that_is(
    model: Any, arguments: dict[str, Any], fact: str, hint: str
) -> None:
    client = connected(say("ok"))
    before = client.get_context_usage()
    with pytest.raises(UsageError) as raised:
        client.switch_model(model, **arguments)
    assert fact in str(raised.value)
    assert hint in str(raised.value.hint)
    assert client.get_context_usage() == before
    assert client.send_message("hello") == "ok"


# Loops and threads


def test_a_program_with_a_loop_of_its_own_may_block_it_or_await() -> None:
    async def program() -> list[str]:
        client = connected(worker(1))
        return [client.send_message("read"), await client.asend_message("read again")]

    assert asyncio.run(program()) == ["done after 1 steps"] * 2


def test_an_awaited_message_tells_its_callbacks_too() -> None:
    heard: list[str] = []

    async def program() -> str:
        return await connected(say("ok")).asend_message("hello", on_output=heard.append)

    assert asyncio.run(program()) == "".join(heard) == "ok"


CallsBack = Callable[[JaatoClient], Any]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda client: client.send_message("more"), "begins with 'a'", id="a message"),
        pytest.param(lambda client: client.manual_gc(), "begins with 'a'", id="a collection"),
        pytest.param(lambda client: client.reset_session(), "turn is over", id="a reset"),
    ],
)
def test_inside_of_an_async_tool_a_client_does_not_wait_for_itself(
    call: CallsBack, said: str
) -> None:
    async def again() -> str:
        """Call back."""
        return str(call(client))

    def script(request: Request) -> Reply:
        if steps_of_turn(request):
            return Reply(text="done")
        return Reply(calls=(FunctionCall("c", "again", {}),))

    client = connected(script, tools=[again])
    assert client.send_message("call back") == "done"
    answer = client.get_history()[2].parts[0].function_response
    assert answer is not None
    assert answer.is_error
    assert said in str(answer.result)


class Gate:
    """A tool that holds a turn until a test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> str:
        """Wait."""
        self.entered.set()
        assert self.opened.wait(SECONDS)
        return "waited"

    def script(self, request: Request) -> Reply:
        if steps_of_turn(request):
            return Reply(text="done")
        return Reply(calls=(FunctionCall("c", "wait", {}),))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda client: client.send_message("more"), id="a message"),
        pytest.param(lambda client: client.continue_turn(), id="to go on"),
        pytest.param(lambda client: client.manual_gc(), id="a collection"),
        pytest.param(lambda client: client.switch_model("m"), id="another model"),
        pytest.param(lambda client: client.configure_tools([read]), id="other tools"),
        pytest.param(lambda client: client.reset_session(), id="a reset"),
    ],
)
def test_what_has_to_wait_for_a_turn_is_refused_and_the_turn_goes_on(call: CallsBack) -> None:
    gate = Gate()
    client = connected(gate.script, tools=[gate.wait])
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(client.send_message, "wait")
        assert gate.entered.wait(SECONDS)
        with pytest.raises(SessionBusyError, match="until the turn is over"):
            call(client)
        client.pin(0)
        assert len(client.get_history()) == 2
        assert client.get_context_usage()["turns"] == 1
        gate.opened.set()
        assert turn.result(SECONDS) == "done"
    client.connect(provider=ScriptedProvider(gate.script))
    assert client.send_message("wait again") == "done", "the tools are those of before"


def test_clients_in_several_threads_do_not_disturb_each_other() -> None:
    def work(number: int) -> tuple[str, int, str]:
        client = connected(worker(number))
        text = client.send_message(f"read for {number}")
        return text, len(client.get_history()), client.get_history()[0].text

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(8)))
    assert done == [(f"done after {n} steps", 2 * n + 2, f"read for {n}") for n in range(8)]


def test_one_client_may_be_used_by_one_thread_after_the_other() -> None:
    client = connected(worker(1))
    for at in range(4):
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(client.send_message, f"turn {at}")
            assert sent.result(SECONDS) == "done after 1 steps"
    assert client.get_context_usage()["turns"] == 4


def test_a_turn_is_interrupted_from_another_thread_and_goes_on() -> None:
    started = threading.Event()

    async def wait(path: str) -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return path

    def script(request: Request) -> Reply:
        if steps_of_turn(request):
            return Reply(text="done")
        return Reply(calls=(FunctionCall("c", "wait", {"path": "a"}),))

    client = connected(script, tools=[wait])
    assert not client.interrupt()
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(client.send_message, "wait")
        assert started.wait(SECONDS)
        assert client.interrupt()
        with pytest.raises(TurnInterruptedError, match="continue_turn"):
            turn.result(SECONDS)
    assert violations(client.get_history()) == ()
    assert client.continue_turn() == "done"
