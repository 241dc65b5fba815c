"""Spans: names, kinds and attributes by the GenAI conventions, and who is whose child."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.trace import SpanKind, StatusCode

from jaato.exchange import StopReason
from jaato.gc.result import GCTriggerReason
from jaato.ports import Span, Telemetry
from jaato.telemetry import OpenTelemetry

if TYPE_CHECKING:
    from tests.telemetry.conftest import Watched

GIVEN: dict[str, dict[str, Any]] = {
    "session": {"session_id": "s1", "agent_id": "main", "agent_name": "Ada", "resumed": True},
    "turn": {
        "session_id": "s1",
        "agent_id": "main",
        "agent_name": "Ada",
        "turn": 3,
        "provider": "anthropic",
        "model": "claude-x",
    },
    "model_call": {
        "session_id": "s1",
        "provider": "google",
        "model": "gemini-x",
        "attempt": 2,
        "max_output_tokens": 4096,
        "request_tokens": 900,
    },
    "tool_call": {"session_id": "s1", "name": "grep", "call_id": "c1", "arguments_tokens": 12},
    "collection": {
        "session_id": "s1",
        "trigger_reason": GCTriggerReason.THRESHOLD,
        "strategy": "gc_budget",
        "context_before": 900,
        "context_limit": 1000,
    },
    "subagent": {"session_id": "s1", "child_id": "s1/2", "profile": "reviewer"},
}
LATER: dict[str, dict[str, Any]] = {
    "turn": {"steps": 4, "input_tokens": 1000, "output_tokens": 50, "error": None},
    "model_call": {
        "response_model": "gemini-x-001",
        "finish_reason": StopReason.TOOL_CALLS,
        "input_tokens": 890,
        "output_tokens": 40,
        "cached_tokens": 700,
        "cache_write_tokens": 100,
        "thinking_tokens": 8,
        "first_token_seconds": 0.25,
    },
    "tool_call": {"is_error": False, "result_tokens": 300},
    "collection": {
        "items_collected": 5,
        "tokens_freed": 400,
        "context_after": 500,
        "edit_point": 2,
        "tokens_invalidated": 450,
        "thoughts_invalidated": 1,
        "success": True,
        "error": None,
    },
}
RECORDED: dict[str, tuple[str, SpanKind, dict[str, Any]]] = {
    "session": (
        "jaato.session",
        SpanKind.INTERNAL,
        {
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            gen_ai.GEN_AI_AGENT_ID: "main",
            gen_ai.GEN_AI_AGENT_NAME: "Ada",
            "jaato.resumed": True,
        },
    ),
    "turn": (
        "invoke_agent Ada",
        SpanKind.INTERNAL,
        {
            gen_ai.GEN_AI_OPERATION_NAME: gen_ai.GenAiOperationNameValues.INVOKE_AGENT.value,
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            gen_ai.GEN_AI_AGENT_ID: "main",
            gen_ai.GEN_AI_AGENT_NAME: "Ada",
            gen_ai.GEN_AI_PROVIDER_NAME: gen_ai.GenAiProviderNameValues.ANTHROPIC.value,
            gen_ai.GEN_AI_REQUEST_MODEL: "claude-x",
            gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 1000,
            gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: 50,
            "jaato.turn": 3,
            "jaato.steps": 4,
        },
    ),
    "model_call": (
        "chat gemini-x",
        SpanKind.CLIENT,
        {
            gen_ai.GEN_AI_OPERATION_NAME: gen_ai.GenAiOperationNameValues.CHAT.value,
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            gen_ai.GEN_AI_PROVIDER_NAME: gen_ai.GenAiProviderNameValues.GCP_GEN_AI.value,
            gen_ai.GEN_AI_REQUEST_MODEL: "gemini-x",
            gen_ai.GEN_AI_REQUEST_MAX_TOKENS: 4096,
            gen_ai.GEN_AI_REQUEST_STREAM: True,
            gen_ai.GEN_AI_RESPONSE_MODEL: "gemini-x-001",
            gen_ai.GEN_AI_RESPONSE_FINISH_REASONS: ("tool_call",),
            gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 0.25,
            gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 890,
            gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: 40,
            gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 700,
            gen_ai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: 100,
            gen_ai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: 8,
            "jaato.attempt": 2,
            "jaato.request_tokens": 900,
        },
    ),
    "tool_call": (
        "execute_tool grep",
        SpanKind.INTERNAL,
        {
            gen_ai.GEN_AI_OPERATION_NAME: gen_ai.GenAiOperationNameValues.EXECUTE_TOOL.value,
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            gen_ai.GEN_AI_TOOL_NAME: "grep",
            gen_ai.GEN_AI_TOOL_TYPE: "function",
            gen_ai.GEN_AI_TOOL_CALL_ID: "c1",
            "jaato.arguments_tokens": 12,
            "jaato.is_error": False,
            "jaato.result_tokens": 300,
        },
    ),
    "collection": (
        "jaato.gc",
        SpanKind.INTERNAL,
        {
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            "jaato.gc.trigger_reason": "threshold",
            "jaato.gc.strategy": "gc_budget",
            "jaato.gc.context_before": 900,
            "jaato.gc.context_limit": 1000,
            "jaato.gc.items_collected": 5,
            "jaato.gc.tokens_freed": 400,
            "jaato.gc.context_after": 500,
            "jaato.gc.edit_point": 2,
            "jaato.gc.tokens_invalidated": 450,
            "jaato.gc.thoughts_invalidated": 1,
            "jaato.gc.success": True,
        },
    ),
    "subagent": (
        "invoke_agent reviewer",
        SpanKind.INTERNAL,
        {
            gen_ai.GEN_AI_OPERATION_NAME: gen_ai.GenAiOperationNameValues.INVOKE_AGENT.value,
            gen_ai.GEN_AI_CONVERSATION_ID: "s1",
            gen_ai.GEN_AI_AGENT_ID: "s1/2",
            gen_ai.GEN_AI_AGENT_NAME: "reviewer",
        },
    ),
}


def test_it_is_the_port(watched: Watched) -> None:
    assert isinstance(watched.telemetry, Telemetry)
    with watched.span("turn") as span:
        assert isinstance(span, Span)


@pytest.mark.parametrize("operation", sorted(RECORDED))
def test_each_operation_is_recorded_by_the_conventions(watched: Watched, operation: str) -> None:
    with watched.span(operation, **GIVEN[operation]) as span:
        span.set(**LATER.get(operation, {}))
    name, kind, attributes = RECORDED[operation]
    seen = watched.only()
    assert (seen.name, seen.kind, dict(seen.attributes)) == (name, kind, attributes)
    assert seen.status.status_code is StatusCode.UNSET
    assert seen.events == ()
    assert seen.instrumentation_scope.name == "jaato"


@pytest.mark.parametrize(
    ("operation", "facts", "name"),
    [
        pytest.param("turn", {"agent_id": "main"}, "invoke_agent main", id="no name: the id"),
        pytest.param("turn", {}, "invoke_agent", id="a turn of nobody"),
        pytest.param("model_call", {}, "chat", id="no model"),
        pytest.param("tool_call", {"name": ""}, "execute_tool", id="a call without a name"),
        pytest.param("subagent", {"profile": None}, "invoke_agent", id="no profile"),
        pytest.param("compile", {"size": 3}, "jaato.compile", id="an operation nobody foresaw"),
        pytest.param(
            "tool_call",
            {"name": "x" * 5000},
            "execute_tool " + "x" * 114 + "…",
            id="a name that a model made up is cut",
        ),
    ],
)
def test_names(watched: Watched, operation: str, facts: dict[str, Any], name: str) -> None:
    with watched.span(operation, **facts):
        pass
    assert watched.only().name == name


@pytest.mark.parametrize(
    ("fact", "value", "attribute", "recorded"),
    [
        pytest.param("provider", "openai", gen_ai.GEN_AI_PROVIDER_NAME, "openai", id="openai"),
        pytest.param("provider", "local", gen_ai.GEN_AI_PROVIDER_NAME, "local", id="one of ours"),
        pytest.param(
            "provider",
            "mistral",
            gen_ai.GEN_AI_PROVIDER_NAME,
            gen_ai.GenAiProviderNameValues.MISTRAL_AI.value,
            id="a well-known name",
        ),
        pytest.param(
            "finish_reason", "end", gen_ai.GEN_AI_RESPONSE_FINISH_REASONS, ("stop",), id="end"
        ),
        pytest.param(
            "finish_reason",
            ["length", "refused"],
            gen_ai.GEN_AI_RESPONSE_FINISH_REASONS,
            ("length", "content_filter"),
            id="one reason per choice",
        ),
        pytest.param("shards", 7, "jaato.shards", 7, id="an unknown fact"),
    ],
)
def test_facts_in_the_words_of_the_conventions(
    watched: Watched, fact: str, value: Any, attribute: str, recorded: Any
) -> None:
    with watched.span("model_call") as span:
        span.set(**{fact: value})
    assert watched.only().attributes[attribute] == recorded


def test_none_is_left_out_and_the_last_word_counts(watched: Watched) -> None:
    with watched.span("turn", agent_name=None, turn=1) as span:
        span.set(steps=1, input_tokens=None)
        span.set(steps=2)
    assert dict(watched.only().attributes) == {
        gen_ai.GEN_AI_OPERATION_NAME: "invoke_agent",
        "jaato.turn": 1,
        "jaato.steps": 2,
    }


def test_what_is_set_after_the_end_is_ignored(watched: Watched) -> None:
    with watched.span("turn") as span:
        pass
    span.set(steps=2)
    span.fail(ValueError("late"))
    assert "jaato.steps" not in watched.only().attributes
    assert watched.only().status.status_code is StatusCode.UNSET


def test_what_a_sampler_decides_by_is_there_at_the_start(
    watch: Callable[..., Watched],
) -> None:
    class Careful(Sampler):
        def should_sample(
            self,
            parent_context: Any,
            trace_id: int,
            name: str,
            kind: Any = None,
            attributes: Any = None,
            links: Any = None,
            trace_state: Any = None,
        ) -> SamplingResult:
            wanted = (attributes or {}).get(gen_ai.GEN_AI_REQUEST_MODEL) == "big"
            decision = Decision.RECORD_AND_SAMPLE if wanted else Decision.DROP
            return SamplingResult(decision, attributes)

        def get_description(self) -> str:
            return "by model"

    watched = watch(sampler=Careful())
    for model in ("big", "small"):
        with watched.span("model_call", model=model):
            pass
    assert watched.only().name == "chat big"


def test_a_session_is_a_short_span_and_turns_are_traces_of_their_own(watched: Watched) -> None:
    with watched.span("session", session_id="s1", resumed=False):
        pass
    for turn in range(2):
        with watched.span("turn", session_id="s1", turn=turn):
            pass
    opened, *turns = watched.spans()
    assert [span.parent for span in (opened, *turns)] == [None, None, None]
    assert len({span.context.trace_id for span in (opened, *turns)}) == 3
    conversations = {span.attributes[gen_ai.GEN_AI_CONVERSATION_ID] for span in turns}
    assert conversations == {"s1"}


def test_what_is_opened_inside_is_a_child(watched: Watched) -> None:
    with watched.span("turn", agent_id="main"):
        with watched.span("model_call", model="m"):
            pass
        with watched.span("collection"):
            pass
        with watched.span("tool_call", name="t"):
            pass
    assert watched.parent_name("invoke_agent main") is None
    for child in ("chat m", "jaato.gc", "execute_tool t"):
        assert watched.parent_name(child) == "invoke_agent main"
    assert not trace.get_current_span().get_span_context().is_valid


def test_it_is_a_child_of_what_the_application_has_opened(watched: Watched) -> None:
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    context = trace.SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=sampled)
    around = trace.NonRecordingSpan(context)
    with trace.use_span(around), watched.span("turn"):
        pass
    assert watched.only().parent.span_id == 9
    assert watched.only().context.trace_id == 7


def test_what_a_library_opens_inside_is_a_child_too(watched: Watched) -> None:
    """So that spans of an HTTP instrumentation hang below the model call."""
    with watched.span("model_call", model="m"):
        inside = trace.get_current_span().get_span_context()
    assert inside == watched.only().context


def test_parallel_calls_are_children_of_the_turn_and_of_nobody_else(watched: Watched) -> None:
    async def call(name: str, started: asyncio.Barrier) -> None:
        with watched.span("tool_call", name=name):
            await started.wait()
            with watched.span("model_call", model=f"inside {name}"):
                await started.wait()

    async def turn() -> None:
        with watched.span("turn", agent_id="main"):
            started = asyncio.Barrier(3)
            await asyncio.gather(*(call(name, started) for name in "abc"))
            with watched.span("collection"):
                pass

    asyncio.run(turn())
    for name in "abc":
        assert watched.parent_name(f"execute_tool {name}") == "invoke_agent main"
        assert watched.parent_name(f"chat inside {name}") == f"execute_tool {name}"
    assert watched.parent_name("jaato.gc") == "invoke_agent main"


def test_a_subagent_that_outlives_the_turn_is_still_its_child(watched: Watched) -> None:
    async def child(is_over: asyncio.Event) -> None:
        with watched.span("subagent", child_id="c", profile="reviewer"):
            await is_over.wait()
            with watched.span("turn", agent_id="c", session_id="s2"):
                pass

    async def session() -> None:
        is_over = asyncio.Event()
        with watched.span("turn", agent_id="main"):
            background = asyncio.create_task(child(is_over))
            await asyncio.sleep(0)
        is_over.set()
        await background

    asyncio.run(session())
    turn, subagent = (s for s in watched.spans() if s.name == "invoke_agent reviewer")
    assert subagent.parent.span_id == watched.named("invoke_agent main").context.span_id
    assert turn.parent.span_id == subagent.context.span_id


def test_a_worker_thread_is_inside_where_asyncio_started_it(watched: Watched) -> None:
    def work() -> None:
        with watched.span("tool_call", name="blocking"):
            pass

    async def turn() -> None:
        with watched.span("turn", agent_id="main"):
            await asyncio.to_thread(work)
            bare = threading.Thread(target=work)
            bare.start()
            await asyncio.to_thread(bare.join)

    asyncio.run(turn())
    inside, outside, around = watched.spans()
    assert inside.parent == around.context
    assert outside.parent is None


def test_operations_carry_the_agent_they_belong_to(watched: Watched) -> None:
    with watched.span("turn", agent_id="main", agent_name="Ada"):
        with (
            watched.span("tool_call", name="spawn"),
            watched.span("subagent", child_id="c1", profile="reviewer", agent_id="main"),
            watched.span("turn", agent_id="c1"),
            watched.span("model_call", model="m"),
        ):
            pass
        with watched.span("turn", agent_id="c2"), watched.span("model_call", model="other"):
            pass
    agents = {
        span.name: (
            span.attributes.get(gen_ai.GEN_AI_AGENT_ID),
            span.attributes.get(gen_ai.GEN_AI_AGENT_NAME),
        )
        for span in watched.spans()
    }
    assert agents == {
        "invoke_agent Ada": ("main", "Ada"),
        "execute_tool spawn": ("main", "Ada"),
        "invoke_agent reviewer": ("c1", "reviewer"),
        "chat m": ("c1", "reviewer"),
        "invoke_agent c2": ("c2", None),
        "chat other": ("c2", None),
    }
    [spawned] = [span for span in watched.spans() if "jaato.parent.agent_id" in span.attributes]
    assert spawned.attributes["jaato.parent.agent_id"] == "main"


def test_without_an_sdk_nothing_is_recorded_and_all_works() -> None:
    with OpenTelemetry().span("turn") as span:
        span.set(steps=1)
        span.fail(ValueError())
        assert not trace.get_current_span().is_recording()
