from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.wire.openai_documents import ARGUMENTS, chat_bodies, requests, said, session_form

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
from jaato.wire.openai_chat import CHAT, decode, decode_messages, encode, encode_messages
from jaato.wire.openai_rules import check_chat

as_session = partial(session_form, in_order=False)
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spelled(document: object) -> str:
    """A document to compare by: 1 and true are not the same."""
    return json.dumps(document, sort_keys=True)


@calm
@given(request=requests(as_session))
def test_a_request_survives_the_wire(request: Request) -> None:
    assert said(decode(encode(request))) == said(request)


@calm
@given(body=chat_bodies())
def test_a_foreign_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    before = spelled(body)
    request = decode(body)
    assert spelled(encode(request)) == before
    assert spelled(body) == before


@calm
@given(body=chat_bodies())
def test_notes_are_json(body: dict[str, Any]) -> None:
    for message in decode(body).messages:
        assert from_dict(json.loads(json.dumps(to_dict(message)))) == message


@calm
@given(history=histories(max_turns=4, max_messages=30, pending=False))
def test_every_legal_history_is_a_request_that_is_accepted(history: list[Message]) -> None:
    assert is_legal(history)
    messages = encode_messages(history)
    if messages:
        assert check_chat({"model": "gpt-5.5", "messages": messages}) is None
    assert spelled(encode_messages(decode_messages(messages))) == spelled(messages)


def wire(*messages: Message) -> list[dict[str, Any]]:
    return encode_messages(messages)


def user(*parts: Part, extra: Mapping[str, Any] | None = None) -> Message:
    return Message(Role.USER, parts, extra=extra or {})


def model(*parts: Part) -> Message:
    return Message(Role.MODEL, parts)


def call(call_id: str, name: str = "run", args: dict[str, Any] | None = None) -> Part:
    return Part(function_call=FunctionCall(call_id, name, args or {}))


def result(call_id: str, value: Any = "ok", **rest: Any) -> Part:
    return Part(function_response=ToolResult(call_id, "run", value, **rest))


@pytest.mark.parametrize(
    ("part", "content"),
    [
        pytest.param(Part(text="hi"), "hi", id="a lone text is a string"),
        pytest.param(
            Part(inline_data=Media("image/png", b"\0\1\2\3")),
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAECAw=="}}],
            id="an image is a data URI",
        ),
        pytest.param(
            Part(inline_data=Media("audio/mpeg", b"ID3")),
            [{"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}],
            id="sound has a format",
        ),
        pytest.param(
            Part(inline_data=Media("application/pdf", b"%PDF", "a.pdf")),
            [
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,JVBERg==",
                    },
                }
            ],
            id="a document is a file",
        ),
        pytest.param(
            Part(inline_data=Media("text/markdown", b"# hi")),
            "# hi",
            id="a text file is text: the API takes PDF only",
        ),
        pytest.param(
            Part(inline_data=Media("video/mp4", b"\0")),
            [{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AA=="}}],
            id="a video goes as compatible servers take it",
        ),
    ],
)
def test_what_a_user_says(part: Part, content: Any) -> None:
    assert wire(user(part)) == [{"role": "user", "content": content}]


def test_a_remote_image_is_counted_as_an_image_of_unknown_size() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    (message,) = decode_messages([{"role": "user", "content": [part]}])
    assert message.parts[0].inline_data == Media("image/*", b"")
    assert wire(message) == [{"role": "user", "content": [part]}]


def test_a_part_of_an_unknown_kind_is_counted_by_its_length_and_goes_back() -> None:
    part = {"type": "hologram", "depth": [1, 2, {"x": None}]}
    (message,) = decode_messages([{"role": "user", "content": [part]}])
    media = message.parts[0].inline_data
    assert media is not None
    assert is_opaque(media)
    assert json.loads(media.data) == part


@pytest.mark.parametrize("text", ARGUMENTS, ids=lambda text: repr(text[:40]))
def test_arguments_go_back_letter_by_letter(text: str) -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": text}}
    message = {"role": "assistant", "content": None, "tool_calls": [made]}
    assert encode_messages(decode_messages([message])) == [message]


@pytest.mark.parametrize(
    "text", ['{"path": "src/ap', "[1]", "null", '{"a":NaN}', "[" * 100_000], ids=lambda t: t[:20]
)
def test_arguments_that_are_no_object_are_flagged(text: str) -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": text}}
    (message,) = decode_messages([{"role": "assistant", "content": None, "tool_calls": [made]}])
    assert message.function_calls[0].args == {INVALID_ARGUMENTS: text}


def test_arguments_that_were_changed_are_written_anew() -> None:
    function = {"name": "run", "arguments": '{ "path": "a" }'}
    made = {"id": "c1", "type": "function", "function": function}
    (message,) = decode_messages([{"role": "assistant", "content": None, "tool_calls": [made]}])
    part = message.parts[0]
    changed = Part(function_call=FunctionCall("c1", "run", {"path": "b"}), extra=part.extra)
    (document,) = wire(message.with_parts([changed]))
    assert document["tool_calls"][0]["function"]["arguments"] == '{"path":"b"}'


def test_calls_of_one_message_stay_in_one_message() -> None:
    assert wire(model(Part(text="so"), call("1", args={"a": "ö"}), call("2"))) == [
        {
            "role": "assistant",
            "content": "so",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "run", "arguments": '{"a":"ö"}'},
                },
                {"id": "2", "type": "function", "function": {"name": "run", "arguments": "{}"}},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        pytest.param(result("1", "text"), "text", id="text as it is"),
        pytest.param(result("1", {"a": [1, None]}), '{"a":[1,null]}', id="data as JSON"),
        pytest.param(result("1", None), "null", id="nothing"),
        pytest.param(result("1", "no file", is_error=True), "Error: no file", id="an error"),
        pytest.param(
            result("1", "error: no file", is_error=True),
            "error: no file",
            id="an error that says so",
        ),
        pytest.param(
            Part(function_response=ToolResult("1", "run", "[removed]"), extra={STUB_MARK: True}),
            "[removed]",
            id="a stub",
        ),
    ],
)
def test_results(part: Part, content: str) -> None:
    messages = wire(model(call("1")), Message(Role.TOOL, [part]))
    assert messages[1:] == [{"role": "tool", "tool_call_id": "1", "content": content}]


