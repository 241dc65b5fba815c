"""Whatever a backend does and whatever the facts are: the session does not notice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from jaato.telemetry import OpenTelemetry

if TYPE_CHECKING:
    from tests.telemetry.conftest import Watched

OURS = "jaato.telemetry"


class BackendDownError(Exception):
    """What a broken backend raises."""


class BadStart(SpanProcessor):
    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise BackendDownError


class BadEnd(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise BackendDownError


class BadExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise BackendDownError


class BadSpan(trace.NonRecordingSpan):
    """Starts well, and fails at everything else."""

    def _fail(self, *given: Any, **named: Any) -> Any:
        raise BackendDownError

    is_recording = set_attributes = set_attribute = add_event = set_status = end = _fail


class SpanFails(trace.NoOpTracerProvider):
    def get_tracer(self, *given: Any, **named: Any) -> trace.Tracer:
        class Tracer(trace.NoOpTracer):
            def start_span(self, *given: Any, **named: Any) -> trace.Span:
                return BadSpan(trace.INVALID_SPAN_CONTEXT)

        return Tracer()


class BadHistogram(metrics.NoOpHistogram):
    def record(self, *given: Any, **named: Any) -> None:
        raise BackendDownError


class MeasuringFails(metrics.NoOpMeterProvider):
    def get_meter(self, name: str, *given: Any, **named: Any) -> metrics.Meter:
        class Meter(metrics.NoOpMeter):
            def create_histogram(self, name: str, *given: Any, **named: Any) -> metrics.Histogram:
                return BadHistogram(name)

        return Meter(name)


def processing(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


@pytest.fixture(
    params=[
        pytest.param(lambda: {"tracer_provider": processing(BadStart())}, id="a bad start"),
        pytest.param(lambda: {"tracer_provider": processing(BadEnd())}, id="a bad end"),
        pytest.param(lambda: {"tracer_provider": SpanFails()}, id="spans that fail"),
        pytest.param(lambda: {"meter_provider": MeasuringFails()}, id="histograms that fail"),
    ]
)
def broken(request: pytest.FixtureRequest) -> OpenTelemetry:
    return OpenTelemetry(**request.param(), record_content=True)


def one_turn(telemetry: OpenTelemetry) -> str:
    with telemetry.span("turn", agent_id="a", prompt="hi") as turn:
        with telemetry.span("model_call", model="m", messages=[]) as call:
            call.set(input_tokens=5, answer="x")
        with telemetry.span("tool_call", name="t") as tool:
            tool.fail(ValueError("x"))
        turn.set(steps=1, error="ServerError: x")
    return "the answer"


def test_a_broken_backend_is_logged_once_and_goes_no_further(
    broken: OpenTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert one_turn(broken) == "the answer"
    [record] = [record for record in caplog.records if record.name == OURS]
    assert record.levelno == logging.WARNING
    assert "the session goes on" in record.message
    assert record.exc_info is not None
    assert record.exc_info[0] is BackendDownError
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_sessions_own_errors_pass_a_broken_backend_unchanged(broken: OpenTelemetry) -> None:
    error = OSError("disk")
    with pytest.raises(OSError, match="disk") as caught, broken.span("tool_call"):
        raise error
    assert caught.value is error


def test_an_exporter_that_raises_is_the_sdks_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = OpenTelemetry(processing(SimpleSpanProcessor(BadExporter())))
    assert one_turn(telemetry) == "the answer"
    assert [record for record in caplog.records if record.name == OURS] == []


def test_one_broken_signal_does_not_stop_the_other(watch: Callable[..., Watched]) -> None:
    watched = watch(processors=(BadEnd(),))
    with watched.span("model_call", model="m"):
        pass
    assert watched.point("gen_ai.client.operation.duration").count == 1


def test_a_stop_goes_through_even_from_inside_the_backend() -> None:
    class Stop(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            raise KeyboardInterrupt

    telemetry = OpenTelemetry(processing(Stop()))
    with pytest.raises(KeyboardInterrupt), telemetry.span("turn"):
        pass
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_provider_that_is_none_is_a_fault_of_the_program() -> None:
    with pytest.raises(AttributeError):
        OpenTelemetry("http://collector:4318")  # type: ignore[arg-type]  # the mistake to make


class Level(IntEnum):
    HIGH = 3


class Odd:
    """A value of which every way to look at it fails."""

    def _fail(self, *given: Any) -> Any:
        raise BackendDownError

    __str__ = __repr__ = __bool__ = __len__ = __iter__ = __float__ = _fail
    __eq__ = _fail
    __hash__ = _fail


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        pytest.param(Level.HIGH, 3, id="an enum"),
        pytest.param(2**63 - 1, 2**63 - 1, id="the largest integer"),
        pytest.param(2**63, float(2**63), id="one more"),
        pytest.param(-(10**400), float("-inf"), id="no float is so small"),
        pytest.param("a\ud800b", "a\ufffdb", id="a lone surrogate"),
        pytest.param("\ud83d\ude00", "\U0001f600", id="a torn pair"),
        pytest.param("x" * 10**6, "x" * 1023 + "…", id="a flood"),
        pytest.param(["a", None, "b"], ("a", "b"), id="a list with a hole"),
        pytest.param([1, "a", True], ("1", "a", "True"), id="a mixed list"),
        pytest.param(list(range(1000)), tuple(range(64)), id="a long list"),
        pytest.param([["a"], ["b"]], ("<list>", "<list>"), id="a list of lists"),
        pytest.param((), None, id="an empty tuple"),
        pytest.param({"a": 1}, "<dict>", id="a mapping"),
        pytest.param(b"bytes", "<bytes>", id="bytes"),
        pytest.param(Decimal(5), "<Decimal>", id="a decimal"),
        pytest.param(Odd(), "<Odd>", id="what nothing can be done with"),
        pytest.param([Odd()], ("<Odd>",), id="a list of it"),
    ],
)
def test_odd_facts(
    watched: Watched, value: Any, recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with watched.span("turn", before=1, odd=value) as span:
        span.set(again=value, after=2)
    attributes = watched.only().attributes
    assert attributes.get("jaato.odd") == attributes.get("jaato.again") == recorded
    assert (attributes["jaato.before"], attributes["jaato.after"]) == (1, 2)
    assert caplog.records == []


def test_a_fact_that_cannot_be_read_costs_itself_only(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    class Torn(list[int]):
        def __iter__(self) -> Any:
            raise BackendDownError

    with watched.span("turn", torn=Torn(), turn=1):
        pass
    assert watched.only().attributes["jaato.turn"] == 1
    assert [record.name for record in caplog.records] == [OURS]


facts = st.dictionaries(
    st.sampled_from(["error", "name", "model", "provider", "agent_id", "finish_reason", "success"])
    | st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.lists(st.text() | st.integers())
    | st.dictionaries(st.text(), st.integers())
    | st.builds(ValueError, st.text())
    | st.builds(Odd),
    max_size=6,
).filter(lambda given: not given.keys() & {"self", "operation"})
operations = st.sampled_from(
    ["session", "turn", "model_call", "tool_call", "collection", "subagent", "other"]
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operation=operations, early=facts, late=facts, with_content=st.booleans())
def test_no_facts_reach_the_session_and_all_can_be_exported(
    watch: Callable[..., Watched],
    operation: str,
    early: dict[str, Any],
    late: dict[str, Any],
    *,
    with_content: bool,
) -> None:
    watched = watch(record_content=with_content)
    with watched.span(operation, **early) as span:
        span.set(**late)
    watched.everything().encode()
    seen = watched.only()
    for name, value in [("name", seen.name), *seen.attributes.items()]:
        for one in value if isinstance(value, tuple) else (value,):
            assert type(one) in {str, bool, int, float}, name
            if type(one) is str:
                one.encode()
            if type(one) is int:
                assert -(2**63) <= one < 2**63


def test_providers_may_come_from_different_makers() -> None:
    telemetry = OpenTelemetry(trace.NoOpTracerProvider(), MeterProvider(shutdown_on_exit=False))
    assert one_turn(telemetry) == "the answer"
