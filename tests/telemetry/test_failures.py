"""Errors: status, `error.type`, and what is never said of them without leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.semconv.attributes import error_attributes as errors
from opentelemetry.semconv.attributes import exception_attributes as exceptions
from opentelemetry.semconv.attributes import http_attributes as http
from opentelemetry.trace import StatusCode

from jaato.exchange import ContextLimitError, RateLimitError

if TYPE_CHECKING:
    from tests.telemetry.conftest import Watched

SECRET = "the launch code is 0000"  # noqa: S105 -- it stands for what a prompt may hold


class MuteError(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


def failed(operation: str, watched: Watched, error: BaseException) -> Any:
    with pytest.raises(type(error)), watched.span(operation):
        raise error
    return watched.only()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ValueError(SECRET), "ValueError", id="Python's own"),
        pytest.param(RateLimitError(SECRET), "jaato.exchange.RateLimitError", id="a provider's"),
        pytest.param(TimeoutError(), "TimeoutError", id="without a message"),
        pytest.param(MuteError(), f"{MuteError.__module__}.MuteError", id="without words"),
    ],
)
@pytest.mark.parametrize("is_told", [True, False], ids=["told", "escaping"])
def test_an_error_gives_status_type_and_event(
    watched: Watched, error: Exception, kind: str, is_told: bool
) -> None:
    if is_told:
        with watched.span("model_call") as span:
            span.fail(error)
        seen = watched.only()
    else:
        seen = failed("model_call", watched, error)
    assert seen.status.status_code is StatusCode.ERROR
    assert seen.status.description is None
    assert seen.attributes[errors.ERROR_TYPE] == kind
    [event] = seen.events
    assert event.name == "exception"
    assert event.attributes[exceptions.EXCEPTION_TYPE] == kind
    assert exceptions.EXCEPTION_MESSAGE not in event.attributes
    assert SECRET not in watched.everything()


def test_a_stack_is_places_only(watched: Watched) -> None:
    def deep() -> None:
        raise ValueError("the launch code is 0000")

    with pytest.raises(ValueError, match="launch"), watched.span("tool_call"):
        deep()
    [event] = watched.only().events
    stack = event.attributes[exceptions.EXCEPTION_STACKTRACE]
    assert "in deep" in stack
    assert "test_failures.py" in stack
    assert SECRET not in stack


def test_with_content_the_message_and_the_stack_are_whole(watch: Callable[..., Watched]) -> None:
    watched = watch(record_content=True)
    seen = failed("tool_call", watched, ValueError(SECRET))
    assert seen.status.description == SECRET
    [event] = seen.events
    assert event.attributes[exceptions.EXCEPTION_MESSAGE] == SECRET
    assert f"ValueError: {SECRET}" in event.attributes[exceptions.EXCEPTION_STACKTRACE]


def test_a_recursion_leaves_a_short_stack(watched: Watched) -> None:
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError), watched.span("tool_call"):
        endless()
    [event] = watched.only().events
    assert 0 < len(event.attributes[exceptions.EXCEPTION_STACKTRACE]) <= 16_384


def test_an_error_told_and_escaping_is_recorded_once(watched: Watched) -> None:
    error = ValueError("x")

    def turn() -> None:
        with watched.span("turn") as span:
            span.fail(error)
            span.fail(KeyError("a later one"))
            raise error

    with pytest.raises(ValueError, match="x"):
        turn()
    assert len(watched.only().events) == 1
    assert watched.only().attributes[errors.ERROR_TYPE] == "ValueError"


def test_each_operation_that_an_error_leaves_has_failed(watched: Watched) -> None:
    with pytest.raises(OSError, match="disk"), watched.span("turn"), watched.span("tool_call"):
        raise OSError("disk")
    assert [span.status.status_code for span in watched.spans()] == [StatusCode.ERROR] * 2


def test_a_child_that_failed_and_was_handled_leaves_the_parent_well(watched: Watched) -> None:
    with watched.span("turn"):
        with watched.span("model_call", attempt=1) as span:
            span.fail(RateLimitError("slow down"))
        with watched.span("model_call", attempt=2):
            pass
    statuses = [span.status.status_code for span in watched.spans()]
    assert statuses == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET]


def test_what_a_provider_answered_is_on_the_span(watched: Watched) -> None:
    error = ContextLimitError(SECRET, provider="p", status=400, code="context_length_exceeded")
    seen = failed("model_call", watched, error)
    assert seen.attributes[http.HTTP_RESPONSE_STATUS_CODE] == 400
    assert seen.attributes["jaato.error.code"] == "context_length_exceeded"


@pytest.mark.parametrize("code", [SECRET, "", "x" * 65, None, 7], ids=repr)
def test_a_code_that_is_no_code_is_left_out(watched: Watched, code: Any) -> None:
    seen = failed("model_call", watched, RateLimitError("", code=code, status=code))
    assert "jaato.error.code" not in seen.attributes
    assert SECRET not in watched.everything()


@pytest.mark.parametrize(
    ("operation", "facts", "kind"),
    [
        pytest.param("tool_call", {"is_error": True}, "tool_error", id="a tool's error"),
        pytest.param("tool_call", {"is_error": False}, None, id="a tool's answer"),
        pytest.param("collection", {"success": False}, "_OTHER", id="a failed collection"),
        pytest.param("collection", {"success": True, "error": None}, None, id="a good one"),
        pytest.param("turn", {"error": ""}, None, id="nothing said"),
        pytest.param("turn", {"error": False}, None, id="a plain no"),
        pytest.param("turn", {"error": {"a": 1}}, "_OTHER", id="something odd said"),
        pytest.param("turn", {"error": ValueError(SECRET)}, "ValueError", id="the error itself"),
        pytest.param("turn", {"error": f"ServerError: {SECRET}"}, "ServerError", id="a sentence"),
        pytest.param(
            "turn",
            {"error": "jaato.exchange.ServerError"},
            "jaato.exchange.ServerError",
            id="a name",
        ),
        pytest.param("turn", {"error": SECRET}, "_OTHER", id="a sentence that names nothing"),
        pytest.param("turn", {"error": "hunter2"}, "_OTHER", id="a word that names nothing"),
        pytest.param("turn", {"error": "x" * 10**6}, "_OTHER", id="a flood"),
    ],
)
def test_errors_among_the_facts(
    watched: Watched, operation: str, facts: dict[str, Any], kind: str | None
) -> None:
    with watched.span(operation) as span:
        span.set(**facts)
    seen = watched.only()
    assert seen.attributes.get(errors.ERROR_TYPE) == kind
    assert seen.status.status_code is (StatusCode.ERROR if kind else StatusCode.UNSET)
    assert seen.status.description is None
    assert not {"jaato.error", "jaato.gc.error"} & seen.attributes.keys()
    assert SECRET not in watched.everything()
    assert "hunter2" not in watched.everything()


def test_the_text_of_an_error_is_content(watch: Callable[..., Watched]) -> None:
    watched = watch(record_content=True)
    with watched.span("collection") as span:
        span.set(success=False, error=SECRET)
    assert watched.only().status.description == SECRET


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(asyncio.CancelledError(), id="a cancelled task"),
        pytest.param(KeyboardInterrupt(), id="ctrl-c"),
        pytest.param(GeneratorExit(), id="a closed generator"),
    ],
)
def test_stopping_is_no_error(watched: Watched, stop: BaseException) -> None:
    """Even where the turn has said in words that it was interrupted."""

    def turn() -> None:
        with watched.span("turn") as span:
            span.set(error="the turn was interrupted")
            raise stop

    with pytest.raises(type(stop)):
        turn()
    seen = watched.only()
    assert seen.status.status_code is StatusCode.UNSET
    assert seen.attributes["jaato.cancelled"] is True
    assert errors.ERROR_TYPE not in seen.attributes
    assert seen.events == ()


@pytest.mark.parametrize(
    "said", ["interrupted", "cancelled", "asyncio.CancelledError", "CancelledError: "]
)
def test_stopping_by_name_is_no_error_either(watched: Watched, said: str) -> None:
    with watched.span("turn") as span:
        span.set(error=said)
    assert watched.only().attributes["jaato.cancelled"] is True
    assert watched.only().status.status_code is StatusCode.UNSET


def test_a_cancelled_task_leaves_what_was_current(watched: Watched) -> None:
    async def turn(started: asyncio.Event) -> None:
        with watched.span("turn", agent_id="a"), watched.span("model_call", model="m"):
            started.set()
            await asyncio.Event().wait()

    async def session() -> None:
        started = asyncio.Event()
        running = asyncio.create_task(turn(started))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with watched.span("turn", agent_id="b"):
            pass

    asyncio.run(session())
    assert all("jaato.cancelled" in span.attributes for span in watched.spans()[:2])
    assert watched.parent_name("invoke_agent b") is None


def test_a_generator_closed_by_another_task_disturbs_nobody(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    async def streaming() -> AsyncIterator[int]:
        with watched.span("turn", agent_id="a"):
            yield 1
            yield 2

    async def session() -> None:
        stream = streaming()
        await asyncio.create_task(anext(stream))  # type: ignore[arg-type]  # a coroutine in fact
        with watched.span("turn", agent_id="b"):
            await stream.aclose()  # type: ignore[attr-defined]  # a generator in fact
            with watched.span("model_call", model="m"):
                pass

    asyncio.run(session())
    assert watched.parent_name("chat m") == "invoke_agent b"
    assert watched.named("invoke_agent a").attributes["jaato.cancelled"] is True
    assert caplog.records == []
