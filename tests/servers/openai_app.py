"""OpenAI on loopback: both APIs with their rules, and the answers a test wants."""

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
from tests.servers.openai_streams import chat_chunks, response_events

from jaato.wire.openai_rules import RuleBreach, check_chat, check_responses

Json = dict[str, Any]


def text(said: str) -> Json:
    """A piece of the answer."""
    return {"type": "text", "text": said}


def thought(said: str) -> Json:
    """What a model thinks; over Responses it is encrypted when that is asked for."""
    return {"type": "thought", "text": said}


def refusal(said: str) -> Json:
    """Why the model does not answer."""
    return {"type": "refusal", "text": said}


def call(call_id: str, name: str, arguments: str = "{}") -> Json:
    """A call of a tool, its arguments as the model writes them."""
    return {"type": "call", "id": call_id, "name": name, "arguments": arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the model, and what goes wrong while it is sent."""

    parts: tuple[Json, ...]
    """What `text` and its like make; over Responses also items as they are."""
    stop: str | None = None
    """Why the model stops, in the words of the API; by default it follows from the parts."""
    usage: Mapping[str, Any] | None = field(default_factory=dict)
    """Figures besides those that the server counts, or in their place. None: it tells none."""
    piece: int = 7
    """Characters in one delta."""
    breaks_after: int | None = None
    """The connection is lost after so many events."""
    stops_after: int | None = None
    """The stream ends in good order, but too early."""
    fails_after: int | None = None
    """`error` comes in place of the event of this number."""
    error: Any = None
    garbage_after: int | None = None
    """Something that is no JSON comes in place of the event of this number."""
    endless: bool = False
    """The text goes on until the client hangs up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that is refused over HTTP, whatever it says."""

    status: int
    message: str = "The server had an error while processing your request."
    type: str = "invalid_request_error"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """What comes in place of OpenAI's own document: an object, or a text that is no JSON."""

    def response(self) -> Response:
        """What the client gets."""
        if isinstance(self.body, str):
            return Response(self.body, self.status, dict(self.headers), media_type="text/html")
        breach = RuleBreach(message=self.message, type=self.type, code=self.code)
        document = breach.document if self.body is None else self.body
        return JSONResponse(document, self.status, dict(self.headers))


class OpenAIServer:
    """Answers requests in the order of its replies, if the API would take them at all.

    `script` answers what no reply is left for, by what the request says; `count` is the tokenizer.
    """

    def __init__(
        self,
        replies: Iterable[Reply | Refusal] = (),
        *,
        window: int | None = None,
        models: Mapping[str, Any] | None = None,
        script: Callable[[Json], Reply | Refusal] | None = None,
        count: Callable[[Iterable[str]], list[int]] | None = None,
    ) -> None:
        """`models`: by path below the root, what comes from there; anything else is not found."""
        self.replies = deque(replies)
        self.script = script
        self.counted = 0
        """The tokens of all texts in the last request."""
        self._count = count or tokens_of
        self.window = window
        self.models = dict(models or {})
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.breaches: list[RuleBreach] = []
        self.issued: set[str] = set()
        """The thoughts that were encrypted here: no others can be read."""
        self.hung_up = threading.Event()
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/{path:path}", self._told),
            ]
        )

    async def _chat(self, request: Request) -> Response:
        return await self._answered(request, check_chat, self._chat_events)

    async def _responses(self, request: Request) -> Response:
        return await self._answered(request, self._check_responses, self._response_events)

    async def _answered(
        self,
        request: Request,
        check: Callable[..., RuleBreach | None],
        events_of: Callable[[Reply, Json], list[Json]],
    ) -> Response:
        raw = (await request.body()).decode("utf-8")
        body = json.loads(raw, parse_constant=_never)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.url.path)
        assert request.headers["content-type"] == "application/json"
        self.counted = 0
        breach = _unreadable(body) or check(body, self.window, self._counted)
        if breach is not None:
            self.breaches.append(breach)
            return JSONResponse(breach.document, breach.status)
        script = self.script
        reply = self.replies.popleft() if self.replies or script is None else script(body)
        if isinstance(reply, Refusal):
            return reply.response()
        sent = self._sent(reply, events_of(reply, body))
        if reply.breaks_after is not None:
            return _Broken(sent)
        return StreamingResponse(sent, media_type="text/event-stream")

    def _counted(self, texts: Iterable[str]) -> list[int]:
        counts = self._count(texts)
        self.counted += sum(counts)
        return counts

    def _check_responses(self, body: Json, window: int | None, count: Any) -> RuleBreach | None:
        breach = check_responses(body, window, count)
        if breach is not None or isinstance(body["input"], str):
            return breach
        for item in body["input"]:
            sealed = item.get("encrypted_content")
            if sealed is not None and sealed not in self.issued:
                return RuleBreach(
                    message=f"The encrypted content for item {item.get('id')} could not be "
                    "verified. Reason: Encrypted content could not be decrypted or parsed.",
                    code="invalid_encrypted_content",
                )
        return None

    def _chat_events(self, reply: Reply, body: Json) -> list[Json]:
        usage = None
        if (body.get("stream_options") or {}).get("include_usage") and reply.usage is not None:
            counted = tokens_in(body["messages"])
            usage = {"prompt_tokens": counted, "completion_tokens": _output(reply), **reply.usage}
        return list(chat_chunks(reply.parts, reply.piece, reply.stop, usage))

    def _response_events(self, reply: Reply, body: Json) -> list[Json]:
        usage = None
        if reply.usage is not None:
            counted = tokens_in(body["input"])
            usage = {"input_tokens": counted, "output_tokens": _output(reply), **reply.usage}
        sealed = "reasoning.encrypted_content" in body.get("include", ())
        items = []
        for number, part in enumerate(reply.parts):
            name = f"{len(self.bodies)}_{number}"
            item = _item(part, name, sealed=sealed)
            if item.get("encrypted_content"):
                self.issued.add(item["encrypted_content"])
            items.append(item)
        return list(response_events(items, reply.piece, reply.stop, usage))

    async def _sent(self, reply: Reply, events: list[Json]) -> AsyncIterator[bytes]:
        try:
            for at, event in enumerate(events):
                if at in {reply.breaks_after, reply.stops_after}:
                    return
                if at == reply.fails_after:
                    yield _sse(reply.error)
                    return
                if at == reply.garbage_after:
                    yield b"data: {half a\n\n"
                    return
                yield _sse(event)
                while reply.endless and _says_something(event):
                    yield _sse(event)
                    await anyio.lowlevel.checkpoint()
            if "type" not in events[-1]:
                yield b"data: [DONE]\n\n"
        finally:
            if reply.endless:
                self.hung_up.set()

    async def _told(self, request: Request) -> Response:
        path = request.path_params["path"]
        self.paths.append(f"/{path}")
        self.headers.append(dict(request.headers))
        told = self.models.get(path, Refusal(status=404, message=f"no {path}"))
        return told.response() if isinstance(told, Refusal) else JSONResponse(told)


