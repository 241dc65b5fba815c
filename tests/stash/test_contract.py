"""Memory and files keep what every stash promises; so does any sequence of what can be asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stash.stash_contract import CHECKS, Check

from jaato.errors import MissingExtraError
from jaato.kept import Record
from jaato.ports import Stash
from jaato.stash.disk import Disk
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash
from jaato.stash.valkey import ValkeyStash

Make = Callable[[Path], Stash]
STASHES = [
    pytest.param(lambda _folder: MemoryStash(), id="memory"),
    pytest.param(FileStash, id="files"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", STASHES)
def test_the_contract(make: Make, check: Check, tmp_path: Path) -> None:
    stash = make(tmp_path / "stash")
    try:
        check(stash)
    finally:
        stash.close()


def test_without_its_client_the_stash_on_a_server_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "valkey", None)
    with pytest.raises(MissingExtraError, match=r"jaato\[valkey\]"):
        ValkeyStash()


def test_what_threads_put_meanwhile_is_synced_together(tmp_path: Path) -> None:
    disk = SlowDisk()
    stash = FileStash(tmp_path, disk=disk)
    stash.put([Record(text="first")])
    disk.syncs, disk.is_open = 0, threading.Event()
    threads = [
        threading.Thread(target=stash.put, args=([Record(text=f"of {at}")],)) for at in range(6)
    ]
    for thread in threads:
        thread.start()
    while len(stash._group._waiting) < 5:
        pass
    disk.is_open.set()
    for thread in threads:
        thread.join()
    assert len(stash.entries()) == 7
    assert disk.syncs == 2


class SlowDisk(Disk):
    """Syncs when it is told to."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.syncs = 0

    def fsync(self, descriptor: int) -> None:
        self.syncs += 1
        self.is_open.wait()
        super().fsync(descriptor)
