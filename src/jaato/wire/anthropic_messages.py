"""Messages of the Messages API and the messages of a history, both ways.

The API wants every result of a step in the one user message behind the calls, in front of all
else, and every call with an id of its own: so that is how they go out, wherever they came from.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato.errors import UsageError
from jaato.history import STUB_MARK, Message, Part, Role
from jaato.wire.anthropic_blocks import (
    NOTHING_SAID,
    Block,
    block_of,
    extra_of,
    is_blank,
    is_thought,
    kept,
    part_of,
    result_text,
)

_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_STRING = "string"
"""Marks content that was a bare string."""
_PLAIN = {"type", "text"}


class WireError(UsageError):
    """Foreign JSON that is no request of this API."""


@dataclass(slots=True)
class Sent:
    """A message on its way out. `at` is where it stands in the history."""

    role: str
    blocks: list[Any]
    at: int
    own: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """What goes over the wire."""
        fields = {key: value for key, value in self.own.items() if key not in {"role", "content"}}
        shape = self.own.get("content")
        content: Any = self.blocks
        if not self.blocks and shape == "":
            content = ""
        elif shape == _STRING and len(self.blocks) == 1 and self.blocks[0].keys() == _PLAIN:
            content = self.blocks[0]["text"]
        return {**fields, "role": self.role, "content": content}


def outgoing(messages: Sequence[Message]) -> list[Sent]:
    """The messages as the API accepts them."""
    ids = _Ids()
    stubbed = _stubbed_calls(messages)
    sent: list[Sent] = []
    for at, message in enumerate(messages):
        own = kept(message.extra)
        role = own.get("role", "assistant" if message.role is Role.MODEL else "user")
        if role == "assistant":
            sent += _spoken(message, at, ids, stubbed)
        else:
            blocks = [block for part in message.parts for block in _blocks(part, ids)]
            if not blocks and not _came_empty(own):
                blocks = [{"type": "text", "text": NOTHING_SAID}]
            sent.append(Sent(role, _results_first(blocks), at, own))
    sent = _results_joined(sent)
    if sent and sent[-1].role == "assistant":
        _trim_end(sent[-1])
    return sent


def incoming(documents: Iterable[Any]) -> tuple[Message, ...]:
    """The messages that foreign JSON stands for. A result is told the name of its tool."""
    names: dict[str, str] = {}
    return tuple([_message(document, at, names) for at, document in enumerate(documents)])


def _message(document: Any, at: int, names: dict[str, str]) -> Message:
    if not isinstance(document, Mapping):
        raise WireError(f"messages.{at} is a {type(document).__name__}", hint="it is an object")
    content = document.get("content")
    if not isinstance(content, str | list):
        raise WireError(
            f"messages.{at}.content is a {type(content).__name__}",
            hint="it is a string or a list of blocks",
        )
    own = {key: value for key, value in document.items() if key not in {"role", "content"}}
    if isinstance(content, str):
        own["content"] = _STRING if content else ""
        blocks: list[Any] = [{"type": "text", "text": content}] if content else []
    else:
        blocks = content
        if not blocks:
            own["content"] = []
    parts = []
    for block in blocks:
        part = part_of(block, names)
        if part.function_call is not None:
            names[part.function_call.id] = part.function_call.name
        parts.append(part)
    role = Role.MODEL if document.get("role") == "assistant" else Role.USER
    if role is Role.USER and any(part.function_response is not None for part in parts):
        role = Role.TOOL
    if document.get("role") not in {"user", "assistant"}:
        own["role"] = document.get("role")
    return Message(role, parts, extra=extra_of(own))


class _Ids:
    """Gives every call an id that the API takes: valid, and its own within the request."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._repeats: Counter[str] = Counter()
        self._awaited: dict[str, deque[str]] = {}

    def of_call(self, call_id: str) -> str:
        """The id a call goes out with; as it is, where it can be."""
        valid = _NOT_IN_AN_ID.sub("_", call_id) or "call"
        new = valid
        while new in self._used:
            self._repeats[valid] += 1
            new = f"{valid}_{self._repeats[valid] + 1}"
        self._used.add(new)
        self._awaited.setdefault(call_id, deque()).append(new)
        return new

    def of_result(self, call_id: str) -> str:
        """The id of the call it answers: of several with one id, the first that still waits."""
        waiting = self._awaited.get(call_id)
        if waiting:
            return waiting.popleft()
        return _NOT_IN_AN_ID.sub("_", call_id) or "call"


