"""The `Telemetry` that reports to OpenTelemetry, whose package is loaded when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jaato._version import __version__
from jaato.errors import MissingExtraError
from jaato.telemetry.guard import Guard
from jaato.telemetry.instruments import Instruments
from jaato.telemetry.operation import Backend, Operation

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_SCOPE: Final = "jaato"


class OpenTelemetry:
    """Reports to the given providers, or to the global ones, whenever those are set.

    What people, models and tools say is recorded only with `record_content`. What a backend
    raises is logged, once, and goes no further.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        record_content: bool = False,
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace  # noqa: PLC0415 -- optional
        except ImportError as error:
            raise MissingExtraError("opentelemetry", extra="otel") from error
        self._backend = Backend(
            trace=trace,
            context=context,
            tracer=trace.get_tracer(_SCOPE, __version__, tracer_provider),
            instruments=Instruments(metrics.get_meter(_SCOPE, __version__, meter_provider)),
            guard=Guard(),
            record_content=record_content,
        )

    @property
    def record_content(self) -> bool:
        """Whether what people, models and tools say is recorded."""
        return self._backend.record_content

    def span(self, operation: str, **facts: Any) -> Operation:
        """A span around an operation; what is opened inside it is its child."""
        return Operation(self._backend, operation, facts)
