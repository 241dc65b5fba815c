"""How the scripted provider speaks each API: what it sends, what is refused, what comes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

from jaato.errors import UsageError
from jaato.exchange import Request
from jaato.history import Message, Part, Role
from jaato.ports import TokenCounter
from jaato.providers.scripted_prompt import unmarked, wire_tokens
from jaato.providers.scripted_worker import Reply
from jaato.tokens import as_text, message_tokens
from jaato.wire import anthropic, google, google_rules, google_stream, openai_chat, openai_rules
from jaato.wire.anthropic_rules import check as check_anthropic
from jaato.wire.anthropic_thinking import ThinkingPrefix
from jaato.wire.foreign import said_in
from jaato.wire.google_rules import check as check_google
from jaato.wire.openai_breach import MEDIA_TOKENS, MESSAGE_FRAME

Rules = Literal["openai", "anthropic", "google"]

_ANSWER_BEGINS: Final = "<answer>"
"""The end of a chat's prompt, where the model is told to speak."""
_SAID_BESIDE: Final = ("refusal", "reasoning_content", "reasoning", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused, in the words of the API."""

    message: str
    status: int | None = None
    code: str | None = None
    overflows: bool = False


class Dialect(Protocol):
    """One way to ask a model."""

    def encode(self, request: Request) -> Any:
        """What goes over the wire."""
        ...

    def prompt(self, body: Any) -> Sequence[Any]:
        """What the model reads of it, from the beginning; an equal beginning can be cached."""
        ...

    def tokens_of(self, unit: Any) -> int:
        """What one of these costs."""
        ...

    def refusal(
        self, body: Any, model: str, window: int | None, tokens: int, *, scale: float = 1.0
    ) -> Refusal | None:
        """The first rule that a request breaks. `scale`: the model's own count for each of ours."""
        ...

    def answer(self, body: Any, reply: Reply) -> Message:
        """A reply as the API would give it, so that it can be sent back."""
        ...


def dialect_of(rules: Rules | None, counter: TokenCounter) -> Dialect:
    """The dialect of an API, or the one that knows no rule but the window."""
    match rules:
        case "openai":
            return _OpenAI(counter)
        case "anthropic":
            return _Anthropic(counter)
        case "google":
            return _Google(counter)
        case None:
            return _Plain(counter)
        case _:
            raise UsageError(
                f"no rules named {rules!r}", hint="one of openai, anthropic, google, or None"
            )


class _Wired:
    """What the dialects that go over a wire have in common: how JSON is read and counted."""

    _before: tuple[str, ...] = ("tools", "system")
    _messages = "messages"

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def prompt(self, body: Mapping[str, Any]) -> Sequence[Any]:
        head = [body.get(key) for key in self._before]
        return [unmarked(unit) for unit in (*head, *body[self._messages])]

    def tokens_of(self, unit: Any) -> int:
        return wire_tokens(unit, self._counter)

    def _refused(self, check: Callable[[int | None], Any], window: int | None) -> Refusal | None:
        breach = check(window)
        if breach is None:
            return None
        return Refusal(
            message=breach.message,
            status=breach.status,
            code=getattr(breach, "code", None) or getattr(breach, "type", None),
            overflows=window is not None and check(None) is None,
        )


class _OpenAI(_Wired):
    def encode(self, request: Request) -> dict[str, Any]:
        return openai_chat.encode(request)

    def prompt(self, body: Mapping[str, Any]) -> Sequence[Any]:
        return [body.get("tools"), *body["messages"], _ANSWER_BEGINS]

    def tokens_of(self, unit: Any) -> int:
        """What `check_chat` makes of it, so that usage and refusals name the same numbers."""
        if unit is _ANSWER_BEGINS:
            return MESSAGE_FRAME
        if not isinstance(unit, Mapping):
            return sum(self._counter.count_texts([as_text(tool) for tool in unit or ()]))
        parts = unit.get("content")
        media = [
            part
            for part in (parts if isinstance(parts, list) else ())
            if part.get("type") not in {"text", "refusal"}
        ]
        texts = [said_in(parts), *(str(unit.get(key) or "") for key in _SAID_BESIDE)]
        for call in unit.get("tool_calls") or ():
            texts += (call["function"]["name"], call["function"]["arguments"])
        tokens = MESSAGE_FRAME + MEDIA_TOKENS * len(media)
        return tokens + sum(self._counter.count_texts(texts))

    def refusal(
        self,
        body: dict[str, Any],
        model: str,
        window: int | None,
        tokens: int,
        *,
        scale: float = 1.0,
    ) -> Refusal | None:
        del model

        def count(texts: Sequence[str]) -> list[int]:
            return [math.ceil(count * scale) for count in self._counter.count_texts(texts)]

        # It would count all texts again to find that they fit.
        answer = body.get("max_completion_tokens") or 0
        room = window if window is not None and tokens + answer > window else None
        return self._refused(lambda room: openai_rules.check_chat(body, room, count), room)

    def answer(self, body: dict[str, Any], reply: Reply) -> Message:
        del body
        said: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thought:
            said["reasoning_content"] = reply.thought
        if reply.calls:
            said["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": as_text(call.args)},
                }
                for call in reply.calls
            ]
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        return openai_chat.decode_answer({"choices": [choice]}).message


