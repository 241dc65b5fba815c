"""The Anthropic API on loopback: the rules of the real one, and the answers a test wants."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jaato.wire.anthropic_rules import RuleBreach, ThinkingPrefix, check

Json = dict[str, Any]


def about(document: Any) -> int:
    """About the tokens of JSON."""
    return len(json.dumps(document)) // 4


def text(said: str, **more: Any) -> Json:
    """A text block."""
    return {"type": "text", "text": said, **more}


def thought(said: str = "") -> Json:
    """A thinking block; it is signed when it is sent. Without a text it is redacted."""
    return {"type": "thinking", "thinking": said} if said else {"type": "redacted_thinking"}


def call(call_id: str, name: str, **arguments: Any) -> Json:
    """A call of a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the model, and what goes wrong while it is sent."""

    blocks: tuple[Json, ...]
    stop: str | None = None
    """Why the model stops; by default it follows from the blocks."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Figures besides those that the server counts, or in their place."""
    piece: int = 7
    """Characters in one delta."""
    breaks_after: int | None = None
    """The connection is lost after so many events."""
    stops_after: int | None = None
    """The stream ends in good order, but too early."""
    fails_after: int | None = None
    """An `error` event comes in place of the event of this number."""
    error: tuple[str, str] = ("overloaded_error", "Overloaded")
    garbage_after: int | None = None
    """Something that is no JSON comes in place of the event of this number."""
    endless: bool = False
    """The last text goes on until the client hangs up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that is refused over HTTP, whatever it says."""

    status: int
    type: str = "api_error"
    message: str = "Internal server error"
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None

    def response(self) -> Response:
        """What the client gets."""
        details = {} if self.code is None else {"details": {"error_code": self.code}}
        error = {"type": self.type, "message": self.message, **details}
        document = {"type": "error", "error": error, "request_id": "req_1"}
        return JSONResponse(document, self.status, dict(self.headers))


class AnthropicServer:
    """Answers requests in the order of its replies, if the API would take them at all.

    `script` answers what no reply is left for, by what the request says; `count` is the tokenizer.
    """

    def __init__(
        self,
        replies: Iterable[Reply | Refusal] = (),
        *,
        window: int | None = None,
        models: Mapping[str, int | Refusal | None] | None = None,
        script: Callable[[Json], Reply | Refusal] | None = None,
        count: Callable[[Any], int] = about,
    ) -> None:
        self.replies = deque(replies)
        self.script = script
        self._count = count
        self.window = window
        self.models = dict(models or {})
        self.signatures = ThinkingPrefix()
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.breaches: list[RuleBreach] = []
        self.asked_models: list[str] = []
        self.hung_up = threading.Event()
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/models/{model}", self._model),
            ]
        )

    async def _messages(self, request: Request) -> Response:
        raw = await request.body()
        body = json.loads(raw.decode("utf-8"))
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        breach = check(body, self.window, self._tokens_of, self.signatures)
        if breach is not None:
            self.breaches.append(breach)
            return JSONResponse({**breach.document(), "request_id": "req_1"}, breach.status)
        script = self.script
        reply = self.replies.popleft() if self.replies or script is None else script(body)
        if isinstance(reply, Refusal):
            return reply.response()
        content = self.signatures.signed(body, reply.blocks)
        events = list(_events(reply, content, body, self._tokens_of(body)))
        return (
            _Broken(self._sent(reply, events))
            if reply.breaks_after is not None
            else (StreamingResponse(self._sent(reply, events), media_type="text/event-stream"))
        )

    def _tokens_of(self, body: Mapping[str, Any]) -> int:
        prompt = [body.get(name) for name in ("system", "tools", "messages")]
        return self._count(prompt)

    async def _sent(self, reply: Reply, events: list[Json]) -> AsyncIterator[bytes]:
        try:
            for at, event in enumerate(events):
                if at in {reply.breaks_after, reply.stops_after}:
                    return
                if at == reply.fails_after:
                    kind, message = reply.error
                    error = {"type": kind, "message": message}
                    yield _sse({"type": "error", "error": error})
                    return
                if at == reply.garbage_after:
                    yield b"event: content_block_delta\ndata: {half a\n\n"
                    return
                if reply.endless and event["type"] == "content_block_stop":
                    while True:
                        delta = {"type": "text_delta", "text": "and on "}
                        index = event["index"]
                        yield _sse({"type": "content_block_delta", "index": index, "delta": delta})
                        await anyio.lowlevel.checkpoint()
                yield _sse(event)
        finally:
            if reply.endless:
                self.hung_up.set()

    async def _model(self, request: Request) -> Response:
        model = request.path_params["model"]
        self.asked_models.append(model)
        known = self.models.get(
            model, Refusal(status=404, type="not_found_error", message=f"model: {model}")
        )
        if isinstance(known, Refusal):
            return known.response()
        return JSONResponse(
            {
                "type": "model",
                "id": model,
                "display_name": model,
                "created_at": "2026-01-01T00:00:00Z",
                "lifecycle": "active",
                "max_input_tokens": known,
                "max_tokens": 64_000,
            }
        )


class _Broken(Response):
    """A response whose connection is lost before it is complete."""

    media_type = "text/event-stream"

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        # Returning now, with more announced, the server closes the connection.


def _events(reply: Reply, content: list[Json], body: Json, tokens: int) -> Iterator[Json]:
    """The events of a streamed answer, as the API sends them."""
    output = sum(len(json.dumps(block)) for block in content) // 4
    usage = {"input_tokens": tokens, "output_tokens": output, **reply.usage}
    stop = reply.stop
    if stop is None:
        calls = any(block["type"] == "tool_use" for block in content)
        stop = "tool_use" if calls else "end_turn"
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, block in enumerate(content):
        start, deltas = _streamed(block, reply.piece)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}


def _streamed(block: Json, piece: int) -> tuple[Json, list[Json]]:
    """How a block begins, and the deltas that make it whole."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": part} for part in _cut(block["text"], piece)]
            return {"type": "text", "text": "", "citations": None}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": part}
                for part in _cut(block["thinking"], piece)
            ]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
        case "tool_use" | "server_tool_use":
            written = json.dumps(block["input"]) if block["input"] else ""
            parts = ["", *_cut(written, piece)]
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def _cut(whole: str, piece: int) -> Iterator[str]:
    for at in range(0, len(whole), piece):
        yield whole[at : at + piece]


def _sse(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