class _Broken(Response):
    """A response whose connection is lost before it is complete."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        # Returning now, with more announced, the server closes the connection.


def tokens_of(texts: Iterable[str]) -> list[int]:
    """About the tokens of texts."""
    return [len(one) // 4 + bool(one) for one in texts]


def tokens_in(document: Any) -> int:
    """About the tokens of JSON."""
    return len(json.dumps(document)) // 4


def _output(reply: Reply) -> int:
    return tokens_in(reply.parts)


def _item(part: Json, name: str, *, sealed: bool) -> Json:
    """A part of an answer as an item of Responses."""
    match part["type"]:
        case "text" | "refusal" as kind:
            said = {"type": "output_text", "text": part["text"], "annotations": []}
            if kind == "refusal":
                said = {"type": "refusal", "refusal": part["text"]}
            beside = {"id": f"msg_{name}", "type": "message", "status": "completed"}
            return {**beside, "role": "assistant", "content": [said]}
        case "thought":
            summary = [{"type": "summary_text", "text": part["text"]}] if part["text"] else []
            item = {"id": f"rs_{name}", "type": "reasoning", "summary": summary}
            return {**item, "encrypted_content": f"sealed-{name}"} if sealed else item
        case "call":
            asked = {"call_id": part["id"], "name": part["name"], "arguments": part["arguments"]}
            return {"id": f"fc_{name}", "type": "function_call", "status": "completed", **asked}
        case _:
            return part


def _says_something(event: Json) -> bool:
    choices = event.get("choices") or [{}]
    delta = (choices[0].get("delta") or {}).get("content")
    return bool(delta) or event.get("type") == "response.output_text.delta"


def _sse(event: Any) -> bytes:
    kind = event.get("type") if isinstance(event, dict) else None
    named = f"event: {kind}\n" if isinstance(kind, str) else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


def _unreadable(value: Any) -> RuleBreach | None:
    """The API reads UTF-8: half a surrogate pair, even as an escape, is none."""
    try:
        for said in _strings(value):
            said.encode("utf-8")
    except UnicodeEncodeError:
        return RuleBreach(message="We could not parse the JSON body of your request.")
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _never(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
