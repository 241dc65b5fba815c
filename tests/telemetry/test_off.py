"""Off: nothing is watched, loaded or kept."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from timeit import repeat

import pytest
from opentelemetry.sdk.trace import TracerProvider

from jaato.errors import MissingExtraError
from jaato.ports import Span, Telemetry
from jaato.telemetry import OFF, OpenTelemetry


def test_it_is_the_port() -> None:
    assert isinstance(OFF, Telemetry)
    with OFF.span("turn") as span:
        assert isinstance(span, Span)


def test_one_object_serves_everybody() -> None:
    with OFF.span("turn", turn=1) as turn, OFF.span("tool_call") as call:
        turn.set(steps=1)
        call.fail(ValueError())
    assert turn is call is OFF.span("collection")


def test_errors_pass() -> None:
    with pytest.raises(OSError, match="disk"), OFF.span("turn"):
        raise OSError("disk")


def test_it_keeps_nothing() -> None:
    def watched() -> None:
        with OFF.span("model_call", model="m", attempt=1) as span:
            span.set(input_tokens=10**6, answer="x" * 1000)

    watched()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(100):
            watched()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1000


def cost_ratios(number: int) -> dict[str, float]:
    """How long a small tool takes when it is watched, in times of what it takes alone."""
    arguments = {"path": "src/main.py", "lines": list(range(200))}
    on = OpenTelemetry(TracerProvider(shutdown_on_exit=False))

    def alone() -> None:
        json.dumps(arguments)

    def watched_by(telemetry: Telemetry) -> Callable[[], None]:
        def watched() -> None:
            with telemetry.span("tool_call", session_id="s", name="read", call_id="c") as span:
                json.dumps(arguments)
                span.set(is_error=False, result_tokens=5)

        return watched

    def seconds(work: Callable[[], None]) -> float:
        return min(repeat(work, number=number, repeat=5))

    base = seconds(alone)
    return {"off": seconds(watched_by(OFF)) / base, "on": seconds(watched_by(on)) / base}


def test_what_watching_costs(record_property: Callable[[str, object], None]) -> None:
    for name, ratio in cost_ratios(number=200).items():
        record_property(f"watched / alone, {name}", round(ratio, 3))
        assert ratio > 0


def outcome_of(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(  # noqa: S603 -- this interpreter, our program
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_importing_loads_no_package() -> None:
    program = """
import sys
import jaato.telemetry, jaato.telemetry.otel
from jaato.telemetry import OFF, from_environment
assert from_environment({}) is OFF
print(*sorted({"opentelemetry", "asyncio"} & sys.modules.keys()))
"""
    assert outcome_of(program) == ""


def test_the_api_is_enough() -> None:
    program = """
import sys
sys.modules["opentelemetry.sdk"] = sys.modules["opentelemetry.semconv"] = None
from jaato.telemetry import OpenTelemetry
with OpenTelemetry().span("turn", agent_id="main") as span:
    span.set(steps=1)
    span.fail(ValueError("x"))
print("done")
"""
    assert outcome_of(program) == "done"


def test_providers_that_are_set_later_are_used() -> None:
    program = """
from jaato.telemetry import OpenTelemetry
telemetry = OpenTelemetry()
with telemetry.span("turn"):
    pass
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(MeterProvider([reader]))
with telemetry.span("turn", agent_id="main"):
    pass
[metric] = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(*(span.name for span in spans.get_finished_spans()), metric.name, sep=", ")
"""
    assert outcome_of(program) == "invoke_agent main, gen_ai.invoke_agent.duration"


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaato\[otel\]'"):
        OpenTelemetry()
