"""The laws of the Gemini codec: nothing is lost on the way out or on the way in."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jaato.exchange import Request, ToolSchema
from jaato.history import (
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato.testing import histories
from jaato.wire.google import decode, decode_messages, encode, encode_messages, sendable
from jaato.wire.google_parts import WITHOUT, difference, laid_over
from jaato.wire.google_rules import check

SIGNED = {"google": {"thoughtSignature": "c2lnbmVk"}}
PIXEL = Media("image/png", b"\x89PNG", "pixel.png")
BLOB = {"mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}


def content(role: str | None, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"parts": list(parts)} if role is None else {"role": role, "parts": list(parts)}


def call(name: str, call_id: str | None = None, **beside: Any) -> dict[str, Any]:
    with_id = {} if call_id is None else {"id": call_id}
    return {"functionCall": {**with_id, "name": name, "args": {"q": 1}}, **beside}


def response(name: str, value: Any, call_id: str | None = None) -> dict[str, Any]:
    with_id = {} if call_id is None else {"id": call_id}
    return {"functionResponse": {**with_id, "name": name, "response": {"result": value}}}


# A session's normal form.

texts = st.text(min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
media = st.builds(Media, st.sampled_from(["image/png", "text/plain"]), st.binary(max_size=9))
signed = st.sampled_from([SIGNED, {}])
said = st.builds(lambda text, extra: Part(text=text, extra=extra), texts, signed)
thought = st.builds(lambda text: Part(thought=text, extra=SIGNED), texts)


@st.composite
def steps(draw: st.DrawFn) -> list[Message]:
    """A message of the model, and the results of all its calls."""
    names = draw(st.lists(st.sampled_from(["read", "run", "search"]), max_size=4))
    with_ids = draw(st.booleans())
    calls = [
        FunctionCall(f"call-{at}" if with_ids else "", name, draw(json_objects))
        for at, name in enumerate(names)
    ]
    parts = draw(st.lists(said | thought, min_size=0 if calls else 1, max_size=3))
    parts += [Part(function_call=call, extra=draw(signed)) for call in calls]
    step = [Message(Role.MODEL, parts)]
    if calls:
        results = [
            ToolResult(
                call.id,
                call.name,
                draw(json_values),
                draw(st.booleans()),
                tuple(draw(st.lists(media, max_size=2))),
            )
            for call in calls
        ]
        step.append(Message(Role.TOOL, [Part(function_response=result) for result in results]))
    return step


@st.composite
def sessions(draw: st.DrawFn) -> list[Message]:
    """Turns of steps. Between two messages of the model there is always one of somebody else."""
    messages: list[Message] = []
    asked = said | st.builds(lambda one: Part(inline_data=one), media)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(Kind))
        if kind is not Kind.PLAIN:
            messages.append(Message(Role.USER, [Part(text="earlier")], kind=kind))
        messages.append(Message(Role.USER, draw(st.lists(asked, min_size=1, max_size=3))))
        for _ in range(draw(st.integers(0, 3))):
            step = draw(steps())
            messages += step
            if len(step) == 1:
                break
    return messages


schemas = st.builds(
    ToolSchema,
    name=st.sampled_from(["read", "run", "search"]),
    description=st.text(max_size=8),
    parameters=st.just({"type": "object"}) | json_objects,
)
options = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "topP": st.floats(0, 1),
        "stopSequences": st.lists(texts, min_size=1, max_size=2),
        "toolConfig": st.just({"functionCallingConfig": {"mode": "AUTO"}}),
        "safetySettings": st.just([{"category": "X", "threshold": "OFF"}]),
    },
)
requests = st.builds(
    Request,
    model=st.sampled_from(["gemini-3.8-flash", "gemini-pro-latest", "tuned/7"]),
    messages=sessions().map(tuple),
    system=st.text(max_size=8),
    tools=st.lists(schemas, max_size=3).map(tuple),
    max_output_tokens=st.none() | st.integers(1, 9999),
    thinking=st.none() | st.integers(-1, 9999) | st.sampled_from(["minimal", "low", "high"]),
    options=options,
)


def carried(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """What the wire carries of messages."""
    return [(message.role, message.parts, message.extra) for message in messages]


@given(requests)
def test_a_request_survives_the_way_out_and_back(request_: Request) -> None:
    back = decode(encode(request_), model=request_.model)
    assert carried(back.messages) == carried(request_.messages)
    assert replace(back, messages=()) == replace(request_, messages=())


@given(requests)
def test_what_is_written_is_json_and_obeys_the_rules(request_: Request) -> None:
    body = sendable(encode(request_))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    json.dumps(body, ensure_ascii=False).encode()
    refused = check(body)
    allowed = ("Duplicate function declaration", "contents is not specified")
    assert refused is None or any(text in refused.message for text in allowed)


@given(histories(pending=False))
def test_every_history_is_written_in_an_order_that_the_api_accepts(history: list[Message]) -> None:
    asked = Message.from_text(Role.USER, "asked")
    assert check(sendable({"contents": encode_messages([asked, *history])})) is None


@given(histories())
def test_writing_what_was_read_again_changes_nothing(history: list[Message]) -> None:
    contents = encode_messages(history)
    assert encode_messages(decode_messages(contents)) == contents


# Foreign JSON.

unknown = st.dictionaries(st.sampled_from(["xNew", "x_new", "labelled"]), json_values, max_size=2)
base64_texts = st.binary(max_size=9).flatmap(
    lambda data: st.sampled_from(
        [
            base64.b64encode(data).decode(),
            base64.urlsafe_b64encode(data).decode(),
            base64.b64encode(data).decode().rstrip("="),
        ]
    )
) | st.just("no base64!")
blobs = st.fixed_dictionaries(
    {"data": base64_texts},
    optional={"mimeType": st.sampled_from(["image/png", "audio/wav"]), "displayName": texts},
)
calls = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["", "a", "b"]),
        "name": st.sampled_from(["read", "run", ""]),
        "args": json_objects | st.none() | st.just([1]),
        "willContinue": st.just(False),
    },
)
responses = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["", "a", "b"]),
        "name": st.sampled_from(["read", "run", ""]),
        "response": json_objects
        | st.builds(lambda one: {"result": one}, json_values)
        | st.builds(lambda one: {"error": one}, json_values)
        | st.just("no object"),
        "parts": st.lists(st.builds(lambda one: {"inlineData": one}, blobs) | unknown, max_size=2),
        "scheduling": st.just("SILENT"),
    },
)
data = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=8) | st.just(7)),
    st.builds(lambda one: {"inlineData": one}, blobs),
    st.builds(lambda uri: {"fileData": {"fileUri": uri}}, texts),
    st.builds(lambda one, more: {"functionCall": one | more}, calls, unknown),
    st.builds(lambda one, more: {"functionResponse": one | more}, responses, unknown),
    st.builds(lambda code: {"executableCode": {"language": "PYTHON", "code": code}}, texts),
    st.builds(lambda text: {"codeExecutionResult": {"output": text}}, texts),
    st.builds(lambda one: {"toolCall": one}, json_objects),
    st.just({}),
)
beside = st.fixed_dictionaries(
    {},
    optional={
        "thought": st.booleans(),
        "thoughtSignature": base64_texts,
        "videoMetadata": json_objects,
    },
)
foreign_parts = st.builds(
    lambda *fields: {k: v for f in fields for k, v in f.items()}, data, beside, unknown
)
foreign_contents = st.builds(
    lambda fields, more: {**more, **fields},
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "model", "model", "function", "tool", "other", ""]),
            "parts": st.lists(foreign_parts, max_size=4) | st.none(),
        },
    ),
    unknown,
)
declarations = st.builds(
    lambda fields, more: {**more, **fields},
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["read", "run", ""]),
            "description": st.text(max_size=4),
            "parameters": st.just(
                {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
            ),
            "parametersJsonSchema": st.just({"type": "object"}) | json_objects | st.just("text"),
            "response": json_objects,
            "behavior": st.just("BLOCKING"),
        },
    ),
    unknown,
)
tool_groups = st.one_of(
    st.builds(
        lambda some, more: {"functionDeclarations": some, **more},
        st.lists(declarations, max_size=3),
        unknown,
    ),
    st.just({"googleSearch": {}}),
    unknown,
    st.just("no object"),
)
configs = st.builds(
    lambda fields, more: {**more, **fields},
    st.fixed_dictionaries(
        {},
        optional={
            "temperature": st.floats(0, 2),
            "maxOutputTokens": st.integers(1, 99) | st.just("many") | st.just(True),
            "thinkingConfig": st.sampled_from(
                [
                    {"includeThoughts": True, "thinkingBudget": 5},
                    {"includeThoughts": True, "thinkingLevel": "LOW"},
                    {"thinkingLevel": "low"},
                    {"thinkingBudget": 0},
                    {"thinkingBudget": 0, "includeThoughts": False},
                    {},
                    "high",
                ]
            ),
            "tools": json_values,
            "toolConfig": json_values,
            "generationConfig": json_values,
        },
    ),
    unknown,
)
systems = st.one_of(
    st.builds(lambda text: {"parts": [{"text": text}]}, st.text(max_size=8)),
    st.just({"role": "system", "parts": [{"text": "one"}, {"text": "two", "x": 1}]}),
    st.just({"parts": [{"inlineData": BLOB}]}),
    st.just({}),
    st.just("text"),
    st.none(),
)
bodies = st.builds(
    lambda fields, more: {**more, **fields},
    st.fixed_dictionaries(
        {},
        optional={
            "contents": st.lists(foreign_contents, max_size=6) | st.none(),
            "systemInstruction": systems,
            "tools": st.lists(tool_groups, max_size=3) | st.just("no list") | st.none(),
            "toolConfig": json_values,
            "safetySettings": json_values,
            "generationConfig": configs | st.none() | st.just("no object"),
            "model": st.just("models/gemini"),
        },
    ),
    unknown,
)


@given(bodies)
def test_foreign_json_survives_the_way_in_and_out(body: dict[str, Any]) -> None:
    assert encode(decode(body)) == body


@given(json_objects, json_objects)
def test_what_is_laid_over_makes_the_difference(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    if WITHOUT not in theirs:
        assert laid_over(ours, difference(ours, theirs)) == theirs
