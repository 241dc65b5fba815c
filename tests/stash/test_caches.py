"""Catalogue and index as files: they save work, and are believed only where they fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stash.folders import LOG, change, filled

from jaato.kept import (
    About,
    Filter,
    Record,
    StashError,
    UnknownHandleError,
)
from jaato.stash import index, store
from jaato.stash.files import FileStash
from jaato.stash.terms import Terms

# Caches


def test_a_checkpoint_saves_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "WORTH_A_CHECKPOINT", 3)
    handles = filled(tmp_path)
    assert (tmp_path / "catalogue").exists()
    stash = FileStash(tmp_path)
    stash.remove(handles[1:2])
    (new,) = stash.put([Record(text="new", files=("a.py", "b.py"), tags=("t",))])
    stash.put([Record(text=f"more {at}") for at in range(4)])
    stash.close()
    again = FileStash(tmp_path)
    assert again._store._saved_rows == 10
    assert [one.handle for one in again.entries(Filter(file="b.py", tags=("t",)))] == [new]
    assert [one.about.turn for one in again.entries()][-4:] == [4, 3, 2, 0]
    with pytest.raises(UnknownHandleError):
        again.get(handles[1])


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda _data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:200] + b"\xff" + data[201:], id="damaged"),
        pytest.param(lambda _data: b"{}\n", id="another file"),
    ],
)
def test_a_bad_checkpoint_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(store, "WORTH_A_CHECKPOINT", 3)
    handles = filled(tmp_path)
    change(tmp_path / "catalogue", edit)
    stash = FileStash(tmp_path)
    assert [stash.get(handle).text for handle in handles][4] == "text number 4"
    assert stash.damages == ()


def test_a_checkpoint_of_a_longer_log_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WORTH_A_CHECKPOINT", 3)
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data[: data.rindex(b"\n", 0, -1) + 1])
    stash = FileStash(tmp_path)
    assert len(stash.entries()) == 4
    with pytest.raises(StashError):
        stash.get(handles[4])


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SMALL", 4)
    monkeypatch.setattr(index, "LARGE", 32)


def parts_in(folder: Path) -> list[tuple[int, int]]:
    names = (path.stem.split("-") for path in (folder / "index").glob("*.part"))
    return sorted((int(base), int(rows)) for _, base, rows in names)


@pytest.mark.usefixtures("_small_parts")
def test_an_index_outlives_its_process_and_grows_in_few_parts(tmp_path: Path) -> None:
    stash = FileStash(tmp_path)
    texts = [f"word{at} common" for at in range(100)]
    for at, text in enumerate(texts):
        stash.put([Record(text=text)])
        assert stash.search(f"word{at}")[0].excerpt == text
    assert parts_in(tmp_path) == [(0, 32), (32, 32), (64, 32), (96, 4)]
    again = FileStash(tmp_path)
    assert again.search("word7")[0].excerpt == "word7 common"
    assert [part.rows for part in again._index._finished] == [32, 32, 32, 4]
    assert len(again.search("common", limit=100)) == 100
    handles = [entry.handle for entry in again.entries()]
    again.remove(handles[::2])
    again.compact()
    assert len(stash.search("common", limit=100)) == 50
    assert parts_in(tmp_path) == [(0, 32), (32, 16), (48, 4)] or parts_in(tmp_path)


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda _data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:-2] + b"zz", id="damaged"),
    ],
)
def test_a_bad_part_is_built_again(tmp_path: Path, edit: Callable[[bytes], bytes]) -> None:
    stash = FileStash(tmp_path)
    stash.put([Record(text=f"word{at} common") for at in range(40)])
    stash.search("common")
    stash.close()
    for path in (tmp_path / "index").glob("*.part"):
        change(path, edit)
    again = FileStash(tmp_path)
    assert len(again.search("common", limit=100)) == 40
    assert again.search("word39")[0].excerpt == "word39 common"


@pytest.mark.usefixtures("_small_parts")
def test_an_index_survives_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stash = FileStash(tmp_path)
    handles = stash.put([Record(text=f"word{at} common {at % 7}") for at in range(101)])
    stash.search("common")
    stash.remove(handles[3:80:2])
    stash.close()
    stash = FileStash(tmp_path)
    stash.compact()
    left = [handle for at, handle in enumerate(handles) if not (3 <= at < 80 and at % 2)]
    counted: list[str] = []

    def counts(_terms: Terms, text: str, _about: About) -> Counter[str]:
        counted.append(text)
        return Counter()

    monkeypatch.setattr(Terms, "counts", counts)
    for one in (stash, FileStash(tmp_path)):
        assert {hit.entry.handle for hit in one.search("common", limit=200)} == {*left}
        assert one.search("word80")[0].entry.handle == handles[80]
    assert len(counted) <= 2, "almost nothing was read again"


@pytest.mark.usefixtures("_small_parts")
def test_closing_keeps_a_small_part(tmp_path: Path) -> None:
    for at in range(12):
        stash = FileStash(tmp_path)
        stash.put([Record(text=f"word{at} common")])
        assert len(stash.search("common", limit=20)) == at + 1
        stash.close()
    assert parts_in(tmp_path) == [(0, 8), *((at, 1) for at in range(8, 12))]
