"""The window: what is sent, what it takes, and whether it fits; history and budget as one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.operations import COUNTER, collect, fresh, messages, operations, perform

from jaato.budget import GCPolicy, InstructionSource
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message, Part, Role
from jaato.session.model_call import replayable
from jaato.session.sent import SentMessages, sent_messages
from jaato.session.window import (
    FRAME,
    LARGEST_RESERVE,
    MARGIN_AFTER_REPORT,
    MARGIN_BEFORE_REPORT,
    UNSEEN_MARGIN,
    Window,
)
from jaato.testing import WordCounter, sketch
from jaato.tokens import SAFETY_MARGIN

PLUGIN = InstructionSource.PLUGIN
ENRICHMENT = InstructionSource.ENRICHMENT


class Estimating(WordCounter):
    """Counts words, and does not vouch for it."""

    name = "estimate"
    estimated = True


def window(limit: int | None = 1_000, counter: Any = COUNTER) -> Window:
    return Window("s", agent_id="main", counter=counter, model="m", limit=limit, at=1.0)


def filled(tokens: int, limit: int | None = 1_000, counter: Any = COUNTER) -> Window:
    """A window with one message that costs so much."""
    made = window(limit, counter)
    words = " ".join(["w"] * (tokens - 4))
    made.add(Message.from_text(Role.USER, words), at=2.0)
    assert made.counted == tokens
    return made


def source(made: Window, which: InstructionSource) -> Any:
    entry = made.budget.get_entry(which)
    assert entry is not None
    return entry


@settings(max_examples=80, deadline=None)
@given(waiting=messages(), told=operations())
def test_usage_follows_the_budget_and_the_reports(
    waiting: list[Message], told: list[tuple[str, int]]
) -> None:
    state, _ = fresh()
    waiting = list(waiting)
    for kind, number in told:
        perform(state, waiting, kind, number)
        made, usage = state.window, state.window.usage()
        assert usage["total_tokens"] == made.counted == state.budget.total_tokens()
        assert usage["context_limit"] == state.budget.context_limit
        assert usage["turns"] == sum(message.opens_turn for message in made.history)
        opening = [at for at, message in enumerate(made.history) if message.opens_turn]
        assert made.turn_at == (opening[-1] if opening else None)
        assert made.most_tokens() >= made.tokens
        over = made.overflow(None)
        if made.limit is None:
            assert over == 0
            assert made.room_for_answer() is None
        else:
            assert (over == 0) == (made.most_tokens() + made.reserve(None) <= made.limit)


@pytest.mark.parametrize(
    ("limit", "wanted", "reserve"),
    [
        pytest.param(200_000, None, 4_096, id="a large window keeps the usual room"),
        pytest.param(16_000, None, 2_000, id="a smaller one an eighth"),
        pytest.param(4_000, None, 500, id="also where that is little"),
        pytest.param(None, None, LARGEST_RESERVE, id="an unknown one the usual room"),
        pytest.param(16_000, 9_000, 9_000, id="whoever asks for more gets it"),
        pytest.param(16_000, 10, 10, id="and for less"),
    ],
)
def test_the_room_for_an_answer(limit: int | None, wanted: int | None, reserve: int) -> None:
    assert window(limit).reserve(wanted) == reserve


@pytest.mark.parametrize(
    ("counter", "reported", "since", "most"),
    [
        pytest.param(COUNTER, None, 0, 400 * MARGIN_BEFORE_REPORT + FRAME, id="an exact counter"),
        pytest.param(
            Estimating(), None, 0, 400 * SAFETY_MARGIN + FRAME, id="an estimate before any report"
        ),
        pytest.param(COUNTER, 400, 0, 400 * MARGIN_AFTER_REPORT, id="reported, and nothing since"),
        pytest.param(
            Estimating(), 400, 0, 400 * MARGIN_AFTER_REPORT, id="a report makes an estimate good"
        ),
        pytest.param(
            COUNTER,
            400,
            100,
            500 * MARGIN_AFTER_REPORT + 100 * (UNSEEN_MARGIN - 1) + FRAME,
            id="what came since is less certain",
        ),
        pytest.param(
            COUNTER, 600, 0, 600 * MARGIN_AFTER_REPORT, id="a provider that counts more is believed"
        ),
        pytest.param(COUNTER, 300, 0, 300 * MARGIN_AFTER_REPORT, id="and one that counts less"),
    ],
)
def test_what_the_provider_may_count_at_most(
    counter: Any, reported: int | None, since: int, most: float
) -> None:
    made = filled(400, counter=counter)
    made.observe(reported, 400, thinking=None)
    if since:
        made.add(Message.from_text(Role.MODEL, " ".join(["w"] * (since - 4))), at=3.0)
    assert made.most_tokens() == pytest.approx(most + FRAME, abs=1.5)


def test_what_left_since_a_report_may_have_been_what_the_provider_counts_lower() -> None:
    # Seen in an endurance run: the old part was counted at 0.58 of ours, the whole at 0.92.
    made, result = window(40_000), GCResult(True, 1, 0, 0, "p", GCTriggerReason.MANUAL)
    for tokens in (12_000, 18_000):
        made.add(Message.from_text(Role.USER, " ".join(["w"] * (tokens - 4))), at=2.0)
    real = {12_000: 12_000 * 0.85, 18_000: 18_000 * 0.96}
    made.observe(int(sum(real.values())), made.counted, thinking=None)
    made.replace(made.history[1:], result, at=3.0)
    assert made.counted == 18_000
    assert made.most_tokens() >= real[18_000]


@pytest.mark.parametrize(
    ("tokens", "limit", "over"),
    [
        pytest.param(800, 1_000, 0, id="it fits"),
        pytest.param(900, 1_000, 78, id="the margin and the answer do not"),
        pytest.param(2_000, 1_000, 1_233, id="far beyond"),
        pytest.param(10**6, None, 0, id="nobody knows the window"),
    ],
)
def test_by_how_much_a_request_misses_the_window(tokens: int, limit: int | None, over: int) -> None:
    assert filled(tokens, limit).overflow(None) == over


def test_overflow_is_told_in_our_count_where_the_provider_counts_double() -> None:
    made = filled(400, 500)
    made.observe(800, 400, thinking=None)
    over = made.overflow(62)
    # 800 and a percent, and the answer: 370 too many of theirs, which are 185 of ours.
    assert over == pytest.approx(185, abs=2)
    assert made.usage()["tokens_per_count"] == pytest.approx(2.0)
    assert made.percent == pytest.approx(160.0)


def test_an_unknown_limit_is_no_limit_and_no_percentage() -> None:
    usage = filled(500, None).usage()
    assert (usage["context_limit"], usage["percent_used"], usage["tokens_remaining"]) == (
        None, 0.0, None,
    )  # fmt: skip


def test_another_model_has_its_own_limit_and_scale() -> None:
    made = filled(400, 1_000)
    made.observe(800, 400, thinking=None)
    assert made.tokens == 800
    made.switch("other", 5_000)
    assert (made.tokens, made.limit, made.model) == (400, 5_000, "other")
    made.switch("m", 1_000)
    assert made.tokens == 800, "what a model has shown is remembered"


@pytest.mark.parametrize("reported", [None, 0, -5])
def test_a_report_of_nothing_changes_nothing(reported: int | None) -> None:
    made = filled(400)
    made.observe(reported, 400, thinking=None)
    assert made.tokens == 400


def test_thoughts_that_are_output_only_are_outside_the_total() -> None:
    made = filled(400)
    made.observe(400, 400, thinking=50)
    made.observe(400, 400, thinking=30)
    assert made.counted == 400
    assert made.budget.total_tokens_all() == 480


# What is sent beside the messages


def test_system_instructions_are_parts_that_can_be_replaced() -> None:
    made = window()
    made.set_system({"base": "one two three", "client": "four", "empty": ""}, at=2.0)
    assert (made.counted, list(made.system)) == (4, ["base", "client"])
    made.set_system({"client": "four five"}, at=3.0)
    assert (made.counted, made.system) == (2, {"client": "four five"})


def test_names_with_slashes_are_names_and_not_paths() -> None:
    made = window()
    made.set_enrichment({"a/b": "one two", "a": "three", "a_b": "four"}, at=2.0)
    made.set_system({"base": "five", "base/more": "six"}, at=2.0)
    assert made.counted == 6
    assert list(source(made, ENRICHMENT).children) == ["a/b", "a", "a_b"]
    for _ in range(2):
        made.set_tools({"server": (5, True), "server/read": (20, False)}, at=3.0)
        assert made.tools_in_budget().keys() == {"server", "server/read"}
        assert made.counted == 31


def test_tools_keep_their_entries_and_follow_their_tokens() -> None:
    made = window()
    made.set_tools({"read": (30, False), "search": (12, True)}, at=2.0)
    read = source(made, PLUGIN).children["read"]
    made.set_tools({"read": (40, False), "write": (5, False)}, at=9.0)
    entry = source(made, PLUGIN)
    assert entry.children["read"] is read
    assert (read.tokens, read.created_at, read.gc_policy) == (40, 2.0, GCPolicy.LOCKED)
    assert made.tools_in_budget().keys() == {"read", "write"}
    assert entry.total_tokens() == 45


def test_enrichment_stands_in_front_of_the_prompt_until_it_is_cleared() -> None:
    state, _ = fresh()
    made = state.window
    for message in sketch("u a u c1 r1", words=5):
        made.add(message, at=2.0)
    made.set_enrichment({"clock": "it is noon"}, at=3.0)
    sent = sent_messages(made)
    assert sent[2].text == f"it is noon{made.history[2].text}"
    assert [one for at, one in enumerate(sent) if at != 2] == [
        one for at, one in enumerate(made.history) if at != 2
    ]
    collect(state, "gc_budget", 1)
    assert made.enrichment == {}
    assert sent_messages(made) == made.history


@given(history=messages(), data=st.data())
def test_what_is_sent_is_a_sequence_like_any_other(
    history: list[Message], data: st.DataObject
) -> None:
    at = data.draw(st.none() | st.integers(0, max(len(history) - 1, 0))) if history else None
    other = Message.from_text(Role.USER, "enriched")
    sent = SentMessages(history, at, None if at is None else other)
    plain = [other if place == at else message for place, message in enumerate(history)]
    history.append(other)  # What comes later is in a later request.
    assert sent == plain
    assert [sent[place] for place in range(-len(plain), len(plain))] == plain * 2
    assert sent[1:3] == plain[1:3]
    assert list(reversed(sent)) == plain[::-1]
    with pytest.raises(IndexError):
        sent[len(plain)]


def test_without_a_prompt_there_is_nowhere_to_put_enrichment() -> None:
    made = window()
    made.set_enrichment({"clock": "it is noon"}, at=3.0)
    assert sent_messages(made) == []


# Thoughts


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        pytest.param([Part(text="so")], ["so"], id="no thought"),
        pytest.param([Part(thought="hm"), Part(text="so")], ["so"], id="one that is output only"),
        pytest.param(
            [Part(thought="hm", extra={"signature": "x"}), Part(text="so")],
            ["hm", "so"],
            id="one that is needed back",
        ),
        pytest.param([Part(thought="hm")], [""], id="nothing but a thought"),
    ],
)
def test_which_thoughts_stay_in_the_history(parts: list[Part], kept: list[str]) -> None:
    message = replayable(Message(Role.MODEL, parts))
    assert [part.thought if part.text is None else part.text for part in message.parts] == kept
