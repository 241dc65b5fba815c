"""Kills processes that write to a stash, and looks whether what they acknowledged is there.

    python bench/stash_crash.py [RUNS] [--seed N]

Each run kills a child with SIGKILL at a random moment while it appends, while it removes and
compacts, or while another child writes to the same stash. Then the stash is opened: every
acknowledged record must be there, unless its removal began; what was acknowledged as removed must
be gone; and whatever is there must be what was put, to the byte. A folder lives through several
runs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jaato.kept import Record, UnknownHandleError
from jaato.stash import index, store
from jaato.stash.disk import Disk
from jaato.stash.files import FileStash

RUNS = 2_000
RUNS_PER_FOLDER = 20
LONGEST_SECONDS = 0.03
SIZES = (0, 1, 5, 100, 100, 100, 5_000)
SCENARIOS = ("append", "compact", "two writers")


@dataclass
class Expected:
    """What a folder must hold. A removal that began may have happened or not."""

    kept: dict[str, str] = field(default_factory=dict)
    removing: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    def hear(self, said: bytes) -> None:
        """Take in what a child said before it died. A line that was cut off was not said."""
        for line in said.decode().split("\n")[:-1]:
            word, handle, *key = line.split(" ", 2)
            if word == "put":
                self.kept[handle] = key[0]
            elif word == "removing":
                self.removing.add(handle)
            else:
                self.removed.add(handle)


def text_of(key: str) -> str:
    """The text that belongs to a key: of any size, and like no other."""
    return f'{key} é\n"{{' * SIZES[int(key, 16) % len(SIZES)]


class Piecemeal(Disk):
    """A disk that takes a few bytes at a time, so that kills come in the middle of a line."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def write(self, descriptor: int, data: memoryview) -> int:
        """Some of it."""
        return super().write(descriptor, data[: self._rng.randrange(1, 1_500)])


def record_of(key: str) -> Record:
    """A record from whose label its text can be told."""
    return Record(text=text_of(key), label=key)


def append(stash: FileStash, say: Callable[[str], None], rng: random.Random) -> None:
    """Put groups of records, for ever."""
    while True:
        keys = [f"{rng.getrandbits(64):x}" for _ in range(rng.choice((1, 1, 5, 40)))]
        handles = stash.put([record_of(key) for key in keys])
        say("".join(f"put {one} {key}\n" for one, key in zip(handles, keys, strict=True)))
        if rng.random() < 0.1:
            stash.search(keys[0])


def compact(stash: FileStash, say: Callable[[str], None], rng: random.Random) -> None:
    """Put, remove and compact, for ever."""
    while True:
        keys = [f"{rng.getrandbits(64):x}" for _ in range(6)]
        handles = stash.put([record_of(key) for key in keys])
        say("".join(f"put {one} {key}\n" for one, key in zip(handles, keys, strict=True)))
        gone = handles[::2]
        say("".join(f"removing {handle}\n" for handle in gone))
        stash.remove(gone)
        say("".join(f"removed {handle}\n" for handle in gone))
        stash.compact()


def child(folder: Path, work: Callable[..., None], seed: int) -> tuple[int, int]:
    """A process that works on a stash until it is killed; its number, and where it speaks."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid:
        os.close(mouth)
        return pid, ear
    try:
        rng = random.Random(seed)
        stash = FileStash(folder, disk=rng.choice((Disk(), Piecemeal(rng))))
        work(stash, lambda said: os.write(mouth, said.encode()), rng)
    except BaseException:  # noqa: BLE001 -- a child that fails is a finding, not a crash
        traceback.print_exc()
    os._exit(70)


def heard(pid: int, ear: int) -> bytes:
    """All that a child said, once it is dead."""
    said = b""
    while piece := os.read(ear, 1 << 16):
        said += piece
    os.close(ear)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "a child failed by itself"
    return said


def run(folder: Path, scenario: str, expected: Expected, rng: random.Random) -> None:
    """One run: work, a kill, and a look."""
    works = {"append": [append], "compact": [compact], "two writers": [append, compact]}[scenario]
    rng.shuffle(works)
    children = [child(folder, work, rng.getrandbits(64)) for work in works]
    for pid, _ in children:
        # What a child says meanwhile fits into the pipe, or it waits.
        time.sleep(rng.uniform(0.001, LONGEST_SECONDS))
        os.kill(pid, signal.SIGKILL)
    for pid, ear in children:
        expected.hear(heard(pid, ear))


def look(folder: Path, expected: Expected, rng: random.Random) -> int:
    """Assert that everything is as it must be; how many records were looked at."""
    stash = FileStash(folder)
    for handle, key in expected.kept.items():
        try:
            record = stash.get(handle)
        except UnknownHandleError:
            assert handle in expected.removing, f"{handle} was acknowledged and is lost"
            continue
        assert handle not in expected.removed, f"{handle} was removed and is back"
        assert record == record_of(key), f"{handle} has another content"
    entries = stash.entries()
    for entry in entries:
        assert stash.get(entry.handle).text == text_of(entry.about.label)
    for entry in rng.sample(entries, min(3, len(entries))):
        assert entry.handle in {hit.entry.handle for hit in stash.search(entry.about.label)}
    # What was never finished is no damage to what was.
    assert all("never finished" in one.what for one in stash.verify().damages)
    stash.close()
    return len(entries)


def main() -> None:
    """Run, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    # So small that every run writes them.
    index.SMALL, index.LARGE, store.WORTH_A_CHECKPOINT = 16, 64, 8  # type: ignore[misc]
    rng = random.Random(arguments.seed)
    seen: Counter[str] = Counter()
    acknowledged = 0
    began = time.monotonic()
    folder, expected = Path(), Expected()
    for number in range(arguments.runs):
        if number % RUNS_PER_FOLDER == 0:
            if number:
                shutil.rmtree(folder)
            folder, expected = Path(tempfile.mkdtemp(prefix="stash-crash-")), Expected()
        scenario = rng.choice(SCENARIOS)
        before = len(expected.kept)
        run(folder, scenario, expected, rng)
        torn = (folder / "quarantine.jsonl").exists()
        look(folder, expected, rng)
        acknowledged += len(expected.kept) - before
        seen.update({scenario: 1, "torn": not torn and (folder / "quarantine.jsonl").exists()})
    shutil.rmtree(folder, ignore_errors=True)
    took = time.monotonic() - began
    kinds = ", ".join(f"{seen[name]:,} {name}" for name in SCENARIOS)
    print(f"{arguments.runs:,} kills ({kinds}), seed {arguments.seed}, {took:.0f} s")
    print(f"  {acknowledged:,} records acknowledged, none lost, none wrong; {seen['torn']} torn")


if __name__ == "__main__":
    main()
