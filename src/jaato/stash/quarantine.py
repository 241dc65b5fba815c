"""Where damaged bytes are set aside, so that a compaction takes away nothing that may be needed."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from jaato.stash.disk import FILE_MODE, Disk, write_all

LARGEST: Final = 1 << 20
"""Of more damaged bytes in one place, the beginning is set aside."""


class Quarantine:
    """A file of JSON Lines, made when there is something to set aside."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self._known: set[str] = set()
        self.handles: set[str] = set()
        """Handles whose record was damaged, as far as they could be read."""
        for entry in self._entries():
            self._known.add(entry["digest"])
            if entry.get("handle"):
                self.handles.add(entry["handle"])

    def set_aside(self, raw: bytes, *, why: str, place: int, handle: str | None) -> bool:
        """Keep damaged bytes; False where they are there already. Raises `OSError`."""
        digest = blake2b(b"%d:%b" % (place, raw), digest_size=16).hexdigest()
        if digest in self._known:
            return False
        entry = {
            "why": why,
            "place": place,
            "handle": handle,
            "digest": digest,
            "bytes": len(raw),
            "raw": base64.b64encode(raw[:LARGEST]).decode(),
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self.path, flags, FILE_MODE)
        try:
            # On a line of its own, whatever became of the one before.
            write_all(self._disk, descriptor, b"\n" + json.dumps(entry).encode() + b"\n")
            self._disk.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._known.add(digest)
        if handle is not None:
            self.handles.add(handle)
        return True

    def _entries(self) -> Iterator[dict[str, Any]]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and "digest" in entry:
                    yield entry