def _blocks(part: Part, ids: _Ids) -> Iterator[Any]:
    """The block of a part, with the id it goes out with; none for what must not go out."""
    block = block_of(part)
    if block is None or (isinstance(block, dict) and is_blank(block)):
        return
    if part.function_call is not None:
        block["id"] = ids.of_call(block["id"])
    elif part.function_response is not None:
        block["tool_use_id"] = ids.of_result(block["tool_use_id"])
    yield block


def _stubbed_calls(messages: Sequence[Message]) -> Counter[str]:
    """Calls of the provider's own tools whose answer a collection took: no pair is left to send."""
    return Counter(
        part.function_response.call_id
        for message in messages
        for part in message.parts
        if part.function_response is not None and _is_stubbed_answer(part)
    )


def _is_stubbed_answer(part: Part) -> bool:
    kind = kept(part.extra).get("type", "tool_result")
    if part.function_response is None or kind == "tool_result":
        return False
    # Of these answers only the one of an MCP server may be a mere text.
    is_text = isinstance(part.function_response.result, str) and kind != "mcp_tool_result"
    return is_text or STUB_MARK in part.extra


def _spoken(message: Message, at: int, ids: _Ids, stubbed: Counter[str]) -> Iterator[Sent]:
    """What the model said, in one message, or in several around results that lie inside it.

    A tool that another provider ran has answered inside the message; here it is a tool like any.
    """
    said: list[Any] = []
    answers: list[Block] = []
    waiting = 0
    own = kept(message.extra)
    for part in message.parts:
        own_type = kept(part.extra).get("type")
        if part.function_response is not None and own_type is None:
            answers += _blocks(part, ids)
            waiting -= 1
            continue
        if answers and not waiting:
            yield from _turn(said, at, own)
            yield Sent("user", answers, at)
            said, answers, own = [], [], {}
        if part.function_response is not None and _is_stubbed_answer(part):
            text = result_text(part.function_response.result)
            said += [{"type": "text", "text": text}] if text.strip() else []
        elif (
            part.function_call is not None
            and own_type is not None
            and stubbed[part.function_call.id]
        ):
            stubbed[part.function_call.id] -= 1
        else:
            said += _blocks(part, ids)
            waiting += part.function_call is not None and own_type is None
    yield from _turn(said, at, own)
    if answers:
        yield Sent("user", answers, at)


def _turn(said: list[Any], at: int, own: Mapping[str, Any]) -> Iterator[Sent]:
    # The API refuses an assistant message that ends with a thought.
    while said and isinstance(said[-1], dict) and is_thought(said[-1]):
        said.pop()
    if said or _came_empty(own):
        yield Sent("assistant", said, at, own)


def _came_empty(own: Mapping[str, Any]) -> bool:
    return "content" in own and not own["content"]


def _results_first(blocks: list[Any]) -> list[Any]:
    return sorted(blocks, key=lambda block: not _is_answer(block))


def _is_answer(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _results_joined(sent: list[Sent]) -> list[Sent]:
    """Results that came in several messages, in the first one behind their calls."""
    joined: list[Sent] = []
    first = 0  # where the run of messages begins that no assistant message interrupts
    for one in sent:
        if one.role == "assistant":
            first = len(joined) + 1
        elif len(joined) > first and any(map(_is_answer, one.blocks)):
            run = [*joined[first:], one]
            blocks = [block for each in run for block in each.blocks]
            del joined[first:]
            joined.append(Sent(run[0].role, _results_first(blocks), one.at, run[0].own))
            continue
        joined.append(one)
    return joined


def _trim_end(last: Sent) -> None:
    # The API refuses to continue an answer that ends with white space.
    block = last.blocks[-1] if last.blocks else None
    if isinstance(block, dict) and block.get("type") == "text":
        block["text"] = block["text"].rstrip()
