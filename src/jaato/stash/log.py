"""The file in which a stash keeps its records: lines that are appended, or the whole file anew."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from jaato.kept import StashFormatError
from jaato.stash.disk import Disk, write_all, write_new
from jaato.stash.line import LINE_START, checked_line, is_whole
from jaato.stash.prepare import KEY_BYTES

VERSION: Final = 1
_CHUNK: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 16
_MARK: Final = b'"jaato_stash"'


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a log."""

    name: str
    """Tells this file from the one that a compaction puts in its place."""
    key: bytes
    """Makes the handles of this stash impossible to guess. A compaction keeps it."""
    length: int = 0

    @classmethod
    def new(cls, key: bytes | None = None) -> Header:
        """The header of another log."""
        return cls(secrets.token_hex(8), key or secrets.token_bytes(KEY_BYTES))

    def line(self) -> bytes:
        """As it is written."""
        head = {"jaato_stash": VERSION, "log": self.name, "key": self.key.hex()}
        return checked_line(json.dumps(head, separators=(",", ":"))[1:].encode())


class Log:
    """An open log. Who appends to it holds the lock of its folder."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Raises `OSError`, and `StashFormatError` where it is of another version."""
        self.path = path
        self._disk = disk
        self.descriptor = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        try:
            self.header = self._header()
        except BaseException:
            os.close(self.descriptor)
            raise

    @property
    def size(self) -> int:
        """How long the file is now, with what others wrote."""
        return os.fstat(self.descriptor).st_size

    def is_current(self) -> bool:
        """Whether the file still has its name: a compaction puts another one in its place."""
        try:
            named = os.stat(self.path)  # noqa: PTH116 -- four times as fast, on each access
        except FileNotFoundError:
            return False
        mine = os.fstat(self.descriptor)
        return (named.st_ino, named.st_dev) == (mine.st_ino, mine.st_dev)

    def append(self, data: bytes) -> int:
        """Write behind the end; where it stands. Raises `OSError`, and takes back what it can."""
        before = self.size
        try:
            write_all(self._disk, self.descriptor, data)
        except OSError:
            with suppress(OSError):
                self.cut(before)
            raise
        return before

    def sync(self) -> None:
        """Make what is written survive a power cut. Raises `OSError`: then nobody knows."""
        self._disk.fsync(self.descriptor)

    def cut(self, length: int) -> None:
        """Take away what stands behind."""
        self._disk.truncate(self.descriptor, length)

    def read(self, place: int, length: int) -> bytes:
        """What stands there."""
        return os.pread(self.descriptor, length, place)

    def lines(self, place: int) -> Iterator[tuple[int, bytes]]:
        """Each line from there on and where it stands; the last one may lack its line feed."""
        rest = b""
        at = place + len(rest)
        while chunk := os.pread(self.descriptor, _CHUNK, at):
            at += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield place, line + b"\n"
                place += len(line) + 1
        if rest:
            yield place, rest

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)

    def _header(self) -> Header:
        start = self.read(0, _LONGEST_HEADER)
        line = start[: start.find(b"\n") + 1]
        if is_whole(line):
            head = json.loads(line)
            if "jaato_stash" in head:
                return self._known(head, len(line))
        elif start and not (_MARK in start or LINE_START in start):
            raise StashFormatError(
                f"{self.path} is not a stash", hint="give a folder that holds one, or an empty one"
            )
        # Its own header is gone; what is left of it is found damaged like any other line.
        name = f"{os.fstat(self.descriptor).st_ino:016x}"
        return Header(name, secrets.token_bytes(KEY_BYTES), 0)

    def _known(self, head: dict[str, Any], length: int) -> Header:
        version = head["jaato_stash"]
        if version != VERSION:
            raise StashFormatError(
                f"{self.path} is a stash of version {version!r:.20}",
                hint=f"this jaato reads version {VERSION}; a newer one may have written it",
            )
        return Header(head["log"], bytes.fromhex(head["key"]), length)


def write_log(path: Path, header: Header, lines: Iterable[bytes], disk: Disk) -> None:
    """A log appears under its name, durable; the one that was there is gone. Raises `OSError`."""
    write_new(disk, path, chain((header.line(),), lines), is_synced=True)
