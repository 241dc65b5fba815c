"""The finished parts of an index as files. Any of them may be lost: it is built again."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from jaato.stash.disk import FOLDER_MODE, Disk, drop_drafts, write_new
from jaato.stash.parts import FinishedPart, PartError

_SUFFIX: Final = ".part"


class PartFolder:
    """Parts are found by their names: the log's, the first row, and how many there are."""

    def __init__(self, folder: Path, log: str, disk: Disk) -> None:
        self._folder = folder
        self._log = log
        self._disk = disk

    def load(self, base: int, places: array[int]) -> FinishedPart | None:
        """The largest part that begins at this row and is of this log."""
        for _, path in sorted(self._named(base), reverse=True):
            with suppress(OSError, PartError, ValueError):
                part = _mapped(path)
                end = base + part.rows
                is_ours = (part.log, part.base) == (self._log, base) and end <= len(places)
                if is_ours and part.places.tobytes() == places[base:end].tobytes():
                    return part
            with suppress(OSError):
                path.unlink()
        return None

    def save(self, data: bytes) -> FinishedPart:
        """Keep a part. One that cannot be written stays in memory."""
        part = FinishedPart(data)
        path = self._folder / f"{self._log}-{part.base}-{part.rows}{_SUFFIX}"
        try:
            self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            # Not synced: it carries a checksum, and can be built again.
            write_new(self._disk, path, (data,), is_synced=False)
            return _mapped(path)
        except (OSError, PartError, ValueError):
            return part

    def drop(self, parts: Sequence[FinishedPart]) -> None:
        """Parts that a larger one holds."""
        for part in parts:
            with suppress(OSError):
                (self._folder / f"{self._log}-{part.base}-{part.rows}{_SUFFIX}").unlink()

    def drop_others(self) -> None:
        """Parts of a log that is no more, and what was never finished."""
        drop_drafts(self._folder)
        with suppress(OSError):
            for path in self._folder.glob("*"):
                if not path.name.startswith(f"{self._log}-"):
                    path.unlink()

    def _named(self, base: int) -> Iterator[tuple[int, Path]]:
        for path in self._folder.glob(f"{self._log}-{base}-*{_SUFFIX}"):
            with suppress(ValueError):
                yield int(path.stem.rsplit("-", 1)[1]), path


def _mapped(path: Path) -> FinishedPart:
    with path.open("rb") as file:
        return FinishedPart(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
