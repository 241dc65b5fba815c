"""What happens next in a turn: a state machine that awaits nothing and touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jaato.exchange import ContextLimitError, NetworkError, ServerError, StopReason
from jaato.history import FunctionCall, Message
from jaato.session.problems import TooManyStepsError

DEFAULT_RETRIES: Final = 2
"""Tries again after a stream that broke off; the SDK retries what never began."""
DEFAULT_REFUSALS: Final = 3
"""How often in a row a provider may say that it does not fit."""


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """See to it that the next request fits. `refused`: the provider has just said it does not."""

    refused: ContextLimitError | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send the conversation. `attempt` counts from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls, and take their results into the history."""

    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The turn is over, by an answer or by an error."""

    text: str = ""
    error: Exception | None = None


Action = MakeRoom | CallModel | RunTools | End


class Turn:
    """Says what to do, is told what came of it, and says what to do then."""

    def __init__(
        self,
        *,
        max_steps: int | None = None,
        retries: int = DEFAULT_RETRIES,
        refusals: int = DEFAULT_REFUSALS,
    ) -> None:
        self.steps = 0
        self.action: Action = MakeRoom()
        self._max_steps = max_steps
        self._retries = retries
        self._refusals = refusals
        self._refused = 0
        self._attempt = 1

    def room_made(self) -> None:
        """The request fits."""
        self.action = CallModel(self._attempt)

    def answered(self, message: Message, stop: StopReason) -> None:
        """The answer is complete and in the history."""
        self.steps += 1
        self._attempt, self._refused = 1, 0
        calls = _waiting(message)
        if calls:
            self.action = RunTools(calls)
        elif stop is StopReason.PAUSED:
            self._go_on()
        else:
            self.action = End(message.text)

    def tools_ran(self) -> None:
        """The results are in the history."""
        self._go_on()

    def failed(self, error: Exception) -> None:
        """The call came to nothing; the history is as it was before it."""
        if isinstance(error, ContextLimitError):
            self._refused += 1
            if self._refused <= self._refusals:
                self.action = MakeRoom(error, self._refused)
                return
        elif isinstance(error, NetworkError | ServerError) and self._attempt <= self._retries:
            self._attempt += 1
            self.action = CallModel(self._attempt)
            return
        self.action = End(error=error)

    def stopped(self, error: Exception) -> None:
        """Something else than the provider ends the turn."""
        self.action = End(error=error)

    def _go_on(self) -> None:
        if self._max_steps is not None and self.steps >= self._max_steps:
            self.action = End(error=TooManyStepsError(self.steps))
        else:
            self.action = MakeRoom()


def _waiting(message: Message) -> tuple[FunctionCall, ...]:
    """The calls that nobody has answered: not those that the provider ran itself."""
    left = list(message.call_ids)
    calls: list[FunctionCall] = []
    for call in reversed(message.function_calls):
        if call.id in left:
            left.remove(call.id)
            calls.append(call)
    return tuple(reversed(calls))
