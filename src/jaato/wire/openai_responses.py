"""The body of POST /responses as a `Request`, and back. No I/O, no SDK.

`encode(decode(body)) == body` for every body that the API takes: what is not understood is noted in
`extra["openai.responses"]`, at the level where it stood. Items of kinds that are not known stand as
opaque media in the model message they are part of, so that they never come apart.

`decode(encode(request)) == request` for a history as a session writes it: one tool message per
step, holding all its results; no model message directly behind another. It holds modulo

- `message_id`, `marks` and `kind`: a summary or a notice is a user message like any other;
- thoughts without a note of this codec, and those behind which their message says nothing more:
  they are never encoded. A reasoning item is a thought that notes the item, and goes back whole;
- results: an error begins with `Error: `, what is no text becomes JSON;
- media: only files have names, sound has one type per format and is a file in a result, and in a
  model message there stands but a line that says what it was; media beside results follow them in
  a user message;
- ids of calls that are empty, longer than 64 characters or used before: new ones;
- a budget for thinking in tokens, which becomes an effort; options that OpenAI does not document;
  a message without parts.

Nothing is stored at the provider (`store: false`), and reasoning comes encrypted, so that it can be
replayed; a request that came without these fields goes without them.

`instructions` and the system and developer messages in front are `Request.system`, so that no
collection takes them; later ones are user messages that remember their role.
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
from jaato.wire.openai_chat_messages import INSTRUCTING
from jaato.wire.openai_inputs import RESPONSES
from jaato.wire.openai_items import decode_messages, encode_messages
from jaato.wire.openai_options import RESPONSES_OPTIONS, effort, shared_out
from jaato.wire.openai_responses_stream import ResponsesAnswer, decode_answer, error_in

__all__ = [
    "RESPONSES",
    "ResponsesAnswer",
    "decode",
    "decode_answer",
    "decode_messages",
    "encode",
    "encode_messages",
    "error_in",
]

ENCRYPTED = "reasoning.encrypted_content"

_DO_NOT_REASON = ("gpt-3", "gpt-4", "chatgpt")


def encode(request: Request) -> dict[str, Any]:
    """The JSON body."""
    note = noted(request.extra, RESPONSES)
    system = _system(request.system, note)
    items = [*system.get("items", ()), *encode_messages(request.messages)]
    body: dict[str, Any] = {
        **note.get("more", NOTHING),
        **({"model": request.model} if request.model else {}),
        **_input(items, note),
    }
    if "instructions" in system:
        body["instructions"] = system["instructions"]
    if request.tools:
        body["tools"] = [_encode_tool(tool) for tool in request.tools]
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    without = note.get("without", ())
    stateless = _stateless(request.model)
    body |= {key: value for key, value in stateless.items() if key not in without}
    if request.thinking is None:
        return {**body, **request.options}
    return {**body, **request.options, "reasoning": _encode_reasoning(request, note)}


def decode(body: Mapping[str, Any]) -> Request:
    """The request that a body makes."""
    body = an_object(body, "the request")
    model = a_text(body, "model", "the request") if "model" in body else ""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    items = [] if items is None else a_list(items, "input")
    leading = list(takewhile(_is_instruction, items))
    known = {"model"} | ({"input"} if given is not None else set())
    came: dict[str, Any] = {"items": leading} if leading else {}
    if isinstance(body.get("instructions"), str):
        known.add("instructions")
        came["instructions"] = body["instructions"]
    system = _read_system(came)
    reasoning = body.get("reasoning")
    thinking = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    tools = a_list(body["tools"], "tools") if body.get("tools") else []
    limit = whole_number(body.get("max_output_tokens"))
    stateless = _stateless(model)
    known |= {key for key, value in stateless.items() if body.get(key) == value}
    for key, value in (("tools", tools), ("max_output_tokens", limit)):
        if value or value == 0:
            known.add(key)
    if isinstance(thinking, str):
        known.add("reasoning")
    options, more = shared_out(body, known, RESPONSES_OPTIONS)
    return Request(
        model=model,
        messages=tuple(decode_messages(items[len(leading) :], start=len(leading))),
        system=system,
        tools=tuple(_decode_tool(tool, f"tools[{n}]") for n, tool in enumerate(tools)),
        max_output_tokens=limit,
        thinking=thinking if isinstance(thinking, str) else None,
        options=options or NOTHING,
        extra=noting(
            RESPONSES,
            more=more,
            without=[key for key in stateless if key not in body],
            input={str: "text", type(None): "none"}.get(type(given)),
            system=came if came != _system(system, NOTHING) else None,
            reasoning=None
            if not isinstance(thinking, str) or reasoning == _reasoning(thinking)
            else reasoning,
        ),
    )


def _stateless(model: str) -> dict[str, Any]:
    """What keeps the conversation here, and nothing of it there."""
    name = model.removeprefix("ft:")
    if name.startswith(_DO_NOT_REASON) or "-chat" in name:
        # They have no reasoning to encrypt, and refuse to be asked for it.
        return {"store": False}
    return {"store": False, "include": [ENCRYPTED]}


def _input(items: list[dict[str, Any]], note: Mapping[str, Any]) -> dict[str, Any]:
    form = note.get("input")
    if form == "none" and not items:
        return {}
    only = items[0] if len(items) == 1 else {}
    if form == "text" and only.keys() == {"role", "content"} and only["role"] == "user":
        return {"input": only["content"]}
    return {"input": items}


def _system(text: str, note: Mapping[str, Any]) -> Mapping[str, Any]:
    came = note.get("system")
    if isinstance(came, Mapping) and _read_system(came) == text:
        return came
    return {"instructions": text} if text else {}


def _read_system(came: Mapping[str, Any]) -> str:
    texts: list[str] = [came["instructions"]] if came.get("instructions") else []
    items: Sequence[Any] = came.get("items", ())
    return "\n\n".join([*texts, *(said_in(item.get("content")) for item in items)])


def _is_instruction(item: object) -> bool:
    return (
        isinstance(item, Mapping)
        and item.get("type", "message") == "message"
        and item.get("role") in INSTRUCTING
    )


def _reasoning(thinking: int | str) -> dict[str, Any]:
    return {"effort": effort(thinking), "summary": "auto"}


def _encode_reasoning(request: Request, note: Mapping[str, Any]) -> dict[str, Any]:
    assert request.thinking is not None, "asked for only with a thinking"
    came = note.get("reasoning")
    if isinstance(came, Mapping) and came.get("effort") == request.thinking:
        return dict(came)
    beside = request.options.get("reasoning")
    return {**_reasoning(request.thinking), **(beside if isinstance(beside, Mapping) else {})}


def _encode_tool(tool: ToolSchema) -> dict[str, Any]:
    note = noted(tool.extra, RESPONSES)
    if note.get("as_it_came"):
        return dict(tool.parameters)
    document = {**note.get("more", NOTHING), "type": "function", "name": tool.name}
    if tool.description:
        document["description"] = tool.description
    if tool.parameters:
        document["parameters"] = dict(tool.parameters)
    if "strict" not in document and not note.get("unsaid"):
        # Left to itself the API takes schemas for strict ones, and refuses most.
        document["strict"] = False
    return document


def _decode_tool(document: object, at: str) -> ToolSchema:
    tool = an_object(document, at)
    if tool.get("type") != "function":
        # Not a function: its fields take the place of parameters, so that they are counted.
        named = tool.get("name")
        name = named if isinstance(named, str) else str(tool.get("type", "tool"))
        extra = noting(RESPONSES, as_it_came=True)
        return ToolSchema(name=name, parameters=dict(tool), extra=extra)
    known = {"type", "name"} | ({"strict"} if tool.get("strict") is False else set())
    description, parameters = tool.get("description"), tool.get("parameters")
    if isinstance(description, str) and description:
        known.add("description")
    if isinstance(parameters, Mapping) and parameters:
        known.add("parameters")
    return ToolSchema(
        name=a_text(tool, "name", at),
        description=str(description) if "description" in known else "",
        parameters=dict(parameters) if isinstance(parameters, Mapping) else {},
        extra=noting(RESPONSES, more=beyond(tool, known), unsaid="strict" not in tool),
    )
