"""`jaato stash` where something is missing or wrong, as a process, and on a server."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stash_calls import (
    HALVES,
    LOG,
    SCRIPT,
    command,
    done,
    failed,
    jaato,
    search_of,
)
from tests.stash.redis_server import PROGRAM, Server

from jaato.cli.stash_options import DEFAULT_PLACE
from jaato.kept import Record
from jaato.stash.files import FileStash

READING = (
    ("list",),
    ("search", "words"),
    ("show", "log"),
    ("restore", "log"),
    ("compact",),
    ("verify",),
    ("export",),
)


# What is not there, or not allowed


@pytest.mark.parametrize("arguments", READING, ids=lambda given: given[0])
@pytest.mark.parametrize("kind", ["nothing", "an empty folder", "a file"])
def test_a_stash_that_is_not_there_is_not_made(
    tmp_path: Path, arguments: tuple[str, ...], kind: str
) -> None:
    where = tmp_path / "stash"
    if kind == "an empty folder":
        where.mkdir()
    elif kind == "a file":
        where.write_text("mine")
    said = failed(*arguments, "--stash", str(where))
    assert said == (
        f"Error: there is no stash in '{where}' (name its place: --stash PLACE, or JAATO_STASH)\n"
    )
    assert where.exists() is (kind != "nothing")
    assert [path for path in tmp_path.rglob("*") if path != where] == []


@pytest.mark.parametrize("handle", ["zzz", "../../x", "/etc/passwd", "", "..", "log ", "stash"])
@pytest.mark.parametrize("name", ["show", "restore", "list"])
def test_an_unknown_handle_is_no_path(place: str, handle: str, name: str) -> None:
    what = ["list", "--before", handle] if name == "list" else [name, handle]
    said = failed(*what, "--stash", place)
    assert repr(handle) in said
    assert "is not in the stash" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["lst"], "Did you mean 'list'?", id="a mistyped command"),
        pytest.param(["list", "--since", "yesterday"], "'yesterday' is no time", id="no time"),
        pytest.param(["list", "--until", "2026-13-01"], "is no time", id="a month too many"),
        pytest.param(["search", "x", "--since", ""], "'' is no time", id="an empty time"),
        pytest.param(["list", "--limit", "0"], "x>=1", id="a limit of nothing"),
        pytest.param(["list", "--turn", "one"], "'one' is not a valid integer", id="no turn"),
        pytest.param(["search"], "Missing argument", id="no words"),
        pytest.param(["show"], "Missing argument", id="no handle"),
        pytest.param(["import", "none.json"], "'none.json'", id="no such file"),
        pytest.param(["list", "--stash", ""], "'' is no place", id="no place"),
        pytest.param(["list", "--stash", ":memory:"], "is no place", id="a place without records"),
    ],
)
def test_a_wrong_call_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = jaato(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count(said) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_place_comes_from_the_environment(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_STASH", place)
    assert done("show", "note") == "Use Postgres for the ledger."
    failed("show", "note", "--stash", str(tmp_path))
    monkeypatch.delenv("JAATO_STASH")
    monkeypatch.chdir(tmp_path)
    Path(DEFAULT_PLACE).parent.mkdir()
    Path(place).rename(DEFAULT_PLACE)
    assert done("show", "note") == "Use Postgres for the ledger."


@pytest.mark.parametrize("arguments", [*READING, ("import", "-")], ids=lambda given: given[0])
def test_a_folder_that_cannot_be_written(
    place: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if str(path).startswith(place) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *more, **others)

    # Root may write wherever the mode forbids it, so the system call refuses.
    monkeypatch.setattr(os, "open", refuse)
    result = jaato(*arguments, "--stash", place, stdin='{"segments": []}')
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: the stash in {place} cannot be opened: Read-only file system "
        "(it needs a folder of its own that may be written)\n"
    )


# As a process


def test_the_installed_command_prints_bytes(place: str) -> None:
    plain = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    shown = command("show", "halves", "--stash", place, env=plain)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout.decode("utf-8", "surrogatepass") == HALVES
    listed = command("list", "--stash", place, env=plain)
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert rb"\x1b[31mred" in listed.stdout


@pytest.mark.parametrize("name", ["show", "restore", "export", "list"])
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, name: str) -> None:
    stash = FileStash(tmp_path / "stash")
    # More than a pipe holds.
    stash.put([Record(text="x" * 500_000, label="y" * 80)], ["long"])
    stash.put([Record(text=f"{n}", label="y" * 80) for n in range(2_000)])
    stash.close()
    what = {"show": ["long"], "restore": ["long"], "list": ["--limit", "2000"]}.get(name, [])
    arguments = [str(SCRIPT), "stash", name, *what, "--stash", str(tmp_path / "stash")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603 -- ours
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# On a server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if PROGRAM is None:
        pytest.skip("there is no server: tests/stash/test_valkey.py says so aloud")
    pytest.importorskip("valkey")
    one = Server(tmp_path)
    yield one
    one.kill()


def test_a_stash_on_a_server(server: Server, place: str) -> None:
    everything = done("export", "--stash", place)
    assert done("import", "-", "--stash", server.url, stdin=everything) == "5 imported.\n"
    assert done("list", "--json", "--stash", server.url) == done("list", "--json", "--stash", place)
    assert search_of(server.url, "refused") == ["log"]
    assert jaato("show", "log", "--stash", server.url).stdout_bytes == LOG.encode()
    assert done("verify", "--stash", server.url).endswith("all whole; durable on return.\n")
    assert done("compact", "--stash", server.url).startswith("5 records: ")
    server.kill()
    said = failed("list", "--stash", server.url)
    assert "the server of the stash cannot be reached" in said
