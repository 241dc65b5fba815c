"""Names: how each operation and each fact is called in OpenTelemetry's GenAI conventions.

The conventions are a text, not a package that must be installed: names stand here as they are
published, and the tests hold them against the constants of `opentelemetry.semconv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 -- a kind of token that models read
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

ERROR_TYPE: Final = "error.type"
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"
RESPONSE_STATUS: Final = "http.response.status_code"

OTHER_ERROR: Final = "_OTHER"
TOOL_ERROR: Final = "tool_error"
"""The tool ran, and answered with an error."""

CANCELLED: Final = "jaato.cancelled"
ERROR_CODE: Final = "jaato.error.code"
MESSAGES_OMITTED: Final = "jaato.messages_omitted"
IS_ERROR: Final = "jaato.is_error"
CONTEXT_MOMENT: Final = "jaato.context.moment"
CONTEXT_LIMIT: Final = "jaato.context_limit"
REQUEST_TOKENS: Final = "jaato.request_tokens"
GC_SUCCESS: Final = "jaato.gc.success"
GC_TRIGGER: Final = "jaato.gc.trigger_reason"
GC_STRATEGY: Final = "jaato.gc.strategy"
GC_TOKENS_FREED: Final = "jaato.gc.tokens_freed"
GC_TOKENS_INVALIDATED: Final = "jaato.gc.tokens_invalidated"
GC_CONTEXT_BEFORE: Final = "jaato.gc.context_before"
GC_CONTEXT_AFTER: Final = "jaato.gc.context_after"
GC_CONTEXT_LIMIT: Final = "jaato.gc.context_limit"

CONTENT: Final = frozenset(
    {
        "answer",
        "arguments",
        "content",
        "input",
        "messages",
        "notification",
        "output",
        "prompt",
        "result",
        "summary",
        "system",
        "task",
        "text",
        "thought",
        "tools",
    }
)
"""Facts that hold what people, models and tools said. They are dropped unless content is wanted."""

PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    # AI Studio or Vertex: the name alone does not say, and the conventions have a word for that.
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Well-known values of `gen_ai.provider.name` that differ from the name used here."""

FINISHES: Final[Mapping[str, str]] = {
    "end": "stop",
    "tool_calls": "tool_call",
    "refused": "content_filter",
}
"""Well-known finish reasons that differ from `StopReason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How one operation looks in a trace.

    `subjects`: facts, of which the first one known follows the name of the span.
    """

    name: str
    subjects: tuple[str, ...] = ()
    is_client: bool = False
    fixed: Mapping[str, str | bool] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    prefix: str = "jaato."

    def attribute_of(self, fact: str) -> str:
        """The attribute that a fact is recorded as."""
        return self.attributes.get(fact) or _SHARED.get(fact) or f"{self.prefix}{fact}"


_SHARED: Final = {
    "session_id": CONVERSATION_ID,
    "agent_id": AGENT_ID,
    "agent_name": AGENT_NAME,
    "provider": PROVIDER_NAME,
    "model": REQUEST_MODEL,
}
_USAGE: Final = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "cached_tokens": CACHE_READ_TOKENS,
    "cache_write_tokens": CACHE_WRITE_TOKENS,
    "thinking_tokens": REASONING_TOKENS,
}

_SHAPES: Final[Mapping[str, Shape]] = {
    "session": Shape(name="jaato.session"),
    "turn": Shape(
        name="invoke_agent",
        subjects=("agent_name", "agent_id"),
        fixed={OPERATION_NAME: "invoke_agent"},
        attributes=_USAGE,
    ),
    "model_call": Shape(
        name="chat",
        subjects=("model",),
        is_client=True,
        fixed={OPERATION_NAME: "chat", REQUEST_STREAM: True},
        attributes={
            **_USAGE,
            "max_output_tokens": REQUEST_MAX_TOKENS,
            "response_model": RESPONSE_MODEL,
            "finish_reason": FINISH_REASONS,
            "first_token_seconds": TIME_TO_FIRST_CHUNK,
        },
    ),
    "tool_call": Shape(
        name="execute_tool",
        subjects=("name",),
        fixed={OPERATION_NAME: "execute_tool", TOOL_TYPE: "function"},
        attributes={"name": TOOL_NAME, "call_id": TOOL_CALL_ID},
    ),
    "collection": Shape(name="jaato.gc", prefix="jaato.gc."),
    "subagent": Shape(
        name="invoke_agent",
        subjects=("profile",),
        fixed={OPERATION_NAME: "invoke_agent"},
        # The span is the child's: whoever spawned it is told apart.
        attributes={
            "child_id": AGENT_ID,
            "profile": AGENT_NAME,
            "agent_id": "jaato.parent.agent_id",
            "agent_name": "jaato.parent.agent_name",
        },
    ),
}


def shape_of(operation: str) -> Shape:
    """How an operation looks; one that nobody foresaw is named after itself."""
    return _SHAPES.get(operation) or Shape(name=f"jaato.{operation}")
