"""Implementations of the `Telemetry` port: off, and OpenTelemetry. Importing loads no package."""

from jaato.telemetry.environment import from_environment
from jaato.telemetry.off import OFF
from jaato.telemetry.otel import OpenTelemetry

__all__ = ["OFF", "OpenTelemetry", "from_environment"]
