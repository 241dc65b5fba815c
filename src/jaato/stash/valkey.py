"""A stash on a Valkey (or Redis) server, which processes and machines share."""

from __future__ import annotations

import json
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jaato.errors import MissingExtraError, UsageError
from jaato.kept import (
    ANYTHING,
    Compacted,
    Damage,
    DamagedRecordError,
    Entry,
    Filter,
    Hit,
    Record,
    StashBusyError,
    StashClosedError,
    StashError,
    StashFormatError,
    StashFullError,
    StashUnavailableError,
    StashWriteError,
    UnknownHandleError,
    Verified,
    is_handle,
)
from jaato.stash.catalogue import Catalogue
from jaato.stash.found import checked_limit, entry_of, found_rows, hits_of, wanted_rows
from jaato.stash.line import body_of, head_of, is_whole, record_line, record_of
from jaato.stash.prepare import KEY_BYTES, Prepared, Redact, named, prepared
from jaato.stash.rank import best_rows
from jaato.stash.terms import NUMBER_MASK, Terms, postings_of
from jaato.stash.valkey_keys import (
    ADD,
    PUT,
    REMOVE,
    SHRINK,
    SWITCH,
    Keys,
    ServerPart,
    packed,
    unpacked,
)

VERSION: Final = 1
_TRIES: Final = 20
_NOTHING: Final = "nothing was kept"
_LISTED_AT_ONCE: Final = 10_000
_FETCHED_AT_ONCE: Final = 200
_WORDS_AT_ONCE: Final = 4_000
"""Terms and postings in turn: the server answers nobody else meanwhile, for some milliseconds."""
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0


