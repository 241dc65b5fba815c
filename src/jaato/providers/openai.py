"""Calls models over OpenAI's Responses and Chat Completions, through the vendor's SDK.

Chat Completions is what most other vendors and local servers speak too: they are called with their
`base_url`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import (
    AuthError,
    ContextLimitError,
    NetworkError,
    ProviderError,
    RejectedError,
    Request,
    StreamEvent,
)
from jaato.providers.openai_errors import KEY_HINT, failure, typed_error
from jaato.providers.openai_windows import window_of
from jaato.providers.payload import payload
from jaato.wire import openai_chat, openai_responses
from jaato.wire.openai_chat import ChatAnswer
from jaato.wire.openai_responses import ResponsesAnswer, error_in

if TYPE_CHECKING:
    import httpx2

Api = Literal["chat", "responses"]

_PATHS: Final[Mapping[str, str]] = {"chat": "/chat/completions", "responses": "/responses"}
_VENDOR: Final = "https://api.openai.com/v1"
_CONNECT_SECONDS: Final = 5.0
_ASKING_SECONDS: Final = 15.0


class OpenAIProvider:
    """Streams answers of OpenAI's models, and of whatever server speaks one of its two APIs.

    Retries are the SDK's, and end when an answer begins.
    """

    binds_thoughts: bool = False
    """A reasoning item stands for itself, whatever became of what stood before it."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        http_client: httpx2.AsyncClient | None = None,
        max_retries: int = 2,
        timeout: float = 600.0,
        name: str = "openai",
        context_limits: Mapping[str, int] | None = None,
        organization: str | None = None,
        project: str | None = None,
        api: Api | None = None,
        *,
        replay_thoughts: bool = False,
    ) -> None:
        """`api`: Responses at the vendor, Chat Completions elsewhere, unless said.

        `timeout`: the seconds without a word after which an answer is given up.
        `replay_thoughts`: some servers (DeepSeek, Kimi) refuse a step without the thoughts that
        led to it; OpenAI shows none over Chat Completions.

        Without a key, an organization or an address the SDK looks for them in the environment; a
        server that is not the vendor's may need no key. A given `http_client` stays open: whoever
        made it closes it.
        """
        try:
            import openai  # noqa: PLC0415 -- takes a second to load; only who calls it pays
        except ImportError as error:
            raise MissingExtraError("openai", extra="openai") from error
        if api not in {None, *_PATHS}:
            raise UsageError(f"{api!r:.80} is no API", hint=f"one of {', '.join(_PATHS)}")
        self.name = name
        address = base_url or os.environ.get("OPENAI_BASE_URL") or _VENDOR
        self._is_vendor = _is_vendor(address)
        self._api: Api = api or ("responses" if self._is_vendor else "chat")
        self._replay_thoughts = replay_thoughts
        self._context_limits: dict[str, int | None] = dict(context_limits or {})
        self._asking = asyncio.Lock()
        self._owns_connections = http_client is None
        self._plain_json: type[openai.AsyncStream[object]] = openai.AsyncStream[object]
        self._headers: dict[str, str | openai.Omit] = {}
        key = api_key or os.environ.get("OPENAI_API_KEY")
        if not key and self._is_vendor:
            # The SDK would go on with a key for administration, which calls no models.
            raise AuthError("no key for the provider", provider=name, hint=KEY_HINT)
        if not key:
            # The SDK wants a key; a server at home wants none.
            key, self._headers = "none", {"Authorization": openai.omit}
        self._client = openai.AsyncOpenAI(
            api_key=key,
            base_url=address,
            http_client=http_client,
            max_retries=max_retries,
            timeout=openai.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            organization=organization,
            project=project,
        )

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer as it comes; the last event is `Finished`. Raises `ProviderError` only."""
        answer, document = self._answer(), self._body(request)
        body, is_silent = payload(document), True
        try:
            events = await self._client.post(
                _PATHS[self._api],
                # As bytes, since the SDK would stumble over lone surrogates; and plain JSON comes
                # back, since its models take time and are older than what a server may send.
                content=body,
                cast_to=object,
                options={"headers": self._headers},
                stream=True,
                stream_cls=self._plain_json,
            )
            try:
                async for event in events:
                    is_silent = False
                    if isinstance(event, Mapping):
                        self._check(event)
                        for seen in answer.feed(event):
                            yield seen
            finally:
                await events.close()
        except Exception as error:
            # What breaks behind the end of the answer breaks nothing.
            if not answer.complete:
                raise typed_error(error, self.name) from error
        if not answer.complete:
            if is_silent:
                await self._ask_why(document)
            raise NetworkError("the answer broke off: it has no end", provider=self.name)
        try:
            finished = answer.finished()
        except Exception as error:
            raise typed_error(error, self.name) from error
        yield finished

    async def context_limit(self, model: str) -> int | None:
        """The window of a model: as given, else as the server tells it, asked once per model.

        OpenAI itself does not tell.
        """
        async with self._asking:
            if model not in self._context_limits:
                try:
                    limit = None if self._is_vendor else await self._asked_limit(model)
                except ProviderError:
                    return None  # Not known now; the next one to ask may be luckier.
                self._context_limits[model] = limit
            return self._context_limits[model]

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._owns_connections:
            await self._client.close()

    def _answer(self) -> ChatAnswer | ResponsesAnswer:
        if self._api == "responses":
            return ResponsesAnswer()
        return ChatAnswer(replay_thoughts=self._replay_thoughts)

    def _body(self, request: Request) -> dict[str, Any]:
        if self._api == "responses":
            return {**openai_responses.encode(request), "stream": True}
        # The newer name is OpenAI's own; all others know the older one, and some only that.
        field = "max_completion_tokens" if self._is_vendor else "max_tokens"
        body = {**openai_chat.encode(request, limit_field=field), "stream": True}
        asked = body.pop("stream_options", {})
        # Null, for a server that refuses the field.
        if asked is None:
            return body
        return {**body, "stream_options": {**asked, "include_usage": True}}

    async def _ask_why(self, document: Mapping[str, Any]) -> None:
        """Raise `ContextLimitError` where that is why nothing came.

        llama_cpp.server finds out too late that a prompt does not fit: it has begun to stream, and
        hangs up without a word. Where nothing is streamed it says so.
        """
        if self._is_vendor or self._api != "chat":
            return
        least = {**document, "stream": False, "max_tokens": 1}
        least.pop("stream_options", None)
        try:
            await self._client.post(
                _PATHS[self._api],
                content=payload(least),
                cast_to=object,
                options={"headers": self._headers},
            )
        except Exception as error:
            typed = typed_error(error, self.name)
            if isinstance(typed, ContextLimitError):
                raise typed from error

    def _check(self, event: Mapping[str, Any]) -> None:
        told = error_in(event)
        if told is not None:
            raise failure(told, self.name)

    async def _asked_limit(self, model: str) -> int | None:
        root = str(self._client.base_url).removesuffix("/").removesuffix("/v1")
        return await window_of(model, self._fetch, root)

    async def _fetch(self, path: str) -> object:
        try:
            return await self._client.get(
                path,
                cast_to=object,
                options={"headers": self._headers, "timeout": _ASKING_SECONDS},
            )
        except Exception as error:
            typed = typed_error(error, self.name)
            if isinstance(typed, RejectedError):
                return None
            raise typed from error


def _is_vendor(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")
