"""A session is its log: replaying gives the same state, at the end and at every point before."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.operations import (
    COUNTER,
    OPENED,
    Lines,
    Ticks,
    Words,
    assert_counted,
    collect,
    fresh,
    messages,
    operations,
    perform,
    policies,
    seen,
)

from jaato.budget import GCPolicy, InstructionSource, locate
from jaato.errors import UsageError
from jaato.history import Message, Role
from jaato.session import state as state_module
from jaato.session.problems import JournalError
from jaato.session.record import (
    Added,
    Opened,
    Pinned,
    Reported,
    Reset,
    Stashed,
    Switched,
    SystemSet,
    TakenBack,
    ToolsSet,
    TurnClosed,
)
from jaato.session.state import State
from jaato.testing import sketch

CONVERSATION = InstructionSource.CONVERSATION


@settings(max_examples=120, deadline=None)
@given(waiting=messages(), told=operations(), data=st.data())
def test_replaying_a_log_gives_the_session_at_every_point(
    waiting: list[Message], told: list[tuple[str, int]], data: st.DataObject
) -> None:
    state, log = fresh()
    points = [(len(log.lines), seen(state))]
    waiting = list(waiting)
    for kind, number in told:
        perform(state, waiting, kind, number)
        points.append((len(log.lines), seen(state)))
    assert_counted(state)
    final = State.replayed(log.records(), COUNTER)
    final.write_to(log)
    assert seen(final) == points[-1][1]
    assert_counted(final)
    length, then = data.draw(st.sampled_from(points))
    earlier = State.replayed(log.records(length), COUNTER)
    earlier.write_to(log)
    assert seen(earlier) == then


@settings(max_examples=60, deadline=None)
@given(waiting=messages(), told=operations())
def test_every_prefix_of_a_log_is_a_session(
    waiting: list[Message], told: list[tuple[str, int]]
) -> None:
    state, log = fresh()
    waiting = list(waiting)
    for kind, number in told:
        perform(state, waiting, kind, number)
    for length in range(1, len(log.lines) + 1, 3):
        assert_counted(State.replayed(log.records(length), COUNTER))


@settings(max_examples=40, deadline=None)
@given(waiting=messages(), told=operations(), more=operations())
def test_what_goes_on_after_resuming_is_as_if_it_had_never_stopped(
    waiting: list[Message], told: list[tuple[str, int]], more: list[tuple[str, int]]
) -> None:
    state, log = fresh()
    waiting = list(waiting)
    for kind, number in told:
        perform(state, waiting, kind, number)
    other_log = Lines()
    other_log.lines = list(log.lines)
    resumed = State.replayed(other_log.records(), COUNTER, clock=Ticks())
    resumed.clock.now = state.clock.now  # type: ignore[attr-defined]  # both are Ticks
    resumed.write_to(other_log)
    others = list(waiting)
    for kind, number in more:
        if kind in {"collect", "refused"}:
            continue  # They make messages with ids of their own.
        perform(state, waiting, kind, number)
        perform(resumed, others, kind, number)
    assert seen(resumed) == seen(state)
    assert other_log.lines == log.lines


def test_another_counter_counts_again_and_the_budget_agrees() -> None:
    state, log = fresh()
    for message in sketch("u c1 r1 a u a", words=9):
        state.add(message)

    class Chars(Words):
        name = "chars"

        def count_texts(self, texts: Any) -> list[int]:
            return [len(text) for text in texts]

    replayed = State.replayed(log.records(), Chars())
    conversation = replayed.budget.get_entry(CONVERSATION)
    assert conversation is not None
    assert conversation.total_tokens() > 2 * state.window.counted
    assert replayed.history == state.history


def test_policies_and_times_survive_collections_and_resuming() -> None:
    state, log = fresh()
    for at, message in enumerate(sketch(" ".join(["u c1 r1 a"] * 6), words=30)):
        state.add(message, "clarification_q" if at == 4 else None)
    first, question = state.history[0].message_id, state.history[4].message_id
    assert policies(state)[first] is GCPolicy.LOCKED
    assert policies(state)[question] is GCPolicy.PRESERVABLE

    def times(one: State) -> dict[str, float | None]:
        found = {}
        for message in one.history:
            located = locate(one.budget, message.message_id)
            assert located is not None
            found[message.message_id] = located.entry.created_at
        return found

    before = times(state)
    collect(state, "gc_summarize", 2)
    after = times(state)
    assert {one: before[one] for one in after if one in before} == {
        one: at for one, at in after.items() if one in before
    }
    (summary,) = set(after) - set(before)
    assert after[summary] == state.clock.now  # type: ignore[attr-defined]  # a Ticks
    again = State.replayed(log.records(), COUNTER)
    assert times(again) == after
    assert policies(again) == policies(state)
    collect(state, "gc_truncate", 1)
    assert state.history[0].message_id == first
    assert policies(state)[first] is GCPolicy.LOCKED


def test_a_prompt_that_is_taken_back_leaves_no_trace() -> None:
    state, _ = fresh()
    empty = seen(state)
    state.add(Message.from_text(Role.USER, "much too long"))
    state.commit(TakenBack(why="no room"))
    now = seen(state)
    assert (now.history, now.usage, now.rest) == (empty.history, empty.usage, empty.rest)
    first = Message.from_text(Role.USER, "short")
    state.add(first)
    located = locate(state.budget, first.message_id)
    assert located is not None
    assert (located.path, located.entry.gc_policy) == ("turn_0/original_request", GCPolicy.LOCKED)
    state.add(Message.from_text(Role.MODEL, "good"))
    state.commit(TurnClosed())
    before = seen(state)
    state.add(Message.from_text(Role.USER, "again too long"))
    state.commit(TakenBack())
    assert seen(state) == before
    state.add(Message.from_text(Role.USER, "the second"))
    assert (state.window.turns, state.window.turn_number) == (2, 1)
    assert_counted(state)


def test_turn_numbers_are_absolute_for_the_life_of_a_session() -> None:
    state, _ = fresh()
    for message in sketch(" ".join(["u a"] * 6), words=30):
        state.add(message)
    collect(state, "gc_truncate", 1)
    assert state.window.turns < 6
    assert state.window.turn_number == 5
    opening = [message.message_id for message in state.history if message.opens_turn]
    located = [locate(state.budget, message_id) for message_id in opening]
    numbers = [one.turn for one in located if one is not None]
    assert numbers[-1] == 5
    assert numbers[0] == 0


# Stash


def test_the_same_text_is_kept_once_and_comes_back() -> None:
    state, log = fresh()
    assert [state.put("one"), state.put("two"), state.put("one")] == ["r1", "r2", "r1"]
    assert (state.get("r1"), state.get("r2"), state.get("r3")) == ("one", "two", None)
    assert sum("stash" in line for line in log.lines) == 2


def test_a_reset_forgets_the_texts_and_never_gives_a_handle_a_second_meaning() -> None:
    state, log = fresh()
    state.put("a secret of the last conversation")
    state.commit(Reset())
    assert state.get("r1") is None
    assert state.put("a secret of the last conversation") == "r2"
    assert state.get("r2") == "a secret of the last conversation"
    assert seen(State.replayed(log.records(), COUNTER)).rest == seen(state).rest


def test_without_a_log_the_memory_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "LARGEST_MEMORY_CHARS", 100)
    state = State(OPENED, COUNTER, at=1.0)
    handles = [state.put(f"{at}" * 40) for at in range(5)]
    assert [state.get(handle) is not None for handle in handles] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert state.put("x" * 500) == "r6"
    assert state.get("r6") == "x" * 500


# What must not happen


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(
            Added(message=sketch("u")[0], tokens=1, turn_type="nonsense"), id="a turn type"
        ),
        pytest.param(Switched(provider="p", model="m", limit=-5), id="a limit"),
        pytest.param(OPENED, id="a second beginning"),
        pytest.param(TakenBack(), id="nothing to take back"),
    ],
)
def test_a_record_that_cannot_be_applied_is_not_in_the_log(record: Any) -> None:
    state, log = fresh()
    before, lines = seen(state), list(log.lines)
    with pytest.raises((ValueError, IndexError)):
        state.commit(record)
    assert log.lines == lines
    assert seen(state) == before
    state.add(Message.from_text(Role.USER, "hello"))
    assert seen(State.replayed(log.records(), COUNTER)).history == state.history


def test_a_log_that_does_not_begin_with_a_session_is_told() -> None:
    with pytest.raises(UsageError, match="begins with the session"):
        State.replayed([], COUNTER)
    with pytest.raises(UsageError, match="begins with the session"):
        State.replayed([(TurnClosed(), 1.0, 0)], COUNTER)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(OPENED, id="two logs in one"),
        pytest.param(Stashed(handle="r1", text=5), id="a text that is a number"),  # type: ignore[arg-type]  # what a damaged line holds
        pytest.param(Switched(provider="p", model="m", limit="x"), id="a limit that is text"),  # type: ignore[arg-type]  # likewise
        pytest.param(ToolsSet(tokens={"a": ("x", True)}), id="tokens that are text"),  # type: ignore[dict-item]  # likewise
        pytest.param(Reported(reported="x", counted=5), id="a report in words"),  # type: ignore[arg-type]  # likewise
        pytest.param(TakenBack(), id="a prompt taken back that was never there"),
        pytest.param(SystemSet(texts={"base": 5}), id="instructions that are a number"),  # type: ignore[dict-item]  # likewise
    ],
)
def test_a_line_that_makes_no_sense_where_it_stands_is_told_by_its_number(record: Any) -> None:
    with pytest.raises(JournalError, match="line 3 of the log of session 's'"):
        State.replayed(
            [(OPENED, 1.0, 0), (Pinned(turns=(1,)), 2.0, 10), (record, 3.0, 20)], COUNTER
        )


def test_changes_from_many_threads_are_all_in_the_log_in_the_order_they_were_made() -> None:
    state, log = fresh()
    begin = threading.Barrier(4)

    def work(name: int) -> None:
        begin.wait()
        for at in range(50):
            state.commit(Pinned(turns=(name, at + 10)))
            state.put(f"text {name} {at}")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    replayed = State.replayed(log.records(), COUNTER)
    replayed.write_to(log)
    assert replayed.pins == state.pins
    texts = {state.get(f"r{at}") for at in range(1, 201)}
    assert texts == {f"text {name} {at}" for name in range(4) for at in range(50)}
    assert {replayed.get(f"r{at}") for at in range(1, 201)} == texts


def test_what_a_session_was_opened_with_is_kept() -> None:
    opened = Opened(
        session_id="child", agent_id="main.x-1", provider="p", model="m", limit=None, counter="c",
        parent_id="s",
    )  # fmt: skip
    state = State(opened, COUNTER, at=5.0)
    assert (state.session_id, state.window.limit, state.window.model) == ("child", None, "m")
    assert (state.budget.agent_id, state.budget.session_id) == ("main.x-1", "child")
