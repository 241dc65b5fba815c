from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from jaato.history import Breach, Message, Part, is_legal, repaired, violations
from jaato.testing import broken_histories, histories, sketch, sketch_of

LEGAL = [
    pytest.param("", id="nothing"),
    pytest.param("u c1 r1 a", id="a call and its result"),
    pytest.param("u c1,2 r2,1 a", id="results in another order"),
    pytest.param("u c1,2 r1 r2 a", id="results in several messages"),
    pytest.param("u c1,1 r1 r1 a", id="the same id twice in parallel"),
    pytest.param("u c_,_ r_,_ a", id="ids that are empty"),
    pytest.param("u c1 r1 c1 r1", id="an id that comes back"),
    pytest.param("u c1", id="a pending call"),
    pytest.param("u c1,2 r1", id="a pending call, another answered"),
    pytest.param("u c1+r1+a", id="a call that the provider answered"),
    pytest.param("a u a", id="a model message first"),
]
BROKEN = [
    pytest.param("r1 a", "a", ["orphan_result 0"], id="a result without a call"),
    pytest.param("u r1+m a", "u m a", ["orphan_result 1"], id="only the orphan part leaves"),
    pytest.param("u c1 a", "u a", ["unanswered_call 1"], id="a call without a result"),
    pytest.param("u ac1 u", "u a u", ["unanswered_call 1"], id="the text beside it stays"),
    pytest.param("u c1,2 r1 a", "u c1 r1 a", ["unanswered_call 1"], id="one of two calls"),
    pytest.param("u c1 r1,1 a", "u c1 r1 a", ["orphan_result 2"], id="a result too many"),
    pytest.param("u c1,1 r1 a", "u c1 r1 a", ["unanswered_call 1"], id="a result too few"),
    pytest.param("u -a", "u", ["empty_message 1"], id="a message without parts"),
    pytest.param("u c1 c2 r2", "u c2 r2", ["unanswered_call 1"], id="a call behind an open one"),
    pytest.param(
        "u r1 c1 a", "u a", ["orphan_result 1", "unanswered_call 2"], id="a result before its call"
    ),
    pytest.param(
        "u c1 -a r1 a",
        "u c1 r1 a",
        ["empty_message 2", "orphan_result 3", "unanswered_call 1"],
        id="an empty message between a call and its result",
    ),
]


@pytest.mark.parametrize("picture", LEGAL)
def test_legal_histories(picture: str) -> None:
    history = sketch(picture)
    assert is_legal(history)
    assert violations(history) == ()
    assert repaired(history) == (history, ())


@pytest.mark.parametrize(("picture", "mended", "breaches"), BROKEN)
def test_broken_histories(picture: str, mended: str, breaches: list[str]) -> None:
    history = sketch(picture)
    assert not is_legal(history)
    assert sorted(f"{one.breach} {one.at}" for one in violations(history)) == breaches
    after, reported = repaired(history)
    assert sketch_of(after).replace("r1+u", "r1") == mended
    assert reported == violations(history)


def test_a_repeated_message_leaves_and_its_answer_stays() -> None:
    asked, call, answer = sketch("u c1 r1")
    after, (wrong, *_) = repaired([asked, call, call, answer])
    assert after == [asked, call, answer]
    assert str(wrong) == "unanswered_call in message 1 (m1), part 0"


def test_results_that_were_sent_twice_leave_once() -> None:
    history = sketch("u c1 r1 a")
    after, _ = repaired([*history[:3], history[2], history[3]])
    assert after == history


def test_another_message_with_the_same_id_gets_a_fresh_one() -> None:
    first, second = sketch("u a")
    double = Message(second.role, second.parts, first.message_id)
    (kept, renamed), (wrong,) = repaired([first, double])
    assert kept is first
    assert renamed.parts == double.parts
    assert renamed.message_id != first.message_id
    assert (wrong.breach, wrong.at) == (Breach.DUPLICATE_ID, 1)


@given(histories())
def test_generated_histories_are_legal_and_repair_leaves_them_alone(
    history: list[Message],
) -> None:
    assert is_legal(history)
    after, wrong = repaired(history)
    assert wrong == ()
    assert len(after) == len(history)
    assert all(one is other for one, other in zip(after, history, strict=True))


@given(broken_histories())
def test_legal_means_without_violations(history: list[Message]) -> None:
    assert is_legal(history) == (violations(history) == ())


@given(broken_histories())
def test_a_repaired_history_is_legal_and_stays_so(history: list[Message]) -> None:
    after, wrong = repaired(history)
    assert violations(after) == ()
    assert bool(wrong) == bool(violations(history))
    assert repaired(after) == (after, ())


@given(broken_histories())
def test_repair_takes_away_only_what_is_broken(history: list[Message]) -> None:
    after, wrong = repaired(history)
    order = iter(history)
    for message in after:  # Each stands where its original stood, with parts of the original.
        assert any(_is_rest_of(message, original) for original in order)
    broken = {violation.at for violation in wrong}
    kept = {id(message) for message in after}
    for at, message in enumerate(history):
        if at not in broken:
            assert id(message) in kept, f"message {at} was sound and left"


@pytest.mark.parametrize("tail", ["c1", "c1,2 r1", "c_,_ r_", "c1,1"])
def test_a_pending_tail_survives_the_repair_of_what_is_before_it(tail: str) -> None:
    after, wrong = repaired(sketch(f"r9 u c8 a u {tail}"))
    assert len(wrong) == 2
    assert sketch_of(after) == f"u a u {tail}"


def _is_rest_of(message: Message, original: Message) -> bool:
    rest, parts = Counter(map(id, message.parts)), Counter(map(id, original.parts))
    return message.role is original.role and message.kind is original.kind and rest <= parts


def test_a_violation_says_where_it_is() -> None:
    (wrong,) = violations([Message("user", (), "m-7")])
    assert str(wrong) == "empty_message in message 0 (m-7)"
    (wrong,) = violations([Message("model", [Part("x")], "m-8"), *sketch("r1")])
    assert str(wrong) == "orphan_result in message 1 (m0), part 0"
