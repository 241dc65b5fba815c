"""A stash in memory: for tests, and for sessions that leave nothing behind."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence

from jaato.kept import (
    ANYTHING,
    About,
    Compacted,
    Entry,
    Filter,
    Hit,
    Record,
    StashClosedError,
    UnknownHandleError,
    Verified,
)
from jaato.stash.catalogue import Catalogue
from jaato.stash.found import entry_of, found_rows, hits_of, wanted_rows
from jaato.stash.index import Index, InMemory
from jaato.stash.line import body_of
from jaato.stash.prepare import KEY_BYTES, Redact, named, prepared


class MemoryStash:
    """Keeps records as long as it lives itself."""

    def __init__(self, *, redact: Redact | None = None) -> None:
        self._redact = redact
        self._key = secrets.token_bytes(KEY_BYTES)
        self._records: dict[str, Record] = {}
        self._catalogue = Catalogue()
        self._index = Index(InMemory())
        self._bytes = 0
        self._is_closed = False
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not after `close`."""
        return not self._is_closed

    def put(self, records: Sequence[Record], handles: Sequence[str | None] = ()) -> list[str]:
        """Keep records, all or none. One handle for each."""
        many = prepared(records, handles, self._redact)
        with self._opened():
            answer = named(many, self._key, self._catalogue.is_taken, self._body)
            for handle, new in answer:
                if new is not None:
                    self._records[handle] = new.record
                    self._catalogue.add(handle, new.record, self._bytes, len(new.body))
                    self._bytes += len(new.body)
            return [handle for handle, _ in answer]

    def get(self, handle: str) -> Record:
        """The record, as it was put. Raises `UnknownHandleError`."""
        with self._opened():
            record = self._records.get(handle)
            if record is None:
                raise UnknownHandleError(handle, self._catalogue.fates.get(handle))
            return record

    def search(self, query: str, where: Filter = ANYTHING, limit: int = 10) -> list[Hit]:
        """The records that speak of it, best first; of equals, the newer one."""
        with self._opened():
            self._index.catch_up(self._catalogue.places, self._read)
            found, terms = found_rows(query, self._catalogue, self._index.parts, where, limit)
            return hits_of(found, terms, self._catalogue, self.get)

    def entries(
        self, where: Filter = ANYTHING, limit: int | None = None, before: str | None = None
    ) -> list[Entry]:
        """Records, the last one put first. `before`: go on behind the entry of this handle."""
        with self._opened():
            rows = wanted_rows(self._catalogue, where, limit, before)
            handles = [self._catalogue.handles[row] for row in rows]
            return [entry_of(handle, self._records[handle]) for handle in handles]

    def remove(self, handles: Iterable[str]) -> int:
        """Forget records for good; how many there were."""
        with self._opened():
            known = {handle for handle in handles if handle in self._records}
            for handle in known:
                del self._records[handle]
                self._catalogue.bury(handle, "removed")
            return len(known)

    def compact(self) -> Compacted:
        """Give back the room of what was removed: of its words in the index."""
        with self._opened():
            before = self._bytes
            old, self._catalogue, self._bytes = self._catalogue, Catalogue(), 0
            self._index = Index(InMemory())
            self._catalogue.fates = old.fates
            for row, handle in enumerate(old.handles):
                if row not in old.buried:
                    length = old.lengths[row]
                    self._catalogue.add(handle, self._records[handle], self._bytes, length)
                    self._bytes += length
            return Compacted(
                records=len(self._records), bytes_before=before, bytes_after=self._bytes
            )

    def verify(self) -> Verified:
        """Memory is taken at its word."""
        with self._opened():
            return Verified(
                records=len(self._records), bytes=self._bytes, durability="gone with the process"
            )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._is_closed = True
            self._records.clear()

    def _opened(self) -> threading.RLock:
        if self._is_closed:
            raise StashClosedError("the stash is closed", hint="make a new one")
        return self._lock

    def _body(self, handle: str) -> bytes | None:
        record = self._records.get(handle)
        return None if record is None else body_of(record)

    def _read(self, first: int, end: int) -> Iterator[tuple[str, About] | None]:
        for handle in self._catalogue.handles[first:end]:
            record = self._records.get(handle)
            yield None if record is None else (record.text, record)
