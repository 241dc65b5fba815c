"""What goes wrong at Google, as errors of ours: by the SDK's class and status first, text last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from jaato.exchange import (
    AuthError,
    ContextLimitError,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    ServerError,
)

_KEY_HINT: Final = (
    "check the API key (`api_key`, GEMINI_API_KEY or GOOGLE_API_KEY) and what it is allowed to do"
)
_VERTEX_HINT: Final = (
    "on Vertex AI: run `gcloud auth application-default login`, and check that the account may use "
    "`aiplatform` in this project and location"
)
_TOO_LONG: Final = (
    re.compile(r"input token count.*?exceeds the maximum number of tokens allowed\D*(\d+)?"),
    re.compile(r"input token count.*?model only supports up to (\d+)"),
)
_RETRY_IN = re.compile(r"retry in ([\d.]+)\s*s", re.IGNORECASE)
_SECONDS = re.compile(r"([\d.]+)s")
_CANCELLED: Final = 499
_BAD_KEY: Final = frozenset({"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "ACCESS_TOKEN_EXPIRED"})


def unusable(error: Exception, provider: str) -> AuthError:
    """No client can be made: a key or credentials are missing, or contradict each other."""
    return AuthError(
        f"Google cannot be called: {_line(str(error))}",
        provider=provider,
        hint="pass `api_key`, set GEMINI_API_KEY, or give `project` and `location` for Vertex AI",
    )


def provider_error(error: Exception, *, provider: str, vertexai: bool) -> ProviderError:
    """The error of ours for one that the SDK, or what it stands on, raised."""
    import google.auth.exceptions as auth  # noqa: PLC0415 -- loaded with the SDK, never before it
    import httpx2  # noqa: PLC0415 -- likewise
    from google.genai import errors  # noqa: PLC0415 -- likewise

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, errors.APIError):
        return _api_error(error, provider, _VERTEX_HINT if vertexai else _KEY_HINT)
    said = _line(str(error)) or type(error).__name__
    if isinstance(error, (httpx2.HTTPError, auth.TransportError, errors.UnknownApiResponseError)):
        if isinstance(error, httpx2.TimeoutException):
            fact = "Google did not answer in time"
        elif isinstance(error, errors.UnknownApiResponseError):
            # Half a chunk is what is left of a stream that broke off.
            fact = "the answer of Google broke off"
        else:
            fact = f"the connection to Google failed: {said}"
        return NetworkError(fact, provider=provider)
    if isinstance(error, auth.DefaultCredentialsError):
        return unusable(error, provider)
    if isinstance(error, auth.GoogleAuthError):
        fact = f"Google did not take the credentials: {said}"
        return AuthError(fact, provider=provider, hint=_VERTEX_HINT)
    return ProviderError(
        f"calling Google failed: {type(error).__name__}: {said}", provider=provider
    )


def _api_error(error: Any, provider: str, auth_hint: str) -> ProviderError:
    code = error.code if isinstance(error.code, int) else 0
    status = error.status if isinstance(error.status, str) else None
    text = _line(error.message or str(error))
    kind, hint = _kind(code, status, _reasons(error), text)
    made = kind(
        f"Google: {code} {status or 'unnamed'}: {text}",
        provider=provider,
        status=code or None,
        code=status,
        hint=auth_hint if kind is AuthError else hint,
    )
    if isinstance(made, RateLimitError):
        made.retry_after = _retry_after(error)
    elif isinstance(made, ContextLimitError):
        found = _too_long(text)
        made.limit = int(found[1]) if found is not None and found[1] else None
    return made


def _kind(
    code: int, status: str | None, reasons: frozenset[str], text: str
) -> tuple[type[ProviderError], str | None]:
    # A quota is told in tokens and limits too, so what the text says comes after all of these.
    if code == HTTPStatus.TOO_MANY_REQUESTS or status == "RESOURCE_EXHAUSTED":
        return RateLimitError, "wait, or ask for more quota"
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) or reasons & _BAD_KEY:
        return AuthError, None
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerError, None
    if code in (HTTPStatus.REQUEST_TIMEOUT, _CANCELLED):
        return NetworkError, None
    if code == HTTPStatus.BAD_REQUEST and _too_long(text) is not None:
        return ContextLimitError, None
    wrong_name = code == HTTPStatus.NOT_FOUND
    return RejectedError, "is the name of the model right?" if wrong_name else None


def _too_long(text: str) -> re.Match[str] | None:
    return next((found for one in _TOO_LONG if (found := one.search(text))), None)


def _retry_after(error: Any) -> float | None:
    """Seconds to wait: as the details say, else the header, else the text."""
    headers = getattr(error.response, "headers", None) or {}
    said = [str(one.get("retryDelay")) for one in _details(error)]
    said += [f"{headers.get('retry-after')}s"]
    for text in said:
        found = _SECONDS.fullmatch(text)
        if found is not None:
            return float(found[1])
    told = _RETRY_IN.search(error.message or "")
    return float(told[1]) if told is not None else None


def _reasons(error: Any) -> frozenset[str]:
    return frozenset(str(one.get("reason")) for one in _details(error))


def _details(error: Any) -> Iterator[Mapping[str, Any]]:
    body = error.details
    inner = body.get("error", body) if isinstance(body, Mapping) else {}
    details = inner.get("details") if isinstance(inner, Mapping) else None
    for one in details if isinstance(details, list) else ():
        if isinstance(one, Mapping):
            yield one


def _line(text: str) -> str:
    return " ".join(text.split())
