"""The engine on a provider that refuses what a real one refuses."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.session.agents import assert_agrees, gc, opened, read, steps_of_turn, worker

from jaato.budget import InstructionSource
from jaato.errors import UsageError
from jaato.events import (
    CallbackFailed,
    Collected,
    Event,
    ModelCallEnded,
    ModelCallStarted,
    Noticed,
    ResultShortened,
    ThresholdCrossed,
    ToolStarted,
    TurnEnded,
)
from jaato.exchange import RateLimitError, Request
from jaato.gc.config import GCConfig
from jaato.gc.result import GCTriggerReason
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Fault, FaultKind, Reply, ScriptedProvider
from jaato.session.problems import SessionBusyError, TooManyStepsError, WindowFullError
from jaato.session.session import TurnInterruptedError
from jaato.testing import sketch_of

RULES = ("openai", "anthropic", "google")
ORIGINAL = "please read everything and tell me about value_7"


class Secretive(ScriptedProvider):
    """Does not tell its window before it is overrun."""

    async def context_limit(self, model: str) -> int | None:
        del model
        return None


def run(work: Any) -> Any:
    return asyncio.run(work)


@pytest.mark.parametrize("rules", RULES)
def test_a_turn_with_tools(rules: Any) -> None:
    async def go() -> None:
        session = await opened(ScriptedProvider(worker(2, calls=2), rules=rules))
        assert await session.asend_message("read") == "done after 2 steps"
        shape = [(m.role.value, len(m.function_calls)) for m in session.get_history()]
        assert shape == [
            ("user", 0), ("model", 2), ("tool", 0), ("model", 2), ("tool", 0), ("model", 0),
        ]  # fmt: skip
        assert_agrees(session)

    run(go())


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
@pytest.mark.parametrize("rules", RULES)
def test_many_turns_on_a_small_window_are_never_refused(rules: Any, strategy: str) -> None:
    async def go() -> None:
        provider = ScriptedProvider(
            worker(4, calls=2, lines=60, thought="hm, this one next"), rules=rules, window=12_000
        )
        errors: list[str] = []
        session = await opened(provider, limit=12_000, plugin=gc(strategy, preserve_recent_turns=2))

        def listen(event: Event) -> None:
            if isinstance(event, ModelCallEnded) and event.error:
                errors.append(event.error)

        session.on(listen)
        await session.asend_message(ORIGINAL)
        for at in range(12):
            assert await session.asend_message(f"go on with {at}") == "done after 4 steps"
            assert_agrees(session)
            assert not violations(session.get_history())
        assert errors == []
        assert session.get_history()[0].text == ORIGINAL
        assert any(result.tokens_freed > 0 for result in session.get_gc_history())

    run(go())


def test_it_is_collected_between_the_steps_of_one_turn() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(40, lines=60), rules="openai", window=16_000)
        session = await opened(provider, plugin=gc())
        assert await session.asend_message("read") == "done after 40 steps"
        assert len([m for m in session.get_history() if m.opens_turn]) == 1
        assert session.get_gc_history()
        assert session.get_context_usage()["percent_used"] < 100

    run(go())


def test_without_a_collector_the_ladder_still_keeps_the_request_inside() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(40, lines=60), rules="openai", window=16_000)
        session = await opened(provider)
        assert await session.asend_message("read") == "done after 40 steps"
        assert {result.plugin_name for result in session.get_gc_history()} == {"ladder"}
        assert_agrees(session)

    run(go())


def test_the_threshold_is_told_once_per_call_and_collected_when_the_step_ends() -> None:
    async def go() -> None:
        events: list[Event] = []
        told: list[tuple[float, float]] = []
        words = "long answer " * 1_500
        provider = ScriptedProvider(lambda _request: Reply(text=words), rules="openai")
        config = GCConfig(threshold_percent=50.0, check_before_send=False, preserve_recent_turns=0)
        session = await opened(
            provider, limit=5_000, tools=[], plugin=gc("gc_truncate"), config=config
        )
        session.on(events.append)
        await session.asend_message("one", on_gc_threshold=lambda *both: told.append(both))
        assert len(told) == 1
        assert told[0][0] >= told[0][1] == 50.0
        assert len([e for e in events if isinstance(e, ThresholdCrossed)]) == 1

    run(go())


def test_callbacks_may_raise() -> None:
    async def go() -> None:
        def broken(*_arguments: Any) -> None:
            raise RuntimeError("no")

        events: list[Event] = []
        session = await opened(ScriptedProvider(worker(1), rules="openai"), plugin=gc())
        session.on(broken)
        session.on(events.append)
        session.on_instruction_budget_updated(broken)
        answer = await session.asend_message("read", on_output=broken, on_gc_threshold=broken)
        assert answer == "done after 1 steps"
        failed = {event.callback for event in events if isinstance(event, CallbackFailed)}
        assert any("broken" in name for name in failed)

    run(go())


def test_a_provider_whose_window_nobody_knew_is_learned_and_nothing_runs_twice() -> None:
    async def go() -> None:
        runs: list[str] = []

        def look(path: str) -> str:
            """Look."""
            runs.append(path)
            return read(path, 100)

        def script(request: Request) -> Reply:
            at = steps_of_turn(request)
            if at == 25:
                return Reply(text="done")
            return Reply(calls=(FunctionCall(f"c{at}", "look", {"path": f"p{at}"}),))

        provider = Secretive(script, rules="openai", window=12_000)
        events: list[Event] = []
        session = await opened(provider, tools=[look], limit=None, plugin=gc())
        session.on(events.append)
        assert await session.asend_message("look") == "done"
        refused = [e for e in events if isinstance(e, ModelCallEnded) and e.error]
        assert refused, "the provider was never asked for too much: the test tests nothing"
        assert len(refused) <= 2
        assert session.get_context_usage()["context_limit"] == 12_000
        assert runs == [f"p{at}" for at in range(25)]

    run(go())


def test_a_rate_limit_is_not_taken_for_a_context_limit() -> None:
    async def go() -> None:
        fault = Fault(kind=FaultKind.RATE_LIMIT)
        provider = ScriptedProvider(
            worker(1), rules="openai", faults=lambda call: fault if call == 2 else None
        )
        session = await opened(provider, plugin=gc())
        with pytest.raises(RateLimitError):
            await session.asend_message("read")
        assert sketch_of(session.get_history()).split()[0] == "u"
        assert len(session.get_history()) == 3
        assert session.get_gc_history() == []
        assert await session.acontinue_turn() == "done after 1 steps"
        assert len(session.get_history()) == 4

    run(go())


def test_what_does_not_fit_is_never_sent_and_the_error_says_what_fills_the_window() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(0), rules="openai")
        calls: list[Event] = []
        session = await opened(
            provider, limit=4_000, plugin=gc(), system_instructions="be kind. " * 900
        )
        session.on(calls.append, ModelCallStarted)
        with pytest.raises(WindowFullError) as raised:
            await session.asend_message("a question of many words " * 800)
        assert calls == []
        assert {what for what, _ in raised.value.fillers} >= {"system", "message 0 (user)"}
        assert raised.value.needed > 4_000

    run(go())


def test_an_oversized_result_is_shortened_before_it_is_sent_and_can_be_called_back() -> None:
    async def go() -> None:
        events: list[Event] = []
        whole = read("big.py", 3_000)

        def script(request: Request) -> Reply:
            at = steps_of_turn(request)
            if at == 0:
                return Reply(calls=(FunctionCall("1", "read", {"path": "big.py", "lines": 3_000}),))
            if at == 1:
                return Reply(
                    calls=(FunctionCall("2", "recall", {"handle": "r1", "offset": 8_000}),)
                )
            return Reply(text="ok")

        provider = ScriptedProvider(script, rules="anthropic", window=20_000)
        session = await opened(provider, limit=20_000, plugin=gc())
        session.on(events.append)
        assert await session.asend_message("read the big one") == "ok"
        shortened = [event for event in events if isinstance(event, ResultShortened)]
        assert shortened[0].tokens_before > 20_000 > shortened[0].tokens_after
        assert session.recall("r1") == whole
        recalled = session.get_history()[4].parts[0].function_response
        assert recalled is not None
        assert str(recalled.result).startswith(whole[8_000:8_100])

    run(go())


def test_several_large_results_of_one_step_fit_together() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(1, calls=6, lines=150), rules="openai", window=8_000)
        session = await opened(provider, limit=8_000, plugin=gc())
        assert await session.asend_message("read six") == "done after 1 steps"
        assert_agrees(session)

    run(go())


def test_a_pinned_turn_is_on_no_rung() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(3, lines=60), rules="openai", window=10_000)
        session = await opened(provider, limit=10_000, plugin=gc(preserve_recent_turns=1))
        await session.asend_message("zero")
        await session.asend_message("one")
        session.pin(1)
        turn = [m for m in session.get_history() if m.text == "one"]
        at = session.get_history().index(turn[0])
        pinned = session.get_history()[at:]
        for name in ("two", "three", "four", "five"):
            await session.asend_message(name)
        history = session.get_history()
        start = history.index(pinned[0])
        assert history[start : start + len(pinned)] == pinned
        assert session.get_gc_history()

    run(go())


def test_auto_trigger_false_leaves_collecting_to_the_user() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(3, lines=60), rules="openai", window=30_000)
        config = GCConfig(auto_trigger=False, threshold_percent=10.0, preserve_recent_turns=0)
        session = await opened(provider, limit=30_000, plugin=gc("gc_truncate"), config=config)
        for at in range(4):
            await session.asend_message(f"turn {at}")
        assert session.get_gc_history() == []
        result = await session.amanual_gc()
        assert result is not None
        assert result.trigger_reason is GCTriggerReason.MANUAL
        assert session.get_gc_history() == [result] or result.tokens_freed == 0

    run(go())


def test_continuous_mode_trims_after_every_turn() -> None:
    async def go() -> None:
        provider = ScriptedProvider(worker(3, lines=60), rules="openai", window=20_000)
        config = GCConfig(pressure_percent=0, target_percent=20.0, preserve_recent_turns=0)
        session = await opened(provider, limit=20_000, plugin=gc(), config=config)
        for at in range(4):
            await session.asend_message(f"turn {at}")
            assert session.get_context_usage()["percent_used"] <= 40.0
        assert session.get_gc_history()

    run(go())


def test_a_discoverable_tool_is_unloaded_and_found_again() -> None:
    async def go() -> None:
        seen: list[list[str]] = []

        def weather(city: str) -> str:
            """Tell the weather of a city, in many words that cost tokens."""
            return f"sun over {city}"

        def script(request: Request) -> Reply:
            seen.append([schema.name for schema in request.tools])
            if "weather" in request.messages[-1].text and "weather" not in seen[-1]:
                return Reply(calls=(FunctionCall("f", "find_tools", {"query": "weather city"}),))
            return Reply(text="ok")

        from jaato.tools.callables import tool  # noqa: PLC0415 -- beside its one use

        provider = ScriptedProvider(script, rules="openai")
        session = await opened(
            provider,
            tools=[read, tool(weather, discoverable=True)],
            plugin=gc(preserve_recent_turns=0),
            config=GCConfig(target_percent=0.5, threshold_percent=90.0),
        )
        await session.asend_message("hello")
        assert "weather" in seen[-1]
        await session.amanual_gc()
        assert "weather" not in session.state.window.tools_in_budget()
        await session.asend_message("hello again")
        assert "weather" not in seen[-1]
        assert "find_tools" in seen[-1]
        await session.asend_message("what is the weather")
        assert "weather" in seen[-1]
        assert "weather" in session.state.window.tools_in_budget()

    run(go())


def test_enrichment_is_sent_with_the_prompt_and_is_no_part_of_the_history() -> None:
    async def go() -> None:
        sent: list[Request] = []

        def script(request: Request) -> Reply:
            sent.append(request)
            return Reply(text="ok")

        def broken(_prompt: str) -> str:
            raise RuntimeError("no weather today")

        async def clock(prompt: str) -> str:
            return f"it is noon, and you said {prompt}"

        session = await opened(
            ScriptedProvider(script, rules="openai"),
            enrichers={"clock": clock, "weather": broken},
        )
        await session.asend_message("one")
        assert "it is noon, and you said one" in sent[-1].messages[-1].text
        assert session.get_history()[0].text == "one"
        entry = session.instruction_budget.get_entry(InstructionSource.ENRICHMENT)
        assert entry is not None
        assert list(entry.children) == ["clock"]
        assert entry.total_tokens() > 5
        await session.asend_message("two")
        assert "said one" not in sent[-1].messages[0].text
        assert "said two" in sent[-1].messages[-1].text

    run(go())


@pytest.mark.parametrize("as_callback", [True, False], ids=["awaited", "from another thread"])
def test_an_interrupted_turn_keeps_what_ran_and_goes_on(as_callback: bool) -> None:
    async def go() -> None:
        started = asyncio.Event()

        async def slow(path: str) -> str:
            """Take long."""
            started.set()
            await asyncio.sleep(3_600 if path == "slow" else 0)
            return path

        def script(request: Request) -> Reply:
            at = steps_of_turn(request)
            if at == 0:
                calls = [FunctionCall(name, "slow", {"path": name}) for name in ("fast", "slow")]
                return Reply(calls=tuple(calls))
            return Reply(text="done")

        session = await opened(ScriptedProvider(script, rules="anthropic"), tools=[slow])
        task = asyncio.ensure_future(session.asend_message("run"))
        await started.wait()
        with pytest.raises(SessionBusyError):
            await session.asend_message("more")
        await asyncio.sleep(0.05)
        if as_callback:
            assert session.interrupt()
            with pytest.raises(TurnInterruptedError):
                await task
        else:
            thread = threading.Thread(target=session.interrupt)
            thread.start()
            with pytest.raises(TurnInterruptedError):
                await task
            thread.join()
        results = [part.function_response for part in session.get_history()[-1].parts]
        assert [(one.call_id, one.is_error) for one in results if one] == [
            ("fast", False),
            ("slow", True),
        ]
        assert not violations(session.get_history())
        assert not session.interrupt()
        assert await session.acontinue_turn() == "done"

    run(go())


def test_a_cancelled_caller_is_cancelled() -> None:
    async def go() -> None:
        async def slow() -> str:
            """Take long."""
            await asyncio.sleep(3_600)
            return ""

        script = lambda _request: Reply(calls=(FunctionCall("1", "slow", {}),))  # noqa: E731 -- short
        session = await opened(ScriptedProvider(script, rules="openai"), tools=[slow])
        started = asyncio.Event()
        session.on(lambda _event: started.set(), ToolStarted)
        task = asyncio.ensure_future(session.asend_message("run"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not violations(session.get_history())

    run(go())


def test_a_broken_stream_is_tried_again_and_its_pieces_are_void() -> None:
    async def go() -> None:
        broken = Fault(kind=FaultKind.NETWORK, after_events=3)
        provider = ScriptedProvider(
            worker(2),
            rules="openai",
            faults=lambda call: broken if call == 2 else None,
        )
        attempts: list[int] = []
        session = await opened(provider)
        session.on(lambda event: attempts.append(event.attempt), ModelCallStarted)  # type: ignore[attr-defined]  # only that kind comes
        assert await session.asend_message("read") == "done after 2 steps"
        assert attempts == [1, 1, 2, 1]
        assert len(session.get_history()) == 6

    run(go())


def test_a_turn_that_never_ends_is_stopped() -> None:
    async def go() -> None:
        from jaato.session.settings import LoopSettings  # noqa: PLC0415 -- beside its one use

        session = await opened(
            ScriptedProvider(worker(10**6), rules="openai"), loop=LoopSettings(max_steps=5)
        )
        with pytest.raises(TooManyStepsError):
            await session.asend_message("read for ever")
        assert not violations(session.get_history())
        assert len(session.get_history()) == 11

    run(go())


def test_a_model_with_a_smaller_window_is_switched_to() -> None:
    async def go() -> None:
        big = ScriptedProvider(worker(6, lines=80), rules="openai", window=100_000)
        small = ScriptedProvider(worker(1, lines=10), rules="anthropic", window=8_000, name="small")
        session = await opened(big, limit=100_000, plugin=gc(preserve_recent_turns=1))
        for at in range(3):
            await session.asend_message(f"turn {at}")
        assert session.get_context_usage()["total_tokens"] > 8_000
        session.runtime.adopt(small)
        await session.aswitch_model("little", provider="small", context_limit=8_000)
        assert session.get_context_usage()["context_limit"] == 8_000
        assert await session.asend_message("and now") == "done after 1 steps"
        assert session.get_context_usage()["percent_used"] < 100

    run(go())


def test_events_tell_a_turn() -> None:
    async def go() -> None:
        events: list[Event] = []
        session = await opened(ScriptedProvider(worker(1), rules="openai"))
        session.on(events.append)
        outputs: list[tuple[str, str, str]] = []
        await session.asend_message("read", on_output=lambda *three: outputs.append(three))
        kinds = [type(event).__name__ for event in events if type(event).__name__ != "TextStreamed"]
        assert kinds == [
            "TurnStarted", "ModelCallStarted", "ModelCallEnded", "ToolStarted", "ToolEnded",
            "ModelCallStarted", "ModelCallEnded", "TurnEnded",
        ]  # fmt: skip
        ended = events[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.text, ended.steps, ended.error) == ("done after 1 steps", 2, None)
        spoken = "".join(text for source, text, _ in outputs if source == "model")
        assert spoken == "step 0done after 1 steps"
        assert next(mode for source, _, mode in outputs if source == "model") == "write"

    run(go())


class Spiteful:
    """A third-party plug-in that does one wrong thing."""

    name = "gc_spiteful"

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def should_collect(self, usage: dict[str, Any], config: GCConfig) -> Any:
        return usage["percent_used"] >= 10, GCTriggerReason.THRESHOLD

    def collect(
        self, history: Any, usage: Any, config: Any, reason: Any, budget: Any = None
    ) -> Any:
        from jaato.gc.result import GCResult  # noqa: PLC0415 -- beside its one use

        good = GCResult(True, 1, 100, 50, self.name, reason)
        match self.wrong:
            case "raises":
                raise RuntimeError("plug-in broke")
            case "empties":
                return [], good
            case "loses the request":
                return history[1:], good
            case "orphans":
                return [m for m in history if not m.function_calls], good
            case "returns nonsense":
                return None
            case _:
                return history, "fine"


@pytest.mark.parametrize(
    "wrong",
    ["raises", "empties", "loses the request", "orphans", "returns nonsense", "wrong result"],
)
def test_a_bad_plug_in_cannot_break_a_session(wrong: str) -> None:
    async def go() -> None:
        collected: list[Event] = []
        session = await opened(
            ScriptedProvider(worker(3), rules="openai"), limit=8_000, plugin=Spiteful(wrong)
        )
        session.on(collected.append, Collected)
        assert await session.asend_message(ORIGINAL) == "done after 3 steps"
        assert session.get_history()[0].text == ORIGINAL
        assert not violations(session.get_history())
        assert collected
        assert all(not event.result.success for event in collected if isinstance(event, Collected))
        assert_agrees(session)

    run(go())


def test_the_sessions_own_model_writes_summaries() -> None:
    async def go() -> None:
        asked: list[str] = []

        def script(request: Request) -> Reply:
            text = request.messages[-1].text
            if "Summarize this conversation" in text:
                asked.append(text)
                return Reply(text="THE SUMMARY OF IT ALL")
            return worker(2, lines=60)(request)

        session = await opened(
            ScriptedProvider(script, rules="openai"),
            limit=12_000,
            plugin=gc("gc_summarize", preserve_recent_turns=1),
        )
        for at in range(8):
            await session.asend_message(f"turn {at}")
        assert asked
        assert any("THE SUMMARY OF IT ALL" in message.text for message in session.get_history())
        details = [result.details for result in session.get_gc_history() if result.tokens_freed]
        assert details[0]["summarizer"] == "model"

    run(go())


def test_pins_that_make_no_sense_are_refused() -> None:
    async def go() -> None:
        session = await opened(ScriptedProvider(worker(0), rules="openai"))
        with pytest.raises(UsageError, match="no turn"):
            session.pin(-1)

    run(go())


def test_a_context_limit_that_never_ends_is_told() -> None:
    async def go() -> None:
        provider = ScriptedProvider(
            worker(0), rules="openai", faults=lambda _call: Fault(kind=FaultKind.CONTEXT_LIMIT)
        )
        session = await opened(provider, plugin=gc())
        with pytest.raises(WindowFullError) as raised:
            await session.asend_message("hello")
        assert not raised.value.prompt_was_taken
        assert session.get_history() == []

    run(go())


def test_reset_forgets_what_was_said() -> None:
    async def go() -> None:
        session = await opened(
            ScriptedProvider(worker(1), rules="openai"), system_instructions="be kind"
        )
        await session.asend_message("one")
        before = session.get_context_usage()["total_tokens"]
        session.reset()
        assert session.get_history() == []
        usage = session.get_context_usage()
        assert 0 < usage["total_tokens"] < before
        assert usage["turns"] == 0
        await session.asend_message("two")
        assert_agrees(session)

    run(go())


def test_a_window_that_nobody_knows_is_told_once() -> None:
    async def go() -> None:
        told: list[Event] = []
        session = await opened(Secretive(worker(0)), limit=None, plugin=gc())
        session.on(told.append, Noticed)
        await session.asend_message("hello")
        await session.asend_message("again")
        (notice,) = told
        assert isinstance(notice, Noticed)
        assert "context_limit" in notice.text

    run(go())