def test_attachments_follow_the_step_in_a_message_of_their_own() -> None:
    shot = result("1", "done", attachments=(Media("image/png", b"\0\1\2\3"),))
    history = [
        model(call("1"), call("2")),
        Message(Role.TOOL, [shot]),
        Message(Role.TOOL, [result("2")]),
    ]
    assert wire(*history, model(Part(text="I see")))[1:] == [
        {"role": "tool", "tool_call_id": "1", "content": "done"},
        {"role": "tool", "tool_call_id": "2", "content": "ok"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[attached to the result of run]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAECAw=="}},
            ],
        },
        {"role": "assistant", "content": "I see"},
    ]


def test_a_result_in_parts_that_was_stubbed_is_plain_text() -> None:
    content = [{"type": "text", "text": "long"}, {"type": "text", "text": "er", "x": 1}]
    asked = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    step, answer = decode_messages(
        [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "1", "content": content},
        ]
    )
    part = answer.parts[0]
    assert part.function_response == ToolResult("1", "run", "longer")
    stub = Part(
        function_response=ToolResult("1", "run", "[gone]"), extra={**part.extra, STUB_MARK: True}
    )
    assert wire(step, answer.with_parts([stub]))[1]["content"] == "[gone]"


@pytest.mark.parametrize(
    ("ids", "wired"),
    [
        pytest.param(("a", "b"), ["a", "b"], id="ids that are fine stay"),
        pytest.param(("", ""), ["call_0_0", "call_0_1"], id="empty ids"),
        pytest.param(("a", "a"), ["a", "call_0_1"], id="an id that comes twice"),
        pytest.param(("x" * 41, "b"), ["call_0_0", "b"], id="an id that is too long"),
        pytest.param(("call_0_1", ""), ["call_0_1", "call_0_1_"], id="an id that looks invented"),
    ],
)
def test_every_call_has_an_id_that_is_accepted(ids: Sequence[str], wired: list[str]) -> None:
    history = [model(*map(call, ids)), Message(Role.TOOL, [result(each) for each in ids])]
    asking, *answers = wire(*history)
    assert [each["id"] for each in asking["tool_calls"]] == wired
    assert [answer["tool_call_id"] for answer in answers] == wired


