"""What the Anthropic SDK raises, as the errors every provider raises.

The class and the `error.type` of an error decide. Its text is read only where the two say no more
than that the request is wrong: a request that is too long is told by its text alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from jaato.exchange import (
    AuthError,
    ContextLimitError,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    ServerError,
)
from jaato.providers.retry_after import retry_after

if TYPE_CHECKING:
    from anthropic import APIStatusError

_BY_TYPE: Final[Mapping[str, type[ProviderError]]] = {
    "rate_limit_error": RateLimitError,
    "billing_error": RateLimitError,
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "request_too_large": ContextLimitError,
    "overloaded_error": ServerError,
    "api_error": ServerError,
    "timeout_error": ServerError,
    "not_found_error": RejectedError,
    "conflict_error": RejectedError,
}
_BY_STATUS: Final[Mapping[int, type[ProviderError]]] = {
    401: AuthError,
    402: RateLimitError,
    403: AuthError,
    408: NetworkError,
    413: ContextLimitError,
    429: RateLimitError,
    499: NetworkError,
}
_TOO_MANY_REQUESTS = 429
_SERVERS_FAULT = 500
_FINE = 200

_TOO_LONG = (
    re.compile(r"prompt is too long(?::\s*\d+ tokens > (?P<limit>\d+) maximum)?"),
    re.compile(r"exceed context limit(?::\s*\d+ \+ \d+ > (?P<limit>\d+))?"),
)
_HINTS: Final[Mapping[type[ProviderError], str]] = {
    AuthError: "set ANTHROPIC_API_KEY, or give the provider an api_key that may use this model",
    ContextLimitError: "collect the history, or lower max_output_tokens",
}


def typed_error(error: Exception, provider: str) -> ProviderError:
    """The error of ours that says what went wrong."""
    import anthropic  # noqa: PLC0415 -- whoever caught its error has loaded it
    import httpx2  # noqa: PLC0415 -- likewise

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, anthropic.APIStatusError):
        return _status_error(error, provider)
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
        return NetworkError(_what_broke(error), provider=provider)
    if isinstance(error, anthropic.CredentialsError) or _has_no_key(error):
        return AuthError("no key for the provider", provider=provider, hint=_HINTS[AuthError])
    return ServerError(
        f"an answer that cannot be read: {type(error).__name__}: {error}",
        provider=provider,
        hint="is base_url the address of a server that speaks the Anthropic Messages API?",
    )


def _what_broke(error: Exception) -> str:
    import anthropic  # noqa: PLC0415 -- loaded, see above

    if isinstance(error, anthropic.APITimeoutError):
        return "the provider did not answer in time"
    if isinstance(error, anthropic.APIConnectionError):
        return f"the provider could not be reached: {error.__cause__ or error}"
    # The SDK wraps what fails before the answer begins, not what fails in the middle.
    return f"the answer broke off: {error}" if str(error) else "the answer broke off"


def _status_error(error: APIStatusError, provider: str) -> ProviderError:
    # An error in the middle of a stream comes under the status of its beginning.
    status = error.status_code if error.status_code != _FINE else None
    text = error.api_message if isinstance(error.api_message, str) else error.message
    kind = _kind(status, error.type)
    limit = _limit_in(text) if kind is RejectedError else None
    if limit is not None:
        kind = ContextLimitError
    typed = kind(
        text,
        provider=provider,
        status=status,
        code=error.error_code or error.type,
        hint=_HINTS.get(kind),
    )
    if isinstance(typed, ContextLimitError):
        typed.limit = limit or None
    elif isinstance(typed, RateLimitError):
        typed.retry_after = retry_after(error.response.headers)
    return typed


def _kind(status: int | None, error_type: Any) -> type[ProviderError]:
    if status == _TOO_MANY_REQUESTS:
        return RateLimitError
    if isinstance(error_type, str) and error_type in _BY_TYPE:
        return _BY_TYPE[error_type]
    if status is None or status in _BY_STATUS:
        return _BY_STATUS.get(status or 0, RejectedError)
    return ServerError if status >= _SERVERS_FAULT else RejectedError


def _limit_in(text: str) -> int | None:
    """The window that a text says was exceeded, 0 where it does not say how large that is."""
    for pattern in _TOO_LONG:
        match = pattern.search(text)
        if match is not None:
            return int(match["limit"] or 0)
    return None


def _has_no_key(error: Exception) -> bool:
    # The SDK has no class for it: it finds out when it writes the headers.
    return isinstance(error, TypeError) and "authentication method" in str(error)
