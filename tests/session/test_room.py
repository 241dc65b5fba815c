"""Making room: each rung of the ladder, what is on none of them, and what is said at its end."""

from __future__ import annotations

import asyncio
import pickle
import re
from typing import Any

import pytest
from tests.session.operations import COUNTER, assert_counted, fresh

from jaato.budget import GCPolicy, locate
from jaato.events import Collected, Event, Noticed, ResultShortened
from jaato.exchange import ContextLimitError
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.history import STUB_MARK, FunctionCall, Message, Part, Role, ToolResult, violations
from jaato.session.collector import Collector
from jaato.session.emitter import Emitter
from jaato.session.problems import WindowFullError
from jaato.session.record import Pinned, Reported, Switched, SystemSet, ToolsSet
from jaato.session.room import Room
from jaato.session.shorten import SHORTENED_MARK
from jaato.telemetry.off import OFF

PRE_MESSAGE, THRESHOLD = GCTriggerReason.PRE_MESSAGE, GCTriggerReason.THRESHOLD


def words(count: int) -> str:
    """A text of so many tokens, no two alike."""
    return " ".join(f"w{at}" for at in range(count))


def gc(name: str, **options: Any) -> Any:
    plugin = load_gc_plugin(name, {"notify_on_gc": False, **options})
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    return plugin


class Place:
    """A room around a drawn history: `u9` a prompt of nine words, `r400` a call and its result."""

    def __init__(
        self,
        drawn: str,
        limit: int | None,
        *,
        plugin: Any = None,
        config: GCConfig | None = None,
        wanted: int | None = 0,
    ) -> None:
        self.state, self.log = fresh()
        self.calls = 0
        self.draw(drawn)
        self.state.commit(Switched(provider="p", model="m", limit=limit))
        self.events: list[Event] = []
        emitter = Emitter("main")
        emitter.listen(self.events.append)
        self.collector = Collector(self.state, emitter, OFF, plugin=plugin, config=config)
        self.room = Room(self.state, self.collector, lambda: wanted)

    def draw(self, drawn: str) -> None:
        for token in drawn.split():
            kind, size = token[0], int(token[1:])
            if kind == "r":
                self.calls += 1
                call = FunctionCall(f"c{self.calls}", "read", {})
                self.state.add(Message(Role.MODEL, [Part(function_call=call)]))
                result = ToolResult(call.id, "read", words(size))
                self.state.add(Message(Role.TOOL, [Part(function_response=result)]))
            else:
                role = Role.USER if kind == "u" else Role.MODEL
                self.state.add(Message.from_text(role, words(size)))

    def make(self, refused: ContextLimitError | None = None, times: int = 0) -> None:
        asyncio.run(self.room.before_call(refused, times))

    @property
    def shown(self) -> str:
        """Each result: `whole`, `stub` or `short`."""
        found = []
        for message in self.state.history:
            for part in message.parts:
                if part.function_response is not None:
                    marks = (STUB_MARK in part.extra, SHORTENED_MARK in part.extra)
                    found.append("stub" if marks[0] else "short" if marks[1] else "whole")
        return " ".join(found)

    def text_of(self, result: int) -> str:
        """The full text of a result that became a stub or was cut, by its handle."""
        parts = [p for m in self.state.history for p in m.parts if p.function_response is not None]
        extra = parts[result].extra
        handle = extra.get(STUB_MARK) or extra.get(SHORTENED_MARK)
        return str(self.state.get(str(handle)))

    @property
    def plugins(self) -> list[str]:
        return [event.result.plugin_name for event in self.events if isinstance(event, Collected)]


STEPS = "u9 " + "r100 " * 12


