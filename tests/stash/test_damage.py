"""What is torn is cut, what is damaged is set aside, and nothing of it is taken for content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stash.folders import LOG, change, filled, quarantined

from jaato.kept import (
    DamagedRecordError,
    Record,
    StashFormatError,
    UnknownHandleError,
)
from jaato.stash.files import FileStash

# A tail that was never finished


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_a_torn_tail_is_cut_and_reported(tmp_path: Path, cut: int) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data[:-cut])
    stash = FileStash(tmp_path)
    (new,) = stash.put([Record(text="new")])
    whole = handles if cut == 1 else handles[:-1]
    assert [entry.handle for entry in stash.entries()] == [new, *reversed(whole)]
    if cut > 1:
        assert "never finished" in stash.damages[0].what
        with pytest.raises(UnknownHandleError):
            stash.get(handles[-1])
        assert len(quarantined(tmp_path)) == 1
    assert FileStash(tmp_path).damages == ()


def test_a_reader_cuts_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    change(tmp_path / LOG, lambda data: data[:-5])
    size = (tmp_path / LOG).stat().st_size
    stash = FileStash(tmp_path)
    stash.entries()
    stash.search("text")
    stash.close()
    assert (tmp_path / LOG).stat().st_size == size


# Damage


def test_a_damaged_record_is_an_error_and_set_aside(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data.replace(b"text number 2", b"text number X"))
    for _ in range(2):
        stash = FileStash(tmp_path)
        with pytest.raises(DamagedRecordError) as caught:
            stash.get(handles[2])
        assert caught.value.handle == handles[2]
        assert [entry.about.turn for entry in stash.entries()] == [4, 3, 1, 0]
        verified = stash.verify()
        assert not verified.is_sound
        assert [damage.handle for damage in verified.damages] == [handles[2]]
        stash.close()
    (raw,) = quarantined(tmp_path)
    assert b"text number X" in raw


def test_damage_behind_the_back_of_an_open_stash_is_found(tmp_path: Path) -> None:
    stash = FileStash(tmp_path)
    handles = stash.put([Record(text="sphinx of quartz", turn=at) for at in range(3)])
    with (tmp_path / LOG).open("r+b") as file:
        file.seek((tmp_path / LOG).read_bytes().index(b"quartz"))
        file.write(b"QUARTZ")
    assert len(stash.search("quartz")) == 2
    with pytest.raises(DamagedRecordError):
        stash.get(handles[0])
    assert stash.damages[0].handle == handles[0]


def test_a_search_that_finds_only_damage_says_so(tmp_path: Path) -> None:
    stash = FileStash(tmp_path)
    stash.put([Record(text="a lonely sphinx")])
    stash.search("warm up")
    change(tmp_path / LOG, lambda data: data.replace(b"lonely", b"LONELY"))
    with pytest.raises(DamagedRecordError):
        stash.search("sphinx")


def test_compaction_remembers_what_was_damaged(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data.replace(b"text number 2", b"text number X"))
    stash = FileStash(tmp_path)
    assert stash.compact().records == 4
    (tmp_path / "quarantine.jsonl").unlink()
    for one in (stash, FileStash(tmp_path)):
        with pytest.raises(DamagedRecordError):
            one.get(handles[2])
        assert one.get(handles[3]).text == "text number 3"


def test_a_damaged_record_can_be_given_up(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data.replace(b"text number 2", b"text number X"))
    stash = FileStash(tmp_path)
    assert stash.remove([handles[2]]) == 1
    stash.verify()
    stash.compact()
    stash.close()
    again = FileStash(tmp_path)
    assert again.verify().is_sound
    with pytest.raises(UnknownHandleError) as caught:
        again.get(handles[2])
    assert caught.value.fate == "removed"


def test_lines_that_ran_together_are_told_apart(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data.replace(b"}\n", b"}#", 3))
    stash = FileStash(tmp_path)
    texts = {entry.handle: stash.get(entry.handle).text for entry in stash.entries()}
    assert texts[handles[3]] == "text number 3"
    assert texts[handles[4]] == "text number 4"
    stash.compact()
    assert FileStash(tmp_path).get(handles[4]).text == "text number 4"


def test_a_lost_header_loses_no_record(tmp_path: Path) -> None:
    handles = filled(tmp_path)
    change(tmp_path / LOG, lambda data: data.replace(b'"log"', b'"LOG"', 1))
    stash = FileStash(tmp_path)
    assert [entry.handle for entry in stash.entries()] == handles[::-1]
    assert stash.damages
    (new,) = stash.put([Record(text="new")])
    stash.compact()
    again = FileStash(tmp_path)
    assert again.get(new).text == "new"
    assert again.damages == ()


@given(
    places=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.floats(0, 1),
)
@settings(max_examples=150, deadline=None)
def test_no_damage_makes_wrong_content(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[float, int]],
    cut: float | None,
) -> None:
    folder = tmp_path_factory.mktemp("stash")
    handles = filled(folder)

    def damage(data: bytes) -> bytes:
        changed = bytearray(data if cut is None else data[: int(cut * len(data))])
        for share, byte in places:
            if changed:
                changed[int(share * len(changed))] = byte
        return bytes(changed)

    change(folder / LOG, damage)
    try:
        stash = FileStash(folder)
    except StashFormatError:
        return
    for at, handle in enumerate(handles):
        with suppress(UnknownHandleError, DamagedRecordError):
            assert stash.get(handle) == Record(text=f"text number {at}", turn=at)
    assert {entry.handle for entry in stash.entries()} <= set(handles)
    (new,) = stash.put([Record(text="new")])
    stash.compact()
    assert stash.get(new).text == "new"
    again = FileStash(folder)
    assert {one.handle for one in again.entries()} == {one.handle for one in stash.entries()}
