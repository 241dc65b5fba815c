"""`applied`, as tables: what edits make of a picture, and that what no edit names is untouched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.history import (
    STUB_MARK,
    Drop,
    Edit,
    Fold,
    Kind,
    Message,
    Notify,
    Part,
    Span,
    Stub,
    ToolResult,
    applied,
    edit_point,
)
from jaato.testing import histories, sketch, sketch_of

HISTORY = "u c1 r1 a u a u c2 r2 a"
BEFORE = sketch(HISTORY)


def drop(start: int, stop: int) -> Drop:
    return Drop(span=Span(start, stop), why="test")


def fold(*spans: tuple[int, int], at: int | None = None) -> Fold:
    """Where no place is given the summary stands where the first span stood."""
    return Fold(
        at=spans[0][0] if at is None else at,
        spans=tuple(Span(*span) for span in spans),
        into=sketch("s", first=90)[0],
        why="test",
    )


def notify(at: int) -> Notify:
    return Notify(at=at, message=sketch("n", first=80)[0])


def stub(at: int) -> Stub:
    parts = [
        Part(function_response=ToolResult(call_id, "tool", "[removed]"), extra={STUB_MARK: True})
        for call_id in BEFORE[at].result_ids
    ]
    return Stub(at=at, into=BEFORE[at].with_parts(parts), why="test")


CASES = [
    pytest.param([], HISTORY, None, id="nothing"),
    pytest.param([drop(0, 4)], "u a u c2 r2 a", 0, id="a turn leaves"),
    pytest.param([drop(4, 6)], "u c1 r1 a u c2 r2 a", 4, id="a turn in the middle"),
    pytest.param([drop(6, 10)], "u c1 r1 a u a", 6, id="the end leaves"),
    pytest.param([drop(0, 10)], "", 0, id="everything leaves"),
    pytest.param([drop(3, 3)], HISTORY, 3, id="an empty span"),
    pytest.param([drop(4, 6), drop(1, 3)], "u a u c2 r2 a", 1, id="drops in any order"),
    pytest.param([drop(0, 4), drop(4, 6)], "u c2 r2 a", 0, id="drops side by side"),
    pytest.param([drop(0, 4), drop(2, 6)], "u c2 r2 a", 0, id="drops that overlap"),
    pytest.param([drop(0, 6), drop(2, 4)], "u c2 r2 a", 0, id="a drop in a drop"),
    pytest.param([drop(2, 4), drop(0, 6)], "u c2 r2 a", 0, id="and the other way"),
    pytest.param([drop(0, 4)] * 2, "u a u c2 r2 a", 0, id="the same drop twice"),
    pytest.param([stub(2)], "u c1 r1~ a u a u c2 r2 a", 2, id="a result becomes a stub"),
    pytest.param([stub(8), stub(2)], "u c1 r1~ a u a u c2 r2~ a", 2, id="two stubs"),
    pytest.param([stub(2), drop(0, 4)], "u a u c2 r2 a", 0, id="a stub whose turn leaves"),
    pytest.param([drop(4, 6), stub(8)], "u c1 r1 a u c2 r2~ a", 4, id="a stub behind a drop"),
    pytest.param([fold((0, 4))], "s u a u c2 r2 a", 0, id="a turn becomes a summary"),
    pytest.param([fold((0, 4), (4, 6))], "s u c2 r2 a", 0, id="two turns, one summary"),
    pytest.param(
        [fold((1, 4), (5, 6))], "u s u u c2 r2 a", 1, id="it stands where the first stood"
    ),
    pytest.param([fold((4, 6)), drop(0, 4)], "s u c2 r2 a", 0, id="older turns leave beside it"),
    pytest.param([drop(1, 4), fold((4, 6))], "u s u c2 r2 a", 1, id="and it keeps its place"),
    pytest.param([fold((1, 2), (5, 6), at=4)], "u r1 a s u u c2 r2 a", 1, id="at another place"),
    pytest.param([fold((4, 6), at=0)], "s u c1 r1 a u c2 r2 a", 0, id="in front of what it folds"),
    pytest.param([fold((0, 6), at=4)], "s u c2 r2 a", 0, id="a place inside what it folds"),
    pytest.param([fold((4, 6), at=2), drop(0, 4)], "s u c2 r2 a", 0, id="a place inside a drop"),
    pytest.param([fold((0, 4), at=10)], "u a u c2 r2 a s", 0, id="a place at the end"),
    pytest.param([notify(0)], f"n {HISTORY}", 0, id="a notice in front"),
    pytest.param([notify(1)], "u n c1 r1 a u a u c2 r2 a", 1, id="behind the request"),
    pytest.param([notify(10)], f"{HISTORY} n", 10, id="a notice at the end"),
    pytest.param([drop(0, 4), notify(0)], "n u a u c2 r2 a", 0, id="a notice for what left"),
    pytest.param([fold((0, 4)), notify(0)], "n s u a u c2 r2 a", 0, id="a notice before a summary"),
    pytest.param([notify(4), drop(0, 4)], "n u a u c2 r2 a", 0, id="a notice behind what left"),
    pytest.param(
        [drop(1, 4), notify(1), fold((4, 6)), stub(8)],
        "u n s u c2 r2~ a",
        1,
        id="all kinds at once",
    ),
]


@pytest.mark.parametrize(("edits", "after", "point"), CASES)
def test_applied(edits: list[Edit], after: str, point: int | None) -> None:
    history = list(BEFORE)
    result = applied(history, edits)
    assert sketch_of(result) == after
    assert edit_point(edits) == point
    # What no edit names is the same object, and what was given is as it was.
    ours = {id(message) for message in history}
    created = {id(new) for edit in edits for new in _created(edit)}
    assert {id(message) for message in result} <= ours | created
    assert history == BEFORE
    assert result is not history


def _created(edit: Edit) -> list[Message]:
    match edit:
        case Stub(into=into) | Fold(into=into):
            return [into]
        case Notify(message=message):
            return [message]
        case _:
            return []


@pytest.mark.parametrize(("edits", "after", "point"), CASES)
def test_the_order_of_edits_does_not_matter(
    edits: list[Edit], after: str, point: int | None
) -> None:
    assert sketch_of(applied(BEFORE, edits[::-1])) == after
    assert edit_point(edits[::-1]) == point


def test_any_sequence_and_any_iterable_will_do() -> None:
    assert sketch_of(applied(tuple(BEFORE), iter([drop(0, 6)]))) == "u c2 r2 a"
    assert applied((), []) == []


@given(history=histories(max_turns=5, max_messages=80), data=st.data())
def test_what_stands_before_the_edit_point_is_untouched(
    history: list[Message], data: st.DataObject
) -> None:
    places = st.integers(0, len(history))
    drops = data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=5))
    made: list[Edit] = [drop(start, stop) for start, stop in drops]
    made += [notify(at) for at in data.draw(st.lists(places, max_size=1))]
    result = applied(history, made)
    gone = {at for start, stop in drops for at in range(start, stop)}
    stay = [message for at, message in enumerate(history) if at not in gone]
    noticed = [message for message in result if message.message_id == "m80"]
    left = [message for message in result if not any(message is new for new in _new(made))]
    assert len(left) == len(stay)
    assert all(one is other for one, other in zip(left, stay, strict=True))
    assert len(result) == len(left) + len(_new(made))
    point = edit_point(made)
    if point is not None:
        assert all(one is other for one, other in zip(result[:point], history[:point], strict=True))
    assert len(noticed) >= len(_new(made))
    assert all(new.kind is Kind.NOTICE for new in _new(made))


def _new(edits: list[Edit]) -> list[Message]:
    return [new for edit in edits for new in _created(edit)]