@pytest.mark.parametrize(
    ("drawn", "limit", "shown", "plugins"),
    [
        pytest.param(STEPS, 3_000, "whole " * 12, [], id="what fits is left alone"),
        pytest.param(
            STEPS, 1_600, "stub stub " + "whole " * 10, ["ladder"], id="old results become stubs"
        ),
        pytest.param(
            "u9 " + "r100 " * 6 + "r400 " * 2,
            1_100,
            "stub " * 7 + "whole",
            ["ladder"] * 3,
            id="then those of later steps, down to the last",
        ),
        pytest.param("u9 r900", 600, "short", ["ladder"], id="then the largest is cut"),
        pytest.param(
            "u9 r90 r900", 600, "whole short", ["ladder"], id="and the small ones are not"
        ),
        pytest.param(
            "u9 " + "r70 " * 5 + "r900",
            760,
            "whole " * 5 + "short",
            ["ladder"],
            id="many small old ones do not go before the large one that has to be cut anyway",
        ),
        pytest.param(
            "u9 r500 r500",
            700,
            "stub whole",
            ["ladder"],
            id="a stub comes before a cut",
        ),
    ],
)
def test_the_ladder(drawn: str, limit: int, shown: str, plugins: list[str]) -> None:
    place = Place(drawn, limit)
    before = [m.parts[0].function_response for m in place.state.history if m.result_ids]
    place.make()
    assert place.shown == shown.strip()
    assert place.plugins == plugins
    assert place.state.window.overflow(0) == 0
    assert_counted(place.state)
    assert not violations(place.state.history)
    for at, (old, now) in enumerate(zip(before, place.shown.split(), strict=True)):
        assert old is not None
        if now != "whole":
            assert place.text_of(at) == old.result


def test_a_rung_of_stubs_frees_a_tenth_of_the_window_at_once() -> None:
    place = Place("u9 " + "r60 " * 40, 3_900)
    assert 0 < place.state.window.overflow(0) < 300
    before = place.state.window.counted
    place.make()
    # One large edit is cheaper than one at each step: all behind it is sent uncached.
    assert before - place.state.window.counted >= 390
    assert place.plugins == ["ladder"]


def test_collecting_comes_before_the_ladder() -> None:
    place = Place(
        "u9 r300 a9 u9 r300 a9 u9 r300",
        1_100,
        plugin=gc("gc_truncate", preserve_recent_turns=1),
        config=GCConfig(threshold_percent=100.0, target_percent=50.0),
    )
    # Below the threshold by our count, and too much with what a provider adds.
    place.state.commit(Reported(reported=None, counted=0))
    assert 0 < place.state.window.percent < 100.0
    place.state.commit(Switched(provider="p", model="m", limit=1_010))
    assert place.state.window.overflow(0) > 0
    place.make()
    assert place.plugins == ["gc_truncate"]
    assert place.events[0].result.trigger_reason in {PRE_MESSAGE, THRESHOLD}  # type: ignore[attr-defined]  # a Collected
    assert place.shown == "whole"


@pytest.mark.parametrize(
    ("config", "reasons"),
    [
        pytest.param(GCConfig(preserve_recent_turns=1), ["threshold"], id="at the threshold"),
        pytest.param(
            GCConfig(preserve_recent_turns=1, check_before_send=False),
            ["pre_message"],
            id="without a look before, only what does not fit is collected",
        ),
        pytest.param(
            GCConfig(preserve_recent_turns=1, auto_trigger=False),
            ["pre_message"],
            id="without auto_trigger the ladder alone makes room",
        ),
    ],
)
def test_the_reason_of_a_collection(config: GCConfig, reasons: list[str]) -> None:
    place = Place("u9 r300 a9 u9 r300 a9 u9 r300", 950, plugin=gc("gc_truncate"), config=config)
    place.make()
    told = [event.result for event in place.events if isinstance(event, Collected)]
    assert [result.trigger_reason.value for result in told] == reasons
    by = "ladder" if not config.auto_trigger else "gc_truncate"
    assert [result.plugin_name for result in told] == [by]


def test_a_threshold_that_was_crossed_is_looked_at_without_check_before_send() -> None:
    config = GCConfig(preserve_recent_turns=1, check_before_send=False)
    place = Place("u9 r300 a9 u9 r300 a9 u9 r300", 1_150, plugin=gc("gc_truncate"), config=config)
    asyncio.run(place.room.before_prompt())
    place.make()
    assert place.plugins == []
    place.room.threshold_crossed = True
    place.make()
    assert place.plugins == ["gc_truncate"]
    assert not place.room.threshold_crossed


@pytest.mark.parametrize(
    ("crossed", "continuous", "collected"),
    [
        pytest.param(False, False, False, id="not where nothing was crossed"),
        pytest.param(True, False, True, id="where the threshold was"),
        pytest.param(False, True, True, id="in continuous mode whenever the target is passed"),
    ],
)
def test_after_a_turn(crossed: bool, continuous: bool, collected: bool) -> None:
    config = GCConfig(pressure_percent=0 if continuous else 90.0, preserve_recent_turns=1)
    place = Place("u9 r300 a9 u9 r300 a9 u9 r300 a9", 1_150, plugin=gc("gc_budget"), config=config)
    place.room.threshold_crossed = crossed
    asyncio.run(place.room.after_turn())
    assert bool(place.plugins) is collected