class ValkeyStash:
    """Keeps records on a server. How durable they are is the server's setting: see `verify`."""

    def __init__(
        self,
        url: str = "valkey://localhost:6379/0",
        *,
        name: str = "stash",
        redact: Redact | None = None,
    ) -> None:
        """`name`: a server may hold several. `redact`: takes secrets out before they are sent."""
        try:
            import valkey  # noqa: PLC0415 -- only who has a server pays for its client
            from valkey import backoff, exceptions, retry  # noqa: PLC0415 -- likewise
        except ImportError as error:
            raise MissingExtraError("valkey", extra="valkey") from error
        if not is_handle(name):
            raise UsageError(f"{name!r:.80} cannot name a stash", hint="letters, digits and '-'")
        self._errors = exceptions
        self._keys = Keys(name)
        self._redact = redact
        self._lock = threading.RLock()
        self._terms = Terms()
        self._is_closed = False
        try:
            self._client: Any = valkey.Valkey.from_url(
                # Redis is spoken to in the same way, under its own name.
                url.replace("redis", "valkey", 1) if url.startswith("redis") else url,
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
                # Every command may be sent twice: equal records are one.
                retry=retry.Retry(backoff.ExponentialBackoff(cap=0.5, base=0.02), 5),
                retry_on_error=[exceptions.ConnectionError, exceptions.TimeoutError],
            )
        except ValueError as error:
            # Not the address itself: there may be a password in it.
            raise UsageError(
                f"the address of the stash cannot be used: {error}",
                hint="like valkey://host:6379/0",
            ) from error
        self._part = ServerPart(self._client, self._keys)
        with self._talking():
            self._put_script = self._client.register_script(PUT)
            self._add_script = self._client.register_script(ADD)
            self._remove_script = self._client.register_script(REMOVE)
            self._switch_script = self._client.register_script(SWITCH)
            self._shrink_script = self._client.register_script(SHRINK)
            self._found_stash()
            self._start_over("")
            self._refresh()

    @property
    def is_open(self) -> bool:
        """Whether it can be used: not after `close`."""
        return not self._is_closed

    def put(self, records: Sequence[Record], handles: Sequence[str | None] = ()) -> list[str]:
        """Keep records, all or none. One handle for each."""
        many = prepared(records, handles, self._redact)
        with self._talking():
            for _ in range(_TRIES):
                self._refresh()
                answer = named(many, self._key, self._catalogue.is_taken, self._body)
                new = [(handle, one) for handle, one in answer if one is not None]
                if not new or self._kept(new):
                    self._refresh()
                    return [handle for handle, _ in answer]
        raise StashBusyError("others took the same handles again and again", hint="put again")

    def get(self, handle: str) -> Record:
        """The record, as it was put. Raises `UnknownHandleError`, `DamagedRecordError`."""
        with self._talking():
            return self._record(handle)

    def search(self, query: str, where: Filter = ANYTHING, limit: int = 10) -> list[Hit]:
        """The records that speak of it, best first; of equals, the newer one."""
        checked_limit(limit)
        with self._talking():
            self._refresh()
            catalogue, places = self._catalogue, self._catalogue.places
            if not any(char.isalnum() for char in query):
                found, terms = found_rows(query, catalogue, (), where, limit)
                return hits_of(found, terms, catalogue, self._record)
            # A number without a row is of a put that was never finished.
            meant = {places[row] for row in catalogue.rows(where)}
            best, terms = best_rows(
                query, [self._part], meant=meant, gone=set(), total=catalogue.alive, limit=limit
            )
            rows = [(self._rows[number], score) for number, score in best]
            return hits_of(rows, terms, catalogue, self._record)

    def entries(
        self, where: Filter = ANYTHING, limit: int | None = None, before: str | None = None
    ) -> list[Entry]:
        """Records, the last one put first. `before`: go on behind the entry of this handle."""
        with self._talking():
            self._refresh()
            rows = wanted_rows(self._catalogue, where, limit, before)
            handles = [self._catalogue.handles[row] for row in rows]
            read = ((one, _record_in(one, line)) for one, line in self._lines(handles))
            return [entry_of(one, record) for one, record in read if record is not None]

    def remove(self, handles: Iterable[str]) -> int:
        """Forget records for good; how many there were."""
        told = [part for one in handles for part in (one, json.dumps({"gone": one}))]
        with self._talking():
            removed = int(self._remove_script(keys=self._keys.four, args=told))
            self._refresh()
            return removed

    def compact(self) -> Compacted:
        """Give back the room of what was removed: its words, and its lines in the log."""
        with self._talking():
            self._refresh()
            before = self._bytes()
            self._shrink_postings()
            self._shrink_log()
            self._refresh()
            after = self._bytes()
            return Compacted(records=self._catalogue.alive, bytes_before=before, bytes_after=after)

    def verify(self) -> Verified:
        """Fetch every record."""
        with self._talking():
            self._refresh()
            damages, size = [], 0
            alive = [one for one in self._catalogue.handles if self._catalogue.row(one) is not None]
            for handle, line in self._lines(alive):
                size += len(line)
                if _record_in(handle, line) is None:
                    damages.append(Damage(what=f"{len(line):,} bytes on the server", handle=handle))
            return Verified(
                records=self._catalogue.alive,
                bytes=size,
                damages=tuple(damages),
                durability=self._durability(),
            )

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            self._is_closed = True
            self._client.close()

    # Inside

    def _bytes(self) -> int:
        """What the log takes on the server: compacting it gives that back."""
        return int(self._client.memory_usage(self._keys.log(self._log), samples=0) or 0)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """One thread at a time; what the client raises becomes ours."""
        with self._lock:
            if self._is_closed:
                raise StashClosedError("the stash is closed", hint="make a new one")
            try:
                yield
            except (self._errors.ConnectionError, self._errors.TimeoutError) as error:
                raise StashUnavailableError(
                    f"the server of the stash cannot be reached: {error}",
                    hint="start it; a put that was under way may be kept or not: make it again",
                ) from error
            except self._errors.OutOfMemoryError as error:
                raise StashFullError(
                    f"the server has no room: {error}", hint="raise its maxmemory"
                ) from error
            except self._errors.ReadOnlyError as error:
                raise StashWriteError(f"the server refused: {error}", hint=_NOTHING) from error
            except self._errors.ValkeyError as error:
                raise _told(error) from error

    def _found_stash(self) -> None:
        """Make the stash, or meet the one that is there."""
        facts, new_log = self._keys.facts, secrets.token_hex(8)
        pipe = self._client.pipeline()
        pipe.hsetnx(facts, "version", VERSION)
        pipe.hsetnx(facts, "key", secrets.token_bytes(KEY_BYTES).hex())
        pipe.hsetnx(facts, "log", new_log)
        pipe.hmget(facts, "version", "key")
        version, key = pipe.execute()[-1]
        if int(version) != VERSION:
            raise StashFormatError(
                f"the stash {self._keys.name!r} is of version {version.decode()!r:.20}",
                hint=f"this jaato reads version {VERSION}; a newer one may have written it",
            )
        self._key = bytes.fromhex(key.decode())

    def _start_over(self, log: str) -> None:
        self._log = log
        self._seen = 0
        self._catalogue = Catalogue()
        self._rows: dict[int, int] = {}
        """Row by number."""

    def _refresh(self) -> None:
        """Take in what was put and removed since."""
        while True:
            pipe = self._client.pipeline()
            pipe.hget(self._keys.facts, "log")
            end = self._seen + _LISTED_AT_ONCE
            pipe.lrange(self._keys.log(self._log), self._seen, end - 1)
            log, heads = pipe.execute()
            name = (log or b"").decode()
            if name != self._log:
                self._start_over(name)
                continue
            for head in heads:
                self._take_in(json.loads(head))
            self._seen += len(heads)
            if len(heads) < _LISTED_AT_ONCE:
                return

    def _take_in(self, head: dict[str, Any]) -> None:
        if "gone" in head:
            self._catalogue.bury(head["gone"], "removed")
        elif self._catalogue.is_free_for(head["id"]):
            self._rows[head["number"]] = len(self._catalogue)
            self._catalogue.add_head(head["id"], head, head["number"], 0)

    def _kept(self, new: Sequence[tuple[str, Prepared]]) -> bool:
        """Send records to the server; False where a handle was taken meanwhile."""
        last = int(self._client.incrby(self._keys.numbers, len(new)))
        told: list[bytes | str] = []
        postings: defaultdict[str, list[int]] = defaultdict(list)
        for number, (handle, one) in enumerate(new, start=last - len(new) + 1):
            if number > NUMBER_MASK:
                raise StashFullError("a stash holds 16 million records", hint="begin another one")
            line = record_line(handle, one.body)
            head = {**head_of(line), "number": number}
            del head["sum"]
            told += [handle, line, json.dumps(head)]
            for term, posting in postings_of(
                self._terms.counts(one.record.text, one.record), number
            ):
                postings[term].append(posting)
        # Words first: a record that is there can be found.
        keys = [self._keys.postings(""), self._keys.terms]
        words = [part for term, several in postings.items() for part in (term, packed(several))]
        for at in range(0, len(words), _WORDS_AT_ONCE):
            self._add_script(keys=keys, args=words[at : at + _WORDS_AT_ONCE])
        return bool(self._put_script(keys=self._keys.four, args=told))

    def _record(self, handle: str) -> Record:
        line = self._client.hget(self._keys.records, handle)
        if line is None:
            self._refresh()
            raise UnknownHandleError(handle, self._catalogue.fates.get(handle))
        record = _record_in(handle, line)
        if record is None:
            raise DamagedRecordError(handle)
        return record

    def _lines(self, handles: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The lines of handles, but of those that were removed meanwhile."""
        for at in range(0, len(handles), _FETCHED_AT_ONCE):
            some = handles[at : at + _FETCHED_AT_ONCE]
            lines = self._client.hmget(self._keys.records, some)
            yield from ((one, line) for one, line in zip(some, lines, strict=True) if line)

    def _body(self, handle: str) -> bytes | None:
        try:
            return body_of(self._record(handle))
        except (UnknownHandleError, DamagedRecordError):
            return None

    def _shrink_postings(self) -> None:
        living = {number for number, row in self._rows.items() if row not in self._catalogue.buried}
        # A number that is newer than what we know is being put.
        newest = max(self._rows, default=0)
        for some in self._part.everything():
            pipe = self._client.pipeline(transaction=False)
            for term, old in some:
                there = unpacked(old)
                kept = [
                    one
                    for one in there
                    if (one & NUMBER_MASK) in living or one & NUMBER_MASK > newest
                ]
                if len(kept) < len(there):
                    keys = [self._keys.postings(term), self._keys.terms]
                    self._shrink_script(keys=keys, args=[old, packed(kept), term], client=pipe)
            pipe.execute()

    def _shrink_log(self) -> None:
        old, new = self._log, secrets.token_hex(8)
        heads = self._client.lrange(self._keys.log(old), 0, -1)
        read = [json.loads(head) for head in heads]
        gone = {head["gone"] for head in read if "gone" in head}
        kept = [
            head
            for head, told in zip(heads, read, strict=True)
            if "gone" in told or told["id"] not in gone
        ]
        length = len(heads)
        while kept or length:
            for at in range(0, len(kept), _LISTED_AT_ONCE):
                self._client.rpush(self._keys.log(new), *kept[at : at + _LISTED_AT_ONCE])
            now = int(self._switch_script(keys=self._keys.four, args=[old, new, length]))
            if now == -1:  # Another compaction was faster.
                self._client.delete(self._keys.log(new))
            if now < 0:
                return
            kept = self._client.lrange(self._keys.log(old), length, now - 1)
            length = now

    def _durability(self) -> str:
        try:
            config = self._client.config_get("append*")
        except self._errors.ValkeyError:
            return "not known: the server does not say"
        if config.get("appendonly") != "yes":
            return "gone with the server: set appendonly yes and appendfsync always"
        if config.get("appendfsync") != "always":
            return "up to a second may be lost: set appendfsync always"
        return "durable on return"


def _record_in(handle: str, line: bytes) -> Record | None:
    """The record of a line that is what was written, under this handle."""
    if not is_whole(line):
        return None
    name, record = record_of(line)
    return record if name == handle else None


def _told(error: Exception) -> StashError:
    text = str(error)
    if text.startswith(("MISCONF", "NOPERM", "NOREPLICAS")):
        return StashWriteError(f"the server refused: {text}", hint=_NOTHING)
    return StashError(f"the server of the stash refused: {text}", hint="is it another's?")
