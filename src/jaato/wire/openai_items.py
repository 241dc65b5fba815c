"""The input items of Responses. What is lost on the way is listed in `openai_responses`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from jaato.wire.openai_chat_messages import ERROR, INSTRUCTING
from jaato.wire.openai_content import form_of, in_form, pieces_of, placeholder, sizes_of
from jaato.wire.openai_inputs import RESPONSES, decode_input, encode_input

LONGEST_ID = 64
BETWEEN_THOUGHTS = "\n\n"
"""What stands between the pieces of one reasoning item."""

_OUTPUTS = {"function_call_output": None, "custom_tool_call_output": "custom"}


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as input items; every call keeps, or gets, an id that the API accepts."""
    ids = CallIds(LONGEST_ID, across=True)
    items: list[dict[str, Any]] = []
    for position, message in enumerate(messages):
        if message.role is Role.MODEL:
            items += _said(message, ids, position)
            continue
        rest = []
        for part in message.parts:
            if part.function_response is None:
                rest.append(part)
            else:
                items.append(_output(part, part.function_response, ids))
        if rest or (message.role is Role.USER and not message.result_ids):
            items.append(_user(rest, noted(message.extra, RESPONSES)))
    return items


def decode_messages(items: Sequence[Any], *, start: int = 0) -> list[Message]:
    """The messages; what the model says in a row is one, and so are outputs in a row."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    parts: list[Part] = []
    role = Role.MODEL
    for number, each in enumerate(items, start):
        at = f"input[{number}]"
        item = an_object(each, at)
        kind = item.get("type", "message")
        speaker = Role.TOOL if kind in _OUTPUTS else Role.MODEL
        if kind == "message":
            speaker = _speaker(item, at)
        if parts and (speaker is not role or speaker is Role.USER):
            messages.append(Message(role, parts))
            parts = []
        role = speaker
        if speaker is Role.USER:
            messages.append(_decode_user(item, at))
        elif speaker is Role.TOOL:
            parts.append(_decode_output(item, str(kind), names, at))
        else:
            parts += decode_said(item, at)
            names |= {call.id: call.name for call in _calls(parts[-1:])}
    return [*messages, Message(role, parts)] if parts else messages


def decode_said(item: Mapping[str, Any], at: str) -> list[Part]:
    """The parts of one item of the model: a message, a thought, a call, or whatever it is."""
    kind = item.get("type", "message")
    if kind == "message":
        return _decode_message(item, at) or [opaque(RESPONSES, item)]
    if kind == "reasoning":
        return [Part(thought=_thought(item), extra=noting(RESPONSES, reasoning=dict(item)))]
    if kind == "function_call":
        args, text = read_arguments(a_text(item, "arguments", at))
        call = FunctionCall(a_text(item, "call_id", at), a_text(item, "name", at), args)
        rest = beyond(item, ("type", "call_id", "name", "arguments"))
        return [Part(function_call=call, extra=noting(RESPONSES, item=rest, arguments=text))]
    if kind == "custom_tool_call":
        args = {"input": a_text(item, "input", at)}
        call = FunctionCall(a_text(item, "call_id", at), a_text(item, "name", at), args)
        rest = beyond(item, ("type", "call_id", "name", "input"))
        return [Part(function_call=call, extra=noting(RESPONSES, item=rest, kind="custom"))]
    return [opaque(RESPONSES, item)]


def _speaker(item: Mapping[str, Any], at: str) -> Role:
    role = a_text(item, "role", at)
    if role == "assistant":
        return Role.MODEL
    if role == "user" or role in INSTRUCTING:
        return Role.USER
    known = ", ".join(("user", "assistant", *INSTRUCTING))
    raise MalformedError(f"{at}.role", f"is {role!r}", hint=f"one of {known}")


def _user(parts: Sequence[Part], note: Mapping[str, Any]) -> dict[str, Any]:
    document = {**note.get("item", NOTHING), "role": note.get("role", "user")}
    shown = [part for part in parts if part.text is not None or part.inline_data is not None]
    content = [encode_input(part) for part in shown]
    return document | in_form(content, note, empty="", kind="input_text")


def _decode_user(item: Mapping[str, Any], at: str) -> Message:
    role = item["role"]
    parts = _inputs(item, "content", at)
    written = in_form([encode_input(p) for p in parts], NOTHING, empty="", kind="input_text")
    note = noting(
        RESPONSES,
        item=beyond(item, ("role", "content")),
        role=role if role != "user" else None,
        form=form_of(item, written),
    )
    return Message(Role.USER, parts, extra=note)


def _inputs(item: Mapping[str, Any], key: str, at: str) -> list[Part]:
    content = item.get(key)
    if content is None:
        return []
    if isinstance(content, str):
        return [Part(text=content)]
    shown = key == "output"
    return [
        decode_input(part, f"{at}.{key}[{number}]", shown=shown)
        for number, part in enumerate(a_list(content, f"{at}.{key}"))
    ]


def _said(message: Message, ids: CallIds, position: int) -> list[dict[str, Any]]:
    items = []
    given = iter(ids.of_calls(message, position))
    left = sum(part.thought is None for part in message.parts)
    for run in _runs(message.parts):
        part = run[0]
        note = noted(part.extra, RESPONSES)
        left -= sum(part.thought is None for part in run)
        if part.thought is not None:
            # A reasoning item without the item it led to is refused.
            if "reasoning" in note and left:
                items.append(dict(note["reasoning"]))
        elif part.function_call is not None:
            items.append(_call(part.function_call, next(given), note))
        elif part.function_response is not None:
            items.append(_output(part, part.function_response, ids))
        else:
            items.append(_message(run))
    return items


def _runs(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Parts that stand in one item."""
    run: list[Part] = []
    for part in parts:
        if run and not noted(part.extra, RESPONSES).get("joins"):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _message(run: Sequence[Part]) -> dict[str, Any]:
    part = run[0]
    note = noted(part.extra, RESPONSES)
    held = opaque_in(RESPONSES, part.inline_data) if part.inline_data is not None else None
    if held is not None and not note.get("inside"):
        return held
    document = {**note.get("item", NOTHING), "role": "assistant"}
    content = [_content(each) for each in run]
    return document | in_form(content, note, empty="", kind="output_text")


