"""GC plug-ins as strangers write them: as the specification prints one, and in every wrong way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaato.gc.config import GCConfig
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.history import Message, Part


class Printed:
    """The custom plug-in of the specification, which knows no budgets; it keeps the last half."""

    def __init__(self) -> None:
        self.asked: list[GCTriggerReason] = []

    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config: Any = None) -> None:
        self._config = config or {}

    def shutdown(self) -> None:
        pass

    def should_collect(self, context_usage: Any, config: GCConfig) -> Any:
        percent = context_usage.get("percent_used", 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history: Any, context_usage: Any, config: Any, reason: Any) -> Any:
        self.asked.append(reason)
        return halved(history, self.name, reason)


class Keyword(Printed):
    """Takes its budget by name only."""

    def collect(  # type: ignore[override]  # its own way of writing the contract
        self, history: Any, context_usage: Any, config: Any, reason: Any, *, budget: Any
    ) -> Any:
        assert budget.total_tokens() > 0
        return halved(history, self.name, reason)


class Awaited(Printed):
    """Is a coroutine, and leaves early what it was given."""

    async def collect(self, history: Any, *others: Any, **more: Any) -> Any:
        return halved(history, self.name, others[2])


class Greedy(Printed):
    """Changes the budget and the history that it is given, which is not its to do."""

    def collect(
        self, history: Any, context_usage: Any, config: Any, reason: Any, budget: Any = None
    ) -> Any:
        answer = halved(history, self.name, reason)
        budget.entries.clear()
        context_usage.clear()
        history.clear()
        return answer


def halved(history: list[Message], name: str, reason: GCTriggerReason) -> Any:
    """The first turn and the last half of the rest."""
    starts = [at for at, message in enumerate(history) if message.opens_turn]
    if len(starts) < 3:
        return list(history), GCResult(True, 0, 100, 100, name, reason)
    cut = starts[len(starts) // 2 + 1]
    kept = [*history[: starts[1]], *history[cut:]]
    return kept, GCResult(True, len(history) - len(kept), 1_000, 500, name, reason)


class Answering(Printed):
    """Answers whatever a test wants."""

    def __init__(self, answer: Callable[[list[Message], GCResult], Any]) -> None:
        super().__init__()
        self.answer = answer

    def collect(self, history: Any, context_usage: Any, config: Any, reason: Any) -> Any:
        self.asked.append(reason)
        return self.answer(history, GCResult(True, 1, 1_000, 500, self.name, reason))


class Listed(list[Message]):
    """A list of its own kind."""


def with_result(**changes: Any) -> Callable[[list[Message], GCResult], Any]:
    """Half of the history, and a result with something odd in it."""

    def answer(history: list[Message], good: GCResult) -> Any:
        kept, _ = halved(history, good.plugin_name, good.trigger_reason)
        for key, value in changes.items():
            setattr(good, key, value)
        return kept, good

    return answer


def raising(_history: Any, _good: Any) -> Any:
    raise RuntimeError("no")


def rewritten(at: int) -> Callable[[list[Message], GCResult], Any]:
    """The history with one message saying something else."""

    def answer(history: list[Message], good: GCResult) -> Any:
        changed = list(history)
        changed[at] = history[at].with_parts([Part(text="what you said")])
        return changed, good

    return answer


def without(*gone: int) -> Callable[[list[Message], GCResult], Any]:
    """The history without the messages at these positions."""

    def answer(history: list[Message], good: GCResult) -> Any:
        places = {at % len(history) for at in gone}
        return [one for at, one in enumerate(history) if at not in places], good

    return answer


ODD_ITEM: Any = "turn_3"
ODD_SOURCE = GCRemovalItem("conversation", "turn_3", 5)  # type: ignore[arg-type]  # as strangers do
