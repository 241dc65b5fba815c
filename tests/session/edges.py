"""Providers on their real SDKs, each against a server that keeps its API's rules and follows one
script: a session behaves the same at every edge, or a test says where it does not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from starlette.types import ASGIApp, Receive, Scope, Send
from tests.servers import anthropic_app, google_app, openai_app

from jaato.ports import Provider
from jaato.providers.anthropic import AnthropicProvider
from jaato.providers.google import GoogleProvider
from jaato.providers.openai import OpenAIProvider
from jaato.tokens import default_counter
from jaato.wire.openai_breach import MEDIA_TOKENS, MESSAGE_FRAME

Json = dict[str, Any]
FaultName = Literal["a rate limit", "a context limit", "a broken stream", "a failing server"]

CACHED: Final = 64
"""The tokens of each prompt that the servers say they had in their cache."""
_PICTURE: Final = re.compile(r'"type": "(?:image_url|input_image)"')
FRAME: Final = 2
"""The tokens that a provider writes around a text."""
THOUGHT: Final = 9
"""The tokens of each thought."""
SUMMARY: Final = "In short: files were read, and value_7 was among them."
TOO_FAST: Final = (
    "Rate limit reached for the model: 30,000 input tokens per minute, requested 31,000. The "
    "maximum context length is not the matter. Please try again in 0.001s."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An answer of the model, in no API's words."""

    text: str
    thought: str = ""
    calls: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    """Each an id, a name, and arguments."""


Script = Callable[[str, int], Step]
"""Is given the prompt of the turn, and how many steps it has so far."""


def worker(steps: int, *, calls: int = 2, lines: int = 60) -> Script:
    """Thinks and reads files for so many steps, then answers; writes summaries when asked."""

    def script(prompt: str, at: int) -> Step:
        if prompt.startswith("Summarize this conversation"):
            return Step(text=SUMMARY)
        if at >= steps:
            return Step(text=f"done after {at} steps", thought="that is all")
        made = tuple(
            (f"call_{at}_{n}", "read", {"path": f"f{at}_{n}.py", "lines": lines})
            for n in range(calls)
        )
        return Step(text=f"step {at}", thought=f"part {at} is next", calls=made)

    return script


class Edge:
    """One API: its server, which fails where it is told to, and the provider that calls it."""

    name: ClassVar[str]
    model: ClassVar[str] = "scripted"
    tells_window: ClassVar[bool] = True
    """Whether its refusal of what is too long says how long that is."""

    def __init__(
        self,
        script: Script,
        *,
        window: int | None = None,
        faults: Mapping[int, FaultName] | None = None,
        tokens_per_count: float = 1.0,
    ) -> None:
        """`faults`: by the number of the request, counted from 0.

        `tokens_per_count`: the tokens that the provider finds where our counter finds one.
        """
        self.script = script
        self.window = window
        self.faults = dict(faults or {})
        self.tokens_per_count = tokens_per_count
        self.asked = 0
        self.server: Any = self.serve()

    def serve(self) -> Any:
        """The server."""
        raise NotImplementedError

    def provider(self, url: str) -> Provider:
        """The provider, which tries nothing twice on its own."""
        raise NotImplementedError

    def present(self, body: Json) -> tuple[str, int]:
        """The prompt of the present turn, and its steps so far."""
        raise NotImplementedError

    def reply(self, step: Step, *, breaks: bool) -> Any:
        """An answer in the words of the API."""
        raise NotImplementedError

    def refusal(self, fault: FaultName) -> Any:
        """A refusal in the words of the API."""
        raise NotImplementedError

    def answer(self, body: Json) -> Any:
        """What the server says to a request that the API would take."""
        fault = self.faults.get(self.asked)
        self.asked += 1
        if fault is not None and fault != "a broken stream":
            return self.refusal(fault)
        return self.reply(self.script(*self.present(body)), breaks=fault is not None)

    def count(self, document: Any) -> int:
        """The tokens of JSON, as the provider finds them: of its texts, and a few around each."""
        texts = list(_texts(document))
        counted = sum(default_counter().count_texts(texts)) + FRAME * len(texts)
        return math.ceil(counted * self.tokens_per_count)

    def counts(self, texts: Iterable[str]) -> list[int]:
        """The tokens of each text."""
        return [self.count(text) for text in texts]

    def prompt_tokens(self, field: str) -> int:
        """The tokens of the request, as the rules of OpenAI count them."""
        messages = self.bodies[-1][field]
        pictures = len(_PICTURE.findall(json.dumps(messages)))
        frames = MESSAGE_FRAME * (len(messages) + 1)
        return int(self.server.counted) + frames + MEDIA_TOKENS * pictures

    @property
    def app(self) -> ASGIApp:
        """What is served."""
        app: ASGIApp = self.server.app
        return app

    @property
    def bodies(self) -> list[Json]:
        """Every request that came."""
        bodies: list[Json] = self.server.bodies
        return bodies

    @property
    def breaches(self) -> list[Any]:
        """Every rule of the API that a request broke."""
        breaches: list[Any] = self.server.breaches
        return breaches


