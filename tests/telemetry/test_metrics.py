"""Metrics: names, units, buckets and attributes by the conventions, and the collector's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from jaato.exchange import ServerError

if TYPE_CHECKING:
    from tests.telemetry.conftest import Watched

# As the conventions print them.
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TURN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
TOKENS = (
    *(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216),
    67108864,
)

CALL = {
    gen_ai.GEN_AI_OPERATION_NAME: "chat",
    gen_ai.GEN_AI_PROVIDER_NAME: "openai",
    gen_ai.GEN_AI_REQUEST_MODEL: "m",
}


def run_everything(watched: Watched) -> None:
    with watched.span("turn", agent_name="Ada", session_id="s1"):
        facts = {"request_tokens": 600, "context_limit": 1000}
        with watched.span("model_call", provider="openai", model="m", **facts) as span:
            span.set(input_tokens=600, output_tokens=20, first_token_seconds=0.3)
        with watched.span("tool_call", name="grep"):
            pass
        with watched.span("collection", context_before=900, context_limit=1000) as span:
            span.set(tokens_freed=400, tokens_invalidated=300, context_after=500)


@pytest.mark.parametrize(
    ("name", "unit", "buckets"),
    [
        pytest.param(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE, "{token}", TOKENS, id="usage"),
        pytest.param(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION, "s", SECONDS, id="calls"),
        pytest.param(
            gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
            "s",
            SECONDS,
            id="first chunk",
        ),
        pytest.param("gen_ai.execute_tool.duration", "s", SECONDS, id="tools"),
        pytest.param("gen_ai.invoke_agent.duration", "s", TURN_SECONDS, id="turns"),
    ],
)
def test_conventional_histograms(
    watched: Watched, name: str, unit: str, buckets: tuple[float, ...]
) -> None:
    run_everything(watched)
    assert watched.metrics()[name].unit == unit
    assert {point.explicit_bounds for point in watched.points(name)} == {buckets}


def test_all_metrics_there_are(watched: Watched) -> None:
    run_everything(watched)
    assert {name: metric.unit for name, metric in watched.metrics().items()} == {
        "gen_ai.client.token.usage": "{token}",
        "gen_ai.client.operation.duration": "s",
        "gen_ai.client.operation.time_to_first_chunk": "s",
        "gen_ai.invoke_agent.duration": "s",
        "gen_ai.execute_tool.duration": "s",
        "jaato.gc.collections": "{collection}",
        "jaato.gc.duration": "s",
        "jaato.gc.tokens_freed": "{token}",
        "jaato.gc.tokens_invalidated": "{token}",
        "jaato.context.utilization": "1",
    }


@pytest.mark.parametrize(
    ("operation", "metric"),
    [
        ("turn", "gen_ai.invoke_agent.duration"),
        ("model_call", "gen_ai.client.operation.duration"),
        ("tool_call", "gen_ai.execute_tool.duration"),
        ("collection", "jaato.gc.duration"),
    ],
)
def test_a_duration_is_the_duration_of_the_span(
    watched: Watched, operation: str, metric: str
) -> None:
    with watched.span(operation):
        pass
    span = watched.only()
    assert watched.point(metric).sum == pytest.approx((span.end_time - span.start_time) / 1e9)


def test_a_session_and_a_subagent_measure_nothing(watched: Watched) -> None:
    """A subagent's turns do: its span around them would count the same seconds again."""
    with watched.span("session"), watched.span("subagent", profile="reviewer"):
        pass
    assert watched.metrics() == {}


def test_usage_counts_what_was_reported(watched: Watched) -> None:
    for usage in ({"input_tokens": 100, "output_tokens": 5}, {"input_tokens": 50}, {}):
        with watched.span("model_call", provider="openai", model="m") as span:
            span.set(response_model="m-1", **usage)
    points = watched.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE)
    by_type = {point.attributes[gen_ai.GEN_AI_TOKEN_TYPE]: point for point in points}
    assert {kind: (point.sum, point.count) for kind, point in by_type.items()} == {
        gen_ai.GenAiTokenTypeValues.INPUT.value: (150, 2),
        gen_ai.GenAiTokenTypeValues.OUTPUT.value: (5, 1),
    }
    assert by_type["input"].attributes == {
        **CALL,
        gen_ai.GEN_AI_RESPONSE_MODEL: "m-1",
        gen_ai.GEN_AI_TOKEN_TYPE: "input",
    }


def test_the_usage_of_a_turn_is_not_counted_again(watched: Watched) -> None:
    with watched.span("turn") as span:
        span.set(input_tokens=100, output_tokens=5)
    assert watched.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE) == []


