"""The messages of Chat Completions. What is lost on the way is listed in `openai_chat`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaato.history import FunctionCall, Message, Part, Role, ToolResult
from jaato.history.message import NOTHING
from jaato.wire.foreign import (
    CallIds,
    MalformedError,
    a_list,
    a_text,
    an_object,
    as_text,
    beyond,
    noted,
    noting,
    opaque,
    opaque_in,
    read_arguments,
    write_arguments,
)
from jaato.wire.openai_content import (
    CHAT,
    decode_part,
    encode_part,
    form_of,
    in_form,
    pieces_of,
    placeholder,
    sizes_of,
)

LONGEST_ID = 40
THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Where servers beyond OpenAI put thoughts; OpenAI itself shows none here."""
INSTRUCTING = ("system", "developer")
ERROR = "Error: "
"""How the result of a failed call begins: the API has no other sign for it."""

_ANSWERING = ("tool", "function")


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as the API takes them; every call keeps, or gets, an id that it accepts."""
    ids = CallIds(LONGEST_ID)
    wire: list[dict[str, Any]] = []
    # What a step's results cannot hold waits until the last of them: nothing may stand between.
    waiting: list[Part] = []
    for position, message in enumerate(messages):
        if waiting and not message.result_ids:
            wire.append(_user(waiting))
            waiting = []
        if message.role is Role.MODEL:
            wire.append(_assistant(message, ids, position))
        rest = []
        for part in message.parts:
            if part.function_response is None:
                rest.append(part)
                continue
            document, loose = _tool(part, part.function_response, ids)
            wire.append(document)
            waiting += loose
        if message.role is Role.MODEL:
            continue
        if message.result_ids:
            waiting += rest
        elif rest or message.role is Role.USER:
            wire.append(_user(rest, noted(message.extra, CHAT)))
    return [*wire, _user(waiting)] if waiting else wire


def decode_messages(documents: Sequence[Any], *, start: int = 0) -> list[Message]:
    """The messages; results that stand together are one message. `start` counts in errors."""
    messages: list[Message] = []
    results: list[Part] = []
    names: dict[str, str] = {}
    for number, each in enumerate(documents, start):
        at = f"messages[{number}]"
        document = an_object(each, at)
        role = a_text(document, "role", at)
        if role in _ANSWERING:
            results.append(_decode_tool(document, role, names, at))
            continue
        if results:
            messages.append(Message(Role.TOOL, results))
            results = []
        if role == "assistant":
            message = decode_assistant(document, at)
            names = {call.id: call.name for call in message.function_calls}
        elif role == "user" or role in INSTRUCTING:
            message = _decode_user(document, role, at)
        else:
            known = ", ".join(("user", "assistant", *INSTRUCTING, *_ANSWERING))
            raise MalformedError(f"{at}.role", f"is {role!r}", hint=f"one of {known}")
        messages.append(message)
    return [*messages, Message(Role.TOOL, results)] if results else messages


def decode_assistant(document: Mapping[str, Any], at: str) -> Message:
    """One message of the model."""
    known = {"role", "content"}
    thoughts = []
    for field in THOUGHT_FIELDS:
        if isinstance(document.get(field), str) and document[field]:
            known.add(field)
            thoughts.append(Part(thought=document[field], extra=noting(CHAT, field=field)))
    content = _decode_content(document, _decode_said, at)
    refusal = document.get("refusal")
    if isinstance(refusal, str) and refusal:
        known.add("refusal")
        content.append(Part(text=refusal, extra=noting(CHAT, refusal="field")))
    calls = []
    if document.get("tool_calls"):
        known.add("tool_calls")
        where = f"{at}.tool_calls"
        for number, call in enumerate(a_list(document["tool_calls"], where)):
            calls.append(decode_call(call, f"{where}[{number}]"))
    if isinstance(document.get("function_call"), Mapping):
        known.add("function_call")
        function = document["function_call"]
        calls.append(_function_part("", function, f"{at}.function_call", legacy=True))
    if document.get("content") == "" and (calls or thoughts or len(content) > 1):
        # An empty text says nothing, and other providers refuse it.
        content = content[1:]
    written = _said([*content, *calls], NOTHING)
    note = noting(CHAT, more=beyond(document, known), form=form_of(document, written))
    return Message(Role.MODEL, [*thoughts, *content, *calls], extra=note)


def decode_call(document: object, at: str) -> Part:
    """One tool call; a kind that is not known keeps all its fields as arguments."""
    call = an_object(document, at)
    kind = call.get("type", "function")
    call_id = a_text(call, "id", at)
    inner = call.get(kind) if isinstance(kind, str) else None
    if kind == "function":
        more = beyond(call, ("id", "type", "function"))
        untyped = "type" not in call
        inner = an_object(inner, f"{at}.function")
        return _function_part(call_id, inner, f"{at}.function", more=more, untyped=untyped)
    if kind == "custom" and isinstance(inner, Mapping):
        said = a_text(inner, "input", f"{at}.custom")
        custom = FunctionCall(call_id, a_text(inner, "name", f"{at}.custom"), {"input": said})
        more = beyond(call, ("id", "type", "custom"))
        rest = beyond(inner, ("name", "input"))
        extra = noting(CHAT, kind="custom", more=more, function=rest)
        return Part(function_call=custom, extra=extra)
    unknown = FunctionCall(call_id, str(kind), beyond(call, ("id", "type")))
    return Part(function_call=unknown, extra=noting(CHAT, kind="unknown"))


def _user(parts: Sequence[Part], note: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    document = {**note.get("more", NOTHING), "role": note.get("role", "user")}
    shown = [part for part in parts if part.text is not None or part.inline_data is not None]
    return document | in_form([encode_part(part) for part in shown], note, empty="")


def _decode_user(document: Mapping[str, Any], role: str, at: str) -> Message:
    parts = _decode_content(document, decode_part, at)
    written = in_form([encode_part(part) for part in parts], NOTHING, empty="")
    more = beyond(document, ("role", "content"))
    spoken = role if role != "user" else None
    note = noting(CHAT, more=more, role=spoken, form=form_of(document, written))
    return Message(Role.USER, parts, extra=note)


def _assistant(message: Message, ids: CallIds, position: int) -> dict[str, Any]:
    note = noted(message.extra, CHAT)
    document: dict[str, Any] = {**note.get("more", NOTHING), "role": "assistant"}
    document |= _said(message.parts, note)
    calls = []
    given = iter(ids.of_calls(message, position))
    for part in message.parts:
        said = noted(part.extra, CHAT)
        if part.function_call is not None:
            call_id = next(given)
            if said.get("legacy"):
                document["function_call"] = _function(part.function_call, said)
            else:
                calls.append(_call(part.function_call, call_id, said))
        elif part.thought is not None and "field" in said:
            document[said["field"]] = document.get(said["field"], "") + part.thought
        elif said.get("refusal") == "field":
            document["refusal"] = part.text
    if calls:
        document["tool_calls"] = calls
    return document


def _said(parts: Sequence[Part], note: Mapping[str, Any]) -> dict[str, Any]:
    """The content of an assistant message: what is neither thought nor called."""
    content = []
    empty: str | None = ""
    for part in parts:
        said = noted(part.extra, CHAT)
        if part.function_call is not None:
            # Null is right as well, but some servers refuse it: llama_cpp.server, and DeepSeek
            # beside thoughts.
            continue
        if said.get("refusal") == "field":
            empty = None
        elif part.text is not None and "refusal" in said:
            content.append({**said.get("more", NOTHING), "type": "refusal", "refusal": part.text})
        elif part.text is not None:
            content.append(encode_part(part))
        elif part.inline_data is not None:
            held = opaque_in(CHAT, part.inline_data)
            text = {"type": "text", "text": placeholder(part.inline_data)}
            content.append(text if held is None else held)
    return in_form(content, note, empty=empty)


def _decode_said(document: object, at: str) -> Part:
    said = an_object(document, at)
    if said.get("type") == "text" and isinstance(said.get("text"), str):
        return decode_part(said, at)
    if said.get("type") == "refusal" and isinstance(said.get("refusal"), str):
        more = beyond(said, ("type", "refusal"))
        return Part(text=said["refusal"], extra=noting(CHAT, refusal="part", more=more))
    return opaque(CHAT, said)


def _decode_content(
    document: Mapping[str, Any], decode_one: Callable[[object, str], Part], at: str
) -> list[Part]:
    content = document.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Part(text=content)]
    parts = a_list(content, f"{at}.content")
    return [decode_one(part, f"{at}.content[{number}]") for number, part in enumerate(parts)]


def _call(call: FunctionCall, call_id: str, note: Mapping[str, Any]) -> dict[str, Any]:
    kind = note.get("kind")
    if kind == "unknown":
        return {**call.args, "id": call_id, "type": call.name}
    document = {**note.get("more", NOTHING), "id": call_id}
    if kind == "custom" and isinstance(call.args.get("input"), str):
        inner = {**note.get("function", NOTHING), "name": call.name, "input": call.args["input"]}
        return {**document, "type": "custom", "custom": inner}
    if not note.get("untyped"):
        document["type"] = "function"
    return {**document, "function": _function(call, note)}


def _function(call: FunctionCall, note: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **note.get("function", NOTHING),
        "name": call.name,
        "arguments": write_arguments(call.args, note.get("arguments")),
    }


def _function_part(call_id: str, inner: Mapping[str, Any], at: str, **facts: Any) -> Part:
    args, text = read_arguments(a_text(inner, "arguments", at))
    call = FunctionCall(call_id, a_text(inner, "name", at), args)
    rest = beyond(inner, ("name", "arguments"))
    return Part(function_call=call, extra=noting(CHAT, arguments=text, function=rest, **facts))


def _tool(part: Part, result: ToolResult, ids: CallIds) -> tuple[dict[str, Any], list[Part]]:
    """A result, and what had to be left out of it."""
    note = noted(part.extra, CHAT)
    document = dict(note.get("more", NOTHING))
    call_id = ids.of_result(result.call_id)
    if note.get("legacy"):
        document |= {"role": "function", "name": result.name}
    else:
        document |= {"role": "tool", "tool_call_id": call_id}
    text = as_text(result.result)
    pieces = pieces_of(part, text, CHAT)
    if pieces:
        return {**document, "content": [encode_part(piece) for piece in pieces]}, []
    if result.is_error and not text.lower().startswith("error"):
        text = ERROR + text
    content = [{"type": "text", "text": text}] if text else []
    document |= in_form(content, note, empty="")
    if not result.attachments:
        return document, []
    label = Part(text=f"[attached to the result of {result.name or 'a tool'}]")
    return document, [label, *(Part(inline_data=media) for media in result.attachments)]


def _decode_tool(document: Mapping[str, Any], role: str, names: Mapping[str, str], at: str) -> Part:
    legacy = role == "function"
    call_id = "" if legacy else a_text(document, "tool_call_id", at)
    said = document.get("name")
    name = a_text(document, "name", at) if legacy else names.get(call_id, said)
    parts = _decode_content(document, decode_part, at)
    text = "".join(part.text for part in parts if part.text is not None)
    media = tuple(part.inline_data for part in parts if part.inline_data is not None)
    pieces = sizes_of(parts, CHAT) if isinstance(document.get("content"), list) else []
    written = in_form([{"type": "text", "text": text}] if text else [], NOTHING, empty="")
    note = noting(
        CHAT,
        more=beyond(document, ("role", "content", "name" if legacy else "tool_call_id")),
        legacy=legacy,
        pieces=pieces,
        form=None if pieces else form_of(document, written),
    )
    result = ToolResult(call_id, name if isinstance(name, str) else "", text, attachments=media)
    return Part(function_response=result, extra=note)