# On no rung


def written(state: Any, at: int, words_in_it: int) -> str:
    """A step that writes a file of so many words, and what it wrote."""
    text = f"file{at} " * words_in_it
    call = FunctionCall(f"w{at}", "write", {"path": f"f{at}", "files": [{"text": text}]})
    state.add(Message(Role.MODEL, [Part(function_call=call)]))
    state.add(Message(Role.TOOL, [Part(function_response=ToolResult(call.id, "write", "ok"))]))
    return text


def test_what_an_agent_wrote_in_one_long_turn_leaves_its_calls() -> None:
    place = Place("u9", 2_000)
    texts = [written(place.state, at, 300) for at in range(12)]
    place.make()
    calls = [call for message in place.state.history for call in message.function_calls]
    assert len(calls) == 12
    short = [call for call in calls if "recall(" in str(call.args)]
    assert short == calls[: len(short)]
    assert all(call.args["path"] == f"f{at}" for at, call in enumerate(calls))
    found = re.findall(r'recall\("(r\d+)"\)', str([call.args for call in short]))
    assert [place.state.get(handle) for handle in found] == texts[: len(short)]
    assert "recall(" not in str(calls[-1].args)
    assert place.state.window.overflow(0) == 0
    assert not violations(place.state.history)
    assert_counted(place.state)


def test_a_pinned_turn_is_on_no_rung() -> None:
    place = Place("u9 r300 r300 a9 u9 r300 a9 u9 r9", 700)
    place.state.commit(Pinned(turns=(1,)))
    place.make()
    assert place.shown == "stub stub whole whole"


def test_a_turn_pinned_by_the_plug_ins_own_options_is_on_no_rung() -> None:
    plugin = gc("gc_truncate", pinned_turn_indices=[1])
    config = GCConfig(auto_trigger=False)
    place = Place("u9 r300 r300 a9 u9 r300 a9 u9 r9", 700, plugin=plugin, config=config)
    place.make()
    assert place.shown == "stub stub whole whole"


@pytest.mark.parametrize("policy", [GCPolicy.LOCKED, GCPolicy.PRESERVABLE])
@pytest.mark.parametrize("whole_turn", [False, True], ids=["the entry", "its turn"])
def test_a_policy_that_keeps_is_on_no_rung(policy: GCPolicy, whole_turn: bool) -> None:
    place = Place("u9 r300 r300 a9 u9 r9", 500)
    result = place.state.history[2]
    located = locate(place.state.budget, result.message_id)
    assert located is not None
    if whole_turn:
        turn = located.entry.holder
        assert turn is not None
        turn.owner.gc_policy = policy  # type: ignore[union-attr]  # an entry, not the budget
        with pytest.raises(WindowFullError):
            place.make()
        assert place.shown == "whole whole whole"
    else:
        located.entry.gc_policy = policy
        place.make()
        assert place.shown == "whole stub whole"


def test_an_answer_that_was_just_called_back_is_cut_last() -> None:
    place = Place("u9", 900)
    calls = [FunctionCall("1", "recall", {}), FunctionCall("2", "read", {})]
    place.state.add(Message(Role.MODEL, [Part(function_call=call) for call in calls]))
    results = [ToolResult(call.id, call.name, words(450)) for call in calls]
    place.state.add(Message(Role.TOOL, [Part(function_response=one) for one in results]))
    place.make()
    assert place.shown == "whole short"


# The end of the ladder


def test_what_fills_the_window_is_said() -> None:
    place = Place("u500 r30", 1_000, wanted=100)
    place.state.commit(SystemSet(texts={"base": words(300)}))
    place.state.commit(ToolsSet(tokens={"read": (250, False)}))
    with pytest.raises(WindowFullError) as raised:
        place.make()
    error = raised.value
    fillers = dict(error.fillers)
    assert (fillers["message 0 (user)"], fillers["system"], fillers["plugin"]) == (504, 300, 250)
    assert fillers["room for the answer"] == 100
    assert [tokens for _, tokens in error.fillers] == sorted(fillers.values(), reverse=True)
    assert error.limit == 1_000 < error.needed
    assert "message 0 (user): 504" in str(error)
    assert "unpin turns" in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    assert (again.needed, again.limit, again.fillers) == (error.needed, 1_000, error.fillers)


def test_what_is_needed_is_more_than_there_is_however_small_the_excess() -> None:
    place = Place("u500", 530, wanted=20)
    assert place.state.window.tokens + 20 < 530
    with pytest.raises(WindowFullError) as raised:
        place.make()
    assert raised.value.needed > 530


