"""The `Telemetry` that watches nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self


class _Unwatched:
    """A span that keeps nothing. One object serves every operation, nested or parallel."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def set(self, **facts: Any) -> None:
        """Nothing."""

    def fail(self, error: BaseException) -> None:
        """Nothing."""


_UNWATCHED: Final = _Unwatched()


class _Off:
    """Gives the same empty span to everybody."""

    __slots__ = ()

    def span(self, operation: str, **facts: Any) -> _Unwatched:  # noqa: ARG002 -- the port's signature
        """The empty span."""
        return _UNWATCHED

    def __repr__(self) -> str:
        return "OFF"


OFF: Final = _Off()
"""Watches nothing: what a session has unless it is given another."""