class _Anthropic(_Wired):
    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._signatures = ThinkingPrefix()

    def encode(self, request: Request) -> dict[str, Any]:
        return anthropic.encode(request)

    def refusal(
        self,
        body: dict[str, Any],
        model: str,
        window: int | None,
        tokens: int,
        *,
        scale: float = 1.0,
    ) -> Refusal | None:
        del model, scale
        signatures = self._signatures
        return self._refused(lambda room: check_anthropic(body, room, tokens, signatures), window)

    def answer(self, body: dict[str, Any], reply: Reply) -> Message:
        blocks: list[dict[str, Any]] = []
        if reply.thought:
            blocks.append({"type": "thinking", "thinking": reply.thought})
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        blocks += (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
            for call in reply.calls
        )
        if reply.thought:
            blocks = self._signatures.signed(body, blocks)
        return anthropic.decode_answer({"content": blocks, "stop_reason": "end_turn"}).message


class _Google(_Wired):
    _before = ("tools", "systemInstruction")
    _messages = "contents"

    def encode(self, request: Request) -> dict[str, Any]:
        return google_rules.signed(google.encode(request), request.model)

    def refusal(
        self,
        body: dict[str, Any],
        model: str,
        window: int | None,
        tokens: int,
        *,
        scale: float = 1.0,
    ) -> Refusal | None:
        del scale
        return self._refused(lambda room: check_google(body, room, tokens, model=model), window)

    def answer(self, body: dict[str, Any], reply: Reply) -> Message:
        del body
        parts: list[dict[str, Any]] = []
        if reply.thought:
            parts.append({"text": reply.thought, "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        parts += (
            {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}
            for call in reply.calls
        )
        if reply.calls:
            # Of parallel calls the first is signed.
            first = len(parts) - len(reply.calls)
            signature = sha256(as_text(parts[first]).encode("utf-8", "replace")).hexdigest()
            parts[first]["thoughtSignature"] = signature
        content = {"role": "model", "parts": parts}
        return google_stream.decode_answer(
            {"candidates": [{"content": content, "finishReason": "STOP"}]}
        ).message


class _Plain:
    """Takes every request that fits the window; sent is the request, without bare thoughts."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def encode(self, request: Request) -> Request:
        return replace(request, messages=tuple(map(_replayed, request.messages)))

    def prompt(self, body: Request) -> Sequence[Any]:
        return [body.tools, body.system, *map(_Shown, body.messages)]

    def tokens_of(self, unit: Any) -> int:
        if isinstance(unit, _Shown):
            return message_tokens(self._counter, unit.message)
        texts = [unit] if isinstance(unit, str) else []
        for tool in unit if isinstance(unit, tuple) else ():
            texts += (tool.name, tool.description, as_text(dict(tool.parameters)))
        return sum(self._counter.count_texts(texts))

    def refusal(
        self, body: Request, model: str, window: int | None, tokens: int, *, scale: float = 1.0
    ) -> Refusal | None:
        del body, model, scale
        if window is None or tokens <= window:
            return None
        return Refusal(
            message=f"the request has {tokens} tokens, and the window {window}", overflows=True
        )

    def answer(self, body: Request, reply: Reply) -> Message:
        del body
        parts = [Part(thought=reply.thought)] if reply.thought else []
        parts += [Part(text=reply.text)] if reply.text else []
        parts += (Part(function_call=call) for call in reply.calls)
        return Message(Role.MODEL, parts)


class _Shown:
    """A message as a model sees it: its id says nothing."""

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        self.message = message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Shown):
            return NotImplemented
        mine, theirs = self.message, other.message
        return mine is theirs or (mine.role, mine.parts) == (theirs.role, theirs.parts)

    def __hash__(self) -> int:
        return hash(self.message.role)


def _replayed(message: Message) -> Message:
    """The message without thoughts that were output only."""
    if not message.thoughts:
        return message
    kept = [part for part in message.parts if part.thought is None or part.extra]
    return message if len(kept) == len(message.parts) else message.with_parts(kept)
