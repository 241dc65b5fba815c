"""What the OpenAI SDK raises, and what a stream says of its failure, as errors of ours.

The status and the code of an error decide. Its text is read only where the two say no more than
that something is wrong: compatible servers tell a context that is too long by text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
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
from jaato.wire.foreign import whole_number

if TYPE_CHECKING:
    from openai import APIError

_BY_NAME: Final[Mapping[str, type[ProviderError]]] = {
    "context_length_exceeded": ContextLimitError,
    "exceed_context_size_error": ContextLimitError,  # llama.cpp
    "model_max_prompt_tokens_exceeded": ContextLimitError,  # GitHub
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "insufficient_quota": RateLimitError,
    "billing_hard_limit_reached": RateLimitError,
    "billing_not_active": RateLimitError,
    "invalid_api_key": AuthError,
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "model_not_found": RejectedError,
    "invalid_prompt": RejectedError,
    "invalid_request_error": RejectedError,
    "server_error": ServerError,
    "overloaded_error": ServerError,
    "engine_overloaded": ServerError,
    "vector_store_timeout": ServerError,
}
"""Codes, and the types of errors, of which OpenAI has fewer. A status says more than the type
`invalid_request_error`, which a wrong key has too."""
_BY_STATUS: Final[Mapping[int, type[ProviderError]]] = {
    401: AuthError,
    402: RateLimitError,
    403: AuthError,
    408: NetworkError,
    413: ContextLimitError,
    499: NetworkError,
}
_VAGUE: Final = frozenset({400, 413, 422, 500, None})
"""What a server may answer to whatever it does not like."""

_N = r"(?P<limit>\d[\d,]*)"
_TOO_LONG: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # vLLM, SGLang, OpenRouter, DeepSeek, xAI, Fireworks.
        rf"max(?:imum)? (?:context|model|prompt) length(?: is| of|:)? {_N}",
        # Mistral.
        rf"{_N} maximum context length",
        # llama_cpp.server; llama.cpp; OpenAI's own words.
        rf"exceeds? (?:the )?(?:available )?context (?:window|size|length)(?: of)?(?: \(?{_N})?",
        # SGLang; LM Studio; Text Generation Inference.
        rf"longer than the model's context length \(?{_N}",
        rf"loaded with context length of only {_N}",
        rf"`inputs`.* must (?:be <=|have less than) {_N}",
        # Gemini, Anthropic, Kimi and others behind a gateway of this form.
        rf"exceeds the maximum number of tokens allowed(?: \({_N}\))?",
        rf"prompt is too long(?:: \d+ tokens > {_N})?",
        rf"exceeded model token limit(?:: {_N})?",
        # Where a server does not say how long is too long.
        r"maximum context length",
        r"context size has been exceeded",
        r"(?:greater|longer) than the (?:model's )?context length",
        r"input is too long for requested model",
    )
)
_TOO_FAST: Final = re.compile(
    r"rate.?limit|per (?:second|minute|hour|day)\b|too many requests|\bquota\b", re.IGNORECASE
)
_TRY_AGAIN: Final = re.compile(r"try again in (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?")
_LONGEST_TEXT: Final = 1_000
KEY_HINT: Final = "set OPENAI_API_KEY, or give the provider an api_key that may use this model"
_HINTS: Final[Mapping[type[ProviderError], str]] = {
    AuthError: KEY_HINT,
    ContextLimitError: "collect the history, or lower max_output_tokens",
}
_NO_QUOTA: Final = "there is no credit or quota left: see the plan and billing of the account"


def typed_error(error: Exception, provider: str) -> ProviderError:
    """The error of ours that says what went wrong."""
    import httpx2  # noqa: PLC0415 -- whoever caught an error of the SDK has loaded it
    import openai  # noqa: PLC0415 -- likewise

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
        return NetworkError(_what_broke(error), provider=provider)
    if isinstance(error, openai.APIError):
        return _told(error, provider)
    return ServerError(
        f"an answer that cannot be read: {type(error).__name__}: {error}",
        provider=provider,
        hint="is base_url the address of a server that speaks the API of OpenAI?",
    )


def failure(told: Mapping[str, Any], provider: str) -> ProviderError:
    """The error of ours for what a stream says of its own failure."""
    return _typed(told, "", provider, None, {})


def _told(error: APIError, provider: str) -> ProviderError:
    response = getattr(error, "response", None)
    if response is None:
        # In the middle of a stream, which began as if all were well.
        return _typed(error.body, error.message, provider, None, {})
    return _typed(error.body, error.message, provider, response.status_code, response.headers)


def _typed(
    body: object, said: str, provider: str, status: int | None, headers: Mapping[str, str]
) -> ProviderError:
    told: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    text = _text(body, said)
    names = [name for key in ("code", "type") if isinstance(name := told.get(key), str) and name]
    status = _status_in(told.get("code")) if status is None else status
    kind = _kind(status, names, "\n".join([text, *_behind(told)]))
    code = next((name for name in names if name != "error" and not name.isdigit()), None)
    typed = kind(text, provider=provider, status=status, code=code, hint=_HINTS.get(kind))
    if isinstance(typed, ContextLimitError):
        typed.limit = whole_number(told.get("n_ctx")) or _limit_in([text, *_behind(told)])
    elif isinstance(typed, RateLimitError):
        waits = retry_after(headers)
        typed.retry_after = _wait_in(text) if waits is None else waits
        if "insufficient_quota" in names:
            typed.hint = _NO_QUOTA
    return typed


def _kind(status: int | None, names: list[str], text: str) -> type[ProviderError]:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimitError
    named = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if named not in {None, RejectedError, ServerError}:
        assert named is not None, "None is excluded above"
        return named
    kind = _by_status(status, named)
    if status in _VAGUE:
        # A limit per minute is told in tokens too, and collecting does not help against it.
        if _TOO_FAST.search(text):
            return RateLimitError
        if any(pattern.search(text) for pattern in _TOO_LONG):
            return ContextLimitError
    return kind


def _by_status(status: int | None, named: type[ProviderError] | None) -> type[ProviderError]:
    if status is None:
        # The request was taken; what is wrong with the answer is the server's fault.
        return named or ServerError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else RejectedError


def _text(body: object, said: str) -> str:
    """What the server says, without the SDK's words around it."""
    told = body.get("message") or body.get("detail") if isinstance(body, Mapping) else body
    text = told if isinstance(told, str) and told.strip() else said
    return text.strip()[:_LONGEST_TEXT] or "the provider says that the request failed"


