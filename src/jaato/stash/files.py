"""A stash in a folder, which processes share: docs/design/stash.md."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from jaato.kept import (
    ANYTHING,
    About,
    Compacted,
    Damage,
    DamagedRecordError,
    Entry,
    Filter,
    Hit,
    Record,
    StashClosedError,
    StashError,
    UnknownHandleError,
    Verified,
)
from jaato.stash.disk import Disk
from jaato.stash.found import entry_of, found_rows, hits_of, wanted_rows
from jaato.stash.group import GroupCommit
from jaato.stash.index import Index
from jaato.stash.line import body_of, gone_line, record_line, record_of
from jaato.stash.part_files import PartFolder
from jaato.stash.prepare import Prepared, Redact, named, prepared
from jaato.stash.store import Store

LOCK_SECONDS = 30.0


class FileStash:
    """Keeps records in a folder. Any number of processes may have it open."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        redact: Redact | None = None,
        lock_timeout: float = LOCK_SECONDS,
        disk: Disk | None = None,
    ) -> None:
        """`redact`: takes secrets out of what is put, before it is written.

        `lock_timeout`: seconds after which a stash that another process holds is `StashBusyError`.
        """
        self._redact = redact
        self._disk = disk or Disk()
        self._lock = threading.RLock()
        self._store = Store(Path(folder), self._disk, lock_timeout)
        self._index, self._indexed = self._fresh_index()
        self._group: GroupCommit[Sequence[Prepared]] = GroupCommit(self._write, self._lock)
        self._process = os.getpid()

    @property
    def damages(self) -> tuple[Damage, ...]:
        """What was found damaged, or unfinished, since the stash was opened."""
        return tuple(self._store.damages)

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not after `close`, nor after a failed sync."""
        return self._store.is_open

    def put(self, records: Sequence[Record], handles: Sequence[str | None] = ()) -> list[str]:
        """Keep records, all or none; they are durable on return. One handle for each."""
        self._check_process()
        answer: list[str] = self._group.submit(prepared(records, handles, self._redact))
        return answer

    def get(self, handle: str) -> Record:
        """The record, as it was put. Raises `UnknownHandleError`, `DamagedRecordError`."""
        with self._fresh():
            return record_of(self._store.line(handle))[1]

    def search(self, query: str, where: Filter = ANYTHING, limit: int = 10) -> list[Hit]:
        """The records that speak of it, best first; of equals, the newer one.

        What was put since the last search is indexed first.
        """
        with self._fresh():
            self._catch_up()
            catalogue = self._store.catalogue
            found, terms = found_rows(query, catalogue, self._index.parts, where, limit)
            return hits_of(found, terms, catalogue, self._record)

    def entries(
        self, where: Filter = ANYTHING, limit: int | None = None, before: str | None = None
    ) -> list[Entry]:
        """Records, the last one put first. `before`: go on behind the entry of this handle.

        One that turns out to be damaged is left out, and stands in `damages`.
        """
        with self._fresh():
            rows = wanted_rows(self._store.catalogue, where, limit, before)
            handles = [self._store.catalogue.handles[row] for row in rows]
            return list(self._entries(handles))

    def remove(self, handles: Iterable[str]) -> int:
        """Forget records for good; how many there were. `compact` takes them off the disk.

        A damaged one counts: `verify` does not speak of it any more once it is off the disk.
        """
        self._check_process()
        with self._lock, self._store.writing():
            catalogue = self._store.catalogue
            known = {
                handle
                for handle in handles
                if catalogue.row(handle) is not None or catalogue.fates.get(handle) == "damaged"
            }
            self._store.append([(one, None, gone_line(one, "removed")) for one in sorted(known)])
            return len(known)

    def compact(self) -> Compacted:
        """Give back the room of what was removed."""
        self._check_process()
        with self._lock:
            with self._store.writing():
                old, is_of_this_log = self._store.catalogue, self._indexed == self._store.log_name
                if is_of_this_log:
                    self._index.adopt(old.places)
                compacted = self._store.rewrite()
            # Others need not wait for the index.
            index, self._indexed = self._fresh_index()
            if is_of_this_log:
                new = self._store.catalogue
                kept = [new.row(handle) is not None for handle in old.handles]
                index = self._index.after_compaction(kept, new.places, index.store, self._indexed)
            self._index = index
            return compacted

    def verify(self) -> Verified:
        """Read every record; what is damaged is set aside."""
        self._check_process()
        with self._lock, self._store.writing():
            size = self._store.look_through()
            fates = self._store.catalogue.fates
            gone = [handle for handle, fate in fates.items() if fate == "damaged"]
            told = {damage.handle for damage in self._store.damages}
            more = [Damage(what="damaged earlier", handle=one) for one in gone if one not in told]
            return Verified(
                records=self._store.catalogue.alive,
                bytes=size,
                damages=(*self._store.damages, *more),
            )

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            if self._store.is_open and self._indexed == self._store.log_name:
                self._index.keep(self._store.catalogue.places)
            self._store.close()

    def _fresh(self) -> threading.RLock:
        """The lock, after what others wrote was taken in."""
        self._check_process()
        with self._lock:
            self._store.refresh()
        return self._lock

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            # It shares its locks with the process that it came from.
            raise StashClosedError(
                "the stash was opened before this process was forked", hint="open it again here"
            )

    def _write(self, batches: Sequence[Sequence[Prepared]]) -> list[list[str]]:
        store = self._store
        with store.writing() as log:
            answer = named(
                chain.from_iterable(batches), log.header.key, store.catalogue.is_taken, self._body
            )
            store.append(
                [(name, new.record, record_line(name, new.body)) for name, new in answer if new]
            )
        names = iter([name for name, _ in answer])
        return [[next(names) for _ in batch] for batch in batches]

    def _body(self, handle: str) -> bytes | None:
        try:
            return body_of(self._record(handle))
        except StashError:
            return None

    def _record(self, handle: str) -> Record:
        return record_of(self._store.line(handle))[1]

    def _entries(self, handles: Iterable[str]) -> Iterator[Entry]:
        for handle in handles:
            try:
                yield entry_of(handle, self._record(handle))
            except (UnknownHandleError, DamagedRecordError):
                continue

    def _catch_up(self) -> None:
        if self._indexed != self._store.log_name:
            self._renew_index()
        self._index.catch_up(self._store.catalogue.places, self._read)

    def _renew_index(self) -> None:
        self._index, self._indexed = self._fresh_index()

    def _fresh_index(self) -> tuple[Index, str]:
        log = self._store.log_name
        parts = PartFolder(self._store.folder / "index", log, self._disk)
        parts.drop_others()
        return Index(parts, log), log

    def _read(self, first: int, end: int) -> Iterator[tuple[str, About] | None]:
        for handle in self._store.catalogue.handles[first:end]:
            try:
                record = self._record(handle)
            except (UnknownHandleError, DamagedRecordError):
                yield None
            else:
                yield record.text, record
