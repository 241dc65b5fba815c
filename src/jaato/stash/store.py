"""The log of a stash and the catalogue of what is in it, kept together while others write too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, assert_never

from jaato.kept import (
    About,
    Compacted,
    Damage,
    DamagedRecordError,
    StashClosedError,
    UnknownHandleError,
)
from jaato.stash.catalogue import Catalogue
from jaato.stash.checkpoint import load_checkpoint, save_checkpoint
from jaato.stash.disk import FOLDER_MODE, Disk, drop_drafts, sync_folder, write_error
from jaato.stash.line import gone_line, is_whole
from jaato.stash.lines_read import Broken, Gone, Kept, Seen, Torn, seen_in
from jaato.stash.lock import FolderLock
from jaato.stash.log import Header, Log, write_log
from jaato.stash.quarantine import Quarantine

LOG_NAME: Final = "stash.jsonl"
WORTH_A_CHECKPOINT: Final = 4_096
_NO_FOLDER: Final = "it needs a folder of its own that may be written"
_NOTHING_CHANGED: Final = "nothing was kept of this put; what was kept before is whole"
_OPEN_ANEW: Final = "open the stash again and verify it: what it held before is on the disk"


class Store:
    """One process's view of a stash in a folder. One thread at a time.

    Others may append, cut off what a dead process left, and put a compacted log in the place of
    this one. `refresh` follows them; all of it happens under the folder's lock.
    """

    def __init__(self, folder: Path, disk: Disk, lock_timeout: float) -> None:
        self.folder = folder
        self.damages: list[Damage] = []
        """What was found damaged since the stash was opened."""
        self._disk = disk
        self._log: Log | None = None
        self._is_name_durable = False
        self._saved_rows = 0
        self.catalogue, self.end = Catalogue(), 0
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._lock = FolderLock(folder / "lock", lock_timeout)
            self._quarantine = Quarantine(folder / "quarantine.jsonl", disk)
            with self._lock.held(alone=True):
                drop_drafts(folder)
                self._path = folder / LOG_NAME
                if not self._path.exists():
                    write_log(self._path, Header.new(), (), disk)
                self._open()
        except OSError as error:
            raise write_error(
                f"the stash in {folder} cannot be opened", error, _NO_FOLDER
            ) from error

    @property
    def is_open(self) -> bool:
        """False after `close`, and after a failed sync."""
        return self._log is not None

    @property
    def log_name(self) -> str:
        """The name of the log: another one after a compaction."""
        return self._opened().header.name

    # What others did

    def refresh(self) -> None:
        """Take in what was written since. Raises `StashClosedError`, `StashBusyError`."""
        log = self._opened()
        if log.is_current() and log.size == self.end:
            return
        with self._lock.held(alone=False):
            self._follow()

    @contextmanager
    def writing(self) -> Iterator[Log]:
        """Alone with the log, which ends with a whole line."""
        self._opened()
        with self._lock.held(alone=True):
            self._follow()
            self._mend_end()
            yield self._opened()

    # What is there

    def line(self, handle: str) -> bytes:
        """The whole line of a record. Raises `UnknownHandleError`, `DamagedRecordError`."""
        row = self.catalogue.row(handle)
        if row is None:
            fate = self.catalogue.fates.get(handle)
            if fate == "damaged":
                raise DamagedRecordError(handle)
            raise UnknownHandleError(handle, fate)
        raw = self.raw(row)
        line = raw if raw.endswith(b"\n") else raw + b"\n"
        if is_whole(line) and b'"id":"%b"' % handle.encode() in line[:128]:
            return line
        self._found(Broken(self.catalogue.places[row], raw, handle))
        raise DamagedRecordError(handle)

    def raw(self, row: int) -> bytes:
        """What stands where a record's line should."""
        try:
            return self._opened().read(self.catalogue.places[row], self.catalogue.lengths[row])
        except OSError:
            return b""  # The disk cannot read it: damaged, as far as anyone can tell.

    # What is written

    def append(self, lines: Sequence[tuple[str, About | None, bytes]]) -> None:
        """Write lines and make them durable, all or none. Only inside `writing`.

        Each with its handle, and what it says of its record; None: that it is removed.
        """
        log = self._opened()
        data = b"".join([line for _, _, line in lines])
        try:
            place = log.append(data) if data else log.size
        except OSError as error:
            if log.size != self.end:
                self._give_up()
            what = f"the stash in {self.folder} cannot be written"
            raise write_error(what, error, _NOTHING_CHANGED) from error
        self._sync(log, place)
        for handle, about, line in lines:
            if about is None:
                self.catalogue.bury(handle, "removed")
            else:
                self.catalogue.add(handle, about, self.end, len(line))
            self.end += len(line)

    def rewrite(self) -> Compacted:
        """Put a log without what is gone in the place of this one. Only inside `writing`."""
        log, before = self._opened(), self.end
        header = Header.new(log.header.key)
        try:
            write_log(self._path, header, self._living_lines(), self._disk)
        except OSError as error:
            if not log.is_current():
                self._give_up()
            what = f"the stash in {self.folder} cannot be compacted"
            raise write_error(what, error, "it is as it was before") from error
        self._reopen()
        return Compacted(records=self.catalogue.alive, bytes_before=before, bytes_after=self.end)

    def look_through(self) -> int:
        """Read every record, set aside what is damaged; how many bytes. Only inside `writing`."""
        log = self._opened()
        for seen in seen_in(log.lines(log.header.length)):
            if isinstance(seen, Broken):
                self._found(seen)
        for handle in [*self.catalogue.handles]:
            if self.catalogue.row(handle) is not None:
                with suppress(DamagedRecordError):
                    self.line(handle)
        return self.end

    def close(self) -> None:
        """Let go of the files."""
        if self._log is not None:
            self._save_checkpoint(self._log)
            self._log.close()
            self._log = None
            self._lock.close()

    # Inside

    def _opened(self) -> Log:
        if self._log is None:
            raise StashClosedError(f"the stash in {self.folder} is closed", hint=_OPEN_ANEW)
        return self._log

    def _open(self) -> None:
        self._log = log = Log(self._path, self._disk)
        self._is_name_durable = False
        loaded = load_checkpoint(self.folder, log)
        self.catalogue, self.end = loaded or (Catalogue(), log.header.length)
        self._saved_rows = len(self.catalogue)
        self._take_in(seen_in(log.lines(self.end)))
        for handle in self._quarantine.handles:
            if not self.catalogue.is_taken(handle):
                self.catalogue.bury(handle, "damaged")
        self._save_checkpoint(log)

    def _reopen(self) -> None:
        self._opened().close()
        self._log = None
        try:
            self._open()
        except OSError as error:
            raise write_error(
                f"the stash in {self.folder} cannot be read", error, _OPEN_ANEW
            ) from error

    def _follow(self) -> None:
        log = self._opened()
        # A log that got shorter is not the one that we know, whatever it is called.
        if not log.is_current() or log.size < self.end:
            self._reopen()
        elif log.size > self.end:
            self._take_in(seen_in(log.lines(self.end)))

    def _take_in(self, several: Iterable[Seen]) -> None:
        """Only under the lock: what stands at the end does not grow meanwhile."""
        catalogue = self.catalogue
        for seen in several:
            match seen:
                case Kept(handle, head, place, length):
                    if catalogue.is_free_for(handle):
                        catalogue.add_head(handle, head, place, length)
                case Gone(handle, fate):
                    catalogue.bury(handle, fate)
                case Broken():
                    self._found(seen)
                case Torn(place):
                    self.end = place
                    return
                case _:
                    assert_never(seen)
        self.end = self._opened().size

    def _mend_end(self) -> None:
        """Cut off a line that a dead process did not finish."""
        log = self._opened()
        if log.size == self.end:
            return
        raw = log.read(self.end, log.size - self.end)
        # All but the line feed may be there: then it was acknowledged.
        whole = next((one + b"\n" for one in (raw, raw[:-1]) if is_whole(one + b"\n")), b"")
        try:
            if not whole:
                self._set_aside(Broken(self.end, raw, None), "never finished")
            log.cut(self.end)
            if whole:
                log.append(whole)
                self._take_in(seen_in(log.lines(self.end)))
        except OSError as error:
            what = f"the stash in {self.folder} cannot be written"
            raise write_error(what, error, _NOTHING_CHANGED) from error

    def _sync(self, log: Log, place: int) -> None:
        try:
            log.sync()
            if not self._is_name_durable:
                sync_folder(self._disk, self.folder)
                self._is_name_durable = True
        except OSError as error:
            # Nobody knows what is on the disk now: this handle is not used again, and what was
            # not acknowledged is taken back so that nobody sees it.
            with suppress(OSError):
                log.cut(place)
            self._give_up()
            raise write_error(
                f"the stash in {self.folder} cannot be synced", error, _OPEN_ANEW
            ) from error

    def _give_up(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _living_lines(self) -> Iterator[bytes]:
        catalogue = self.catalogue
        for row, handle in enumerate(catalogue.handles):
            if row not in catalogue.buried:
                with suppress(DamagedRecordError):
                    yield self.line(handle)
        for handle, fate in catalogue.fates.items():
            yield gone_line(handle, fate)

    def _found(self, broken: Broken) -> None:
        if broken.handle is not None:
            catalogue, handle = self.catalogue, broken.handle
            row = catalogue.row(handle)
            is_it = row is None or catalogue.places[row] == broken.place
            if is_it and catalogue.fates.get(handle) != "removed":
                catalogue.bury(handle, "damaged")
        self._set_aside(broken, "the checksum does not match")

    def _set_aside(self, broken: Broken, why: str) -> None:
        where = f"{len(broken.raw):,} bytes at {broken.place:,} of {LOG_NAME}: {why}"
        try:
            self._quarantine.set_aside(
                broken.raw, why=why, place=broken.place, handle=broken.handle
            )
            kept_in = str(self._quarantine.path)
        except OSError:
            kept_in = None  # It stays where it is, and is found again.
        damage = Damage(what=where, handle=broken.handle, set_aside_in=kept_in)
        if damage not in self.damages:
            self.damages.append(damage)

    def _save_checkpoint(self, log: Log) -> None:
        if len(self.catalogue) - self._saved_rows < WORTH_A_CHECKPOINT:
            return
        with suppress(OSError):
            # Of lines that a power cut may take away again it must not speak.
            log.sync()
            save_checkpoint(self.folder, log.header.name, self.catalogue, self.end, self._disk)
            self._saved_rows = len(self.catalogue)
