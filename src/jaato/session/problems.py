"""What can go wrong in a session, beyond what a provider says."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.errors import JaatoError, UsageError


class WindowFullError(JaatoError):
    """The next request does not fit, and nothing that may leave would make it fit."""

    def __init__(self, needed: int, limit: int | None, fillers: Sequence[tuple[str, int]]) -> None:
        largest = "; ".join(f"{what}: {tokens:,}" for what, tokens in fillers)
        room = "the model's window" if limit is None else f"a window of {limit:,}"
        super().__init__(
            f"the next request needs {needed:,} tokens of {room}, and nothing more may leave. "
            f"The largest parts: {largest or 'none'}",
            hint="unpin turns, lower preserve_recent_turns, shorten the system instructions, or "
            "take a model with a larger window",
        )
        self.needed = needed
        self.limit = limit
        self.fillers = tuple(fillers)
        self.prompt_was_taken = True
        """False: the history is as it was before the prompt, which has to be sent again."""

    def __reduce__(self) -> tuple[type[WindowFullError], tuple[object, ...]]:
        return type(self), (self.needed, self.limit, self.fillers)


class TooManyStepsError(JaatoError):
    """A turn went on for longer than its limit of steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(
            f"the turn was stopped after {steps} steps",
            hint="raise max_steps, or call continue_turn() to go on",
        )
        self.steps = steps

    def __reduce__(self) -> tuple[type[TooManyStepsError], tuple[int]]:
        return type(self), (self.steps,)


class JournalError(JaatoError):
    """A session's log cannot be written or read."""


class SessionBusyError(UsageError):
    """Something is asked of a session that is in the middle of a turn."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} has to wait until the turn is over",
            hint="await the running call, or interrupt() it",
        )


class NotConnectedError(UsageError):
    """A client that has no model yet."""

    def __init__(self) -> None:
        super().__init__(
            "the client is not connected",
            hint='call connect("openai:gpt-5.5"), connect(provider=…, model=…) or, for Vertex AI, '
            "connect(project, location, model)",
        )
