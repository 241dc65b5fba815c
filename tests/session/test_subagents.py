"""Subagents: what a child is, what becomes of it, who hears of it, and what it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import assert_agrees, steps_of_turn, worker
from tests.session.families import TASK, noted, parent, spawning

from jaato.errors import UsageError
from jaato.events import (
    CallbackFailed,
    Event,
    ModelCallStarted,
    SubagentEnded,
    SubagentStarted,
    TextStreamed,
    TurnEnded,
    TurnStarted,
)
from jaato.exchange import Request
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Fault, FaultKind, Reply, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.journal import journal_path, read_journal
from jaato.session.opening import resume_session
from jaato.session.record import Added, Opened
from jaato.session.session import TurnInterruptedError
from jaato.session.settings import SessionSettings
from jaato.session.subagents import DEEPEST

RULES = ("openai", "anthropic", "google")


def run(work: Any) -> Any:
    return asyncio.run(work)


def result_of(message: Any) -> tuple[str, bool]:
    result = message.parts[0].function_response
    return str(result.result), result.is_error


# What a child is


@pytest.mark.parametrize("rules", RULES)
def test_a_child_has_a_session_and_a_budget_of_its_own(rules: Any) -> None:
    async def go() -> None:
        session, children = await parent(worker(3, calls=2), rules=rules, session_id="p")
        await session.asend_message("read for the parent")
        before = (session.get_history(), session.get_context_usage())
        done = await session.aspawn_subagent("read for the child")
        [child] = children
        assert done.success
        assert (done.text, done.error) == ("done after 3 steps", None)
        assert (done.agent_id, done.session_id) == ("main.subagent-1", "p.subagent-1")
        assert done.total_tokens == child.instruction_budget.total_tokens() > 0
        assert done.collections == 0
        assert (session.get_history(), session.get_context_usage()) == before
        assert child.get_history()[0].text == "read for the child"
        assert child.instruction_budget is not session.instruction_budget
        assert child.runtime is session.runtime
        assert child.agent_id == "main.subagent-1"
        assert_agrees(session)

    run(go())


@pytest.mark.parametrize("rules", RULES)
def test_the_model_spawns_a_child_and_sees_its_answer_alone(rules: Any) -> None:
    async def go() -> None:
        child_does = worker(2, lines=20)
        session, children = await parent(spawning({"task": TASK}, child=child_does), rules=rules)
        assert await session.asend_message("let it be done") == "the parent's answer"
        history = session.get_history()
        assert len(history) == 4
        assert result_of(history[2]) == ("done after 2 steps", False)
        [child] = children
        assert [message.text for message in child.get_history() if message.opens_turn] == [TASK]
        assert violations(child.get_history()) == ()
        assert_agrees(session)

    run(go())


def test_children_of_one_step_run_side_by_side() -> None:
    async def go() -> None:
        together = asyncio.Barrier(3)

        async def meet() -> str:
            """Wait for the others."""
            await together.wait()
            return "met"

        def child(request: Request) -> Reply:
            if steps_of_turn(request):
                return Reply(text=f"{request.messages[0].text} done")
            return Reply(calls=(FunctionCall("m", "meet", {}),))

        calls = [{"task": f"{TASK} {at}"} for at in range(3)]
        session, children = await parent(spawning(*calls, child=child), tools=[meet])
        assert await session.asend_message("spawn three") == "the parent's answer"
        assert sorted(child.agent_id for child in children) == [
            f"main.subagent-{at}" for at in (1, 2, 3)
        ]
        answers = [
            part.function_response.result
            for part in session.get_history()[2].parts
            if part.function_response
        ]
        assert answers == [f"{TASK} {at} done" for at in range(3)]

    run(go())


def test_children_of_children_end_at_a_depth_and_the_last_does_it_itself() -> None:
    async def go() -> None:
        told: list[str] = []

        def script(request: Request) -> Reply:
            if steps_of_turn(request):
                told.append(result_of(request.messages[-1])[0])
                return Reply(text=f"below: {told[-1]}")
            return Reply(calls=(FunctionCall("c", "spawn_subagent", {"task": "deeper"}),))

        session, _ = await parent(script)
        starts: list[str] = []
        session.on(lambda event: starts.append(event.agent_id), TurnStarted)
        assert await session.asend_message("go deep") == "below: " * (DEEPEST + 1) + told[0]
        assert starts == ["main" + ".subagent-1" * depth for depth in range(DEEPEST + 1)]
        assert "subagents may be 3 deep" in told[0]
        assert "let it do the task itself" in told[0]

    run(go())


# What becomes of it


@pytest.mark.parametrize(
    ("task", "profile", "inline", "fact", "hint"),
    [
        pytest.param("", None, None, "a task is", "say what to do", id="no task"),
        pytest.param(None, None, None, "a task is", "say what to do", id="none at all"),
        pytest.param(TASK, "reserch", None, "'reserch'", "'research'", id="a mistyped profile"),
        pytest.param(TASK, "x", None, "'x'", "research", id="an unknown profile"),
        pytest.param(TASK, 3, None, "a profile is", "its name", id="a number for a profile"),
        pytest.param(TASK, None, [1], "inline_config is", "an object", id="a list of settings"),
        pytest.param(TASK, None, "gc", "inline_config is", "an object", id="a text of settings"),
        pytest.param(TASK, None, {"gcc": {}}, "gcc", "did you mean 'gc'", id="a mistyped setting"),
        pytest.param(
            TASK, None, {"gc": {"type": "hybird"}}, "'hybird'", "'hybrid'", id="a mistyped strategy"
        ),
        pytest.param(
            TASK, None, {"gc": {"threshold_percent": 500}}, "500", "0 to 100", id="a wrong value"
        ),
        pytest.param(
            TASK, "research", {"max_turns": 0}, "max_turns", "from 1", id="no turns at all"
        ),
    ],
)
def test_a_wrong_call_raises_and_is_an_error_to_the_model(
    tmp_path: Path, task: Any, profile: Any, inline: Any, fact: str, hint: str
) -> None:
    (tmp_path / "research.json").write_text("{}", encoding="utf-8")

    async def go() -> None:
        call = {"task": task, "profile": profile, "inline_config": inline}
        session, children = await parent(spawning(call), profiles=tmp_path)
        heard: list[Event] = []
        session.on(heard.append, SubagentStarted, SubagentEnded)
        with pytest.raises(UsageError) as raised:
            await session.aspawn_subagent(task, profile, inline)
        assert fact in str(raised.value)
        assert hint in str(raised.value)
        assert await session.asend_message("let it be done") == "the parent's answer"
        text, is_error = result_of(session.get_history()[2])
        assert is_error
        assert fact in text
        assert hint in text
        assert (children, heard) == ([], [])

    run(go())


class Crashing(ScriptedProvider):
    """A provider that breaks its contract: what it raises is nobody's error."""

    async def context_limit(self, model: str) -> int | None:
        raise OSError("the disk is gone")


