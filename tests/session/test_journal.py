"""The log: whole lines or nothing, wherever it is cut and whatever the disk does."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.history import Message, Role
from jaato.session.journal import Journal, journal_path, read_journal, session_names
from jaato.session.problems import JournalError
from jaato.session.record import (
    Enriched,
    Opened,
    Pinned,
    Record,
    Reported,
    Reset,
    Stashed,
    Switched,
    SystemSet,
    ToolsSet,
    TurnClosed,
    record_from_dict,
    record_to_dict,
)
from jaato.session.state import State
from jaato.testing import WordCounter, histories

COUNTER = WordCounter()
OPENED = Opened(
    session_id="s", agent_id="main", provider="p", model="m", limit=4_000, counter=COUNTER.name
)


class Ticks:
    """A clock that moves by one with each look."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def fresh(journal: Journal | None = None) -> State:
    if journal is not None:
        journal.append(OPENED, 1_000.0)
    state = State(OPENED, COUNTER, at=1_000.0, clock=Ticks())
    state.write_to(journal)
    return state


def same(one: State, other: State) -> bool:
    return (
        one.history == other.history
        and one.budget.snapshot() == other.budget.snapshot()
        and one.window.usage() == other.window.usage()
        and (one.pins, one.turn_is_open, one.window.system, one.window.enrichment)
        == (other.pins, other.turn_is_open, other.window.system, other.window.enrichment)
        and list(one.results) == list(other.results)
    )


def live(state: State, history: list[Message], strategy: str) -> None:
    """A session that does a bit of everything."""
    state.commit(SystemSet(texts={"base": "be brief", "client": "speak plainly"}))
    state.commit(ToolsSet(tokens={"read": (30, False), "a/b": (12, True)}))
    half = len(history) // 2
    for message in history[:half]:
        state.add(message)
    state.commit(Enriched(texts={"time": "<time>\nnoon\n</time>"}))
    state.commit(Reported(reported=state.window.counted + 40, counted=state.window.counted))
    state.commit(Pinned(turns=(1,)))
    state.put("the whole text", label="read")
    for message in history[half:]:
        state.add(message)
    plugin = load_gc_plugin(
        strategy, {"summarizer": "extractive"} if strategy == "gc_summarize" else {}
    )
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    for reason in (GCTriggerReason.MANUAL, GCTriggerReason.CONTEXT_LIMIT):
        config = GCConfig(preserve_recent_turns=1, target_percent=1.0)
        after, result = plugin.collect(
            state.history, state.window.usage(), config, reason, state.budget
        )
        if result.success and after != state.history:
            state.replace(after, result)
    state.add(Message.from_text(Role.USER, "and now this"))
    state.commit(TurnClosed())
    state.commit(Switched(provider="p", model="other", limit=2_000))


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_budget"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_a_replayed_session_is_the_session(
    tmp_path: Path, strategy: str, history: list[Message]
) -> None:
    path = tmp_path / "s.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal.create(path)
    state = fresh(journal)
    live(state, history, strategy)
    journal.close()
    resumed, written = Journal.resume(path)
    replayed = State.replayed(written.records, COUNTER)
    replayed.write_to(resumed)
    assert written.torn == 0
    assert same(state, replayed)
    assert replayed.get("r1") == "the whole text"
    resumed.close()


def test_cut_anywhere_it_resumes_with_the_whole_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    journal = Journal.create(path)
    state = fresh(journal)
    for at in range(6):
        state.add(Message.from_text(Role.USER if at % 2 == 0 else Role.MODEL, f"message {at} é😀"))
    journal.close()
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    ends = [sum(map(len, lines[: at + 1])) for at in range(len(lines))]
    for cut in range(ends[0], len(whole) + 1):
        path.write_bytes(whole[:cut])
        resumed, written = Journal.resume(path)
        kept = sum(end <= cut for end in ends)
        assert len(written.records) == kept
        assert written.torn == cut - ends[kept - 1]
        # What is written next is a line of its own.
        resumed.append(TurnClosed(), 5.0)
        resumed.close()
        assert len(read_journal(path).records) == kept + 1


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    journal = Journal.create(path)
    state = fresh(journal)
    state.add(Message.from_text(Role.USER, "hello"))
    state.add(Message.from_text(Role.MODEL, "good day"))
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"type": "mess\n' + lines[2])
    with pytest.raises(JournalError, match="line 2 of the log of session 's'"):
        Journal.resume(path)


def test_a_full_disk_changes_nothing_and_the_next_line_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    journal = Journal.create(path)
    state = fresh(journal)
    state.add(Message.from_text(Role.USER, "hello"))
    write, room = os.write, [25]

    def short(descriptor: int, data: memoryview) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(descriptor, bytes(data[: min(len(data), 10)]))
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(JournalError, match="No space left"):
        state.add(Message.from_text(Role.MODEL, "an answer that does not fit"))
    assert len(state.history) == 1
    room[0] = 10_000
    state.add(Message.from_text(Role.MODEL, "an answer"))
    monkeypatch.undo()
    journal.close()
    written = read_journal(path)
    assert written.torn == 0
    assert same(state, State.replayed(written.records, COUNTER))


def test_after_a_failed_sync_the_log_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(tmp_path / "s.jsonl")
    state = fresh(journal)

    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(JournalError, match="cannot be synced"):
        journal.sync()
    with pytest.raises(JournalError, match="closed"):
        state.add(Message.from_text(Role.USER, "hello"))


def test_one_process_writes_a_log_at_a_time(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "s.jsonl")
    journal.append(OPENED, 1.0)
    with pytest.raises(JournalError, match="open elsewhere"):
        Journal.resume(tmp_path / "s.jsonl")
    journal.close()
    Journal.resume(tmp_path / "s.jsonl")[0].close()


def test_modes_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    journal = Journal.create(journal_path(folder, "one"))
    journal.close()
    assert (folder / "one.jsonl").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(session_names(folder)) == ["one"]
    with pytest.raises(UsageError, match="already"):
        Journal.create(journal_path(folder, "one"))
    with pytest.raises(UsageError, match="no session named 'two'"):
        Journal.resume(journal_path(folder, "two"))


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a\0b", ".hidden", "x" * 500, "a\nb"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a session"):
        journal_path(tmp_path, name)


@pytest.mark.parametrize(
    "record",
    [
        OPENED,
        SystemSet(texts={"base": "x"}),
        Enriched(texts={}),
        ToolsSet(tokens={"read": (3, True)}),
        Reported(reported=None, counted=3, thinking=None),
        Switched(provider="p", model="m", limit=None),
        Pinned(turns=(1, 3)),
        Stashed(handle="r1", text="\ud800 lone", label="read"),
        TurnClosed(error="it broke"),
        Reset(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_round_trip(record: Record) -> None:
    line = json.dumps(record_to_dict(record, 5.0))
    assert record_from_dict(json.loads(line)) == (record, 5.0)


@given(st.binary(max_size=200))
def test_a_foreign_file_is_an_error_and_not_a_crash(data: bytes) -> None:
    import tempfile  # noqa: PLC0415 -- hypothesis wants a new file for each example

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_bytes(data + b"\n")
        with pytest.raises((JournalError, UsageError)):
            State.replayed(read_journal(path).records, COUNTER)
