"""Talks of the OpenAI provider with a server on loopback, for the tests of both of its APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.providers.provider_contract import collected
from tests.servers.openai_app import OpenAIServer, Reply, text

from jaato.exchange import ProviderError, Request, StreamEvent, ToolSchema
from jaato.history import Message, Part, Role, ToolResult
from jaato.providers.openai import OpenAIProvider

TOOLS: Final = (
    ToolSchema(
        name="read",
        description="Reads a file.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    ),
)
HELLO: Final = Reply(parts=(text("Hello, world."),))
MODEL: Final = "gpt-test"


class Stage:
    """One listening socket for all tests of a file: to open and close one takes its time."""

    url: str
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


STAGE: Final = Stage()


def asking(*messages: Message | str, **more: Any) -> Request:
    """A request of these messages; strings are the user's."""
    told = [Message.from_text("user", one) if isinstance(one, str) else one for one in messages]
    said = tuple(told or [Message.from_text("user", "Hi")])
    return Request(**{"model": MODEL, "messages": said, **more})


def results_of(message: Message, result: Any = "fine") -> Message:
    """What the tools answer to all calls of a message."""
    return Message(
        Role.TOOL,
        [
            Part(function_response=ToolResult(one.id, one.name, result))
            for one in message.function_calls
        ],
    )


def talked(
    server: OpenAIServer, talk: Callable[[OpenAIProvider], Awaitable[Any]], **settings: Any
) -> Any:
    """What comes of a talk with a server."""

    async def run() -> Any:
        chosen: dict[str, Any] = {
            "api_key": "k",
            "base_url": f"{STAGE.url}/v1",
            "max_retries": 0,
        }
        provider = OpenAIProvider(**chosen | settings)
        try:
            return await talk(provider)
        finally:
            await provider.aclose()

    STAGE.app = server.app
    return asyncio.run(run())


def answer_of(server: OpenAIServer, request: Request, **settings: Any) -> list[StreamEvent]:
    """Every event of the only answer of a server."""
    events: list[StreamEvent] = talked(server, lambda p: collected(p, request), **settings)
    return events


def refused(server: OpenAIServer, request: Request | None = None, **settings: Any) -> Any:
    """The error that a request ends with."""
    with pytest.raises(ProviderError) as caught:
        answer_of(server, request or asking(), **settings)
    return caught.value
