from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given

from jaato.history import (
    Kind,
    Message,
    Outline,
    Role,
    Span,
    cut_points,
    is_legal,
    span_starts,
    steps,
)
from jaato.testing import histories, sketch, sketch_of


def turns_of(history: list[Message]) -> list[Span]:
    outline = Outline.of(history)
    return [outline[index] for index in outline.turns()]


def drawn(history: list[Message], spans: Iterable[Span]) -> list[str]:
    return [sketch_of(history[span.start : span.stop]) for span in spans]


@pytest.mark.parametrize(
    ("picture", "turns"),
    [
        pytest.param("", [], id="no history, no turns"),
        pytest.param("u a", ["u a"], id="a turn is a user message and what follows"),
        pytest.param("u a u a", ["u a", "u a"], id="until the next one"),
        pytest.param("u u a", ["u", "u a"], id="two user messages are two turns"),
        pytest.param("u c1 r1 a", ["u c1 r1 a"], id="tool results start no turn"),
        pytest.param("u c1 R1 a u", ["u c1 R1 a", "u"], id="whatever role they arrive in"),
        pytest.param("u c1 R1+u a", ["u c1 R1+u a"], id="even with a text beside them"),
        pytest.param("a u a", ["a", "u a"], id="what comes before the first user message is one"),
        pytest.param("s u a", ["u a"], id="a summary is not a turn"),
        pytest.param("u s u a", ["u", "u a"], id="nor does it belong to one"),
        pytest.param("s s u a", ["u a"], id="nor do two"),
        pytest.param("s a u a", ["a", "u a"], id="what follows a summary is a turn"),
        pytest.param("u n a u a", ["u n a", "u a"], id="a notice opens nothing"),
        pytest.param("n u a u a", ["u a", "u a"], id="not in front of all either"),
        pytest.param("u s n u a", ["u", "u a"], id="nor behind a summary"),
    ],
)
def test_turns(picture: str, turns: list[str]) -> None:
    history = sketch(picture)
    assert drawn(history, turns_of(history)) == turns


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        pytest.param("u a", ["a"], id="an answer is a step"),
        pytest.param("u c1 r1 a", ["c1 r1", "a"], id="a call and its result"),
        pytest.param("u c1,2 r1 r2 a", ["c1,2 r1 r2", "a"], id="all its results"),
        pytest.param("u c1 r1 c1 r1", ["c1 r1", "c1 r1"], id="ids may come back"),
        pytest.param("u c1 R1 c2", ["c1 R1", "c2"], id="a pending call"),
        pytest.param("u c1 r1 n a", ["c1 r1", "a"], id="a notice belongs to none"),
        pytest.param("u", [], id="a user message is none"),
    ],
)
def test_steps(picture: str, expected: list[str]) -> None:
    history = sketch(picture)
    (turn,) = turns_of(history)
    assert drawn(history, steps(history, turn)) == expected


@given(histories())
def test_spans_cover_the_history_and_each_summary_stands_alone(history: list[Message]) -> None:
    outline = Outline.of(history)
    assert [at for span in outline for at in span] == list(range(len(history)))
    assert [span.start for span in outline] == span_starts(history)
    assert [at for at in range(len(outline)) if outline.is_turn(at)] == outline.turns()
    for index, span in enumerate(outline):
        kinds = [history[at].kind for at in span]
        assert (kinds == [Kind.SUMMARY]) == (index in outline.summaries())
        assert outline.is_turn(index) == (Kind.PLAIN in kinds)
        assert Kind.SUMMARY not in kinds or len(kinds) == 1
        assert not any(history[at].opens_turn for at in list(span)[1:])


@given(histories())
def test_a_step_is_one_model_message_with_all_its_results(history: list[Message]) -> None:
    found = [step for turn in turns_of(history) for step in steps(history, turn)]
    assert [step.start for step in found] == [
        at for at, message in enumerate(history) if message.role is Role.MODEL
    ]
    assert sum(len(history[at].result_ids) for step in found for at in step) == sum(
        len(message.result_ids) for message in history
    )
    for one, other in pairwise(found):
        assert one.stop <= other.start
        calls = [call for at in one for call in history[at].call_ids]
        assert sorted(calls) == sorted(id_ for at in one for id_ in history[at].result_ids)


@given(histories())
def test_both_sides_of_a_cut_are_legal(history: list[Message]) -> None:
    for at in cut_points(history)[:40]:
        assert is_legal(history[:at])
        assert is_legal(history[at:])
