from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource
from jaato.history import (
    STUB_MARK,
    Kind,
    Media,
    Message,
    Outline,
    Role,
    is_legal,
    steps,
    violations,
)
from jaato.testing import (
    WordCounter,
    broken_histories,
    budget_of,
    budgets,
    histories,
    random_history,
    sketch,
    sketch_of,
)
from jaato.testing.collection import tracked_in
from jaato.tokens import count_messages, history_tokens

COUNTER = WordCounter()


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same draw each time is the point


def media(history: list[Message]) -> list[Media]:
    return [part.inline_data for one in history for part in one.parts if part.inline_data]


def calls_per_message(history: list[Message]) -> list[int]:
    return [len(message.function_calls) for message in history]


def is_pending(history: list[Message]) -> bool:
    calls = sum(len(message.call_ids) for message in history)
    return calls > sum(len(message.result_ids) for message in history)


def has_surrogate(history: list[Message]) -> bool:
    return any("\ud800" <= letter <= "\udfff" for one in history for letter in one.text)


def steps_in_one_turn(history: list[Message]) -> int:
    spans = Outline.of(history)
    return max((sum(1 for _ in steps(history, span)) for span in spans), default=0)


@given(histories())
def test_histories_are_legal_with_ids_of_their_own(history: list[Message]) -> None:
    assert violations(history) == ()
    assert [message.message_id for message in history] == [f"m{at}" for at in range(len(history))]


@pytest.mark.parametrize(
    "holds",
    [
        pytest.param(lambda h: not h, id="nothing"),
        pytest.param(lambda h: len(Outline.of(h).turns()) >= 8, id="many turns"),
        pytest.param(lambda h: max(calls_per_message(h), default=0) >= 3, id="parallel calls"),
        pytest.param(lambda h: any(len(set(m.call_ids)) < len(m.call_ids) for m in h), id="twins"),
        pytest.param(lambda h: any("" in m.call_ids for m in h), id="empty ids"),
        pytest.param(lambda h: sum("1" in m.call_ids for m in h) >= 2, id="ids that come back"),
        pytest.param(is_pending, id="a pending call"),
        pytest.param(
            lambda h: is_pending(h) and h[-1].role is Role.TOOL, id="a pending call, half answered"
        ),
        pytest.param(media, id="media"),
        pytest.param(lambda h: any(m.thoughts for m in h), id="thoughts"),
        pytest.param(lambda h: steps_in_one_turn(h) >= 100, id="hundreds of steps in one turn"),
        pytest.param(lambda h: any(m.result_ids and m.role is Role.USER for m in h), id="R"),
        pytest.param(lambda h: any(m.text and m.function_calls for m in h), id="text beside calls"),
        pytest.param(lambda h: sum(m.kind is Kind.SUMMARY for m in h) >= 2, id="summaries"),
        pytest.param(lambda h: any(m.kind is Kind.NOTICE for m in h), id="a notice"),
        pytest.param(lambda h: h and h[0].role is Role.MODEL, id="a model message first"),
        pytest.param(has_surrogate, id="lone surrogates"),
        pytest.param(
            lambda h: any(STUB_MARK in p.extra for m in h for p in m.parts), id="earlier stubs"
        ),
        pytest.param(lambda h: any(len(m.text) > 4000 for m in h), id="long texts"),
    ],
)
def test_everything_worth_testing_is_generated(holds: Callable[[list[Message]], object]) -> None:
    found = find(
        histories(),
        lambda history: bool(holds(history)),
        settings=settings(max_examples=3000, database=None),
    )
    assert holds(found)


def test_what_is_not_wanted_is_not_generated() -> None:
    @given(histories(min_turns=1, max_turns=3, pending=False, collected=False, max_messages=20))
    def holds(history: list[Message]) -> None:
        assert not is_pending(history)
        assert {message.kind for message in history} <= {Kind.PLAIN}
        assert len(history) <= 20 + 4  # the step at hand is finished

    holds()


def test_failures_shrink_to_few_messages() -> None:
    # Where shrinking ends depends on where it began: one of some beginnings leads all the way.
    found = [
        find(
            histories(),
            lambda h: sum(bool(m.result_ids) for m in h) >= 2,
            settings=settings(database=None),
            random=random.Random(seed),  # noqa: S311 -- fixed beginnings, no secrets
        )
        for seed in range(3)
    ]
    smallest = min(found, key=len)
    assert len(smallest) <= 5, sketch_of(smallest)
    assert all(len(one) <= 8 for one in found)


