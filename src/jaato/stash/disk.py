"""The calls through which a stash changes the disk. Tests put faults in their place."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from jaato.kept import StashFullError, StashWriteError

DRAFT: Final = ".new"
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_GATHERED_BYTES: Final = 1 << 20
_CANNOT_SYNC_FOLDERS: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


class Disk:
    """The disk as it is."""

    def write(self, descriptor: int, data: memoryview) -> int:
        """As `os.write`: some of it may be left."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """As `os.fsync`."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """As `os.ftruncate`."""
        os.ftruncate(descriptor, length)

    def replace(self, source: Path, target: Path) -> None:
        """As `os.replace`."""
        source.replace(target)


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write to the end, however often it takes."""
    left = memoryview(data)
    while left:
        done = disk.write(descriptor, left)
        if done == 0:
            raise OSError(errno.EIO, "nothing was written")
        left = left[done:]


def sync_folder(disk: Disk, folder: Path) -> None:
    """Make the names in a folder survive a power cut, where its file system has to be told."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        disk.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def drop_drafts(folder: Path) -> None:
    """Take away what processes that died had not finished. Who still writes a cache writes none."""
    with suppress(OSError):
        for path in folder.glob(f"*{DRAFT}"):
            path.unlink(missing_ok=True)


def write_new(disk: Disk, path: Path, pieces: Iterable[bytes], *, is_synced: bool) -> None:
    """A file appears under its name, whole or not at all."""
    # Its own name: others may write the same file.
    draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}{DRAFT}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        try:
            for data in _gathered(pieces):
                write_all(disk, descriptor, data)
            if is_synced:
                disk.fsync(descriptor)
        finally:
            os.close(descriptor)
        disk.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_synced:
        sync_folder(disk, path.parent)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces."""
    together: list[bytes] = []
    size = 0
    for piece in pieces:
        together.append(piece)
        size += len(piece)
        if size >= _GATHERED_BYTES:
            yield b"".join(together)
            together, size = [], 0
    yield b"".join(together)


def write_error(what: str, error: OSError, hint: str) -> StashWriteError:
    """The error of a stash whose disk refused."""
    kind = StashFullError if error.errno in _NO_ROOM else StashWriteError
    return kind(f"{what}: {error.strerror or error}", hint=hint)