def _behind(told: Mapping[str, Any]) -> Iterator[str]:
    """What the server behind a gateway said, where the gateway passes it on (OpenRouter)."""
    metadata = told.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if isinstance(raw, str):
        yield raw


def _limit_in(texts: list[str]) -> int | None:
    """The window that a text says was exceeded; None where it does not say how large that is."""
    for text in texts:
        for pattern in _TOO_LONG:
            match = pattern.search(text)
            limit = match.groupdict().get("limit") if match is not None else None
            if limit is not None:
                return int(limit.replace(",", ""))
    return None


def _wait_in(text: str) -> float | None:
    """The seconds to wait that a text tells: in a stream there are no headers."""
    match = _TRY_AGAIN.search(text)
    if match is None or not (match[1] or match[2]):
        return None
    seconds = float(match[2] or 0) / (1000 if match[3] == "ms" else 1)
    return 60.0 * float(match[1] or 0) + seconds


def _status_in(code: object) -> int | None:
    """The HTTP status that compatible servers put in place of a code."""
    number = int(code) if isinstance(code, str) and code.isdecimal() else whole_number(code)
    is_error = number is not None and number in range(400, 600)
    return number if is_error else None


def _what_broke(error: Exception) -> str:
    import httpx2  # noqa: PLC0415 -- loaded, see above
    import openai  # noqa: PLC0415 -- likewise

    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
    if isinstance(error, openai.APITimeoutError) or isinstance(cause, httpx2.TimeoutException):
        return "the provider did not answer in time"
    unreachable = (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol)
    if isinstance(cause, unreachable):
        return f"the provider could not be reached: {cause}"
    return f"the answer broke off: {cause or error}"