def test_most_broken_histories_are_broken() -> None:
    drawn: list[bool] = []

    @settings(max_examples=200, database=None)
    @given(broken_histories())
    def draw(history: list[Message]) -> None:
        drawn.append(is_legal(history))

    draw()
    assert drawn.count(False) > len(drawn) / 2


def test_the_same_seed_draws_the_same_history() -> None:
    one, other = (random_history(seeded(7)) for _ in range(2))
    assert one == other
    assert random_history(seeded(8)) != one


@pytest.mark.parametrize(("turns", "steps_each"), [(1, 500), (40, 3), (0, 0)])
def test_a_seeded_history_is_as_long_as_asked(turns: int, steps_each: int) -> None:
    history = random_history(
        seeded(3), turns=turns, steps=steps_each, pending=False, collected=False
    )
    assert is_legal(history)
    assert sum(message.role is Role.MODEL for message in history) == turns * steps_each


def test_seeded_histories_are_legal() -> None:
    rng = seeded(11)
    assert all(is_legal(random_history(rng)) for _ in range(300))


@given(st.data())
def test_a_budget_agrees_with_its_history(data: st.DataObject) -> None:
    history = data.draw(histories(max_turns=5, max_messages=60))
    budget = data.draw(budgets(history, COUNTER))
    conversation = budget.get_entry(InstructionSource.CONVERSATION)
    assert conversation is not None
    assert conversation.total_tokens() == history_tokens(COUNTER, history)
    assert set(tracked_in(budget)) == {message.message_id for message in history}
    assert budget.context_limit


@pytest.mark.parametrize(
    "holds",
    [
        pytest.param(lambda b: b.utilization_percent() > 100, id="overfull"),
        pytest.param(lambda b: b.utilization_percent() < 60, id="half empty"),
        pytest.param(lambda b: b.get_child(InstructionSource.PLUGIN, "search"), id="tools"),
        pytest.param(
            lambda b: b.get_entry(InstructionSource.ENRICHMENT).total_tokens(), id="enrichment"
        ),
        pytest.param(lambda b: b.get_entry(InstructionSource.SYSTEM).total_tokens(), id="system"),
        pytest.param(
            lambda b: tracked_in(b)["m3"].policy is GCPolicy.LOCKED, id="a LOCKED message"
        ),
        pytest.param(
            lambda b: tracked_in(b)["m3"].policy is GCPolicy.PRESERVABLE, id="a PRESERVABLE one"
        ),
    ],
)
def test_budgets_of_every_kind(holds: Callable[[InstructionBudget], object]) -> None:
    history = sketch("u a u a", words=30)
    found = find(
        budgets(history, COUNTER),
        lambda budget: bool(holds(budget)),
        settings=settings(max_examples=2000, database=None),
    )
    assert holds(found)


def test_a_plain_budget_has_the_limit_it_is_given() -> None:
    history = sketch("u a", words=30)
    budget = budget_of(history, COUNTER, context_limit=1000)
    assert budget.context_limit == 1000
    assert budget.total_tokens() == sum(count_messages(COUNTER, history))


def test_words_are_counted() -> None:
    assert COUNTER.count_texts(["", "one", "one two\nthree", "\ud800"]) == [1, 1, 3, 1]


def test_without_hypothesis_everything_else_works() -> None:
    code = """
        import sys
        sys.modules["hypothesis"] = None
        from jaato.errors import MissingExtraError
        import jaato.testing
        from jaato.testing import random_history, run_collection, sketch
        sketch("u c1 r1 a")
        try:
            jaato.testing.histories
        except MissingExtraError as error:
            print(error)
    """
    done = subprocess.run(  # noqa: S603 -- our own interpreter, our own text
        [sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=False
    )
    assert "hypothesis is not installed (pip install 'jaato[testing]')" in done.stdout, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    import jaato.testing  # noqa: PLC0415 -- the module itself is the subject

    with pytest.raises(AttributeError, match="historys"):
        _ = jaato.testing.historys
