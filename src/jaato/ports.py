"""What the inside asks of the outside: one protocol per port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from jaato.exchange import Request, StreamEvent, ToolOutput, ToolSchema
from jaato.kept import ANYTHING, Compacted, Entry, Filter, Hit, Record, Verified


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts. Implementations live in `jaato.tokens`."""

    @property
    def name(self) -> str:
        """Tells counts of different vocabularies apart; kept beside every cached count."""
        ...

    @property
    def estimated(self) -> bool:
        """Whether counts may be off, so that "fits" needs a margin."""
        ...

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text. Never raises on any `str`; long input does not hold the GIL."""
        ...


@runtime_checkable
class Provider(Protocol):
    """Calls models. Implementations live in `jaato.providers`."""

    @property
    def name(self) -> str:
        """The name it is wired under: `openai`, `anthropic` and so on."""
        ...

    @property
    def binds_thoughts(self) -> bool:
        """Whether it refuses a replayed thought once anything in front of it has changed."""
        ...

    def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer as it comes; the last event is `Finished`. Raises `ProviderError` only.

        Closing the iterator early cancels the request.
        """
        ...

    async def context_limit(self, model: str) -> int | None:
        """The window of a model in tokens; None where it is not known. Never a guess."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class Tool(Protocol):
    """Something a model may call. Implementations live in `jaato.tools`."""

    @property
    def schema(self) -> ToolSchema:
        """What the model is told of it."""
        ...

    @property
    def discoverable(self) -> bool:
        """Whether its schema may leave the window, to be found again with `find_tools`."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds a call may take; None leaves it to the session."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """Run it. What it raises goes to the model as an error."""
        ...


@runtime_checkable
class Span(Protocol):
    """An operation that is being watched."""

    def set(self, **facts: Any) -> None:
        """Add what became known; None is left out."""
        ...

    def fail(self, error: BaseException) -> None:
        """Say that it failed."""
        ...


@runtime_checkable
class Telemetry(Protocol):
    """Watches a `session`, `turn`, `model_call`, `tool_call`, `collection` or `subagent`."""

    def span(self, operation: str, **facts: Any) -> AbstractContextManager[Span]:
        """A span around an operation; what is opened inside it is its child."""
        ...


@runtime_checkable
class Stash(Protocol):
    """Keeps what left the window. Implementations live in `jaato.stash`.

    May be called from any thread. What it raises is a `StashError`, or a `UsageError`.
    """

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not after `close`, nor after it gave up (a failed sync)."""
        ...

    def put(self, records: Sequence[Record], handles: Sequence[str | None] = ()) -> list[str]:
        """Keep records, all or none; they are durable on return. One handle for each.

        `handles`: names that records had elsewhere. One that is free, or has this very record, is
        kept; otherwise, and without one, the record gets a name made of its content.
        """
        ...

    def get(self, handle: str) -> Record:
        """The record, as it was put. Raises `UnknownHandleError`, `DamagedRecordError`."""
        ...

    def search(self, query: str, where: Filter = ANYTHING, limit: int = 10) -> list[Hit]:
        """The records that speak of it, best first; of equals, the newer one."""
        ...

    def entries(
        self, where: Filter = ANYTHING, limit: int | None = None, before: str | None = None
    ) -> list[Entry]:
        """Records, the last one put first. `before`: go on behind the entry of this handle."""
        ...

    def remove(self, handles: Iterable[str]) -> int:
        """Forget records for good; how many there were. Their handles get no second meaning."""
        ...

    def compact(self) -> Compacted:
        """Give back the room of what was removed."""
        ...

    def verify(self) -> Verified:
        """Look at every record."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
