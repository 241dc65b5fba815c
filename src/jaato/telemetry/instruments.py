"""The metrics: what is measured when an operation ends, and under which attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from jaato.telemetry.attributes import Attribute, number
from jaato.telemetry.conventions import (
    AGENT_NAME,
    CANCELLED,
    CONTEXT_LIMIT,
    CONTEXT_MOMENT,
    ERROR_TYPE,
    GC_CONTEXT_AFTER,
    GC_CONTEXT_BEFORE,
    GC_CONTEXT_LIMIT,
    GC_STRATEGY,
    GC_TOKENS_FREED,
    GC_TOKENS_INVALIDATED,
    GC_TRIGGER,
    INPUT_TOKENS,
    OPERATION_NAME,
    OUTPUT_TOKENS,
    PROVIDER_NAME,
    REQUEST_MODEL,
    REQUEST_TOKENS,
    RESPONSE_MODEL,
    TIME_TO_FIRST_CHUNK,
    TOKEN_TYPE,
    TOOL_NAME,
    TOOL_TYPE,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter

TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
CALL_BUCKETS: Final = tuple(round(0.01 * 2**power, 2) for power in range(14))
TURN_BUCKETS: Final = tuple(round(0.1 * 2**power, 1) for power in range(13))
# Without a summary a collection takes milliseconds, with one as long as the model takes.
GC_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60)
# Closer where it matters: between a usual threshold and the end of the window.
UTILIZATION_BUCKETS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1)

_ENDING: Final = (ERROR_TYPE, CANCELLED)
_MODEL: Final = (OPERATION_NAME, PROVIDER_NAME, REQUEST_MODEL, RESPONSE_MODEL)
_TOOL: Final = (TOOL_NAME, TOOL_TYPE, AGENT_NAME, *_ENDING)
_COLLECTION: Final = (GC_TRIGGER, GC_STRATEGY, *_ENDING)

Attributes = Mapping[str, Attribute]


class Instruments:
    """Measures operations. Sampling of spans does not touch what is measured."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=buckets
            )

        def tokens(name: str, description: str) -> Counter:
            return meter.create_counter(name, "{token}", description)

        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self._call = seconds(
            "gen_ai.client.operation.duration", "GenAI operation duration.", CALL_BUCKETS
        )
        self._first_chunk = seconds(
            "gen_ai.client.operation.time_to_first_chunk",
            "Time to receive the first chunk.",
            CALL_BUCKETS,
        )
        self._turn = seconds(
            "gen_ai.invoke_agent.duration",
            "The end-to-end duration of a single agent invocation.",
            TURN_BUCKETS,
        )
        self._tool = seconds(
            "gen_ai.execute_tool.duration",
            "The duration of a single tool execution.",
            CALL_BUCKETS,
        )
        self._collection = seconds("jaato.gc.duration", "The duration of a collection.", GC_BUCKETS)
        self._collections = meter.create_counter(
            "jaato.gc.collections", "{collection}", "Number of collections."
        )
        self._freed = tokens("jaato.gc.tokens_freed", "Tokens that collections freed.")
        self._invalidated = tokens(
            "jaato.gc.tokens_invalidated",
            "Tokens behind the edit points of collections: they left the prompt cache.",
        )
        self._utilization = meter.create_histogram(
            "jaato.context.utilization",
            "1",
            "How much of the context window was used.",
            explicit_bucket_boundaries_advisory=UTILIZATION_BUCKETS,
        )

    def measure(
        self, operation: str, attributes: Attributes, seconds: float, within: Context | None
    ) -> None:
        """Record an operation that ended. Exemplars point to the span of `within`."""
        match operation:
            case "model_call":
                self._measure_call(attributes, seconds, within)
            case "tool_call":
                self._tool.record(seconds, _picked(attributes, _TOOL), within)
            case "turn":
                self._turn.record(seconds, _picked(attributes, (AGENT_NAME, *_ENDING)), within)
            case "collection":
                self._measure_collection(attributes, seconds, within)
            case _:
                pass

    def _measure_call(self, attributes: Attributes, seconds: float, within: Context | None) -> None:
        model = _picked(attributes, _MODEL)
        self._call.record(seconds, {**model, **_picked(attributes, _ENDING)}, within)
        for kind, name in (("input", INPUT_TOKENS), ("output", OUTPUT_TOKENS)):
            tokens = number(attributes.get(name))
            if tokens is not None:
                self._usage.record(tokens, {**model, TOKEN_TYPE: kind}, within)
        first = number(attributes.get(TIME_TO_FIRST_CHUNK))
        if first is not None:
            self._first_chunk.record(first, model, within)
        limit = number(attributes.get(CONTEXT_LIMIT))
        self._utilize("request", attributes.get(REQUEST_TOKENS), limit, within)

    def _measure_collection(
        self, attributes: Attributes, seconds: float, within: Context | None
    ) -> None:
        collection = _picked(attributes, _COLLECTION)
        self._collections.add(1, collection, within)
        self._collection.record(seconds, collection, within)
        for counter, name in (
            (self._freed, GC_TOKENS_FREED),
            (self._invalidated, GC_TOKENS_INVALIDATED),
        ):
            tokens = number(attributes.get(name))
            if tokens:
                counter.add(tokens, collection, within)
        limit = number(attributes.get(GC_CONTEXT_LIMIT))
        self._utilize("before_collection", attributes.get(GC_CONTEXT_BEFORE), limit, within)
        self._utilize("after_collection", attributes.get(GC_CONTEXT_AFTER), limit, within)

    def _utilize(
        self, moment: str, tokens: Attribute | None, limit: float | None, within: Context | None
    ) -> None:
        used = number(tokens)
        # A limit that is not known is not guessed: then there is nothing to relate to.
        if used is not None and limit:
            self._utilization.record(used / limit, {CONTEXT_MOMENT: moment}, within)


def _picked(attributes: Attributes, names: Sequence[str]) -> dict[str, Attribute]:
    return {name: attributes[name] for name in names if name in attributes}
