"""Telemetry as the environment asks for it: off unless configured."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final

from jaato.errors import MissingExtraError
from jaato.ports import Telemetry
from jaato.telemetry.off import OFF
from jaato.telemetry.otel import OpenTelemetry

_LOG: Final = logging.getLogger("jaato.telemetry")

SWITCH: Final = "JAATO_OTEL"
STANDARD: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
CONTENT_SWITCH: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_NO: Final = frozenset({"", "0", "false", "no", "off", "none"})
_CONTENT: Final = frozenset({"true", "1", "yes", "on", "span_only", "span_and_event"})


def from_environment(environment: Mapping[str, str] | None = None) -> Telemetry:
    """`OFF`, or `OpenTelemetry` on the global providers where the environment asks for it.

    It asks by `JAATO_OTEL`, or by a standard variable that names an exporter; `JAATO_OTEL=0` and
    `OTEL_SDK_DISABLED=true` have the last word. Exporters are not installed: that is done by the
    application or by `opentelemetry-instrument`. Never raises.
    """
    given = os.environ if environment is None else environment

    def word(name: str) -> str:
        return given.get(name, "").strip().lower()

    is_wanted = bool(word(SWITCH)) and word(SWITCH) not in _NO
    is_configured = any(word(name) not in _NO for name in STANDARD)
    is_refused = bool(word(SWITCH)) and not is_wanted
    if is_refused or word("OTEL_SDK_DISABLED") == "true" or not (is_wanted or is_configured):
        return OFF
    try:
        return OpenTelemetry(record_content=word(CONTENT_SWITCH) in _CONTENT)
    except MissingExtraError as missing:
        # The standard variables may be meant for another program; the switch is meant for us.
        if is_wanted:
            _LOG.warning("%s is set, but telemetry stays off: %s", SWITCH, missing)
        return OFF
    except Exception:  # noqa: BLE001 -- a program must start without its telemetry
        _LOG.exception("telemetry stays off: OpenTelemetry could not be set up")
        return OFF
