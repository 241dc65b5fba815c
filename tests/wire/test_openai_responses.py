"""Requests of Responses: what goes over the wire comes back, and the API takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.wire.openai_documents import ARGUMENTS, requests, said, session_form
from tests.wire.openai_response_documents import response_bodies

from jaato.exchange import Request, ToolSchema
from jaato.history import (
    STUB_MARK,
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
    is_legal,
)
from jaato.history.codec import from_dict, to_dict
from jaato.testing import histories, sketch
from jaato.wire.foreign import INVALID_ARGUMENTS, MalformedError, is_opaque
from jaato.wire.openai_responses import (
    RESPONSES,
    decode,
    decode_messages,
    encode,
    encode_messages,
)
from jaato.wire.openai_rules import check_responses

as_session = partial(session_form, in_order=True)
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spelled(document: object) -> str:
    """A document to compare by: 1 and true are not the same."""
    return json.dumps(document, sort_keys=True)


@calm
@given(request=requests(as_session))
def test_a_request_survives_the_wire(request: Request) -> None:
    assert said(decode(encode(request))) == said(request)


@calm
@given(body=response_bodies())
def test_a_foreign_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    before = spelled(body)
    request = decode(body)
    assert spelled(encode(request)) == before
    assert spelled(body) == before


@calm
@given(body=response_bodies())
def test_notes_are_json(body: dict[str, Any]) -> None:
    for message in decode(body).messages:
        assert from_dict(json.loads(json.dumps(to_dict(message)))) == message


@calm
@given(history=histories(max_turns=4, max_messages=30, pending=False))
def test_every_legal_history_is_a_request_that_is_accepted(history: list[Message]) -> None:
    assert is_legal(history)
    items = encode_messages(history)
    if items:
        assert check_responses({"model": "gpt-5.5", "input": items, "store": False}) is None
    assert spelled(encode_messages(decode_messages(items))) == spelled(items)


def wire(*messages: Message) -> list[dict[str, Any]]:
    return encode_messages(messages)


def user(*parts: Part) -> Message:
    return Message(Role.USER, parts)


def model(*parts: Part) -> Message:
    return Message(Role.MODEL, parts)


def call(call_id: str, args: dict[str, Any] | None = None) -> Part:
    return Part(function_call=FunctionCall(call_id, "run", args or {}))


def result(call_id: str, value: Any = "ok", **rest: Any) -> Part:
    return Part(function_response=ToolResult(call_id, "run", value, **rest))


def reasoning(number: int = 1, **more: Any) -> dict[str, Any]:
    """A reasoning item as the API gives it."""
    item = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    return {**item, "encrypted_content": "sealed", **more}


PNG = Media("image/png", b"\0\1\2\3")
PIXEL = "data:image/png;base64,AAECAw=="


@pytest.mark.parametrize(
    ("part", "content"),
    [
        pytest.param(Part(text="hi"), "hi", id="a lone text is a string"),
        pytest.param(
            Part(inline_data=PNG),
            [{"type": "input_image", "image_url": PIXEL}],
            id="an image is a data URI",
        ),
        pytest.param(
            Part(inline_data=Media("audio/mpeg", b"ID3")),
            [{"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}],
            id="sound has a format",
        ),
        pytest.param(
            Part(inline_data=Media("application/pdf", b"%PDF")),
            [
                {
                    "type": "input_file",
                    "filename": "file.pdf",
                    "file_data": "data:application/pdf;base64,JVBERg==",
                }
            ],
            id="a document is a file, and has a name",
        ),
        pytest.param(
            Part(inline_data=Media("text/markdown", b"# hi", "a.md")),
            [
                {
                    "type": "input_file",
                    "filename": "a.md",
                    "file_data": "data:text/markdown;base64,IyBoaQ==",
                }
            ],
            id="a text file is a file",
        ),
    ],
)
def test_what_a_user_says(part: Part, content: Any) -> None:
    assert wire(user(part)) == [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("part", "output"),
    [
        pytest.param(result("1", "text"), "text", id="text as it is"),
        pytest.param(result("1", {"a": [1, None]}), '{"a":[1,null]}', id="data as JSON"),
        pytest.param(result("1", None), "null", id="nothing"),
        pytest.param(result("1", ""), "", id="an empty text"),
        pytest.param(result("1", "no file", is_error=True), "Error: no file", id="an error"),
        pytest.param(
            result("1", "done", attachments=(PNG,)),
            [
                {"type": "input_text", "text": "done"},
                {"type": "input_image", "image_url": PIXEL},
            ],
            id="pictures stand in the result",
        ),
        pytest.param(
            result("1", "", attachments=(Media("audio/wav", b"RIFF", "a.wav"),)),
            [
                {
                    "type": "input_file",
                    "filename": "a.wav",
                    "file_data": "data:audio/wav;base64,UklGRg==",
                }
            ],
            id="sound in a result is a file",
        ),
        pytest.param(
            Part(function_response=ToolResult("1", "run", "[removed]"), extra={STUB_MARK: True}),
            "[removed]",
            id="a stub",
        ),
    ],
)
def test_results(part: Part, output: Any) -> None:
    items = wire(model(call("1")), Message(Role.TOOL, [part]))
    assert items[1:] == [{"type": "function_call_output", "call_id": "1", "output": output}]


def test_a_result_in_parts_that_was_stubbed_is_plain_text() -> None:
    output = [{"type": "input_text", "text": "long"}, {"type": "input_text", "text": "er", "x": 1}]
    asked = {"type": "function_call", "call_id": "1", "name": "run", "arguments": "{}"}
    step, answer = decode_messages(
        [asked, {"type": "function_call_output", "call_id": "1", "output": output}]
    )
    part = answer.parts[0]
    assert part.function_response == ToolResult("1", "run", "longer")
    stub = Part(
        function_response=ToolResult("1", "run", "[gone]"), extra={**part.extra, STUB_MARK: True}
    )
    assert wire(step, answer.with_parts([stub]))[1]["output"] == "[gone]"


def test_sound_in_a_foreign_result_goes_back_as_it_came() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    asked = {"type": "function_call", "call_id": "1", "name": "run", "arguments": "{}"}
    items = [asked, {"type": "function_call_output", "call_id": "1", "output": [sound]}]
    assert encode_messages(decode_messages(items)) == items


@pytest.mark.parametrize("text", ARGUMENTS, ids=lambda text: repr(text[:40]))
def test_arguments_go_back_letter_by_letter(text: str) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": text, "id": "f1"}
    assert encode_messages(decode_messages([item])) == [item]


@pytest.mark.parametrize("text", ['{"path": "src/ap', "[1]", "null", '{"a":NaN}'])
def test_arguments_that_are_no_object_are_flagged(text: str) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": text}
    (message,) = decode_messages([item])
    assert message.function_calls[0].args == {INVALID_ARGUMENTS: text}


@pytest.mark.parametrize(
    ("ids", "wired"),
    [
        pytest.param(("a", "b"), ["a", "b"], id="ids that are fine stay"),
        pytest.param(("", ""), ["call_0_0", "call_0_1"], id="empty ids"),
        pytest.param(("a", "a"), ["a", "call_0_1"], id="an id that comes twice"),
        pytest.param(("x" * 65, "b"), ["call_0_0", "b"], id="an id that is too long"),
        pytest.param(("x" * 64, "b"), ["x" * 64, "b"], id="an id that is just short enough"),
    ],
)
def test_every_call_has_an_id_that_is_accepted(ids: Sequence[str], wired: list[str]) -> None:
    items = wire(model(*map(call, ids)), Message(Role.TOOL, [result(each) for each in ids]))
    assert [item["call_id"] for item in items] == wired * 2


def test_an_id_that_comes_back_in_a_later_step_gets_another() -> None:
    step = (model(call("a")), Message(Role.TOOL, [result("a")]))
    assert [item["call_id"] for item in wire(*step, *step)] == ["a", "a", "call_2_0", "call_2_0"]


# --- Thoughts.


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="without a note"),
        pytest.param({"anthropic": {"signature": "x"}}, id="with another provider's note"),
    ],
)
def test_thoughts_of_others_are_not_replayed(extra: Mapping[str, Any]) -> None:
    thinking = model(Part(thought="hm", extra=extra), Part(text="so"))
    assert wire(thinking) == [{"role": "assistant", "content": "so"}]


@pytest.mark.parametrize(
    ("item", "thought"),
    [
        pytest.param(reasoning(), "", id="nothing is shown"),
        pytest.param(
            reasoning(
                summary=[
                    {"type": "summary_text", "text": "First."},
                    {"type": "summary_text", "text": "Then."},
                ]
            ),
            "First.\n\nThen.",
            id="a summary",
        ),
        pytest.param(
            reasoning(content=[{"type": "reasoning_text", "text": "Hm."}]), "Hm.", id="in full"
        ),
    ],
)
def test_a_reasoning_item_goes_back_whole(item: dict[str, Any], thought: str) -> None:
    items = [item, {"role": "assistant", "content": "So."}]
    (message,) = decode_messages(items)
    assert message.parts[0] == Part(thought=thought, extra={RESPONSES: {"reasoning": item}})
    assert wire(message) == items


def test_a_reasoning_item_without_what_it_led_to_stays_here() -> None:
    thought = Part(thought="", extra={RESPONSES: {"reasoning": reasoning()}})
    assert wire(model(Part(text="so"), thought)) == [{"role": "assistant", "content": "so"}]
    assert wire(model(thought)) == []


def test_what_a_model_says_in_a_row_never_comes_apart() -> None:
    row = [
        reasoning(1),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        reasoning(2),
        {"role": "assistant", "content": "So."},
        {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"},
    ]
    output = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    first, second = decode_messages([*row, output])
    assert (first.role, second.role) == (Role.MODEL, Role.TOOL)
    media = first.parts[1].inline_data
    assert media is not None
    assert is_opaque(media)
    assert json.loads(media.data) == row[1]
    assert wire(first, second) == [*row, output]


def test_a_message_of_several_parts_is_one_item() -> None:
    item = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "So", "annotations": []},
            {"type": "refusal", "refusal": " no."},
        ],
    }
    (message,) = decode_messages([item])
    assert message.text == "So no."
    assert wire(message) == [item]


@pytest.mark.parametrize("kind", [Kind.SUMMARY, Kind.NOTICE])
def test_what_a_collection_wrote_is_a_user_message(kind: Kind) -> None:
    message = Message(Role.USER, [Part(text="earlier")], kind=kind)
    assert wire(message) == [{"role": "user", "content": "earlier"}]


# --- The rest of a request.


@pytest.mark.parametrize(
    ("fields", "system"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"instructions": "Be brief."}, "Be brief.", id="instructions"),
        pytest.param(
            {"input": [{"role": "developer", "content": "Be kind.", "x": 1}]},
            "Be kind.",
            id="a developer's message",
        ),
        pytest.param(
            {
                "instructions": "Be brief.",
                "input": [
                    {
                        "type": "message",
                        "role": "system",
                        "content": [{"type": "input_text", "text": "Be kind."}],
                    }
                ],
            },
            "Be brief.\n\nBe kind.",
            id="both",
        ),
    ],
)
def test_instructions_in_front_are_the_system(fields: dict[str, Any], system: str) -> None:
    later = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Now in French."}]
    body = {"model": "gpt-5.5", **fields, "input": [*fields.get("input", []), *later]}
    request = decode(body)
    assert request.system == system
    assert [message.role for message in request.messages] == [Role.USER, Role.USER]
    assert encode(request) == body


def test_a_system_that_was_changed_replaces_what_came() -> None:
    body = {"model": "m", "input": [{"role": "developer", "content": "Be brief.", "x": 1}]}
    request = decode(body)
    changed = Request(model="m", messages=(), system="Be kind.", extra=request.extra)
    assert encode(changed) == {"model": "m", "input": [], "instructions": "Be kind."}


@pytest.mark.parametrize("given_", ["hi", [], None], ids=["a text", "no items", "null"])
def test_the_input_keeps_its_form(given_: Any) -> None:
    body = {"model": "m", "input": given_}
    assert encode(decode(body)) == body


def test_a_whole_request() -> None:
    request = Request(
        model="gpt-5.5",
        messages=tuple(sketch("u")),
        system="Be brief.",
        tools=(ToolSchema(name="run", description="Runs."),),
        max_output_tokens=100,
        thinking=3000,
        options={"prompt_cache_key": "k", "temperature": 0.2},
        marks=(0,),
    )
    assert encode(request) == {
        "model": "gpt-5.5",
        "input": [{"role": "user", "content": "u0"}],
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "run",
                "description": "Runs.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "max_output_tokens": 100,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "prompt_cache_key": "k",
        "temperature": 0.2,
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("gpt-5.5", True),
        ("o3", True),
        ("ft:gpt-4o:me", False),
        ("gpt-4o-mini", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_only_who_reasons_is_asked_for_it(name: str, asked: bool) -> None:
    body = encode(Request(model=name, messages=()))
    assert ("include" in body) == asked
    assert body["store"] is False


@pytest.mark.parametrize(
    ("beside", "sent"),
    [
        pytest.param({}, {"effort": "low", "summary": "auto"}, id="a summary is asked for"),
        pytest.param(
            {"reasoning": {"summary": None}}, {"effort": "low", "summary": None}, id="unless said"
        ),
        pytest.param({"reasoning": None}, {"effort": "low", "summary": "auto"}, id="null"),
    ],
)
def test_how_much_thinking(beside: dict[str, Any], sent: dict[str, Any]) -> None:
    request = Request(model="o3", messages=(), thinking="low", options=beside)
    assert encode(request)["reasoning"] == sent


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param({"model": 1}, "the request.model is a number", id="a number"),
        pytest.param({"input": {}}, "input is an object", id="no array"),
        pytest.param({"input": [1]}, "input[0] is a number", id="no object"),
        pytest.param({"input": [{"content": "x"}]}, "input[0].role is missing", id="no role"),
        pytest.param(
            {"input": [{"role": "system", "content": ""}, {"role": "critic"}]},
            "input[1].role is 'critic' (one of user, assistant,",
            id="an unknown role",
        ),
        pytest.param(
            {"input": [{"role": "user", "content": 3}]},
            "input[0].content is a number",
            id="content that is a number",
        ),
        pytest.param(
            {"input": [{"role": "assistant", "content": ["x"]}]},
            "input[0].content[0] is a string",
            id="a part that is a string",
        ),
        pytest.param(
            {"input": [{"type": "function_call", "arguments": "{}", "name": "x"}]},
            "input[0].call_id is missing",
            id="a call without an id",
        ),
        pytest.param(
            {"input": [{"type": "function_call_output", "output": "x"}]},
            "input[0].call_id is missing",
            id="a result of no call",
        ),
        pytest.param({"tools": [True]}, "tools[0] is a boolean", id="no tool"),
        pytest.param({"tools": [{"type": "function"}]}, "tools[0].name is missing", id="no name"),
    ],
)
def test_what_cannot_be_read_is_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(body)
    assert str(caught.value).startswith(says)
