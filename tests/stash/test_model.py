"""Any sequence of puts, removals, compactions and reopenings, against a plain dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from jaato.kept import Filter, Record, UnknownHandleError
from jaato.ports import Stash
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash

WORDS = st.sampled_from(["parser", "lexer", "cart", "total", "src/a.py", "getUser", "é", "\n"])
RECORDS = st.builds(
    Record,
    text=st.lists(WORDS, max_size=6).map(" ".join) | st.text(max_size=20),
    session=st.sampled_from(["", "s1", "s2"]),
    turn=st.none() | st.integers(0, 3),
    files=st.lists(st.sampled_from(["src/a.py", "b.py"]), max_size=2).map(tuple),
    extra=st.just({}) | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)),
)


class StashMachine(RuleBasedStateMachine):
    """Two who share a stash (or one that is two), and what should be in it."""

    handles: Bundle[str] = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Record] = {}
        self.gone: set[str] = set()
        self.several = self.opened()

    def opened(self) -> list[Stash]:
        raise NotImplementedError

    @rule(target=handles, records=st.lists(RECORDS, max_size=4), which=st.integers(0, 1))
    def put(self, records: list[Record], which: int) -> Any:
        answer = self.several[which].put(records)
        for handle, record in zip(answer, records, strict=True):
            assert handle not in self.gone, "a handle has one meaning for ever"
            assert self.kept.setdefault(handle, record) == record
        return multiple(*answer)

    @rule(handle=handles, which=st.integers(0, 1))
    def get(self, handle: str, which: int) -> None:
        stash = self.several[which]
        if handle in self.kept:
            assert stash.get(handle) == self.kept[handle]
        else:
            with pytest.raises(UnknownHandleError):
                stash.get(handle)

    @rule(handle=consumes(handles), which=st.integers(0, 1))
    def remove(self, handle: str, which: int) -> None:
        assert self.several[which].remove([handle]) == (handle in self.kept)
        if self.kept.pop(handle, None) is not None:
            self.gone.add(handle)

    @rule(which=st.integers(0, 1))
    def compact(self, which: int) -> None:
        assert self.several[which].compact().records == len(self.kept)

    @rule(word=WORDS, which=st.integers(0, 1), session=st.sampled_from([None, "s1"]))
    def search(self, word: str, which: int, session: str | None) -> None:
        hits = self.several[which].search(word, Filter(session=session), limit=100)
        for hit in hits:
            record = self.kept[hit.entry.handle]
            assert session in {None, record.session}
        if word.isalpha() and word.isascii():
            speak = {
                handle
                for handle, record in self.kept.items()
                if word in record.text.split() and session in {None, record.session}
            }
            assert speak <= {hit.entry.handle for hit in hits}

    @rule(which=st.integers(0, 1), turn=st.integers(0, 3))
    def listed(self, which: int, turn: int) -> None:
        listed = {entry.handle for entry in self.several[which].entries(Filter(turn=turn))}
        assert listed == {name for name, record in self.kept.items() if record.turn == turn}

    @invariant()
    def both_list_the_same(self) -> None:
        one, other = ([entry.handle for entry in stash.entries()] for stash in self.several)
        assert one == other
        assert set(one) == set(self.kept)

    def teardown(self) -> None:
        for stash in self.several:
            assert stash.verify().is_sound
        for stash in self.several:
            stash.close()


class MemoryMachine(StashMachine):
    """One stash in memory."""

    def opened(self) -> list[Stash]:
        return [MemoryStash()] * 2

    def teardown(self) -> None:
        self.several[0].close()


class FileMachine(StashMachine):
    """Two handles on one folder, each of which may be closed and opened again."""

    def opened(self) -> list[Stash]:
        self.folder = Path(tempfile.mkdtemp())
        return [FileStash(self.folder), FileStash(self.folder)]

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.several[which].close()
        self.several[which] = FileStash(self.folder)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


QUICK = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMemory = MemoryMachine.TestCase
TestMemory.settings = QUICK
TestFiles = FileMachine.TestCase
TestFiles.settings = QUICK
