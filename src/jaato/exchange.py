"""What goes to a model and what comes back: values that every provider speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jaato.errors import JaatoError
from jaato.history import Media, Message
from jaato.history.message import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool as the model sees it. `parameters` is a JSON schema of an object.

    `extra` carries what a foreign request said of it beyond that.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model: everything that goes over the wire, and nothing that does not."""

    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    max_output_tokens: int | None = None
    marks: tuple[int, ...] = ()
    """Positions of messages behind which the prompt is stable: where a provider takes prompt-cache
    breakpoints, best first. System and tools are stable always."""
    thinking: int | str | None = None
    """A budget in tokens or an effort by name; None leaves it to the provider."""
    options: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """Handed to the provider as they are: temperature, and whatever else it knows."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """What a foreign request held and nobody here understands; encoded back unchanged."""


class StopReason(StrEnum):
    """Why a model stopped."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"
    PAUSED = "paused"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a provider says a call took. None: it did not say.

    `input_tokens` is the whole prompt, what was read from or written to a cache included.
    `output_tokens` includes thinking.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    thinking_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """The prompt and the answer; None where the prompt was not reported."""
        if self.input_tokens is None:
            return None
        return self.input_tokens + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of a thought."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A tool call begins (`name`), or a piece of its arguments arrives."""

    index: int
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """Usage so far; a later one replaces it."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of every stream: the whole message, as it must be replayed.

    A thought that the provider needs back carries what it needs in `Part.extra`; a thought
    without `extra` is output only and is never replayed.
    """

    message: Message
    usage: Usage
    stop: StopReason


StreamEvent = TextDelta | ThoughtDelta | CallDelta | UsageSeen | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool gives back. An error goes to the model like any result."""

    result: Any = None
    is_error: bool = False
    attachments: tuple[Media, ...] = ()


class ProviderError(JaatoError):
    """A provider refused or could not be reached."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.status = status
        self.code = code


class ContextLimitError(ProviderError):
    """The request does not fit the model's window. `limit`: as far as the provider said it."""

    limit: int | None = None


class RateLimitError(ProviderError):
    """Too many requests or tokens per minute, or no quota: the request itself may be fine."""

    retry_after: float | None = None


class AuthError(ProviderError):
    """The key is missing, wrong or not allowed to do this."""


class NetworkError(ProviderError):
    """No connection, a time-out, or a stream that broke off: nothing is known of the answer."""


class ServerError(ProviderError):
    """The provider failed (5xx, overloaded)."""


class RejectedError(ProviderError):
    """The provider finds the request wrong."""