@pytest.mark.parametrize("kind", [Kind.SUMMARY, Kind.NOTICE])
def test_what_a_collection_wrote_is_a_user_message(kind: Kind) -> None:
    message = Message(Role.USER, [Part(text="earlier")], kind=kind)
    assert wire(message) == [{"role": "user", "content": "earlier"}]


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="without a note"),
        pytest.param({"anthropic": {"signature": "x"}}, id="with another provider's note"),
    ],
)
def test_thoughts_are_not_replayed(extra: Mapping[str, Any]) -> None:
    thinking = model(Part(thought="hm", extra=extra), Part(text="so"))
    assert wire(thinking) == [{"role": "assistant", "content": "so"}]


def test_thoughts_of_a_foreign_history_are_counted_and_go_back() -> None:
    message = {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    (decoded,) = decode_messages([message])
    assert [part.thought for part in decoded.parts] == ["hm", None]
    assert wire(decoded) == [message]


@pytest.mark.parametrize(
    ("leading", "system"),
    [
        pytest.param([], "", id="none"),
        pytest.param([{"role": "system", "content": "Be brief."}], "Be brief.", id="one"),
        pytest.param([{"role": "developer", "content": "Be brief."}], "Be brief.", id="developer"),
        pytest.param(
            [
                {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "developer", "content": "Be kind.", "name": "x"},
            ],
            "Be brief.\n\nBe kind.",
            id="two",
        ),
    ],
)
def test_instructions_in_front_are_the_system(leading: list[dict[str, Any]], system: str) -> None:
    later = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Now in French."}]
    body = {"model": "gpt-5.5", "messages": [*leading, *later]}
    request = decode(body)
    assert request.system == system
    assert [message.role for message in request.messages] == [Role.USER, Role.USER]
    assert encode(request) == body


def test_a_system_that_was_changed_replaces_what_came() -> None:
    body = {"model": "m", "messages": [{"role": "developer", "content": "Be brief.", "x": 1}]}
    request = decode(body)
    changed = Request(model="m", messages=(), system="Be kind.", extra=request.extra)
    assert encode(changed)["messages"] == [{"role": "system", "content": "Be kind."}]


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
    assert encode(request, limit_field="max_tokens") == {
        "model": "gpt-5.5",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "u0"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "run",
                    "description": "Runs.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "max_tokens": 100,
        "reasoning_effort": "medium",
        "prompt_cache_key": "k",
        "temperature": 0.2,
    }


def test_documented_parameters_are_options_and_the_rest_is_noted() -> None:
    body = {"model": "m", "messages": [], "top_p": 1, "stream": True, "max_tokens": 5, "n": 1}
    request = decode(body)
    assert request.options == {"top_p": 1, "n": 1}
    assert request.max_output_tokens == 5
    assert request.extra == {CHAT: {"more": {"stream": True}, "limit_field": "max_tokens"}}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param({"messages": []}, "the request.model is missing", id="no model"),
        pytest.param({"model": "m"}, "messages is null", id="no messages"),
        pytest.param({"model": "m", "messages": {}}, "messages is an object", id="no array"),
        pytest.param({"model": 1, "messages": []}, "the request.model is a number", id="a number"),
        pytest.param({"model": "m", "messages": [1]}, "messages[0] is a number", id="no object"),
        pytest.param(
            {"model": "m", "messages": [{"content": "x"}]},
            "messages[0].role is missing",
            id="no role",
        ),
        pytest.param(
            {"model": "m", "messages": [{"role": "system", "content": ""}, {"role": "critic"}]},
            "messages[1].role is 'critic' (one of user, assistant,",
            id="an unknown role",
        ),
        pytest.param(
            {"model": "m", "messages": [{"role": "user", "content": 3}]},
            "messages[0].content is a number",
            id="content that is a number",
        ),
        pytest.param(
            {"model": "m", "messages": [{"role": "user", "content": ["x"]}]},
            "messages[0].content[0] is a string",
            id="a part that is a string",
        ),
        pytest.param(
            {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
            "messages[0].tool_call_id is missing",
            id="a result of no call",
        ),
        pytest.param(
            {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
            "messages[0].tool_calls[0].function is null",
            id="a call of no function",
        ),
        pytest.param(
            {"model": "m", "messages": [], "tools": [True]}, "tools[0] is a boolean", id="no tool"
        ),
    ],
)
def test_what_cannot_be_read_is_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(body)
    assert str(caught.value).startswith(says)
