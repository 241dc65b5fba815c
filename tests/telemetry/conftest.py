"""A session's telemetry with the SDK behind it, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from jaato.telemetry import OpenTelemetry


class Watched:
    """Telemetry, and readers of what it reported."""

    def __init__(
        self,
        *,
        record_content: bool = False,
        sampler: Sampler | None = None,
        processors: tuple[SpanProcessor, ...] = (),
    ) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        for processor in processors:
            tracers.add_span_processor(processor)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(tracers, meters, record_content=record_content)
        self.span = self.telemetry.span

    def spans(self) -> tuple[Any, ...]:
        """All that ended, in that order."""
        return self._spans.get_finished_spans()

    def only(self) -> Any:
        """The span, where there is one."""
        [span] = self.spans()
        return span

    def named(self, name: str) -> Any:
        """The one span of this name."""
        [span] = [span for span in self.spans() if span.name == name]
        return span

    def parent_name(self, name: str) -> str | None:
        """The name of the span around the one of this name; None for a root."""
        parent = self.named(name).parent
        if parent is None:
            return None
        [found] = [span.name for span in self.spans() if span.context == parent]
        return str(found)

    def metrics(self) -> dict[str, Any]:
        """Each metric that has points, by name."""
        data = self._metrics.get_metrics_data()
        return {
            metric.name: metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str) -> list[Any]:
        """The points of a metric; none where nothing was measured."""
        metric = self.metrics().get(name)
        return list(metric.data.data_points) if metric else []

    def point(self, name: str) -> Any:
        """The point of a metric, where there is one."""
        [point] = self.points(name)
        return point

    def everything(self) -> str:
        """All that was reported, as text to search in."""
        spans = [span.to_json() for span in self.spans()]
        return "\n".join([*spans, *(metric.to_json() for metric in self.metrics().values())])


@pytest.fixture
def watch() -> Callable[..., Watched]:
    """Makes telemetry with other options than `watched` has."""
    return Watched


@pytest.fixture
def watched() -> Watched:
    """Telemetry as it is by default."""
    return Watched()
