"""Drivers: whoever writes the summary, and however, the outcome is one and failures are clean."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.budget import InstructionBudget, budget_for
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.plan import Plan
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Kind, Message, applied
from jaato.testing import (
    WordCounter,
    budgets,
    histories,
    sketch,
    sketch_of,
    usage_of,
)
from jaato.tokens import count_messages, history_tokens

COUNTER = WordCounter()
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
SUMMARIZING = ("gc_summarize", "gc_hybrid")
Outcome = tuple[list[Message], GCResult]


def made(strategy: str, **options: Any) -> DrivenPlugin:
    plugin = load_gc_plugin(strategy, options)
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = COUNTER
    return plugin


def long_history() -> list[Message]:
    return sketch("u a u c1 r1 a u a u a", words=40)


def tracked(history: Sequence[Message]) -> InstructionBudget:
    counts = count_messages(COUNTER, history)
    return budget_for(history, counts, context_limit=int(sum(counts) / 0.85))


# The ways to run a collection: each gives what the others give.


def in_sync(plugin: DrivenPlugin, *arguments: Any) -> Outcome:
    return plugin.collect(*arguments)


def in_async(plugin: DrivenPlugin, *arguments: Any) -> Outcome:
    return asyncio.run(plugin.acollect(*arguments))


def in_a_running_loop(plugin: DrivenPlugin, *arguments: Any) -> Outcome:
    async def collect() -> Outcome:
        return plugin.collect(*arguments)

    return asyncio.run(collect())


DRIVERS = [in_sync, in_async, in_a_running_loop]


# The ways to write a summary


def plain(conversation: str) -> str:
    return "in short"


async def coroutine(conversation: str) -> str:
    await asyncio.sleep(0)
    return "in short"


class Awaited:
    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.sleep(0).__await__()
        return "in short"


def awaitable(conversation: str) -> Awaitable[str]:
    return Awaited()


def deferred(conversation: str) -> Awaitable[str]:
    return coroutine(conversation)


class Callables:
    def __call__(self, conversation: str) -> str:
        return "in short"

    async def later(self, conversation: str) -> str:
        return await coroutine(conversation)


class AsyncCallable:
    async def __call__(self, conversation: str) -> str:
        return await coroutine(conversation)


class Words(str):
    __slots__ = ()


WRITERS = [
    pytest.param(plain, id="a function"),
    pytest.param(coroutine, id="a coroutine function"),
    pytest.param(awaitable, id="a function that returns an awaitable"),
    pytest.param(deferred, id="a function around a coroutine"),
    pytest.param(Callables(), id="a callable object"),
    pytest.param(Callables().later, id="an async method"),
    pytest.param(AsyncCallable(), id="an async callable object"),
    pytest.param(partial(coroutine), id="a partial"),
    pytest.param(lambda _: Words("in short"), id="a subclass of str"),
]


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("summarizer", WRITERS)
def test_a_summarizer_may_answer_now_or_later(
    strategy: str, driver: Callable[..., Outcome], summarizer: object
) -> None:
    history = long_history()
    plugin = made(strategy, summarizer=summarizer)
    after, result = driver(plugin, history, {}, ONE, MANUAL)
    assert result.success, result.error
    assert sketch_of(after) == "s u a"
    assert "in short" in after[0].text
    assert result.details["summarizer"] == "callable"


def test_acollect_does_not_hold_the_loop_while_a_function_writes() -> None:
    seen: list[int] = []
    ticked = threading.Event()

    def summarizer(conversation: str) -> str:
        seen.append(threading.get_ident())
        return "in short" if ticked.wait(timeout=20) else ""

    async def collect() -> Outcome:
        plugin = made("gc_summarize", summarizer=summarizer)
        collecting = asyncio.ensure_future(plugin.acollect(long_history(), {}, ONE, MANUAL))
        while not seen:
            await asyncio.sleep(0)
        ticked.set()
        return await collecting

    _, result = asyncio.run(collect())
    assert result.success
    assert threading.get_ident() not in seen


# Failures


def raising(error: BaseException) -> Callable[[str], str]:
    def summarizer(conversation: str) -> str:
        raise error

    return summarizer


def raising_later(error: BaseException) -> Callable[[str], Awaitable[str]]:
    async def summarizer(conversation: str) -> str:
        await asyncio.sleep(0)
        raise error

    return summarizer


async def returns_nothing(conversation: str) -> None: ...


FAILURES = [
    pytest.param(raising(ValueError("no quota")), "ValueError: no quota", id="it raises"),
    pytest.param(raising_later(ValueError("no quota")), "no quota", id="it raises later"),
    pytest.param(raising(TimeoutError()), "TimeoutError", id="it times out"),
    pytest.param(raising_later(TimeoutError()), "TimeoutError", id="it times out later"),
    pytest.param(raising(ExceptionGroup("two", [ValueError()])), "two", id="it raises a group"),
    pytest.param(raising(RecursionError()), "RecursionError", id="it recurses"),
    pytest.param(raising(MemoryError()), "MemoryError", id="it fills the memory"),
    pytest.param(raising(AssertionError()), "AssertionError", id="it asserts"),
    pytest.param(lambda _: None, "returned NoneType", id="None"),
    pytest.param(returns_nothing, "returned NoneType", id="None, later"),
    pytest.param(lambda _: "", "returned nothing", id="an empty text"),
    pytest.param(lambda _: " \n\t", "returned nothing", id="a blank text"),
    pytest.param(lambda _: b"bytes", "returned bytes", id="bytes"),
    pytest.param(lambda _: 5, "returned int", id="a number"),
    pytest.param(lambda _: ["a"], "returned list", id="a list"),
    pytest.param(lambda _: iter("ab"), "returned", id="an iterator"),
    pytest.param(lambda: "in short", "TypeError", id="it takes no argument"),
    pytest.param(lambda conversation: conversation * 2, "what it replaces", id="too long"),
    pytest.param(lambda _: "w " * 20_000, "what it replaces", id="far too long"),
]


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("summarizer", "said"), FAILURES)
@pytest.mark.parametrize("with_budget", [False, True], ids=["bare", "budget"])
def test_a_failure_leaves_all_as_it_is_and_says_so(
    strategy: str, driver: Callable[..., Outcome], summarizer: object, said: str, with_budget: bool
) -> None:
    history = long_history()
    budget = tracked(history) if with_budget else None
    untouched = budget.to_dict() if budget is not None else None
    usage = usage_of(budget) if budget is not None else {}
    plugin = made(strategy, summarizer=summarizer, notify_on_gc=True)
    after, result = driver(plugin, history, usage, ONE, MANUAL, budget)
    assert not result.success
    assert said in (result.error or "")
    assert len(after) == len(history)
    assert all(one is other for one, other in zip(after, history, strict=True))
    assert (result.removal_list, result.items_collected, result.tokens_freed) == ([], 0, 0)
    assert result.tokens_before == history_tokens(COUNTER, history)
    assert result.notification is None
    assert budget is None or budget.to_dict() == untouched
    # It is not broken for good.
    assert plugin.should_collect({"percent_used": 95}, ONE)[0]


@pytest.mark.parametrize("strategy", SUMMARIZING)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_what_ends_a_program_or_a_task_passes_through(
    strategy: str, driver: Callable[..., Outcome], error: type[BaseException]
) -> None:
    if driver is in_sync:
        with pytest.raises(error):
            driver(made(strategy, summarizer=raising(error())), long_history(), {}, ONE, MANUAL)
        return
    # A loop that is ended this way complains of the task; so it is caught inside it.
    caught: list[BaseException] = []

    async def collect() -> None:
        plugin = made(strategy, summarizer=raising(error()))
        try:
            if driver is in_async:
                await plugin.acollect(long_history(), {}, ONE, MANUAL)
            else:
                plugin.collect(long_history(), {}, ONE, MANUAL)
        except error as passed:
            caught.append(passed)

    asyncio.run(collect())
    assert [type(one) for one in caught] == [error]


def test_a_cancelled_collection_is_cancelled() -> None:
    started: list[bool] = []

    async def endless(conversation: str) -> str:
        started.append(True)
        return str(await asyncio.get_running_loop().create_future())

    async def collect() -> None:
        plugin = made("gc_summarize", summarizer=endless)
        collecting = asyncio.ensure_future(plugin.acollect(long_history(), {}, ONE, MANUAL))
        while not started:
            await asyncio.sleep(0)
        collecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await collecting

    asyncio.run(collect())


@pytest.mark.timeout(30)
def test_a_task_of_the_loop_that_waits_for_it_fails_cleanly_and_does_not_hang() -> None:
    async def collect() -> Outcome:
        made_tasks: list[asyncio.Future[str]] = []

        def summarizer(conversation: str) -> Awaitable[str]:
            made_tasks.append(asyncio.ensure_future(coroutine(conversation)))
            return made_tasks[0]

        outcome = made("gc_summarize", summarizer=summarizer).collect(
            long_history(), {}, ONE, MANUAL
        )
        made_tasks[0].cancel()
        return outcome

    after, result = asyncio.run(collect())
    assert sketch_of(after) == sketch_of(long_history())
    assert "different loop" in (result.error or "")


def test_a_summarizer_that_raises_stop_iteration_does_not_hang_the_loop() -> None:
    answers = iter(())
    plugin = made("gc_summarize", summarizer=lambda _: next(answers))
    noise: list[dict[str, Any]] = []

    async def collect() -> GCResult:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: noise.append(told))
        collected = plugin.acollect(long_history(), {}, ONE, MANUAL)
        return (await asyncio.wait_for(collected, timeout=5))[1]

    result = asyncio.run(collect())
    assert not result.success
    assert noise == []


class Mute(Exception):  # noqa: N818 -- it is what a summarizer raises, not one of ours
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_error_that_cannot_be_printed_is_a_clean_failure_too() -> None:
    history = long_history()
    plugin = made("gc_summarize", summarizer=raising(Mute()))
    after, result = plugin.collect(history, {}, ONE, MANUAL)
    assert (after, result.success) == (history, False)


# The one decision


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), history=histories(max_turns=6, max_messages=60))
def test_acollect_is_collect_and_preview_tells_what_it_will_do(
    strategy: str, data: st.DataObject, history: list[Message]
) -> None:
    budget = data.draw(budgets(history, COUNTER)) if data.draw(st.booleans()) else None
    usage = usage_of(budget) if budget is not None else {}
    reason = data.draw(st.sampled_from(GCTriggerReason))
    options: dict[str, Any] = {"notify_on_gc": data.draw(st.booleans())}
    if strategy in SUMMARIZING:
        options["summarizer"] = "extractive"
    plugin = made(strategy, **options)
    arguments = (history, usage, ONE, reason, budget)
    preview = plugin.preview(*arguments)
    later, their = asyncio.run(made(strategy, **options).acollect(*arguments))
    after, result = plugin.collect(*arguments)
    assert _alike(after, later)
    assert _figures(result) == _figures(their)
    if not result.success:
        assert preview.is_nothing
        assert preview.because == result.error
        return
    assert _alike(after, applied(history, preview.edits))
    assert (preview.tokens_before, preview.tokens_after) == (
        result.tokens_before,
        result.tokens_after,
    )
    assert [(one.source, one.child_key, one.tokens_freed) for one in preview.removals] == [
        (one.source, one.child_key, one.tokens_freed) for one in result.removal_list
    ]
    assert preview.notification == result.notification


def _alike(one: Sequence[Message], other: Sequence[Message]) -> bool:
    """Equal, but for the ids of what is new."""
    return [(m.role, m.kind, m.parts) for m in one] == [(m.role, m.kind, m.parts) for m in other]


def _figures(result: GCResult) -> tuple[object, ...]:
    return (
        result.success,
        result.items_collected,
        result.tokens_before,
        result.tokens_after,
        result.notification,
        result.details,
        result.error,
        result.removal_list,
    )


@pytest.mark.parametrize("strategy", SUMMARIZING)
def test_a_preview_asks_no_summarizer_and_changes_nothing(strategy: str) -> None:
    def never(conversation: str) -> str:
        raise AssertionError("a preview is free")

    history = sketch("u a u c1 r1 a u a u a", words=200)
    budget = tracked(history)
    untouched = budget.to_dict()
    plugin = made(strategy, summarizer=never)
    plugin.offer_model(never)
    plan = plugin.preview(history, usage_of(budget), ONE, MANUAL, budget)
    assert isinstance(plan, Plan)
    assert not plan.is_nothing
    assert applied(history, plan.edits)[1].kind is Kind.SUMMARY
    assert budget.to_dict() == untouched
    assert sketch_of(history) == "u a u c1 r1 a u a u a"


def test_a_preview_of_a_broken_configuration_says_so() -> None:
    config = GCConfig()
    config.target_percent = -1
    plan = made("gc_truncate").preview(long_history(), {}, config)
    assert plan.is_nothing
    assert "target_percent" in plan.because
