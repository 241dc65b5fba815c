"""One collection: anyone may be asked, no one can do harm, no one is asked in vain for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from tests.session.foreign_plugins import (
    ODD_ITEM,
    ODD_SOURCE,
    Answering,
    Awaited,
    Greedy,
    Keyword,
    Listed,
    Printed,
    halved,
    raising,
    rewritten,
    with_result,
    without,
)
from tests.session.operations import COUNTER, Lines, assert_counted, fresh

from jaato.budget import InstructionSource
from jaato.events import BudgetUpdated, CallbackFailed, Collected, Event
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message, Part, Role, violations
from jaato.session.collector import Collector, thoughtless
from jaato.session.emitter import Emitter
from jaato.session.record import Enriched, Pinned, Switched, ToolsSet, TurnClosed
from jaato.session.state import State
from jaato.telemetry.off import OFF
from jaato.testing import WordCounter, sketch, sketch_of

T = TypeVar("T")
MANUAL, THRESHOLD = GCTriggerReason.MANUAL, GCTriggerReason.THRESHOLD
TURN_LIMIT, CONTEXT_LIMIT = GCTriggerReason.TURN_LIMIT, GCTriggerReason.CONTEXT_LIMIT


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def gc(name: str, **options: Any) -> Any:
    plugin = load_gc_plugin(name, options)
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    return plugin


class Bench:
    """A state with turns in it, a collector, and what listeners were told."""

    def __init__(
        self,
        plugin: Any,
        config: GCConfig | None = None,
        *,
        picture: str = "u c1 r1 a u c1 r1 a u c1 r1 a u c1 r1 a",
        percent: float = 85.0,
        open_turn: bool = False,
    ) -> None:
        self.state, self.log = fresh()
        self.events: list[Event] = []
        self.made = 0
        self.say(picture)
        if not open_turn:
            self.state.commit(TurnClosed())
        limit = int(self.state.window.counted * 100 / percent)
        self.state.commit(Switched(provider="p", model="m", limit=limit))
        emitter = Emitter("main")
        emitter.listen(self.events.append)
        self.collector = Collector(self.state, emitter, OFF, plugin=plugin, config=config)

    def say(self, picture: str) -> None:
        """Add what is drawn."""
        for message in sketch(picture, words=30, first=self.made):
            self.state.add(message)
        self.made += len(picture.split())

    def collect(self, reason: GCTriggerReason = MANUAL) -> GCResult:
        result = run(self.collector.collect(reason))
        assert result is not None
        return result

    @property
    def picture(self) -> str:
        return sketch_of(self.state.history)

    def same_when_resumed(self) -> bool:
        replayed = State.replayed(self.log.records(), COUNTER)
        return (
            replayed.history == self.state.history
            and replayed.budget.snapshot() == self.state.budget.snapshot()
            and list(replayed.results) == list(self.state.results)
        )


# What others write


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Printed, id="the printed one, without a budget"),
        pytest.param(Keyword, id="one with a budget by name"),
        pytest.param(Awaited, id="one that has to be awaited"),
        pytest.param(Greedy, id="one that changes what it is given"),
        pytest.param(
            lambda: Answering(lambda history, _: [*halved(history, "x", MANUAL)]),
            id="one that gives a list for a tuple",
        ),
        pytest.param(
            lambda: Answering(
                lambda history, good: (Listed(halved(history, "x", MANUAL)[0]), good)
            ),
            id="one with a list of its own kind",
        ),
        pytest.param(
            lambda: Answering(lambda history, good: (tuple(halved(history, "x", MANUAL)[0]), good)),
            id="one with a tuple of messages",
        ),
        pytest.param(
            lambda: Answering(with_result(details={("a", 1): object()})), id="odd details"
        ),
        pytest.param(lambda: Answering(with_result(details=None)), id="no details"),
        pytest.param(lambda: Answering(with_result(trigger_reason="soon")), id="an odd reason"),
        pytest.param(lambda: Answering(with_result(plugin_name=None)), id="no name"),
        pytest.param(
            lambda: Answering(with_result(notification=7)), id="a notice that is a number"
        ),
    ],
)
def test_whoever_keeps_the_contract_more_or_less_is_heard(plugin: Callable[[], Any]) -> None:
    bench = Bench(plugin())
    result = bench.collect()
    assert (result.success, result.error) == (True, None)
    assert bench.picture == "u c1 r1 a u c1 r1 a"
    assert type(bench.state.history) is list
    assert_counted(bench.state)
    assert bench.same_when_resumed()
    assert [type(event) for event in bench.events] == [Collected]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(raising, "RuntimeError: no", id="raises"),
        pytest.param(lambda *_: None, "gave NoneType", id="nothing"),
        pytest.param(lambda *_: "fine", "gave str", id="a word"),
        pytest.param(lambda history, good: (history, good, 1), "gave tuple", id="three things"),
        pytest.param(lambda _, good: (None, good), "NoneType, not a list", id="no history"),
        pytest.param(lambda _, good: ("u a", good), "str, not a list", id="a text for one"),
        pytest.param(
            lambda _, good: ([{"role": "user"}], good), "item 0 of its history is a dict",
            id="messages of its own",
        ),
        pytest.param(lambda history, _: (history, "fine"), "not a GCResult", id="no result"),
        pytest.param(lambda _, good: ([], good), "nothing is left", id="empties it"),
        pytest.param(without(0), "is LOCKED and left", id="loses the request"),
        pytest.param(rewritten(0), "is LOCKED and was changed", id="rewrites the request"),
        pytest.param(without(5), "orphan_result", id="takes a call from its result"),
        pytest.param(without(6), "unanswered_call", id="takes a result from its call"),
        pytest.param(
            lambda history, good: ([*history, history[1]], good), "duplicate_id",
            id="has a message twice",
        ),
        pytest.param(
            lambda history, good: ([*history, Message(Role.MODEL, [])], good), "empty_message",
            id="adds an empty one",
        ),
        pytest.param(with_result(tokens_after=None), "tokens_after", id="has no figures"),
        pytest.param(with_result(tokens_before=...), "tokens_before", id="leaves a figure open"),
        pytest.param(with_result(items_collected="3"), "items_collected", id="figures in words"),
        pytest.param(with_result(removal_list=None), "removal_list", id="has no list"),
        pytest.param(with_result(removal_list=[ODD_ITEM]), "removal_list", id="lists keys"),
        pytest.param(with_result(removal_list=[ODD_SOURCE]), "removal_list", id="odd sources"),
    ],
)  # fmt: skip
def test_whoever_breaks_it_changes_nothing_and_is_told_apart(
    answer: Callable[..., Any], why: str
) -> None:
    bench = Bench(Answering(answer))
    before, snapshot = list(bench.state.history), bench.state.budget.snapshot()
    result = bench.collect()
    assert not result.success
    assert why in str(result.error)
    assert bench.state.history == before
    assert bench.state.budget.snapshot() == snapshot
    assert result.plugin_name == "gc_custom"
    assert list(bench.state.results) == [result]
    assert bench.same_when_resumed()


def test_a_pinned_turn_is_pinned_whoever_collects() -> None:
    for answer in (without(4, 5, 6, 7), rewritten(7)):
        bench = Bench(Answering(answer))
        bench.state.commit(Pinned(turns=(1,)))
        assert "of the pinned turn 1" in str(bench.collect().error)
        bench.state.commit(Pinned(turns=()))
        assert bench.collect().success


@pytest.mark.parametrize(
    "gone", [pytest.param(-3, id="its prompt"), pytest.param(-1, id="what the model must answer")]
)
def test_the_running_turn_keeps_what_the_model_has_to_answer(gone: int) -> None:
    picture = "u a u a u c1 r1"
    gone_too = (gone,) if gone == -3 else (-1, -2)
    bench = Bench(Answering(without(*gone_too)), picture=picture, open_turn=True)
    assert "of the running turn left" in str(bench.collect().error)
    assert bench.picture == picture


def test_a_pending_call_is_no_breach_of_whoever_collects_meanwhile() -> None:
    bench = Bench(Printed(), picture="u a u a u a u c1")
    assert bench.collect().success
    assert bench.picture == "u a u c1"
    assert not violations(bench.state.history)


def test_what_a_stranger_says_of_tools_and_enrichment_is_done() -> None:
    from jaato.gc.result import GCRemovalItem  # noqa: PLC0415 -- beside its one use

    gone = [
        GCRemovalItem(InstructionSource.PLUGIN, "search", 12),
        GCRemovalItem(InstructionSource.ENRICHMENT, None, 9),
        GCRemovalItem(InstructionSource.PLUGIN, "no such tool", 9),
    ]
    bench = Bench(Answering(lambda history, good: (history, _listing(good, gone))))
    bench.state.commit(ToolsSet(tokens={"read": (30, False), "search": (12, True)}))
    bench.state.commit(Enriched(texts={"clock": "it is noon"}))
    assert bench.collect().success
    assert bench.state.window.tools_in_budget().keys() == {"read"}
    assert bench.state.window.enrichment == {}
    assert bench.same_when_resumed()


def _listing(good: GCResult, gone: list[Any]) -> GCResult:
    good.removal_list = gone
    return good


def test_a_history_that_changed_while_a_plug_in_thought_is_not_overwritten() -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow(history: list[Message], good: GCResult) -> Any:
        asked.set()
        assert answered.wait(10)
        return halved(history, "x", MANUAL)

    async def go() -> GCResult | None:
        bench = Bench(Answering(slow))
        task = asyncio.ensure_future(bench.collector.collect(MANUAL))
        await asyncio.to_thread(asked.wait)
        bench.say("u")
        answered.set()
        result = await task
        assert len(bench.state.history) == 17
        return result

    result = run(go())
    assert result is not None
    assert "changed" in str(result.error)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param((True, THRESHOLD), THRESHOLD, id="a pair"),
        pytest.param((True, "turn_limit"), TURN_LIMIT, id="a reason in words"),
        pytest.param((True, None), THRESHOLD, id="no reason"),
        pytest.param((True, "whim"), THRESHOLD, id="a reason nobody knows"),
        pytest.param([True, THRESHOLD], THRESHOLD, id="a list"),
        pytest.param(True, THRESHOLD, id="a bare yes"),
        pytest.param((True,), THRESHOLD, id="a yes alone in its tuple"),
        pytest.param((False, THRESHOLD), None, id="a no"),
        pytest.param(False, None, id="a bare no"),
        pytest.param((), None, id="an empty tuple"),
        pytest.param(None, None, id="nothing"),
        pytest.param("yes", None, id="a word"),
    ],
)
def test_whether_a_plug_in_wants_to_collect(answer: Any, reason: GCTriggerReason | None) -> None:
    plugin = Printed()
    plugin.should_collect = lambda *_: answer  # type: ignore[method-assign]  # another stranger
    assert Bench(plugin).collector.due() is reason


def test_a_plug_in_that_raises_when_asked_is_reported_and_collects_nothing() -> None:
    plugin = Printed()
    plugin.should_collect = lambda *_: 1 / 0  # type: ignore[method-assign]  # another stranger
    bench = Bench(plugin)
    assert bench.collector.due() is None
    (event,) = bench.events
    assert isinstance(event, CallbackFailed)
    assert "ZeroDivisionError" in event.error


# When


@pytest.mark.parametrize(
    "plugin", [Printed, lambda: gc("gc_truncate")], ids=["printed", "built in"]
)
def test_auto_trigger_false_holds_for_everybody(plugin: Callable[[], Any]) -> None:
    bench = Bench(plugin(), GCConfig(auto_trigger=False, threshold_percent=10.0))
    assert bench.collector.due() is None
    assert not bench.collector.may_collect
    bench.collector.install(plugin(), GCConfig(threshold_percent=10.0))
    assert bench.collector.due() is THRESHOLD


def test_the_plug_ins_own_options_are_the_rules() -> None:
    plugin = gc("gc_budget", threshold_percent=40.0, pressure_percent=0, pinned_turn_indices=[2])
    collector = Bench(plugin, GCConfig(pinned_turn_indices=[1])).collector
    collector.state.commit(Pinned(turns=(5,)))
    assert collector.rules.threshold_percent == 40.0
    assert collector.rules.continuous_mode
    assert collector.effective.pinned_turn_indices == [1, 2, 5]


def test_a_configuration_broken_by_assignment_is_told_and_takes_nothing_along() -> None:
    config = GCConfig()
    config.plugin_config = {"preserve_recent_turns": "three"}
    bench = Bench(gc("gc_truncate"), config)
    bench.state.commit(Pinned(turns=(1,)))
    assert bench.collector.due() is None
    result = bench.collect()
    assert not result.success
    assert "preserve_recent_turns" in str(result.error)


def test_a_turn_limit_is_armed_again_by_each_collection() -> None:
    config = GCConfig(max_turns=4, preserve_recent_turns=1, threshold_percent=99.0)
    bench = Bench(gc("gc_truncate", notify_on_gc=False), config, picture="u a u a u a", percent=1.0)
    turns = []
    for _ in range(12):
        bench.say("u a")
        reason = bench.collector.due()
        if reason is not None:
            assert reason is TURN_LIMIT
            bench.collect(reason)
        turns.append(bench.state.window.turns)
    # Turns of a few tokens in a window of thousands: what they free is no measure.
    assert max(turns) <= 4
    assert len(bench.state.results) >= 4


def test_a_turn_limit_below_what_must_stay_is_tried_once_per_turn_at_most() -> None:
    config = GCConfig(max_turns=2, preserve_recent_turns=5, threshold_percent=99.0)
    bench = Bench(gc("gc_truncate"), config, picture="u a u a u a", percent=1.0)
    assert bench.collector.due() is TURN_LIMIT
    bench.collect(TURN_LIMIT)
    assert bench.collector.due() is None
    bench.say("u a")
    assert bench.collector.due() is TURN_LIMIT


def test_continuous_mode_is_due_above_the_target() -> None:
    config = GCConfig(pressure_percent=None, target_percent=50.0, preserve_recent_turns=1)
    bench = Bench(gc("gc_budget"), config, percent=60.0)
    reason = bench.collector.due()
    assert reason is THRESHOLD
    bench.collect(reason)
    assert bench.state.window.percent <= 50.0
    assert bench.collector.due() is None


# In vain


def test_what_freed_nothing_is_not_tried_again_before_the_window_has_grown() -> None:
    plugin = Answering(lambda history, good: (history, good))
    bench = Bench(plugin, percent=85.0)
    step = int(bench.state.window.limit or 0) * 2 // 100
    assert bench.collector.due() is THRESHOLD
    bench.collect(THRESHOLD)
    assert bench.collector.is_fruitless
    assert bench.collector.due() is None
    bench.state.add(Message.from_text(Role.USER, " ".join(["w"] * (step - 8))))
    assert bench.collector.due() is None
    bench.state.add(Message.from_text(Role.MODEL, " ".join(["w"] * 8)))
    assert bench.collector.due() is THRESHOLD


@pytest.mark.parametrize(
    "answer", [raising, without(0)], ids=["one that raises", "one that is refused"]
)
def test_a_failure_is_no_reason_to_ask_at_every_step(answer: Callable[..., Any]) -> None:
    plugin = Answering(answer)
    bench = Bench(plugin, percent=85.0)
    for _ in range(10):
        reason = bench.collector.due()
        if reason is not None:
            bench.collect(reason)
    assert len(plugin.asked) == 1


@pytest.mark.parametrize("reason", [MANUAL, CONTEXT_LIMIT])
def test_what_is_asked_for_is_always_tried(reason: GCTriggerReason) -> None:
    plugin = Answering(lambda history, good: (history, good))
    bench = Bench(plugin)
    bench.collect(THRESHOLD)
    bench.collect(reason)
    bench.collect(reason)
    assert plugin.asked == [THRESHOLD, reason, reason]
    assert bench.collector.is_fruitless


def test_a_window_that_was_emptied_otherwise_is_collected_again_when_it_fills() -> None:
    plugin = Answering(lambda history, good: (history, good))
    bench = Bench(plugin, percent=95.0)
    bench.collect(THRESHOLD)
    assert bench.collector.due() is None
    # The ladder, say, took a tenth of the window.
    state = bench.state
    result = GCResult(True, 1, 10, 0, "ladder", THRESHOLD)
    state.replace([*state.history[:3], state.history[3].with_parts([Part(text="x")])], result)
    bench.collector.tell(result, 95.0)
    bench.say("u a u a u a u a u a u a u a u a")
    assert state.window.percent > 80.0
    assert bench.collector.due() is THRESHOLD


def test_without_a_limit_growth_of_any_size_is_growth() -> None:
    plugin = Answering(lambda history, good: (history, good))
    bench = Bench(plugin)
    bench.state.commit(Switched(provider="p", model="m", limit=None))
    bench.collect(THRESHOLD)
    assert bench.collector.is_fruitless
    bench.say("u")
    assert not bench.collector.is_fruitless


def test_another_plug_in_starts_anew() -> None:
    bench = Bench(Answering(raising))
    bench.collect(THRESHOLD)
    bench.collector.install(gc("gc_truncate"), GCConfig(preserve_recent_turns=1))
    assert bench.collector.due() is THRESHOLD
    assert bench.collect(THRESHOLD).success


# Told


def test_every_collection_is_in_the_history_of_the_session_and_survives_it() -> None:
    bench = Bench(gc("gc_truncate"), GCConfig(preserve_recent_turns=1))
    results = [bench.collect(), bench.collect()]
    plugin: Any = Answering(raising)
    bench.collector.install(plugin)
    results.append(bench.collect())
    assert [(one.success, one.items_collected > 0) for one in results] == [
        (True, True), (True, False), (False, False),
    ]  # fmt: skip
    assert list(bench.state.results) == results
    assert bench.same_when_resumed()


def test_a_snapshot_is_made_for_whoever_listens_for_it_and_for_nobody_else() -> None:
    bench = Bench(gc("gc_truncate"), GCConfig(preserve_recent_turns=1))
    bench.collect()
    assert not any(isinstance(event, BudgetUpdated) for event in bench.events)
    told: list[Any] = []
    bench.collector.emitter.listen(told.append, BudgetUpdated)
    bench.collect()
    (event,) = told
    assert event.snapshot == bench.state.budget.snapshot()


def test_without_a_plug_in_nothing_is_collected() -> None:
    bench = Bench(None)
    assert bench.collector.due() is None
    assert run(bench.collector.collect(MANUAL)) is None
    assert bench.events == []


def test_a_log_that_cannot_be_written_fails_the_collection_and_changes_nothing() -> None:
    class Full(Lines):
        def append(self, record: Any, at: float) -> int:
            raise OSError("No space left on device")

    bench = Bench(gc("gc_truncate"), GCConfig(preserve_recent_turns=1))
    before = list(bench.state.history)
    bench.state.write_to(Full())
    with pytest.raises(OSError, match="No space"):
        bench.collect()
    assert bench.state.history == before
    assert_counted(bench.state)


# Thoughts


BOUND = {"signature": "x"}


def thinking(bench: Bench, times: int) -> None:
    for at in range(times):
        bench.state.add(Message.from_text(Role.USER, f"question {at} " + "w " * 30))
        parts = [Part(thought=f"hm {at}", extra=BOUND), Part(text=f"answer {at} " + "w " * 30)]
        bench.state.add(Message(Role.MODEL, parts))


@pytest.mark.parametrize(
    ("binds", "left"),
    [pytest.param(True, 0, id="bound ones all go"), pytest.param(False, 2, id="free ones stay")],
)
def test_thoughts_behind_an_edit(binds: bool, left: int) -> None:
    bench = Bench(gc("gc_truncate", notify_on_gc=False), GCConfig(preserve_recent_turns=2))
    thinking(bench, 2)
    bench.collector.binds_thoughts = binds
    assert bench.collect().success
    assert sum(message.thoughts for message in bench.state.history) == left
    assert_counted(bench.state)
    assert bench.same_when_resumed()


def test_what_changes_in_front_takes_bound_thoughts_along_once() -> None:
    bench = Bench(None)
    thinking(bench, 2)
    bench.collector.drop_bound_thoughts()
    assert sum(message.thoughts for message in bench.state.history) == 2
    bench.collector.binds_thoughts = True
    bench.collector.drop_bound_thoughts()
    bench.collector.drop_bound_thoughts()
    assert not any(message.thoughts for message in bench.state.history)
    assert len(bench.state.results) == 1
    assert_counted(bench.state)


def test_a_message_of_thoughts_alone_says_nothing_without_them() -> None:
    message = Message(Role.MODEL, [Part(thought="hm", extra=BOUND)])
    short = thoughtless(message)
    assert (short.message_id, short.text, short.thoughts) == (message.message_id, "", 0)
    assert not violations([Message.from_text("user", "u"), short])
    plain = Message.from_text("model", "so")
    assert thoughtless(plain) is plain
    assert WordCounter().count_texts([short.text]) == [1]
