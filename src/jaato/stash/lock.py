"""A lock that processes share: many readers, or one writer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from jaato.kept import StashBusyError
from jaato.stash.disk import FILE_MODE

_FIRST_PAUSE: Final = 0.0002
_LONGEST_PAUSE: Final = 0.01


class FolderLock:
    """Locks a folder through a file in it. A process that dies lets go.

    One thread at a time: threads of a process share what it holds.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        self._is_held = False

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """Nobody writes meanwhile; `alone`: nobody reads either. Raises `StashBusyError`.

        Inside a held lock it has no effect.
        """
        if self._is_held:
            yield
            return
        self._wait(alone=alone)
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self._release()

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _wait(self, *, alone: bool) -> None:
        try:
            import fcntl  # noqa: PLC0415 -- not on every system; there one process is the user's care
        except ImportError:
            return
        assert self._descriptor is not None
        how = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
        until = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._descriptor, how)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise StashBusyError(
                        f"the stash in {self._path.parent} was not free for {self._timeout:g} s",
                        hint="another process holds it: is one stopped in the middle of a write?",
                    ) from None
            else:
                return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _release(self) -> None:
        with suppress(ImportError):
            import fcntl  # noqa: PLC0415 -- as above

            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