@pytest.mark.parametrize(
    ("operation", "metric", "given", "attributes"),
    [
        pytest.param(
            "model_call",
            gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION,
            {"provider": "openai", "model": "m", "session_id": "s1", "attempt": 3},
            CALL,
            id="a model call",
        ),
        pytest.param(
            "tool_call",
            "gen_ai.execute_tool.duration",
            {"name": "grep", "call_id": "c1", "agent_name": "Ada"},
            {
                gen_ai.GEN_AI_TOOL_NAME: "grep",
                gen_ai.GEN_AI_TOOL_TYPE: "function",
                gen_ai.GEN_AI_AGENT_NAME: "Ada",
            },
            id="a tool call",
        ),
        pytest.param(
            "turn",
            "gen_ai.invoke_agent.duration",
            {"agent_id": "a-17", "agent_name": "Ada", "turn": 5},
            {gen_ai.GEN_AI_AGENT_NAME: "Ada"},
            id="a turn",
        ),
        pytest.param(
            "collection",
            "jaato.gc.duration",
            {"strategy": "gc_budget", "trigger_reason": "threshold", "context_before": 5},
            {"jaato.gc.strategy": "gc_budget", "jaato.gc.trigger_reason": "threshold"},
            id="a collection",
        ),
    ],
)
def test_attributes_are_few(
    watched: Watched, operation: str, metric: str, given: dict[str, Any], attributes: Any
) -> None:
    """No ids and no counts: each new value would be a new series, for ever."""
    with watched.span(operation, **given):
        pass
    assert watched.point(metric).attributes == attributes


@pytest.mark.parametrize(
    ("operation", "metric"),
    [
        ("turn", "gen_ai.invoke_agent.duration"),
        ("model_call", "gen_ai.client.operation.duration"),
        ("tool_call", "gen_ai.execute_tool.duration"),
        ("collection", "jaato.gc.duration"),
        ("collection", "jaato.gc.collections"),
    ],
)
def test_failures_are_told_apart(watched: Watched, operation: str, metric: str) -> None:
    with watched.span(operation):
        pass
    with watched.span(operation) as span:
        span.fail(ServerError("down"))
    with pytest.raises(KeyboardInterrupt), watched.span(operation):
        raise KeyboardInterrupt
    endings = [
        (point.attributes.get(ERROR_TYPE), point.attributes.get("jaato.cancelled", False))
        for point in watched.points(metric)
    ]
    assert endings == [(None, False), ("jaato.exchange.ServerError", False), (None, True)]


def test_a_tool_that_answers_with_an_error_is_counted_as_one(watched: Watched) -> None:
    with watched.span("tool_call", name="grep") as span:
        span.set(is_error=True)
    attributes = watched.point("gen_ai.execute_tool.duration").attributes
    assert attributes[ERROR_TYPE] == "tool_error"


def test_what_collections_freed_and_what_it_cost(watched: Watched) -> None:
    for freed, invalidated in ((400, 300), (100, None), (-50, 0)):
        with watched.span("collection", strategy="s") as span:
            span.set(tokens_freed=freed, tokens_invalidated=invalidated)
    assert watched.point("jaato.gc.collections").value == 3
    assert watched.point("jaato.gc.tokens_freed").value == 500
    assert watched.point("jaato.gc.tokens_invalidated").value == 300


def test_utilization_at_requests_and_around_collections(watched: Watched) -> None:
    run_everything(watched)
    assert {
        point.attributes["jaato.context.moment"]: point.sum
        for point in watched.points("jaato.context.utilization")
    } == {"request": 0.6, "before_collection": 0.9, "after_collection": 0.5}


@pytest.mark.parametrize("limit", [None, 0, -1, "big", True], ids=repr)
def test_a_window_of_unknown_size_has_no_utilization(watched: Watched, limit: Any) -> None:
    with watched.span("collection", context_before=900, context_limit=limit):
        pass
    with watched.span("model_call", request_tokens=900, context_limit=limit):
        pass
    assert watched.points("jaato.context.utilization") == []


@pytest.mark.parametrize(
    "odd", ["many", float("nan"), float("inf"), -1, True, [1], {"a": 1}], ids=repr
)
def test_what_is_no_count_is_not_counted(
    watched: Watched, odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with watched.span("model_call") as span:
        span.set(input_tokens=odd, output_tokens=odd, first_token_seconds=odd)
    with watched.span("collection") as span:
        span.set(tokens_freed=odd)
    assert set(watched.metrics()) == {
        "gen_ai.client.operation.duration",
        "jaato.gc.collections",
        "jaato.gc.duration",
    }
    assert caplog.records == []


def test_measuring_does_not_depend_on_sampling(watch: Callable[..., Watched]) -> None:
    watched = watch(sampler=ALWAYS_OFF)
    run_everything(watched)
    assert watched.spans() == ()
    assert watched.point("gen_ai.client.operation.duration").count == 1


def test_a_measurement_points_to_its_span(watched: Watched) -> None:
    with watched.span("model_call", model="m"):
        pass
    [exemplar] = watched.point("gen_ai.client.operation.duration").exemplars
    assert exemplar.span_id == watched.only().context.span_id
