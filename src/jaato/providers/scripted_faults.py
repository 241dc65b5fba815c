"""What can go wrong on the way to a model, and what each API says of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from jaato.exchange import AuthError, NetworkError, ProviderError, RateLimitError, ServerError


class FaultKind(StrEnum):
    """The ways to fail."""

    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    NETWORK = "network"
    CONTEXT_LIMIT = "context_limit"
    AUTH = "auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure after so many events, or just before the end of a shorter stream.

    `NETWORK` after no event is a connection that cannot be made; after some, one that breaks off.
    `CONTEXT_LIMIT` comes whatever the size: the model's window is smaller than anybody knew. With
    a `window` that is the window, and the model counts more tokens than it takes.
    """

    kind: FaultKind
    after_events: int = 0
    retry_after: float | None = None
    window: int | None = None


_Failure = TypeVar("_Failure", bound=ProviderError)
_Said = tuple[str, int, str]
"""The message, the HTTP status and the code."""

_RATE_LIMIT: Final[dict[str | None, _Said]] = {
    "openai": (
        "Rate limit reached on tokens per min (TPM). Please try again in 2.886s.",
        429,
        "rate_limit_exceeded",
    ),
    "anthropic": (
        "This request would exceed your organization's rate limit of input tokens per minute.",
        429,
        "rate_limit_error",
    ),
    "google": (
        "You exceeded your current quota, please check your plan and billing details.",
        429,
        "RESOURCE_EXHAUSTED",
    ),
    None: ("too many tokens per minute", 429, "rate_limit"),
}
_SERVER: Final[dict[str | None, _Said]] = {
    "openai": (
        "The server had an error while processing your request. Sorry about that!",
        500,
        "server_error",
    ),
    "anthropic": ("Overloaded", 529, "overloaded_error"),
    "google": ("The model is overloaded. Please try again later.", 503, "UNAVAILABLE"),
    None: ("the server failed", 500, "server_error"),
}
_AUTH: Final[dict[str | None, _Said]] = {
    "openai": (
        "Incorrect API key provided: sk-demo.",
        401,
        "invalid_api_key",
    ),
    "anthropic": ("invalid x-api-key", 401, "authentication_error"),
    "google": ("API key not valid. Please pass a valid API key.", 400, "INVALID_ARGUMENT"),
    None: ("no such key", 401, "auth"),
}


def failure(fault: Fault, rules: str | None, provider: str) -> ProviderError:
    """The error that a fault becomes; that of a context limit depends on the request."""
    match fault.kind:
        case FaultKind.RATE_LIMIT:
            limited = _said(RateLimitError, _RATE_LIMIT[rules], provider)
            limited.retry_after = fault.retry_after
            return limited
        case FaultKind.SERVER:
            return _said(ServerError, _SERVER[rules], provider)
        case FaultKind.AUTH:
            return _said(AuthError, _AUTH[rules], provider)
        case _:
            broken = "the connection was closed before the answer was complete"
            message = broken if fault.after_events else "could not connect"
            return NetworkError(message, provider=provider)


def _said(kind: type[_Failure], said: _Said, provider: str) -> _Failure:
    message, status, code = said
    return kind(message, provider=provider, status=status, code=code)
