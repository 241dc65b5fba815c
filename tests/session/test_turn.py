"""The turn as a table: what it is told, and what it says to do next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jaato.exchange import (
    AuthError,
    ContextLimitError,
    NetworkError,
    RateLimitError,
    RejectedError,
    ServerError,
    StopReason,
)
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.session.problems import TooManyStepsError
from jaato.session.turn import Action, CallModel, End, MakeRoom, RunTools, Turn

CALL = FunctionCall("1", "read", {})
OTHER = FunctionCall("1", "list", {})


def answer(*calls: FunctionCall, text: str = "so") -> Message:
    return Message(Role.MODEL, [Part(text=text), *(Part(function_call=one) for one in calls)])


Told = Callable[[Turn], None]


def room(turn: Turn) -> None:
    turn.room_made()


def says(*calls: FunctionCall, stop: StopReason = StopReason.END) -> Told:
    return lambda turn: turn.answered(answer(*calls), stop)


def ran(turn: Turn) -> None:
    turn.tools_ran()


def fails(error: Exception) -> Told:
    return lambda turn: turn.failed(error)


FULL = ContextLimitError("too long")
BROKEN = NetworkError("reset")


@pytest.mark.parametrize(
    ("told", "action"),
    [
        pytest.param([], MakeRoom(), id="room is made before anything is sent"),
        pytest.param([room], CallModel(1), id="then the model is called"),
        pytest.param([room, says()], End("so"), id="an answer without calls ends the turn"),
        pytest.param([room, says(CALL)], RunTools((CALL,)), id="calls are run"),
        pytest.param(
            [room, says(CALL, OTHER)], RunTools((CALL, OTHER)), id="calls with one id are two calls"
        ),
        pytest.param([room, says(CALL), ran], MakeRoom(), id="after tools room is made again"),
        pytest.param(
            [room, says(stop=StopReason.PAUSED)], MakeRoom(), id="a paused answer is gone on with"
        ),
        pytest.param([room, fails(BROKEN)], CallModel(2), id="a broken stream is tried again"),
        pytest.param(
            [room, fails(ServerError("overloaded"))], CallModel(2), id="so is a failing server"
        ),
        pytest.param(
            [room, fails(BROKEN), fails(BROKEN), fails(BROKEN)],
            End(error=BROKEN),
            id="but not for ever",
        ),
        pytest.param(
            [room, fails(BROKEN), says(CALL), ran, room],
            CallModel(1),
            id="an answer starts the attempts anew",
        ),
        pytest.param([room, fails(FULL)], MakeRoom(FULL, 1), id="a context limit makes room"),
        pytest.param(
            [room, fails(FULL), room, fails(FULL)],
            MakeRoom(FULL, 2),
            id="a second refusal is counted, so that more has to go",
        ),
        pytest.param(
            [room, *[fails(FULL), room] * 3, fails(FULL)],
            End(error=FULL),
            id="a window that never fits ends the turn",
        ),
    ],
)
def test_what_is_next(told: list[Told], action: Action) -> None:
    turn = Turn()
    for tell in told:
        tell(turn)
    assert turn.action == action


@pytest.mark.parametrize(
    "error", [RateLimitError("tokens per minute limit"), AuthError("no"), RejectedError("?")]
)
def test_what_another_attempt_does_not_mend_ends_the_turn(error: Exception) -> None:
    turn = Turn()
    turn.room_made()
    turn.failed(error)
    assert turn.action == End(error=error)


def test_calls_that_the_provider_answered_itself_are_not_run() -> None:
    turn = Turn()
    turn.room_made()
    search = FunctionCall("s", "web_search", {})
    message = Message(
        Role.MODEL,
        [
            Part(function_call=search),
            Part(function_response=ToolResult("s", "web_search", "found")),
            Part(function_call=CALL),
        ],
    )
    turn.answered(message, StopReason.TOOL_CALLS)
    assert turn.action == RunTools((CALL,))


def test_a_turn_ends_at_its_limit_of_steps_with_its_results_recorded() -> None:
    turn = Turn(max_steps=1)
    turn.room_made()
    turn.answered(answer(CALL), StopReason.TOOL_CALLS)
    assert turn.action == RunTools((CALL,))
    turn.tools_ran()
    action: Action = turn.action
    assert isinstance(action, End)
    assert isinstance(action.error, TooManyStepsError)
