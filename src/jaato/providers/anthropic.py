"""Calls models over the Anthropic Messages API, through the vendor's SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import NetworkError, ProviderError, RejectedError, Request, StreamEvent
from jaato.providers.anthropic_errors import typed_error
from jaato.providers.payload import payload
from jaato.wire.anthropic import AnswerBuilder, encode

if TYPE_CHECKING:
    import httpx2

_PATH = "/v1/messages"
_CONNECT_SECONDS = 5.0


class AnthropicProvider:
    """Streams answers of Claude models. Retries are the SDK's, and end when an answer begins."""

    binds_thoughts: bool = True
    """The present models do, and which of them is not told; the older ones do not mind."""

    def __init__(
        self,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        http_client: httpx2.AsyncClient | None = None,
        max_retries: int = 2,
        timeout: float = 600.0,
        name: str = "anthropic",
        context_limits: Mapping[str, int] | None = None,
        betas: Sequence[str] = (),
    ) -> None:
        """`timeout`: the seconds without a word after which an answer is given up.

        Without a key the SDK looks for one in the environment, and in the profile of the vendor's
        own tools. A given `http_client` stays open: whoever made it closes it.
        """
        try:
            import anthropic  # noqa: PLC0415 -- takes a second to load; only who calls it pays
        except ImportError as error:
            raise MissingExtraError("anthropic", extra="anthropic") from error
        if api_key is not None and auth_token is not None:
            raise UsageError(
                "both api_key and auth_token are given", hint="a request carries one of them"
            )
        self.name = name
        self._context_limits: dict[str, int | None] = dict(context_limits or {})
        self._asking = asyncio.Lock()
        self._owns_connections = http_client is None
        self._plain_json: type[anthropic.AsyncStream[object]] = anthropic.AsyncStream[object]
        self._headers = {"anthropic-beta": ",".join(betas)} if betas else {}
        try:
            self._client = anthropic.AsyncAnthropic(
                api_key=api_key,
                auth_token=auth_token,
                base_url=base_url,
                http_client=http_client,
                max_retries=max_retries,
                timeout=anthropic.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            )
        except anthropic.AnthropicError as error:
            raise typed_error(error, name) from error

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer as it comes; the last event is `Finished`. Raises `ProviderError` only."""
        answer, body = AnswerBuilder(), payload({**encode(request), "stream": True})
        try:
            events = await self._client.post(
                _PATH,
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
                    if isinstance(event, Mapping):
                        for seen in answer.feed(event):
                            yield seen
            finally:
                await events.close()
        except Exception as error:
            # What breaks behind the end of the answer breaks nothing.
            if not answer.is_finished:
                raise typed_error(error, self.name) from error
        if not answer.is_finished:
            raise NetworkError("the answer broke off: it has no end", provider=self.name)

    async def context_limit(self, model: str) -> int | None:
        """The window of a model: as given, else as the Models API says, asked once per model."""
        async with self._asking:
            if model not in self._context_limits:
                try:
                    self._context_limits[model] = await self._asked_limit(model)
                except RejectedError:
                    self._context_limits[model] = None
                except ProviderError:
                    return None  # Not known now; the next one to ask may be luckier.
            return self._context_limits[model]

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._owns_connections:
            await self._client.close()

    async def _asked_limit(self, model: str) -> int | None:
        try:
            info = await self._client.models.retrieve(model, extra_headers=self._headers)
        except Exception as error:
            raise typed_error(error, self.name) from error
        limit: Any = info.max_input_tokens
        return limit if isinstance(limit, int) else None
