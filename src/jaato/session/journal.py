"""A session's log as a file: one line a record, appended, survived by `kill -9` at any point."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jaato.errors import UsageError
from jaato.session.problems import JournalError
from jaato.session.record import Record, RecordError, record_from_dict, record_to_dict

SUFFIX: Final = ".jsonl"
LONGEST_NAME: Final = 120
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Written:
    """What a log holds, and what of it could not be kept."""

    records: tuple[tuple[Record, float, int], ...]
    """Each with when it was written, and where it stands."""
    length: int
    torn: int
    """Bytes of a last line that was never finished."""


class Journal:
    """Appends records to one file. One process at a time: the file is locked."""

    def __init__(self, path: Path, descriptor: int, length: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self._length = length
        self._is_dirty = False

    @classmethod
    def create(cls, path: Path) -> Journal:
        """A new log. Raises where one is there already."""
        try:
            path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, _FILE_MODE)
        except FileExistsError:
            raise UsageError(
                f"there is a session named {path.stem!r} already", hint="resume it by its name"
            ) from None
        except OSError as error:
            raise _failed(path, "created", error) from error
        _lock(path, descriptor)
        _sync_folder(path.parent)
        return cls(path, descriptor, 0)

    @classmethod
    def resume(cls, path: Path) -> tuple[Journal, Written]:
        """A log that is there, and what it holds; a torn last line is cut off."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise UsageError(
                f"there is no session named {path.stem!r}", hint="list_sessions() names them"
            ) from None
        except OSError as error:
            raise _failed(path, "opened", error) from error
        _lock(path, descriptor)
        try:
            written = read_journal(path)
            if written.torn:
                os.ftruncate(descriptor, written.length)
        except OSError as error:
            os.close(descriptor)
            raise _failed(path, "read", error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, written.length), written

    def append(self, record: Record, at: float) -> int:
        """Write a record, whole or not at all; where it stands."""
        if self._descriptor is None:
            raise JournalError(
                f"the log of session {self.path.stem!r} is closed", hint="resume the session"
            )
        data = memoryview(_line_of(self.path, record, at))
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
        except OSError as error:
            self._cut_back()
            raise _failed(self.path, "written", error) from error
        where = self._length
        self._length += len(data)
        self._is_dirty = True
        return where

    def take_back(self, where: int) -> None:
        """Cut off what was written from there on: it was written, and could not be applied."""
        self._length = where
        if self._descriptor is not None:
            self._cut_back()

    def text_at(self, where: int) -> str | None:
        """The text that was stashed in the record that stands there."""
        with self.path.open("rb") as file:
            file.seek(where)
            line = file.readline()
        try:
            text = _parsed(line)["text"]
        except (ValueError, KeyError, TypeError):
            return None
        return text if isinstance(text, str) else None

    def sync(self) -> None:
        """Make what is written survive a power cut."""
        if self._descriptor is None or not self._is_dirty:
            return
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            # After a failed fsync nobody knows what is on the disk: the handle is not used again.
            self.close()
            raise _failed(self.path, "synced", error) from error
        self._is_dirty = False

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _cut_back(self) -> None:
        """A half-written line must not swallow the next one."""
        assert self._descriptor is not None
        try:
            os.ftruncate(self._descriptor, self._length)
        except OSError:
            self.close()


def _line_of(path: Path, record: Record, at: float) -> bytes:
    try:
        line = json.dumps(
            record_to_dict(record, at), ensure_ascii=False, separators=(",", ":"), default=str
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(
            f"the log of session {path.stem!r} cannot hold a {type(record).__name__}: {error}",
            hint="nothing was changed in the session",
        ) from error
    # Lone surrogates come back as they were, and so do pairs of them that make a character.
    return line.encode("utf-8", "surrogatepass") + b"\n"


def _parsed(line: bytes) -> Any:
    return json.loads(line.decode("utf-8", "surrogatepass"))


def read_journal(path: Path) -> Written:
    """What a log holds. Reads it only; a torn last line is left out."""
    records: list[tuple[Record, float, int]] = []
    length = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return Written(tuple(records), length, len(line))
            try:
                records.append((*record_from_dict(_parsed(line)), length))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _unreadable(path, number, error) from error
            length += len(line)
    return Written(tuple(records), length, 0)


def journal_path(folder: Path, session_id: str) -> Path:
    """Where a session's log is. A name is only ever a name: it cannot lead elsewhere."""
    is_plain = session_id and all(char.isalnum() or char in "-_." for char in session_id)
    if not is_plain or session_id.startswith(".") or len(session_id) > LONGEST_NAME:
        raise UsageError(
            f"{session_id!r:.80} cannot name a session",
            hint="letters, digits, '-', '_' and '.', at most 120, not starting with '.'",
        )
    return folder / f"{session_id}{SUFFIX}"


def session_names(folder: Path) -> Iterator[str]:
    """The sessions that have a log, newest first."""
    try:
        paths = sorted(folder.glob(f"*{SUFFIX}"), key=lambda one: -one.stat().st_mtime)
    except OSError:
        return
    yield from (path.stem for path in paths)


def _lock(path: Path, descriptor: int) -> None:
    try:
        import fcntl  # noqa: PLC0415 -- not on every system; there two writers are the user's care
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise JournalError(
            f"session {path.stem!r} is open elsewhere", hint="close it there first"
        ) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # Some file systems refuse to sync a folder; the file itself is synced.
    finally:
        os.close(descriptor)


def _unreadable(path: Path, number: int, error: Exception) -> JournalError:
    where = f"line {number} of the log of session {path.stem!r} cannot be read"
    if isinstance(error, RecordError):
        return JournalError(f"{where}: {error.args[0]}", hint=error.hint)
    return JournalError(
        f"{where}: {error!r}",
        hint="the file was changed by something else; earlier lines are whole",
    )


def _failed(path: Path, what: str, error: OSError) -> JournalError:
    reason = error.strerror or str(error)
    return JournalError(
        f"the log of session {path.stem!r} cannot be {what}: {reason}",
        hint="nothing was changed in the session",
    )
