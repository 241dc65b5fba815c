"""Gemini through the google-genai SDK: on the Gemini API with a key, on Vertex AI in a project."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import NetworkError, ProviderError, Request, ServerError, StreamEvent
from jaato.providers.google_errors import provider_error, unusable
from jaato.wire.google import AnswerBuilder, encode, sendable
from jaato.wire.google_rules import signed

if TYPE_CHECKING:
    import httpx2
    from google.auth.credentials import Credentials
    from google.genai import types

_SECONDS: Final = {"connect": 30.0, "read": 600.0, "write": 600.0, "pool": 600.0}
"""How long to wait for each where the caller set no time-out; the SDK waits for ever.

Not as a time-out of the SDK: that one goes to the server too, as a limit for the whole answer.
"""
_CLIENTS: Final = ("httpx_async_client", "async_client_args", "aiohttp_client")
_REPLACED: Final = "."
_OPENED: ContextVar[list[httpx2.Response] | None] = ContextVar("_OPENED", default=None)
"""Where the responses of the present request are noted."""


class GoogleProvider:
    """Calls Gemini. `project` or `location` mean Vertex AI, whose credentials may be the default.

    `http_options` are those of the SDK (`headers`, `timeout` in milliseconds, `api_version`,
    `retry_options`, `httpx_async_client` and so on).

    An answer that the API cuts to go on with it later (`CONTINUATION`) is one answer here: the SDK
    asks for the rest.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        project: str | None = None,
        location: str | None = None,
        vertexai: bool | None = None,
        base_url: str | None = None,
        credentials: Credentials | None = None,
        http_options: Mapping[str, Any] | None = None,
        name: str = "google",
        context_limits: Mapping[str, int] | None = None,
        max_retries: int = 2,
    ) -> None:
        try:
            import httpx2  # noqa: PLC0415 -- what the SDK stands on
            from google import genai  # noqa: PLC0415 -- takes a second to load
            from google.genai import types  # noqa: PLC0415 -- likewise
        except ImportError as error:
            raise MissingExtraError("google-genai", extra="google") from error
        self._name = name
        self._types = types
        self._limits: dict[str, int | None] = {
            _bare(model): limit for model, limit in (context_limits or {}).items()
        }
        self._asking = asyncio.Lock()
        options = dict(http_options or {})
        self._beside_body: Mapping[str, Any] = options.pop("extra_body", None) or {}
        retry = {"attempts": max_retries + 1, **(options.pop("retry_options", None) or {})}
        if base_url is not None:
            options["base_url"] = base_url
        self._http: httpx2.AsyncClient | None = None
        if not any(options.get(client) for client in _CLIENTS):
            # The SDK's choice depends on what else is installed, and so would errors, time-outs.
            self._http = options["httpx_async_client"] = httpx2.AsyncClient(
                follow_redirects=True, event_hooks={"request": [_wait_no_longer]}
            )
        client = options.get("httpx_async_client")
        if isinstance(client, httpx2.AsyncClient):
            hooks = client.event_hooks
            client.event_hooks = {**hooks, "response": [*hooks["response"], _note]}
        try:
            http = types.HttpOptions(retry_options=types.HttpRetryOptions(**retry), **options)
        except ValueError as error:
            raise UsageError(
                f"`http_options` cannot be used: {error}",
                hint="they are those of google.genai.types.HttpOptions",
            ) from error
        in_project = bool(project or location)
        try:
            self._client = genai.Client(
                vertexai=True if vertexai is None and in_project else vertexai,
                api_key=api_key,
                credentials=credentials,
                project=project,
                location=location,
                http_options=http,
            )
        except Exception as error:
            raise unusable(error, name) from error

    @property
    def name(self) -> str:
        """The name it is wired under."""
        return self._name

    @property
    def binds_thoughts(self) -> bool:
        """No: a signature must be there, and what stands in front of it may change."""
        return False

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer as it comes."""
        answer = AnswerBuilder()
        async with aclosing(self._events(request, answer)) as batches:
            async for events in batches:
                for event in events:
                    yield event
        if not answer.is_complete:
            raise NetworkError(
                "the answer of Google broke off", provider=self._name, hint="send it again"
            )
        yield answer.finished()

    async def context_limit(self, model: str) -> int | None:
        """The longest prompt of a model: as configured, else as the API says, asked once."""
        bare = _bare(model)
        async with self._asking:
            if bare not in self._limits:
                try:
                    found = await self._client.aio.models.get(model=model)
                except Exception as error:  # noqa: BLE001 -- then the limit is not known
                    if isinstance(self._failure(error), (NetworkError, ServerError)):
                        return None
                    self._limits[bare] = None
                else:
                    self._limits[bare] = found.input_token_limit
            return self._limits[bare]

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._client.aio.aclose()
        self._client.close()
        if self._http is not None:
            await self._http.aclose()

    async def _events(
        self, request: Request, answer: AnswerBuilder
    ) -> AsyncGenerator[list[StreamEvent]]:
        """What each chunk of the answer brings; raises `ProviderError` only."""
        opened: list[httpx2.Response] = []
        try:
            with _noting(opened):
                stream = await self._asked(request)
            async with aclosing(cast("AsyncGenerator[Any]", stream)) as chunks:
                while True:
                    with _noting(opened):
                        # Where it goes on with a cut answer, this is another request.
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    yield list(answer.feed(_as_json(chunk)))
        except Exception as error:
            raise self._failure(error) from error
        finally:
            # The SDK leaves the connection of a stream that was left to the garbage collector.
            for response in opened:
                await response.aclose()

    async def _asked(self, request: Request) -> Any:
        body = sendable(signed(encode(request), request.model))
        http_options = self._types.HttpOptions(extra_body={**self._beside_body, **body})
        # A dict, because of a config the SDK makes a deep copy, history and all.
        config = cast(
            "types.GenerateContentConfigDict",
            {"http_options": http_options, "automatic_function_calling": {"disable": True}},
        )
        return await self._client.aio.models.generate_content_stream(
            model=request.model,
            # The SDK wants contents, and lays our body over what it makes of them: types of
            # its own would lose fields they do not know, and write some in another spelling.
            contents=_REPLACED,
            config=config,
        )

    def _failure(self, error: Exception) -> ProviderError:
        vertexai = bool(self._client.vertexai)
        return provider_error(error, provider=self._name, vertexai=vertexai)


@contextmanager
def _noting(opened: list[httpx2.Response]) -> Iterator[None]:
    token = _OPENED.set(opened)
    try:
        yield
    finally:
        _OPENED.reset(token)


async def _note(response: httpx2.Response) -> None:
    opened = _OPENED.get()
    if opened is not None:
        opened.append(response)


async def _wait_no_longer(request: httpx2.Request) -> None:
    given = request.extensions.get("timeout") or {}
    waits = {what: given.get(what) or seconds for what, seconds in _SECONDS.items()}
    request.extensions = {**request.extensions, "timeout": waits}


def _as_json(chunk: types.GenerateContentResponse) -> dict[str, Any]:
    """A chunk as it came over the wire, as far as the SDK knows its fields."""
    wire: dict[str, Any] = _plain(
        chunk.model_dump(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
    )
    if chunk.usage_metadata is not None and "usageMetadata" in wire:
        # Where the SDK went on with a cut answer, it adds up the prompts of all requests; what
        # fills the window is that of the first.
        first = chunk.usage_metadata.initial_prompt_token_count
        wire["usageMetadata"]["promptTokenCount"] = first
    return wire


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _bare(model: str) -> str:
    """The name of a model without the path to it."""
    return model.rsplit("/", 1)[-1]