def _content(part: Part) -> dict[str, Any]:
    note = noted(part.extra, RESPONSES)
    more = note.get("more", NOTHING)
    if part.inline_data is not None:
        held = opaque_in(RESPONSES, part.inline_data)
        text = {"type": "output_text", "text": placeholder(part.inline_data)}
        return text if held is None else held
    if note.get("refusal"):
        return {**more, "type": "refusal", "refusal": part.text}
    return {**more, "type": "output_text", "text": part.text}


def _decode_message(item: Mapping[str, Any], at: str) -> list[Part]:
    content = item.get("content")
    rest = beyond(item, ("role", "content"))
    if isinstance(content, str):
        return [Part(text=content, extra=noting(RESPONSES, item=rest))]
    pieces = [] if content is None else a_list(content, f"{at}.content")
    parts: list[Part] = []
    for number, each in enumerate(pieces):
        piece = an_object(each, f"{at}.content[{number}]")
        place = {"joins": True} if parts else {"item": rest, "form": "list"}
        parts.append(_decode_content(piece, place))
    return parts


def _decode_content(piece: Mapping[str, Any], place: Mapping[str, Any]) -> Part:
    kind = piece.get("type")
    text, refusal = piece.get("text"), piece.get("refusal")
    if kind == "output_text" and isinstance(text, str):
        more = beyond(piece, ("type", "text"))
        return Part(text=text, extra=noting(RESPONSES, more=more, **place))
    if kind == "refusal" and isinstance(refusal, str):
        more = beyond(piece, ("type", "refusal"))
        return Part(text=refusal, extra=noting(RESPONSES, more=more, refusal=True, **place))
    return opaque(RESPONSES, piece, noting(RESPONSES, inside=True, **place))


def _thought(item: Mapping[str, Any]) -> str:
    pieces = [
        piece.get("text")
        for key in ("summary", "content")
        for piece in (item[key] if isinstance(item.get(key), list) else ())
        if isinstance(piece, Mapping)
    ]
    return BETWEEN_THOUGHTS.join(text for text in pieces if isinstance(text, str) and text)


def _call(call: FunctionCall, call_id: str, note: Mapping[str, Any]) -> dict[str, Any]:
    document = {**note.get("item", NOTHING), "call_id": call_id, "name": call.name}
    if note.get("kind") == "custom" and isinstance(call.args.get("input"), str):
        return {**document, "type": "custom_tool_call", "input": call.args["input"]}
    arguments = write_arguments(call.args, note.get("arguments"))
    return {**document, "type": "function_call", "arguments": arguments}


def _calls(parts: Sequence[Part]) -> list[FunctionCall]:
    return [part.function_call for part in parts if part.function_call is not None]


def _output(part: Part, result: ToolResult, ids: CallIds) -> dict[str, Any]:
    note = noted(part.extra, RESPONSES)
    kind = f"{'custom_tool' if note.get('kind') == 'custom' else 'function'}_call_output"
    call_id = ids.of_result(result.call_id)
    document = {**note.get("item", NOTHING), "type": kind, "call_id": call_id}
    text = as_text(result.result)
    pieces = pieces_of(part, text, RESPONSES)
    if pieces:
        return {**document, "output": [encode_input(piece, shown=True) for piece in pieces]}
    if result.is_error and not text.lower().startswith("error"):
        text = ERROR + text
    content = [{"type": "input_text", "text": text}] if text else []
    content += [encode_input(Part(inline_data=media), shown=True) for media in result.attachments]
    return document | in_form(content, note, empty="", kind="input_text", key="output")


def _decode_output(item: Mapping[str, Any], kind: str, names: Mapping[str, str], at: str) -> Part:
    call_id = a_text(item, "call_id", at)
    parts = _inputs(item, "output", at)
    text = "".join(part.text for part in parts if part.text is not None)
    media = tuple(part.inline_data for part in parts if part.inline_data is not None)
    pieces = sizes_of(parts, RESPONSES) if isinstance(item.get("output"), list) else []
    plain = [[len(text), {}], *[[-1, {}] for _ in media]][0 if text else 1 :]
    if media and pieces == plain:
        pieces = []
    content = [{"type": "input_text", "text": text}] if text else []
    written = in_form(content, NOTHING, empty="", kind="input_text", key="output")
    note = noting(
        RESPONSES,
        item=beyond(item, ("type", "call_id", "output")),
        kind=_OUTPUTS[kind],
        pieces=pieces,
        form=None if pieces or media else form_of(item, written, "output"),
    )
    result = ToolResult(call_id, names.get(call_id, ""), text, attachments=media)
    return Part(function_response=result, extra=note)
