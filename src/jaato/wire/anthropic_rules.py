"""The rules by which the Messages API refuses a request, with its own words. Pure.

They look at the JSON on the wire alone, in the order in which the API looks: first the shape of
each thing, then how things go together, then the length, then the thoughts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jaato.wire.anthropic_blocks import is_blank, is_call, is_result, is_thought
from jaato.wire.anthropic_cache import MOST_BREAKPOINTS, breakpoints_in
from jaato.wire.anthropic_thinking import ThinkingPrefix

__all__ = ["RuleBreach", "ThinkingPrefix", "check"]

Body: TypeAlias = Mapping[str, Any]

_CALL_ID = "^[a-zA-Z0-9_-]+$"
_TOOL_NAME = "^[a-zA-Z0-9_-]{1,128}$"
_LEAST_THINKING = 1024
_ROLES = ("user", "assistant", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBreach:
    """Why a request is refused, as the API says it."""

    message: str
    status: int = 400
    type: str = "invalid_request_error"

    def document(self) -> dict[str, Any]:
        """The body of the response."""
        return {"type": "error", "error": {"type": self.type, "message": self.message}}


def check(
    body: Body,
    window: int | None = None,
    count: Callable[[Body], int] | int | None = None,
    signatures: ThinkingPrefix | None = None,
) -> RuleBreach | None:
    """The first rule that a request breaks; None for one that the API takes.

    Lengths are looked at where a `window` and a `count` of the tokens are given, thoughts where
    there are `signatures` to hold them against.
    """
    message = next((told for rule in _RULES for told in rule(body)), None)
    if message is None and window is not None and count is not None:
        message = _too_long(body, window, count(body) if callable(count) else count)
    if message is None and signatures is not None:
        message = signatures.refusal(body)
    return None if message is None else RuleBreach(message=message)


def _too_long(body: Body, window: int, tokens: int) -> str | None:
    if tokens > window:
        return f"prompt is too long: {tokens} tokens > {window} maximum"
    answer = body["max_tokens"]
    if tokens + answer > window:
        return (
            f"input length and `max_tokens` exceed context limit: {tokens} + {answer} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )
    return None


def _required(body: Body) -> Iterator[str]:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield f"{name}: Field required"
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool):
        yield "max_tokens: Input should be a valid integer"
    elif limit < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    if not isinstance(body["messages"], list):
        yield "messages: Input should be a valid list"
    if not body["messages"]:
        yield "messages: at least one message is required"


def _roles(body: Body) -> Iterator[str]:
    for at, message in enumerate(body["messages"]):
        if not isinstance(message, Mapping):
            yield f"messages.{at}: Input should be an object"
        role = message.get("role")
        if role not in _ROLES:
            yield f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant"'
        if not isinstance(message.get("content"), str | list):
            yield f"messages.{at}.content: Input should be a valid string or list"
    if body["messages"][0]["role"] == "assistant":
        yield 'messages: first message must use the "user" role'


def _contents(body: Body) -> Iterator[str]:
    for at, message in enumerate(body["messages"]):
        is_last = message is body["messages"][-1]
        if not message["content"] and message["role"] != "assistant":
            yield f"messages.{at}: {message['role']} messages must have non-empty content"
        if not message["content"] and not is_last:
            yield (
                f"messages.{at}: all messages must have non-empty content except for the optional "
                "final assistant message"
            )
        for index, block in enumerate(_blocks(message)):
            if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
                yield f"messages.{at}.content.{index}.type: Field required"


def _texts(body: Body) -> Iterator[str]:
    yield from _blank_text("system", _as_blocks(body.get("system")))
    for message in body["messages"]:
        blocks = _as_blocks(message["content"])
        yield from _blank_text("messages", blocks)
        for block in blocks:
            if is_result(block["type"]) and isinstance(block.get("content"), list):
                yield from _blank_text("messages", block["content"])
    last = body["messages"][-1]
    blocks = _as_blocks(last["content"])
    if last["role"] == "assistant" and blocks and blocks[-1]["type"] == "text":
        text = blocks[-1]["text"]
        if text != text.rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _blank_text(where: str, blocks: list[Any]) -> Iterator[str]:
    for index, block in enumerate(blocks):
        if not isinstance(block, Mapping) or not is_blank(block):
            continue
        if block.get("cache_control") is not None:
            yield f"{where}.{index}.text: cache_control cannot be set for empty text blocks"
        if not block.get("text"):
            yield f"{where}: text content blocks must be non-empty"
        yield f"{where}: text content blocks must contain non-whitespace text"


def _tools(body: Body) -> Iterator[str]:
    tools = body.get("tools") or []
    for at, tool in enumerate(tools):
        if tool.get("type") not in {None, "custom"}:
            continue
        if not re.fullmatch(_TOOL_NAME, str(tool.get("name", ""))):
            yield f"tools.{at}.custom.name: String should match pattern '{_TOOL_NAME}'"
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            yield f"tools.{at}.custom.input_schema: Field required"
        elif schema.get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Input should be 'object'"
    names = Counter(tool.get("name") for tool in tools if tool.get("name") is not None)
    if any(times > 1 for times in names.values()):
        yield "tools: Tool names must be unique."


def _breakpoints(body: Body) -> Iterator[str]:
    for at, index, block in _each_block(body):
        if is_thought(block) and "cache_control" in block:
            kind = block["type"]
            yield (
                f"messages.{at}.content.{index}.{kind}.cache_control: "
                "Extra inputs are not permitted"
            )
    found = (
        (body.get("cache_control") is not None)
        + breakpoints_in(body.get("system"))
        + breakpoints_in(body.get("tools"))
        + sum(breakpoints_in(message["content"]) for message in body["messages"])
    )
    if found > MOST_BREAKPOINTS:
        yield (
            f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {found}."
        )


def _calls(body: Body) -> Iterator[str]:
    seen: set[str] = set()
    for at, index, block in _each_block(body):
        kind, role = block["type"], body["messages"][at]["role"]
        if kind == "tool_result" and role != "user":
            yield f"messages.{at}: `tool_result` blocks can only be in `user` messages"
        if not is_call(kind):
            continue
        if role != "assistant":
            yield f"messages.{at}: `{kind}` blocks can only be in `assistant` messages"
        where = f"messages.{at}.content.{index}"
        if not re.fullmatch(_CALL_ID, str(block.get("id", ""))):
            yield f"{where}.{kind}.id: String should match pattern '{_CALL_ID}'"
        if not isinstance(block.get("input"), Mapping):
            yield f"{where}.{kind}.input: Input should be a valid dictionary"
        if block["id"] in seen:
            yield f"{where}: `tool_use` ids must be unique"
        seen.add(block["id"])


def _results(body: Body) -> Iterator[str]:
    """Every call is answered at the beginning of the very next message, and nothing else is."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        asked = [block["id"] for block in _blocks(message) if block["type"] == "tool_use"]
        following = _blocks(messages[at + 1]) if at + 1 < len(messages) else []
        answered = set(_leading_results(following))
        missing = [call_id for call_id in asked if call_id not in answered]
        if missing:
            yield (
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
    for at, index, block in _each_block(body):
        if block["type"] != "tool_result":
            continue
        call_id = block.get("tool_use_id")
        before = _blocks(messages[at - 1]) if at else []
        if not any(one["type"] == "tool_use" and one["id"] == call_id for one in before):
            yield (
                f"messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {call_id}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
        earlier = _blocks(messages[at])[:index]
        if any(one.get("tool_use_id") == call_id for one in earlier):
            yield (
                f"messages.{at}.content.{index}: each tool_use must have a single result. Found "
                f"multiple `tool_result` blocks with id: {call_id}"
            )


def _leading_results(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        if block["type"] != "tool_result":
            return
        yield block["tool_use_id"]


def _server_tools(body: Body) -> Iterator[str]:
    """A tool of the provider is answered in the turn that calls it; the last turn may be paused."""
    waiting: dict[str, str] = {}
    for at, message in enumerate(body["messages"]):
        if message["role"] == "user" and waiting:
            call_id, name = next(iter(waiting.items()))
            yield (
                f"messages.{at - 1}: `{name}` tool use with id `{call_id}` was found without a "
                f"corresponding `{name}_tool_result` block"
            )
        for index, block in enumerate(_blocks(message)):
            kind = block["type"]
            if is_call(kind) and kind != "tool_use":
                waiting[block["id"]] = block.get("name", "")
            elif is_result(kind) and kind != "tool_result":
                caller = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
                if waiting.pop(block.get("tool_use_id"), None) is None:
                    yield (
                        f"messages.{at}.content.{index}: unexpected `tool_use_id` found in "
                        f"`{kind}` blocks: {block.get('tool_use_id')}. Each `{kind}` block must "
                        f"have a corresponding `{caller}` block before it."
                    )


def _thoughts(body: Body) -> Iterator[str]:
    for at, index, block in _each_block(body):
        if block["type"] == "thinking" and not isinstance(block.get("signature"), str):
            yield f"messages.{at}.content.{index}.thinking.signature: Field required"
    for at, message in enumerate(body["messages"]):
        blocks = _blocks(message)
        if message["role"] == "assistant" and blocks and is_thought(blocks[-1]):
            kind = blocks[-1]["type"]
            yield f"messages.{at}: The final block in an assistant message cannot be `{kind}`."
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int):
            yield "thinking.enabled.budget_tokens: Field required"
        elif budget < _LEAST_THINKING:
            yield (
                "thinking.enabled.budget_tokens: Input should be greater than or equal to "
                f"{_LEAST_THINKING}"
            )
        elif budget >= body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."


_RULES = (
    _required,
    _roles,
    _contents,
    _texts,
    _tools,
    _breakpoints,
    _calls,
    _results,
    _server_tools,
    _thoughts,
)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else []


def _as_blocks(content: Any) -> list[Any]:
    """The content as blocks: a string is short for one text, an empty one for nothing."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _each_block(body: Body) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    for at, message in enumerate(body["messages"]):
        for index, block in enumerate(_blocks(message)):
            yield at, index, block
