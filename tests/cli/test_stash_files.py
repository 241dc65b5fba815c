"""`jaato stash restore`, `export` and `import`: what is written, and what is left alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.stash_calls import (
    LOG,
    PICTURES,
    RECORDS,
    done,
    failed,
    jaato,
)

# restore


@pytest.mark.parametrize("handle", ["log", "halves", "acting"])
def test_restore_gives_the_whole_text_back(place: str, tmp_path: Path, handle: str) -> None:
    target = tmp_path / "back.txt"
    assert done("restore", handle, "--stash", place, "--to", str(target)) == f"{target}\n"
    assert target.read_bytes().decode("utf-8", "surrogatepass") == RECORDS[handle].text
    result = jaato("restore", handle, "--stash", place)
    assert (result.stdout_bytes, result.stderr) == (target.read_bytes(), "")
    assert jaato("restore", handle, "--stash", place, "--to", "-").stdout == result.stdout


def test_restore_writes_what_was_attached_beside_the_text(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "garden.txt"
    written = [target, folder / "garden.txt.1.png", folder / "garden.txt.2.bin"]
    shown = done("restore", "camera", "--stash", place, "--to", str(target))
    assert shown.splitlines() == [str(path) for path in written]
    assert sorted(folder.iterdir()) == written
    assert [path.read_bytes() for path in written[1:]] == [media.data for media in PICTURES]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "stash"]
    result = jaato("restore", "camera", "--stash", place)
    assert result.stdout == "(evil.png, attached)"
    assert result.stderr == "2 attached, which --to FILE writes beside it\n"


@pytest.mark.parametrize("there", ["garden.txt", "garden.txt.2.bin"])
def test_restore_overwrites_nothing_unless_told(place: str, tmp_path: Path, there: str) -> None:
    target, other = tmp_path / "garden.txt", tmp_path / there
    other.write_text("mine")
    arguments = ["restore", "camera", "--stash", place, "--to", str(target)]
    assert failed(*arguments) == f"Error: {other} exists (--force overwrites it)\n"
    assert other.read_text() == "mine"
    assert len(list(tmp_path.glob("garden*"))) == 1
    done(*arguments, "--force")
    assert other.read_bytes() in {b"(evil.png, attached)", b"two"}


@pytest.mark.parametrize("name", ["restore", "export"])
def test_a_target_that_cannot_be_written(place: str, tmp_path: Path, name: str) -> None:
    target = tmp_path / "none" / "x"
    what = [name, "log"] if name == "restore" else [name]
    said = failed(*what, "--stash", place, "--to", str(target))
    assert said == f"Error: {target} cannot be written: No such file or directory\n"
    result = jaato(*what, "--stash", place, "--to", str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")


# export and import


def test_export_and_import_make_the_same_stash(place: str, tmp_path: Path) -> None:
    file, other = tmp_path / "all.json", str(tmp_path / "new" / "stash")
    result = jaato("export", "--stash", place, "--to", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "5 exported.\n")
    assert done("export", "--stash", place) == file.read_text(encoding="ascii")
    assert done("import", str(file), "--stash", other) == "5 imported.\n"
    assert done("list", "--json", "--stash", other) == done("list", "--json", "--stash", place)
    for handle, record in RECORDS.items():
        shown = json.loads(done("show", handle, "--json", "--stash", other))
        assert shown["text"] == record.text
    again = done("import", "-", "--stash", other, "--json", stdin=file.read_bytes())
    assert json.loads(again) == {"records": 5, "renamed": {}}
    assert len(json.loads(done("list", "--json", "--stash", other))) == len(RECORDS)


def test_export_takes_filters_and_overwrites_nothing(place: str, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    arguments = ("export", "--stash", place, "--session", "s1", "--to", str(file))
    done(*arguments)
    (segment,) = json.loads(file.read_bytes())["segments"]
    assert (segment["segment_id"], segment["text"]) == ("log", LOG)
    assert "exists (--force overwrites it)" in failed(*arguments)
    done(*arguments, "--force")


def test_import_says_which_ids_could_not_stay(place: str) -> None:
    segments = [
        {"segment_id": "../../x", "text": "one"},
        {"segment_id": "log", "text": "two"},
        {"segment_id": "\x1b[2J", "text": "three"},
    ]
    document = json.dumps({"segments": segments})
    shown = done("import", "-", "--stash", place, stdin=document)
    assert re.fullmatch(
        r"3 imported\.\n\.\./\.\./x is now \w{10}\nlog is now \w{10}\n\\x1b\[2J is now \w{10}\n",
        shown,
    )
    renamed = json.loads(done("import", "-", "--stash", place, "--json", stdin=document))["renamed"]
    assert set(renamed) == {"../../x", "log", "\x1b[2J"}
    assert done("show", renamed["log"], "--stash", place) == "two"
    assert done("show", "log", "--stash", place).startswith("connecting")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(b"", "is no JSON", id="an empty file"),
        pytest.param(b'{"segments": [', "is no JSON", id="a torn file"),
        pytest.param(b"\xff\xfe\x00", "is no JSON", id="no text at all"),
        pytest.param(b"[" * 200_000, "is no JSON", id="brackets without end"),
        pytest.param(b"[]", "there are no segments", id="a list"),
        pytest.param(b'{"segments": {}}', "there are no segments", id="no list"),
        pytest.param(b'{"segments": [{"text": 5}]}', "segment 0 cannot be read", id="no text"),
    ],
)
def test_a_document_that_cannot_be_imported(place: str, document: bytes, said: str) -> None:
    result = jaato("import", "-", "--stash", place, stdin=document)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count(said) == 1
    assert len(json.loads(done("list", "--json", "--stash", place))) == len(RECORDS)