class ChatEdge(Edge):
    """Chat Completions at a server that is not the vendor's."""

    name = "openai chat"
    replays = False

    def serve(self) -> openai_app.OpenAIServer:
        return openai_app.OpenAIServer(window=self.window, script=self.answer, count=self.counts)

    def provider(self, url: str) -> Provider:
        return OpenAIProvider(
            "k", f"{url}/v1", max_retries=0, api="chat", replay_thoughts=self.replays
        )

    def present(self, body: Json) -> tuple[str, int]:
        return _present(
            body["messages"],
            # The pictures of results have no other place than a message of the user's.
            lambda one: one["role"] == "user" and "[attached to" not in _said(one["content"]),
            lambda one: _said(one["content"]),
        )

    def reply(self, step: Step, *, breaks: bool) -> openai_app.Reply:
        return openai_app.Reply(
            parts=_openai_parts(step),
            piece=200,
            usage={
                "prompt_tokens": self.prompt_tokens("messages"),
                "prompt_tokens_details": {"cached_tokens": CACHED},
                "completion_tokens_details": {"reasoning_tokens": THOUGHT * bool(step.thought)},
            },
            breaks_after=2 if breaks else None,
        )

    def refusal(self, fault: FaultName) -> openai_app.Refusal:
        return _openai_refusal(fault, self.window)


class ThoughtfulChatEdge(ChatEdge):
    """Chat Completions at a server that wants its thoughts back."""

    name = "openai chat with thoughts"
    replays = True


class ResponsesEdge(Edge):
    """Responses, whose thoughts come sealed and go back so."""

    name = "openai responses"
    tells_window = False

    def serve(self) -> openai_app.OpenAIServer:
        return openai_app.OpenAIServer(window=self.window, script=self.answer, count=self.counts)

    def provider(self, url: str) -> Provider:
        return OpenAIProvider("k", f"{url}/v1", max_retries=0, api="responses")

    def present(self, body: Json) -> tuple[str, int]:
        items = [one for one in body["input"] if one.get("type", "message") == "message"]
        return _present(items, lambda one: one["role"] == "user", lambda one: _said(one["content"]))

    def reply(self, step: Step, *, breaks: bool) -> openai_app.Reply:
        return openai_app.Reply(
            parts=_openai_parts(step),
            piece=200,
            usage={
                "input_tokens": self.prompt_tokens("input"),
                "input_tokens_details": {"cached_tokens": CACHED},
                "output_tokens_details": {"reasoning_tokens": THOUGHT * bool(step.thought)},
            },
            breaks_after=4 if breaks else None,
        )

    def refusal(self, fault: FaultName) -> openai_app.Refusal:
        if fault == "a context limit":
            return openai_app.Refusal(
                status=400,
                message="Your input exceeds the context window of this model. Please adjust your "
                "input and try again.",
                code="context_length_exceeded",
            )
        return _openai_refusal(fault, self.window)


class AnthropicEdge(Edge):
    """Messages, whose thoughts are bound to all that stands before them."""

    name = "anthropic"

    def serve(self) -> anthropic_app.AnthropicServer:
        return anthropic_app.AnthropicServer(
            window=self.window, script=self.answer, count=self.count
        )

    def provider(self, url: str) -> Provider:
        return AnthropicProvider("k", base_url=url, max_retries=0)

    def present(self, body: Json) -> tuple[str, int]:
        def is_prompt(message: Json) -> bool:
            return message["role"] == "user" and bool(_said(message["content"]))

        return _present(body["messages"], is_prompt, lambda one: _said(one["content"]))

    def reply(self, step: Step, *, breaks: bool) -> anthropic_app.Reply:
        said = [anthropic_app.text(step.text)]
        thoughts = [anthropic_app.thought(step.thought)] if step.thought else []
        calls = [anthropic_app.call(key, name, **args) for key, name, args in step.calls]
        return anthropic_app.Reply(
            blocks=(*thoughts, *said, *calls),
            piece=200,
            usage={
                "cache_read_input_tokens": CACHED,
                "cache_creation_input_tokens": 0,
                "output_tokens_details": {"thinking_tokens": THOUGHT * bool(step.thought)},
            },
            breaks_after=4 if breaks else None,
        )

    def refusal(self, fault: FaultName) -> anthropic_app.Refusal:
        match fault:
            case "a rate limit":
                return anthropic_app.Refusal(status=429, type="rate_limit_error", message=TOO_FAST)
            case "a context limit":
                window = _smaller(self.window)
                message = f"prompt is too long: {window + 1} tokens > {window} maximum"
                return anthropic_app.Refusal(
                    status=400, type="invalid_request_error", message=message
                )
            case _:
                return anthropic_app.Refusal(status=529, type="overloaded_error")


