"""Files: what is on the disk, and who else writes there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stash.folders import LOG, filled

import jaato
from jaato.errors import UsageError
from jaato.kept import (
    Record,
    StashBusyError,
    StashClosedError,
    StashError,
    StashFormatError,
)
from jaato.stash.files import FileStash
from jaato.stash.line import checked_line

# What is on the disk


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "stash"
    stash = FileStash(folder)
    stash.put([Record(text="a")])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_lines_are_json_with_a_versioned_header(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    header, *lines = (tmp_path / LOG).read_text(encoding="utf-8").splitlines()
    assert json.loads(header)["jaato_stash"] == 1
    assert [json.loads(line)["id"] for line in lines] == handles


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    line = checked_line(b'"jaato_stash":2,"log":"x","key":"00"}')
    (tmp_path / LOG).write_bytes(line)
    with pytest.raises(StashFormatError, match="version 2"):
        FileStash(tmp_path)


def test_what_is_no_stash_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b"my diary\n")
    with pytest.raises(StashFormatError):
        FileStash(tmp_path)
    assert (tmp_path / LOG).read_bytes() == b"my diary\n"


def test_secrets_go_before_anything_is_written(tmp_path: Path) -> None:
    stash = FileStash(tmp_path, redact=lambda text: text.replace("hunter2", "***"))
    record = Record(
        text="password: hunter2",
        label="hunter2",
        files=("hunter2.txt",),
        tags=("hunter2",),
        extra={"hunter2": ["hunter2", {"a": "hunter2"}]},
    )
    (handle,) = stash.put([record])
    assert stash.get(handle).text == "password: ***"
    stash.search("password")
    stash.close()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()


def test_a_redaction_that_fails_keeps_nothing(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        raise RuntimeError(text)

    stash = FileStash(tmp_path, redact=redact)
    with pytest.raises(RuntimeError):
        stash.put([Record(text="secret")])
    assert stash.entries() == []


def test_what_a_dead_process_left_half_written_is_cleared(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "index").mkdir(exist_ok=True)
    drafts = [tmp_path / "stash.jsonl.7.1.new", tmp_path / "index" / "x.part.7.1.new"]
    for draft in drafts:
        draft.write_bytes(b"half")
    FileStash(tmp_path)
    assert not any(draft.exists() for draft in drafts)


def test_removed_is_off_the_disk_after_a_compaction(tmp_path: Path) -> None:
    stash = FileStash(tmp_path)
    stash.remove(stash.put([Record(text="unforgettable")]))
    stash.compact()
    assert b"unforgettable" not in (tmp_path / LOG).read_bytes()


# Others


def test_processes_share_a_stash(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from jaato.kept import Record\n"
        "from jaato.stash.files import FileStash\n"
        "stash = FileStash(sys.argv[1])\n"
        "for line in sys.stdin:\n"
        "    print(stash.put([Record(text=line.strip())])[0], flush=True)\n"
    )
    stash = FileStash(tmp_path)
    source = str(Path(jaato.__file__).parents[1])
    with subprocess.Popen(  # noqa: S603 -- our own interpreter
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for number in range(5):
            other.stdin.write(f"from elsewhere {number}\n")
            other.stdin.flush()
            handle = other.stdout.readline().strip()
            assert stash.get(handle).text == f"from elsewhere {number}"
            assert stash.search(f"elsewhere {number}")[0].entry.handle == handle
            stash.put([Record(text=f"from here {number}")])
            if number == 2:
                stash.compact()
        other.stdin.close()
        assert other.wait() == 0
    assert len(stash.entries()) == 10


def test_a_stash_that_is_held_says_so(tmp_path: Path) -> None:
    holder, other = FileStash(tmp_path), FileStash(tmp_path, lock_timeout=0.01)
    with holder._store.writing(), pytest.raises(StashBusyError, match="not free"):
        other.put([Record(text="a")])
    other.put([Record(text="a")])


def test_a_fork_has_to_open_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stash = FileStash(tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StashClosedError, match="forked"):
        stash.put([Record(text="a")])


def test_a_stash_cannot_be_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "stash").write_text("x", encoding="utf-8")
    with pytest.raises((StashError, UsageError)):
        FileStash(tmp_path / "stash")
