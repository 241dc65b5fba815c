"""What stands between a session and whatever a telemetry backend raises."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Final, Self

_LOG: Final = logging.getLogger("jaato.telemetry")


class Guard:
    """`with guard:` goes on after any `Exception`, and logs the first one ever."""

    __slots__ = ("_lock", "_said")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        if not isinstance(error, Exception):
            return False
        with self._lock:
            first, self._said = not self._said, True
        if first:
            _LOG.warning(
                "telemetry failed; the session goes on, and further failures are not logged",
                exc_info=error,
            )
        return True