FAILURES = [
    pytest.param(
        ScriptedProvider(worker(0), name="other", faults=lambda _: Fault(kind=FaultKind.AUTH)),
        {"provider": "other"},
        "AuthError",
        id="the provider refuses",
    ),
    pytest.param(None, {"provider": "nobody"}, "no provider named 'nobody'", id="no such provider"),
    pytest.param(
        ScriptedProvider(worker(9), name="other"),
        {"provider": "other", "max_turns": 2},
        "TooManyStepsError: the turn was stopped after 2 steps",
        id="it does not come to an end",
    ),
    pytest.param(
        ScriptedProvider(worker(0), name="other", window=2_000),
        {"provider": "other", "system_instructions": "be kind. " * 900},
        "WindowFullError",
        id="it does not fit",
    ),
    pytest.param(
        ScriptedProvider(lambda _request: Reply(text=str(1 // 0)), name="other"),
        {"provider": "other"},
        "ZeroDivisionError",
        id="its provider has a fault",
    ),
    pytest.param(
        Crashing(worker(0), name="other"),
        {"provider": "other"},
        "OSError: the disk is gone",
        id="it cannot even begin",
    ),
]


@pytest.mark.parametrize(("provider", "inline", "error"), FAILURES)
def test_a_childs_failure_is_a_result(
    provider: ScriptedProvider | None, inline: dict[str, Any], error: str
) -> None:
    async def go() -> None:
        session, _ = await parent(spawning({"task": TASK, "inline_config": inline}))
        if provider is not None:
            session.runtime.adopt(provider)
        ends: list[Event] = []
        session.on(ends.append, SubagentEnded)
        done = await session.aspawn_subagent(TASK, inline_config=inline)
        assert not done.success
        assert error in str(done.error)
        assert done.text == ""
        assert await session.asend_message("let it be done") == "the parent's answer"
        text, is_error = result_of(session.get_history()[2])
        assert is_error
        assert error in text
        assert [error in str(event.error) for event in ends] == [True, True]  # type: ignore[attr-defined]  # only that kind comes

    run(go())


def waiting(started: Callable[[], Any]) -> Any:
    async def wait() -> str:
        """Wait for ever."""
        started()
        await asyncio.Event().wait()
        return ""

    return wait


def waiter(request: Request) -> Reply:
    if steps_of_turn(request):
        return Reply(text="woken")
    return Reply(calls=(FunctionCall("w", "wait", {}),))


def test_an_interrupted_parent_takes_its_child_along_and_goes_on(tmp_path: Path) -> None:
    async def go() -> None:
        started = asyncio.Event()
        session, children = await parent(
            spawning({"task": TASK}, child=waiter),
            tools=[waiting(started.set)],
            folder=tmp_path,
            session_id="p",
        )
        heard: list[Event] = []
        session.on(heard.append, TurnEnded, SubagentEnded)
        turn = asyncio.ensure_future(session.asend_message("let it be done"))
        await started.wait()
        assert session.interrupt()
        with pytest.raises(TurnInterruptedError):
            await turn
        assert [(type(event), event.agent_id, bool(event.error)) for event in heard] == [  # type: ignore[attr-defined]  # both have one
            (TurnEnded, "main.subagent-1", True),
            (SubagentEnded, "main", True),
            (TurnEnded, "main", True),
        ]
        text, is_error = result_of(session.get_history()[2])
        assert is_error
        assert "interrupted" in text
        [child] = children
        assert violations(child.get_history()) == ()
        assert await session.acontinue_turn() == "the parent's answer"
        resumed = await resume_session(
            session.runtime, SessionSettings(provider="", model=""), "p.subagent-1"
        )
        assert await resumed.acontinue_turn() == "woken"

    run(go())


def test_whoever_awaits_a_child_may_be_cancelled() -> None:
    async def go() -> None:
        started = asyncio.Event()
        session, _ = await parent(waiter, tools=[waiting(started.set)])
        ends: list[Event] = []
        session.on(ends.append, SubagentEnded)
        work = asyncio.ensure_future(session.aspawn_subagent(TASK))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert [event.error for event in ends] == ["it was interrupted"]  # type: ignore[attr-defined]  # only that kind comes

    run(go())


# Who hears of it


def test_what_a_child_does_is_its_parents_news() -> None:
    async def go() -> None:
        session, _ = await parent(spawning({"task": TASK, "inline_config": {"name": "scout"}}))
        heard: list[Event] = []
        outputs: list[str] = []
        session.on(heard.append)
        await session.asend_message("let it be done", on_output=outputs.append)
        kinds = [(type(one).__name__, one.agent_id) for one in heard if _is_telling(one)]
        assert kinds == [
            ("TurnStarted", "main"),
            ("ModelCallStarted", "main"),
            ("SubagentStarted", "main"),
            ("TurnStarted", "main.scout-1"),
            ("ModelCallStarted", "main.scout-1"),
            ("TurnEnded", "main.scout-1"),
            ("SubagentEnded", "main"),
            ("ModelCallStarted", "main"),
            ("TurnEnded", "main"),
        ]
        [start] = [one for one in heard if isinstance(one, SubagentStarted)]
        assert (start.child_id, start.task, start.profile) == ("main.scout-1", TASK, None)
        [end] = [one for one in heard if isinstance(one, SubagentEnded)]
        assert (end.child_id, end.text, end.error) == ("main.scout-1", "the child's answer", None)
        said = "".join(
            o.text for o in heard if isinstance(o, TextStreamed) and o.agent_id != "main"
        )
        assert said == "the child's answer"
        assert "".join(outputs) == "the parent's answer", "on_output is one agent's"

    run(go())


def _is_telling(event: Event) -> bool:
    kinds = (TurnStarted, ModelCallStarted, SubagentStarted, SubagentEnded, TurnEnded)
    return isinstance(event, kinds)


def test_a_listener_that_raises_on_a_childs_event_takes_nobody_along() -> None:
    async def go() -> None:
        def broken(event: Event) -> None:
            if event.agent_id != "main":
                raise RuntimeError("no")

        session, _ = await parent()
        failed: list[Event] = []
        session.on(broken)
        session.on(failed.append, CallbackFailed)
        assert await session.asend_message("let it be done") == "the parent's answer"
        assert result_of(session.get_history()[2]) == ("the child's answer", False)
        assert failed

    run(go())


# Its log and its name


def test_a_childs_log_is_its_own_and_names_its_parent(tmp_path: Path) -> None:
    async def go() -> None:
        session, _ = await parent(folder=tmp_path, session_id="p")
        await session.asend_message("let it be done")
        await session.aclose()
        names = names_of_sessions(session)
        assert names == {"p", "p.subagent-1"}
        logs = {name: read_journal(journal_path(tmp_path, name)).records for name in names}
        opened = logs["p.subagent-1"][0][0]
        assert isinstance(opened, Opened)
        assert (opened.agent_id, opened.parent_id) == ("main.subagent-1", "p")
        said = {
            name: [one.message.text for one, _, _ in records if isinstance(one, Added)]
            for name, records in logs.items()
        }
        assert said["p.subagent-1"] == [TASK, "the child's answer"]
        assert TASK not in said["p"]

    run(go())


def test_a_resumed_parent_does_not_use_the_names_of_its_children_again(tmp_path: Path) -> None:
    async def go() -> None:
        session, _ = await parent(folder=tmp_path, session_id="p")
        for _ in range(2):
            await session.aspawn_subagent(TASK)
        await session.aclose()
        resumed = await resume_session(
            session.runtime,
            SessionSettings(provider="", model="", tools=session.settings.tools),
            "p",
        )
        children = noted(resumed)
        ids = [(await resumed.aspawn_subagent(TASK)).agent_id for _ in range(2)]
        assert ids == ["main.subagent-3", "main.subagent-4"]
        assert await resumed.asend_message("let it be done") == "the parent's answer"
        assert children[-1].agent_id == "main.subagent-5"
        assert len(names_of_sessions(session)) == 6

    run(go())


@pytest.mark.parametrize(
    "name",
    ["a.b", "../../etc/passwd", "two words", "name\nof two lines", "n" * 300, "名" * 119, ".", "é"],
    ids=["a dot", "a path", "a blank", "a line", "too long", "many bytes", "only a dot", "accents"],
)
def test_whatever_a_profile_is_called_its_children_have_names_and_logs(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "logs"

    async def go() -> None:
        session, _ = await parent(folder=folder, session_id="p")
        names = {"p"}
        for _ in range(2):
            done = await session.aspawn_subagent(TASK, inline_config={"name": name})
            assert done.success, done.error
            assert done.agent_id.startswith(f"main.{name}-")
            names.add(done.session_id)
        assert len(names) == 3
        assert names_of_sessions(session) == names

    run(go())
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def names_of_sessions(session: JaatoSession) -> set[str]:
    return set(session.runtime.list_sessions())
