"""How a request becomes a chat for a model that knows no tools, and how its calls are found.

Tools are described in the system prompt, one JSON object a line. A call is part of the answer:
`<tool_call>{"name": "...", "arguments": {...}}</tool_call>`, or a list of such objects between the
tags. Its result is part of the user's next message: `<tool_response>...</tool_response>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from jaato.exchange import Request, ToolSchema
from jaato.gc.wording import worded_media
from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.tokens import as_text

CALL_OPENS: Final = "<tool_call>"
CALL_CLOSES: Final = "</tool_call>"

_TOOLS = """\
You may call these tools:
<tools>
{tools}
</tools>

To call one, write this, with its name and arguments:
<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>
Then stop: its result comes as <tool_response>...</tool_response>. Without a need for a tool, just
answer."""

_PLACE = re.compile("\0([0-9]+)\0")

Chat = list[dict[str, str]]
Template = Callable[[Chat], str]


class Tokenizer(Protocol):
    """Turns text into tokens."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The tokens of a text. `special`: what looks like a special token is one."""
        ...


def chat_of(request: Request) -> Chat:
    """The request as turns of system, user and assistant, of which no two in a row are alike."""
    chat: Chat = []
    system = "\n\n".join(text for text in (request.system, _described(request.tools)) if text)
    if system:
        chat.append({"role": "system", "content": system})
    for message in request.messages:
        content = "\n".join(_worded(message))
        role = "assistant" if message.role is Role.MODEL else "user"
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] += f"\n\n{content}"
        else:
            chat.append({"role": role, "content": content})
    return chat


def tokens_of(chat: Chat, template: Template, tokenizer: Tokenizer) -> list[int]:
    """The tokens of a chat. What is said in it is text to the model, whatever it looks like.

    So the template sees numbered places only, and a file that holds `<|im_end|>` ends no turn.
    """
    places = [{**turn, "content": f"\0{index}\0"} for index, turn in enumerate(chat)]
    tokens: list[int] = []
    for index, piece in enumerate(_PLACE.split(template(places))):
        if index % 2:
            tokens += tokenizer.tokenize(chat[int(piece)]["content"])
        elif piece:
            tokens += tokenizer.tokenize(piece, special=True)
    return tokens


class CallFinder:
    """Finds calls in an answer that comes in pieces; the rest is text, to the letter."""

    def __init__(self, *, after_number: int = 0) -> None:
        self._number = after_number
        self._rest = ""

    def feed(self, piece: str) -> Iterator[str | FunctionCall]:
        """What is certain by now, in order."""
        self._rest += piece
        while self._rest:
            before, opens, after = self._rest.partition(CALL_OPENS)
            if not opens:
                ready = len(self._rest) - _opening_at_the_end(self._rest)
                if ready:
                    yield self._rest[:ready]
                self._rest = self._rest[ready:]
                return
            if before:
                yield before
            inside, closes, self._rest = after.partition(CALL_CLOSES)
            if not closes:
                self._rest = f"{CALL_OPENS}{inside}"
                return
            calls = self._calls(inside)
            yield from calls or (f"{CALL_OPENS}{inside}{CALL_CLOSES}",)

    def finish(self, piece: str = "") -> Iterator[str | FunctionCall]:
        """The last piece, and what is left: text, since a call that was not closed is none."""
        yield from self.feed(piece)
        if self._rest:
            yield self._rest
        self._rest = ""

    def _calls(self, inside: str) -> list[FunctionCall]:
        try:
            found = json.loads(inside)
        except (ValueError, RecursionError):
            return []
        calls = [_read(item) for item in (found if isinstance(found, list) else [found])]
        if None in calls:
            return []
        first = self._number + 1
        self._number += len(calls)
        return [
            FunctionCall(f"call_{number}", *call)
            for number, call in enumerate(filter(None, calls), first)
        ]


def _read(item: Any) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(item, dict):
        return None
    name, arguments = item.get("name"), item.get("arguments", {})
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _opening_at_the_end(text: str) -> int:
    """How many letters at the end may become the marker of a call."""
    longest = min(len(text), len(CALL_OPENS) - 1)
    return next((n for n in range(longest, 0, -1) if CALL_OPENS.startswith(text[-n:])), 0)


def _described(tools: tuple[ToolSchema, ...]) -> str:
    if not tools:
        return ""
    lines = (
        as_text(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            }
        )
        for tool in tools
    )
    return _TOOLS.format(tools="\n".join(lines))


def _worded(message: Message) -> Iterator[str]:
    """The parts of a message as text. Thoughts were output only."""
    for part in message.parts:
        if part.text is not None:
            yield part.text
        elif part.function_call is not None:
            yield _call(part.function_call)
        elif part.function_response is not None:
            yield _result(part.function_response)
        elif part.inline_data is not None:
            yield _unseen(part)


def _call(call: FunctionCall) -> str:
    return f"{CALL_OPENS}{as_text({'name': call.name, 'arguments': call.args})}{CALL_CLOSES}"


def _result(result: ToolResult) -> str:
    text = as_text(result.result)
    if result.is_error:
        text = f"error: {text}"
    seen = [text, *(_unseen(Part(inline_data=media)) for media in result.attachments)]
    return "<tool_response>\n{}\n</tool_response>".format("\n".join(seen))


def _unseen(part: Part) -> str:
    assert part.inline_data is not None
    return f"[not shown, this model reads text only: {worded_media(part.inline_data)}]"
