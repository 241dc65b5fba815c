"""A disk that writes less than it should, has no room, or fails to sync."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from jaato.kept import (
    Record,
    StashClosedError,
    StashError,
    StashFullError,
    StashWriteError,
)
from jaato.stash.disk import Disk
from jaato.stash.files import FileStash


class FaultyDisk(Disk):
    """Each list holds what the next calls do; an exhausted one works."""

    def __init__(self) -> None:
        self.writes: list[int | OSError] = []
        self.syncs: list[OSError | None] = []
        self.truncates: list[OSError | None] = []
        self.replaces: list[OSError | None] = []

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.writes:
            answer = self.writes.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return super().write(descriptor, data[: max(answer, 1)])
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        fail(self.syncs)
        super().fsync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        fail(self.truncates)
        super().truncate(descriptor, length)

    def replace(self, source: Path, target: Path) -> None:
        fail(self.replaces)
        super().replace(source, target)


def fail(errors: list[OSError | None]) -> None:
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
IO = OSError(errno.EIO, os.strerror(errno.EIO))
RECORDS = [Record(text=f"text {at} " * 20) for at in range(3)]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def stash(tmp_path: Path, disk: FaultyDisk) -> FileStash:
    stash = FileStash(tmp_path, disk=disk)
    stash.put([Record(text="kept before")])
    return stash


def texts(stash: FileStash) -> list[str]:
    return [stash.get(entry.handle).text for entry in reversed(stash.entries())]


def test_short_writes_are_finished(stash: FileStash, disk: FaultyDisk, tmp_path: Path) -> None:
    disk.writes = [1, 5, 100, 3]
    stash.put(RECORDS)
    again = FileStash(tmp_path)
    assert texts(again) == ["kept before", *(record.text for record in RECORDS)]
    assert again.verify().is_sound


@pytest.mark.parametrize("writes", [[], [0], [300], [30, 2]])
@pytest.mark.parametrize(("error", "kind"), [(FULL, StashFullError), (IO, StashWriteError)])
def test_a_put_without_room_keeps_nothing_and_breaks_nothing(
    stash: FileStash,
    disk: FaultyDisk,
    tmp_path: Path,
    writes: list[int | OSError],
    error: OSError,
    kind: type[StashError],
) -> None:
    disk.writes = [*writes, error]
    with pytest.raises(kind) as caught:
        stash.put(RECORDS)
    assert caught.value.hint
    assert type(caught.value) is kind
    assert texts(stash) == texts(FileStash(tmp_path)) == ["kept before"]
    stash.put(RECORDS)
    again = FileStash(tmp_path)
    assert len(texts(again)) == 4
    assert again.damages == ()


def test_a_write_that_cannot_be_taken_back_ends_the_handle(
    stash: FileStash, disk: FaultyDisk, tmp_path: Path
) -> None:
    disk.writes, disk.truncates = [300, FULL], [IO]
    with pytest.raises(StashWriteError):
        stash.put(RECORDS)
    with pytest.raises(StashClosedError):
        stash.put(RECORDS)
    again = FileStash(tmp_path)
    again.put(RECORDS)
    assert sorted(texts(again)) == sorted(["kept before", *(record.text for record in RECORDS)])


@pytest.mark.parametrize("truncates", [[], [IO]], ids=["taken back", "not taken back"])
def test_a_failed_sync_is_the_end_of_the_handle(
    stash: FileStash, disk: FaultyDisk, tmp_path: Path, truncates: list[OSError | None]
) -> None:
    disk.syncs, disk.truncates = [IO], truncates
    with pytest.raises(StashWriteError, match="synced"):
        stash.put(RECORDS)
    for _ in range(2):
        with pytest.raises(StashClosedError):
            stash.put(RECORDS)
        with pytest.raises(StashClosedError):
            stash.entries()
    again = FileStash(tmp_path)
    assert again.verify().is_sound
    assert again.put(RECORDS) == again.put(RECORDS)
    assert sorted(texts(again)) == sorted(["kept before", *(record.text for record in RECORDS)])


def test_what_is_there_already_is_synced_all_the_same(stash: FileStash, disk: FaultyDisk) -> None:
    stash.put(RECORDS)
    disk.syncs = [IO]
    with pytest.raises(StashWriteError):
        stash.put(RECORDS)


@pytest.mark.parametrize("fault", ["write", "sync", "replace"])
def test_a_compaction_that_fails_changes_nothing(
    stash: FileStash, disk: FaultyDisk, tmp_path: Path, fault: str
) -> None:
    stash.remove(stash.put([Record(text="gone")]))
    before = sorted(path.name for path in tmp_path.iterdir())
    if fault == "write":
        disk.writes = [50, FULL]
    elif fault == "sync":
        disk.syncs = [IO]
    else:
        disk.replaces = [IO]
    with pytest.raises(StashWriteError):
        stash.compact()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    stash.put(RECORDS)
    assert len(texts(stash)) == len(texts(FileStash(tmp_path))) == 4
    assert stash.compact().records == 4


def test_a_compaction_whose_name_may_be_lost_ends_the_handle(
    stash: FileStash, disk: FaultyDisk, tmp_path: Path
) -> None:
    disk.syncs = [None, IO]
    with pytest.raises(StashWriteError):
        stash.compact()
    with pytest.raises(StashClosedError):
        stash.put(RECORDS)
    assert texts(FileStash(tmp_path)) == ["kept before"]


def test_an_index_that_cannot_be_written_stays_in_memory(
    stash: FileStash, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jaato.stash.index.SMALL", 2)
    stash.put(RECORDS)
    disk.writes = [FULL] * 9
    assert len(stash.search("text")) == 3


def test_damage_is_reported_where_it_cannot_be_set_aside(
    stash: FileStash, disk: FaultyDisk, tmp_path: Path
) -> None:
    (handle,) = stash.put([Record(text="precious")])
    path = tmp_path / "stash.jsonl"
    path.write_bytes(path.read_bytes().replace(b"precious", b"pre!ious"))
    disk.writes = [FULL]
    with pytest.raises(StashError):
        stash.get(handle)
    assert stash.damages[0].set_aside_in is None


@pytest.mark.parametrize("seed", range(30))
def test_a_disk_that_fails_at_random_loses_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 -- not for secrets
    disk = FaultyDisk()
    stash = FileStash(tmp_path, disk=disk)
    kept: dict[str, Record] = {}
    for at in range(40):
        if rng.random() < 0.5:
            disk.writes = [rng.randrange(1, 300) for _ in range(rng.randrange(4))]
            disk.writes += [rng.choice([FULL, IO])] * rng.randrange(2)
            disk.syncs = [None] * rng.randrange(3) + [IO] * rng.randrange(2)
            disk.truncates = [IO] * (rng.random() < 0.2)
        records = [Record(text=f"{seed} {at} {one} " * rng.randrange(1, 9)) for one in range(3)]
        try:
            if rng.random() < 0.2:
                stash.compact()
            kept.update(zip(stash.put(records), records, strict=True))
        except StashError:
            disk.writes, disk.syncs, disk.truncates = [], [], []
            stash.close()
            stash = FileStash(tmp_path, disk=disk)
        assert all(stash.get(handle) == record for handle, record in kept.items())
    assert FileStash(tmp_path).verify().is_sound