def test_a_window_that_nothing_empties_asks_the_plug_in_once() -> None:
    asked: list[str] = []

    def summarizer(text: str) -> str:
        asked.append(text)
        raise RuntimeError("it cannot be asked now")

    plugin = gc("gc_summarize", preserve_recent_turns=1, summarizer=summarizer)
    place = Place("u300 a300 u300 a300 u300", 1_000, plugin=plugin)
    for _ in range(3):
        with pytest.raises(WindowFullError):
            place.make()
    assert len(asked) == 1


# What the provider says


def refusal(limit: int | None = None) -> ContextLimitError:
    error = ContextLimitError("too long")
    error.limit = limit
    return error


def test_a_provider_that_refuses_what_fits_gets_less_each_time() -> None:
    place = Place("u9 " + "r100 " * 30, 10_000)
    place.make()
    before = place.state.window.counted
    sizes = []
    for times in (1, 2, 3):
        place.make(refusal(), times)
        sizes.append(place.state.window.counted)
    assert sizes[0] <= before * 0.9
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] <= sizes[0] * 0.75
    assert_counted(place.state)


def test_where_nothing_may_leave_the_providers_own_words_are_the_error() -> None:
    place = Place("u300", 10_000)
    error = refusal()
    for times in (1, 2):
        place.make(error, times)  # A shorter answer may help.
    with pytest.raises(ContextLimitError) as raised:
        place.make(error, 3)
    assert raised.value is error


@pytest.mark.parametrize(
    ("known", "said", "learned"),
    [
        pytest.param(None, 2_000, 2_000, id="an unknown window is learned"),
        pytest.param(9_000, 2_000, 2_000, id="a smaller one is believed"),
        pytest.param(1_500, 2_000, 1_500, id="a larger one is not: the caller knows better"),
        pytest.param(9_000, None, 9_000, id="nothing said, nothing learned"),
    ],
)
def test_what_a_refusal_teaches(known: int | None, said: int | None, learned: int) -> None:
    place = Place("u9 " + "r100 " * 13, known)
    place.make(refusal(said), 1)
    assert place.state.window.limit == learned
    noticed = [event for event in place.events if isinstance(event, Noticed)]
    assert len(noticed) == (learned != known)
    assert place.state.window.overflow(0) == 0


def test_a_refusal_collects_for_its_own_reason() -> None:
    plugin = gc("gc_truncate", preserve_recent_turns=1)
    place = Place("u9 r300 a9 u9 r300 a9 u9 r300", 5_000, plugin=plugin)
    place.make(refusal(), 1)
    (event, *_) = [one for one in place.events if isinstance(one, Collected)]
    assert event.result.trigger_reason is GCTriggerReason.CONTEXT_LIMIT


# Cut


def test_a_result_that_was_cut_is_told_and_can_be_cut_again_to_the_same_handle() -> None:
    place = Place("u9 r900", 600)
    place.make()
    (event,) = [one for one in place.events if isinstance(one, ResultShortened)]
    assert (event.name, event.call_id, event.handle) == ("read", "c1", "r1")
    assert event.tokens_before == 900 > event.tokens_after
    place.state.commit(Switched(provider="p", model="m", limit=300))
    place.make()
    assert place.shown == "short"
    assert place.text_of(0) == words(900)
    assert place.state.get("r2") is None


def test_of_several_results_in_one_message_each_keeps_its_own_text() -> None:
    place = Place("u9", 700)
    calls = [FunctionCall(f"{at}", "read", {}) for at in range(3)]
    place.state.add(Message(Role.MODEL, [Part(function_call=call) for call in calls]))
    texts = [words(40), words(400), words(500)]
    parts = [
        Part(function_response=ToolResult(call.id, "read", text))
        for call, text in zip(calls, texts, strict=True)
    ]
    place.state.add(Message(Role.TOOL, parts))
    place.make()
    assert place.shown == "whole short short"
    assert [place.text_of(at) for at in (1, 2)] == texts[1:]
    assert not violations(place.state.history)


def test_bound_thoughts_leave_with_what_the_ladder_changes_in_front_of_them() -> None:
    place = Place("u9 r300 r300", 500)
    bound = [Part(thought="hm", extra={"signature": "x"}), Part(text="so")]
    place.state.add(Message(Role.MODEL, bound))
    place.collector.binds_thoughts = True
    place.make()
    assert not any(message.thoughts for message in place.state.history)
    assert_counted(place.state)