class GoogleEdge(Edge):
    """Gemini, which wants the signatures of its calls back."""

    name = "google"
    model = "gemini-3-flash"

    def serve(self) -> google_app.GoogleApp:
        return google_app.GoogleApp(window=self.window, script=self.answer, count=self.count)

    def provider(self, url: str) -> Provider:
        return GoogleProvider(google_app.API_KEY, base_url=url, max_retries=0)

    def present(self, body: Json) -> tuple[str, int]:
        def said(content: Json) -> str:
            return "\n".join(part["text"] for part in content["parts"] if part.get("text"))

        def is_prompt(content: Json) -> bool:
            return content["role"] == "user" and bool(said(content))

        return _present(body["contents"], is_prompt, said)

    def reply(self, step: Step, *, breaks: bool) -> google_app.Answer:
        usage = {
            "promptTokenCount": self.count(self.bodies[-1]),
            "cachedContentTokenCount": CACHED,
            "candidatesTokenCount": len(step.text) // 4 + 20 * len(step.calls),
            "thoughtsTokenCount": THOUGHT * bool(step.thought),
        }
        calls = [
            google_app.call(
                name, args, call_id=key, **({} if number else {"thoughtSignature": "c2lnbmVk"})
            )
            for number, (key, name, args) in enumerate(step.calls)
        ]
        thoughts = [google_app.chunk(google_app.thought(step.thought))] if step.thought else []
        said = google_app.chunk(google_app.text(step.text))
        end = google_app.chunk(*calls, google_app.text(""), stop="STOP", usageMetadata=usage)
        return google_app.answer(*thoughts, said, *([] if breaks else [end]), breaks=breaks)

    def refusal(self, fault: FaultName) -> google_app.Fault:
        match fault:
            case "a rate limit":
                return google_app.error(429, "RESOURCE_EXHAUSTED", TOO_FAST)
            case "a context limit":
                window = _smaller(self.window)
                return google_app.error(
                    400,
                    "INVALID_ARGUMENT",
                    f"The input token count ({window + 1}) exceeds the maximum number of tokens "
                    f"allowed ({window}).",
                )
            case _:
                return google_app.error(503, "UNAVAILABLE", "The model is overloaded.")


EDGES: Final[tuple[type[Edge], ...]] = (
    ChatEdge,
    ThoughtfulChatEdge,
    ResponsesEdge,
    AnthropicEdge,
    GoogleEdge,
)


class Stage:
    """One listening socket for all tests of a file: to open and close one takes its time."""

    url: str
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self.app(scope, receive, send)


def _present(
    messages: list[Json], is_prompt: Callable[[Json], bool], said: Callable[[Json], str]
) -> tuple[str, int]:
    steps = 0
    for message in reversed(messages):
        if is_prompt(message):
            return said(message), steps
        steps += message.get("role") in {"assistant", "model"}
    raise AssertionError("a request without a prompt")


def _texts(document: Any) -> Iterator[str]:
    """What is written in JSON, without the names of its fields."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for one in document.values():
            yield from _texts(one)
    elif isinstance(document, list):
        for one in document:
            yield from _texts(one)


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def _openai_parts(step: Step) -> tuple[Json, ...]:
    thoughts = [openai_app.thought(step.thought)] if step.thought else []
    calls = [openai_app.call(key, name, json.dumps(args)) for key, name, args in step.calls]
    return (*thoughts, openai_app.text(step.text), *calls)


def _openai_refusal(fault: FaultName, window: int | None) -> openai_app.Refusal:
    match fault:
        case "a rate limit":
            return openai_app.Refusal(
                status=429, message=TOO_FAST, type="tokens", code="rate_limit_exceeded"
            )
        case "a context limit":
            limit = _smaller(window)
            return openai_app.Refusal(
                status=400,
                message=f"This model's maximum context length is {limit} tokens. However, your "
                f"messages resulted in {limit + 1} tokens. Please reduce the length of the "
                "messages.",
                code="context_length_exceeded",
            )
        case _:
            return openai_app.Refusal(status=503, type="server_error")


def _smaller(window: int | None) -> int:
    """A window that nobody knew of."""
    assert window is not None
    return window * 3 // 4
