"""Gemini on loopback: both APIs, held to their rules, answering with what a test gives."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jaato.wire.google_rules import RuleBreach, check

API_KEY = "a-test-key"
TOKEN = "a-test-token"  # noqa: S105 -- for loopback
LIMIT = 1_048_576


def about(document: Any) -> int:
    """About the tokens of JSON."""
    return len(json.dumps(document)) // 4


def text(said: str, **beside: Any) -> dict[str, Any]:
    """A part of the answer."""
    return {"text": said, **beside}


def thought(said: str, **beside: Any) -> dict[str, Any]:
    """A part of a thought."""
    return {"text": said, "thought": True, **beside}


def call(name: str, args: Mapping[str, Any] | None = None, **beside: Any) -> dict[str, Any]:
    """A call; `call_id` gives it an id."""
    call_id = beside.pop("call_id", None)
    named = {"name": name, "args": dict(args or {})}
    return {"functionCall": {"id": call_id, **named} if call_id else named, **beside}


def chunk(*parts: Mapping[str, Any], stop: str | None = None, **beside: Any) -> dict[str, Any]:
    """A piece of an answer."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if stop is not None:
        candidate["finishReason"] = stop
    return {"candidates": [candidate], "modelVersion": "gemini-test", **beside}


def error(status: int, reason: str, message: str, *details: Mapping[str, Any]) -> Fault:
    """A request that is refused."""
    said = {"code": status, "message": message, "status": reason}
    return Fault(status, {"error": {**said, "details": list(details)} if details else said})


@dataclass(frozen=True, slots=True)
class Fault:
    """What comes in place of an answer."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Chunks, one event each. `breaks` ends the connection behind them, `waits` never ends."""

    chunks: tuple[Any, ...]
    breaks: bool = False
    waits: bool = False


def answer(*chunks: Any, breaks: bool = False, waits: bool = False) -> Answer:
    """An answer of these chunks."""
    return Answer(chunks, breaks, waits)


class GoogleApp:
    """The application, the requests that came, and the answers that are still to be given.

    `script` gives what no answer is left for, by what the request says; `count` is the tokenizer.
    """

    def __init__(
        self,
        *answers: Answer | Fault,
        window: int | None = None,
        models: Mapping[str, Any] | None = None,
        script: Callable[[dict[str, Any]], Answer | Fault] | None = None,
        count: Callable[[Any], int] = about,
    ) -> None:
        self.answers = list(answers)
        self.script = script
        self._count = count
        self.breaches: list[RuleBreach] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.cancelled = threading.Event()
        self._window = window
        self._models = models or {}
        project = "/{version}/projects/{project}/locations/{location}"
        publisher = "/publishers/google/models/{model}"
        self.app = Starlette(
            routes=[
                Route(
                    "/{version}/models/{model}:streamGenerateContent", self._ask, methods=["POST"]
                ),
                Route(
                    f"{project}{publisher}:streamGenerateContent",
                    self._ask_vertex,
                    methods=["POST"],
                ),
                Route("/{version}/models/{model}", self._model),
                Route("/{version}" + publisher, self._model),
            ]
        )

    async def _ask(self, request: Request) -> Response:
        if request.headers.get("x-goog-api-key") != API_KEY:
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            invalid = "API key not valid. Please pass a valid API key."
            details = {"@type": info, "reason": "API_KEY_INVALID"}
            return _refused(error(400, "INVALID_ARGUMENT", invalid, details))
        return await self._answered(request)

    async def _ask_vertex(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            invalid = "Request had invalid authentication credentials."
            return _refused(error(401, "UNAUTHENTICATED", invalid))
        return await self._answered(request)

    async def _answered(self, request: Request) -> Response:
        assert request.query_params["alt"] == "sse"
        raw = (await request.body()).decode("utf-8")
        body = json.loads(raw, parse_constant=_never)
        self.bodies.append(body)
        self.headers.append(request.headers)
        self.paths.append(request.url.path)
        breach = _unreadable(body) or check(
            body, self._window, self._count, model=request.path_params["model"]
        )
        if breach is not None:
            self.breaches.append(breach)
            return JSONResponse(breach.as_json(), breach.status)
        script = self.script
        given = self.answers.pop(0) if self.answers or script is None else script(body)
        if isinstance(given, Fault):
            return _refused(given)
        return StreamingResponse(self._events(given), media_type="text/event-stream")

    async def _events(self, given: Answer) -> AsyncIterator[str]:
        for one in given.chunks:
            said = one if isinstance(one, str) else json.dumps(one)
            yield f"data: {said}\r\n\r\n"
        if given.breaks:
            raise ConnectionAbortedError
        try:
            if given.waits:
                await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def _model(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        name = request.path_params["model"]
        found = self._models.get(name)
        if isinstance(found, Fault):
            return _refused(found)
        if found is None:
            return _refused(error(404, "NOT_FOUND", f"models/{name} is not found"))
        return JSONResponse({"name": f"models/{name}", **found})


def _refused(fault: Fault) -> Response:
    return JSONResponse(fault.body, fault.status, dict(fault.headers))


def _unreadable(value: Any) -> RuleBreach | None:
    """The API reads UTF-8: half a surrogate pair, even as an escape, is none."""
    try:
        for said in _strings(value):
            said.encode("utf-8")
    except UnicodeEncodeError:
        return RuleBreach(400, "INVALID_ARGUMENT", "Invalid JSON payload received.")
    return None


def _strings(value: Any) -> Iterable[str]:
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
