"""Off unless the environment asks for it."""

from __future__ import annotations

import logging
import sys

import pytest

from jaato.telemetry import OFF, OpenTelemetry, from_environment

MISSING = "opentelemetry is not installed (pip install 'jaato[otel]')"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "is_on"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"JAATO_OTEL": "1"}, True, id="the switch"),
        pytest.param({"JAATO_OTEL": " True "}, True, id="the switch in words"),
        pytest.param({"JAATO_OTEL": ""}, False, id="an empty switch"),
        pytest.param({"JAATO_OTEL": "off"}, False, id="the switch says no"),
        pytest.param(ENDPOINT, True, id="an endpoint"),
        pytest.param({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t"}, True, id="for traces"),
        pytest.param({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m"}, True, id="for metrics"),
        pytest.param({"OTEL_TRACES_EXPORTER": "otlp"}, True, id="an exporter"),
        pytest.param({"OTEL_METRICS_EXPORTER": "console"}, True, id="an exporter of metrics"),
        pytest.param({"OTEL_TRACES_EXPORTER": "none"}, False, id="no exporter, by name"),
        pytest.param({"OTEL_SERVICE_NAME": "x"}, False, id="a name alone"),
        pytest.param({**ENDPOINT, "JAATO_OTEL": "0"}, False, id="our no outranks an endpoint"),
        pytest.param({**ENDPOINT, "JAATO_OTEL": ""}, True, id="an empty switch does not"),
        pytest.param(
            {"JAATO_OTEL": "1", "OTEL_SDK_DISABLED": "TRUE"}, False, id="the SDK's no outranks all"
        ),
        pytest.param({"JAATO_OTEL": "1", "OTEL_SDK_DISABLED": "false"}, True, id="not disabled"),
    ],
)
def test_when_it_is_on(environment: dict[str, str], *, is_on: bool) -> None:
    telemetry = from_environment(environment)
    assert isinstance(telemetry, OpenTelemetry) if is_on else telemetry is OFF


@pytest.mark.parametrize(
    ("value", "is_recorded"),
    [
        (None, False),
        ("", False),
        ("false", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("true", True),
        ("SPAN_ONLY", True),
        ("SPAN_AND_EVENT", True),
    ],
)
def test_content_by_the_standard_variable(value: str | None, *, is_recorded: bool) -> None:
    environment = {"JAATO_OTEL": "1"}
    if value is not None:
        environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = value
    telemetry = from_environment(environment)
    assert isinstance(telemetry, OpenTelemetry)
    assert telemetry.record_content is is_recorded


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_OTEL", "1")
    assert isinstance(from_environment(), OpenTelemetry)
    monkeypatch.setenv("JAATO_OTEL", "0")
    assert from_environment() is OFF


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param(
            {"JAATO_OTEL": "1"},
            [f"JAATO_OTEL is set, but telemetry stays off: {MISSING}"],
            id="asked by name: it says what to install",
        ),
        pytest.param(ENDPOINT, [], id="asked by a variable for everybody: it is silent"),
    ],
)
def test_without_the_package_it_is_off(
    environment: dict[str, str],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert from_environment(environment) is OFF
    assert [record.message for record in caplog.records] == said


def test_a_provider_that_cannot_be_loaded_leaves_it_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry import trace  # noqa: PLC0415 -- its state is the point

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "nobody_has_it")
    with caplog.at_level(logging.ERROR, logger="jaato.telemetry"):
        assert from_environment({"JAATO_OTEL": "1"}) is OFF
    messages = [record.message for record in caplog.records if record.name == "jaato.telemetry"]
    assert messages == ["telemetry stays off: OpenTelemetry could not be set up"]
