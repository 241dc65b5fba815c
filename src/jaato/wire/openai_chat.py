"""The body of POST /chat/completions as a `Request`, and back. No I/O, no SDK.

`encode(decode(body)) == body` for every body that the API takes: what is not understood is noted in
`extra["openai.chat"]`, at the level where it stood.

`decode(encode(request)) == request` for a history as a session writes it: one tool message per
step, holding all its results; in a model message thoughts, then texts, then calls. It holds modulo

- `message_id`, `marks` and `kind`: a summary or a notice is a user message like any other;
- thoughts without a note of this codec: they are output only and never encoded;
- results: an error begins with `Error: `, what is no text becomes JSON, and attachments and other
  media follow the step in a user message, since results may hold text only;
- media: only files have names, sound has one type per format, text files are texts, and in a model
  message there stands but a line that says what it was;
- ids of calls that are empty, longer than 40 characters or used twice in a message: new ones;
- a budget for thinking in tokens, which becomes an effort; options that OpenAI does not document;
  a message without parts.

System and developer messages in front are `Request.system`, so that no collection takes them; later
ones are user messages that remember their role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from jaato.exchange import Request, ToolSchema
from jaato.history.message import NOTHING
from jaato.wire.foreign import (
    a_list,
    a_text,
    an_object,
    beyond,
    noted,
    noting,
    said_in,
    whole_number,
)
from jaato.wire.openai_chat_messages import INSTRUCTING, decode_messages, encode_messages
from jaato.wire.openai_chat_stream import ChatAnswer, decode_answer
from jaato.wire.openai_content import CHAT
from jaato.wire.openai_options import CHAT_OPTIONS, effort, shared_out

__all__ = [
    "CHAT",
    "ChatAnswer",
    "decode",
    "decode_answer",
    "decode_messages",
    "encode",
    "encode_messages",
]

_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")


def encode(request: Request, *, limit_field: str = "max_completion_tokens") -> dict[str, Any]:
    """The JSON body; `limit_field` is where `max_output_tokens` goes."""
    note = noted(request.extra, CHAT)
    body: dict[str, Any] = {
        **note.get("more", NOTHING),
        "model": request.model,
        "messages": [*_system(request.system, note), *encode_messages(request.messages)],
    }
    if request.tools:
        body["tools"] = [_encode_tool(tool) for tool in request.tools]
    if request.max_output_tokens is not None:
        body[note.get("limit_field", limit_field)] = request.max_output_tokens
    if request.thinking is not None:
        body["reasoning_effort"] = effort(request.thinking)
    return {**body, **request.options}


def decode(body: Mapping[str, Any]) -> Request:
    """The request that a body makes."""
    body = an_object(body, "the request")
    model = a_text(body, "model", "the request")
    documents = a_list(body.get("messages"), "messages")
    leading = list(takewhile(_is_instruction, documents))
    system = _read_system(leading)
    known = {"model", "messages"}
    limit = next((key for key in _LIMIT_FIELDS if whole_number(body.get(key)) is not None), "")
    thinking = body["reasoning_effort"] if isinstance(body.get("reasoning_effort"), str) else None
    tools = a_list(body["tools"], "tools") if body.get("tools") else []
    for key, given in ((limit, limit), ("reasoning_effort", thinking), ("tools", tools)):
        if given:
            known.add(key)
    options, more = shared_out(body, known, CHAT_OPTIONS)
    return Request(
        model=model,
        messages=tuple(decode_messages(documents[len(leading) :], start=len(leading))),
        system=system,
        tools=tuple(_decode_tool(tool, f"tools[{n}]") for n, tool in enumerate(tools)),
        max_output_tokens=whole_number(body.get(limit)),
        thinking=thinking or None,
        options=options or NOTHING,
        extra=noting(
            CHAT,
            more=more,
            system=leading if leading != _system(system, NOTHING) else None,
            limit_field=limit if limit == "max_tokens" else None,
        ),
    )


def _system(text: str, note: Mapping[str, Any]) -> list[dict[str, Any]]:
    came = note.get("system")
    if came and _read_system(came) == text:
        return list(came)
    return [{"role": "system", "content": text}] if text else []


def _read_system(documents: Sequence[Any]) -> str:
    return "\n\n".join(said_in(document.get("content")) for document in documents)


def _is_instruction(document: object) -> bool:
    return isinstance(document, Mapping) and document.get("role") in INSTRUCTING


def _encode_tool(tool: ToolSchema) -> dict[str, Any]:
    note = noted(tool.extra, CHAT)
    if note.get("as_it_came"):
        return dict(tool.parameters)
    function = {**note.get("function", NOTHING), "name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = dict(tool.parameters)
    return {**note.get("more", NOTHING), "type": "function", "function": function}


def _decode_tool(document: object, at: str) -> ToolSchema:
    tool = an_object(document, at)
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        # Not a function: its fields take the place of parameters, so that they are counted.
        inner = tool.get(str(tool.get("type")))
        named = inner.get("name") if isinstance(inner, Mapping) else None
        name = named if isinstance(named, str) else str(tool.get("type", "tool"))
        return ToolSchema(name=name, parameters=dict(tool), extra=noting(CHAT, as_it_came=True))
    known = {"name"}
    description, parameters = function.get("description"), function.get("parameters")
    if isinstance(description, str) and description:
        known.add("description")
    if isinstance(parameters, Mapping) and parameters:
        known.add("parameters")
    return ToolSchema(
        name=a_text(function, "name", f"{at}.function"),
        description=str(description) if "description" in known else "",
        parameters=dict(parameters) if isinstance(parameters, Mapping) else {},
        extra=noting(
            CHAT, function=beyond(function, known), more=beyond(tool, ("type", "function"))
        ),
    )
