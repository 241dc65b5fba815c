"""Histories as JSON: what goes out comes back, and what is no history is said to be none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from jaato.errors import UsageError
from jaato.history import (
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    ToolResult,
    codec,
    shapes_of,
    violations,
)
from jaato.testing import WordCounter, broken_histories, histories, sketch
from jaato.tokens import history_tokens


def through_json(document: Any) -> Any:
    # Lone surrogates stay what they are in a str; ASCII escapes would join two of them into one.
    return json.loads(json.dumps(document, ensure_ascii=False))


@given(history=histories())
def test_a_history_comes_back_as_it_was(history: list[Message]) -> None:
    document = through_json(codec.history_to_dict(history))
    again = codec.history_from_dict(document)
    assert again == history
    assert shapes_of(again) == shapes_of(history)
    assert [one.thoughts for one in again] == [one.thoughts for one in history]
    assert codec.history_to_dict(again) == document


@given(history=broken_histories())
def test_a_broken_history_comes_back_as_broken_as_it_was(history: list[Message]) -> None:
    again = codec.history_from_dict(through_json(codec.history_to_dict(history)))
    assert again == history
    assert violations(again) == violations(history)


def test_a_count_is_not_written_and_is_made_again() -> None:
    history = sketch("u c1 r1 a")
    counter = WordCounter()
    tokens = history_tokens(counter, history)
    again = codec.history_from_dict(codec.history_to_dict(history))
    assert [message.tokens_by("words") for message in again] == [None] * 4
    assert history_tokens(counter, again) == tokens


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Message("user", (), "x"), id="no parts"),
        pytest.param(Message("user", (Part(text=""),), "x"), id="an empty text"),
        pytest.param(Message("model", (Part(thought=""),), "x"), id="an empty thought"),
        pytest.param(
            Message("model", (Part(thought="t", extra={"sig": "s"}),), "x"), id="a signed thought"
        ),
        pytest.param(
            Message("model", (Part(function_call=FunctionCall("", "")),), "x"), id="an empty call"
        ),
        pytest.param(
            Message("tool", (Part(function_response=ToolResult("", "")),), "x"),
            id="an empty result",
        ),
        pytest.param(
            Message("tool", (Part(function_response=ToolResult("1", "t", "no", True)),), "x"),
            id="an error",
        ),
        pytest.param(
            Message(
                "tool",
                [
                    Part(
                        function_response=ToolResult(
                            "1", "t", [None], attachments=(Media("a/b", b"\0\xff", "n"),)
                        )
                    )
                ],
                "x",
            ),
            id="an attachment",
        ),
        pytest.param(
            Message("user", (Part(inline_data=Media("image/png", b"")),), "x"), id="empty media"
        ),
        pytest.param(Message("user", (Part(text="s"),), "x", Kind.SUMMARY), id="a summary"),
        pytest.param(Message("user", (Part(text="n"),), "x", Kind.NOTICE), id="a notice"),
        pytest.param(Message("user", (Part(text="e"),), "x", extra={"k": [1]}), id="extra"),
        pytest.param(Message("user", (Part(text="\ud83d\ude00"),), "\udfff"), id="surrogates"),
    ],
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert codec.from_dict(through_json(codec.to_dict(message))) == message


def test_what_is_default_is_not_written() -> None:
    assert codec.to_dict(Message("assistant", (Part(text="hi"),), "x")) == {
        "role": "model",
        "id": "x",
        "parts": [{"text": "hi"}],
    }


def test_foreign_spellings_of_roles_are_read() -> None:
    document = {"role": "assistant", "id": "x", "parts": []}
    assert codec.from_dict(document).role == "model"


def test_the_first_version_that_was_written_still_loads(tmp_path: Path) -> None:
    written = """{"version": 1, "messages": [
        {"role": "user", "id": "1", "parts": [
            {"text": "look"}, {"media": {"mime_type": "image/png", "data": "AAE=", "name": "p"}}]},
        {"role": "model", "id": "2", "parts": [
            {"thought": "hm", "extra": {"signature": "s"}},
            {"call": {"id": "c", "name": "read", "args": {"path": "a"}}}]},
        {"role": "tool", "id": "3", "parts": [
            {"result": {"call_id": "c", "name": "read", "result": {"rows": 2}, "is_error": true,
                        "attachments": [{"mime_type": "text/plain", "data": "aGk="}]}}]},
        {"role": "user", "id": "4", "kind": "summary", "extra": {"n": 1}, "parts": [
            {"text": "in short"}]}
    ]}"""
    assert codec.history_from_dict(json.loads(written)) == [
        Message(
            "user", [Part(text="look"), Part(inline_data=Media("image/png", b"\0\1", "p"))], "1"
        ),
        Message(
            "model",
            [
                Part(thought="hm", extra={"signature": "s"}),
                Part(function_call=FunctionCall("c", "read", {"path": "a"})),
            ],
            "2",
        ),
        Message(
            "tool",
            [
                Part(
                    function_response=ToolResult(
                        "c", "read", {"rows": 2}, True, (Media("text/plain", b"hi"),)
                    )
                )
            ],
            "3",
        ),
        Message("user", [Part(text="in short")], "4", Kind.SUMMARY, {"n": 1}),
    ]


@pytest.mark.parametrize("version", [None, 0, 2, "1", [], {}], ids=repr)
def test_a_version_that_nobody_wrote_is_said_to_be_unknown(version: object) -> None:
    with pytest.raises(codec.CodecError, match="cannot be read"):
        codec.history_from_dict({"version": version, "messages": []})


OK: dict[str, Any] = {"role": "user", "id": "x", "parts": [{"text": "hi"}]}
CALL = {"id": "1", "name": "n", "args": {}}
MALFORMED = [
    pytest.param(None, id="nothing"),
    pytest.param([], id="a list"),
    pytest.param("message", id="a text"),
    pytest.param({}, id="an empty object"),
    pytest.param({**OK, "role": "boss"}, id="an unknown role"),
    pytest.param({**OK, "role": None}, id="no role"),
    pytest.param({**OK, "role": []}, id="a role that is a list"),
    pytest.param({**OK, "kind": "boss"}, id="an unknown kind"),
    pytest.param({**OK, "kind": None}, id="no kind"),
    pytest.param({**OK, "parts": None}, id="no parts"),
    pytest.param({**OK, "parts": "text"}, id="parts that are a text"),
    pytest.param({**OK, "parts": [None]}, id="a part that is nothing"),
    pytest.param({**OK, "parts": ["call"]}, id="a part that is a text"),
    pytest.param({**OK, "parts": [7]}, id="a part that is a number"),
    pytest.param({**OK, "parts": [{}]}, id="a part of nothing"),
    pytest.param({**OK, "parts": [{"text": "a", "thought": "b"}]}, id="a part of two things"),
    pytest.param({**OK, "parts": [{"call": None}]}, id="a call that is nothing"),
    pytest.param({**OK, "parts": [{"call": {"id": "1"}}]}, id="a call without a name"),
    pytest.param({**OK, "parts": [{"result": {"call_id": "1"}}]}, id="a result without a name"),
    pytest.param({**OK, "parts": [{"result": []}]}, id="a result that is a list"),
    pytest.param(
        {**OK, "parts": [{"result": {"call_id": "1", "name": "n", "result": 1, "attachments": 5}}]},
        id="attachments that are a number",
    ),
    pytest.param({**OK, "parts": [{"media": {"mime_type": "a"}}]}, id="media without data"),
    pytest.param(
        {**OK, "parts": [{"media": {"mime_type": "a", "data": "%%"}}]}, id="data in no base64"
    ),
    pytest.param(
        {**OK, "parts": [{"media": {"mime_type": "a", "data": "é"}}]}, id="data beyond ASCII"
    ),
    pytest.param(
        {**OK, "parts": [{"media": {"mime_type": "a", "data": None}}]}, id="data that is nothing"
    ),
]


@pytest.mark.parametrize("document", MALFORMED)
def test_what_is_no_message_is_a_codec_error(document: Any) -> None:
    with pytest.raises(codec.CodecError) as told:
        codec.from_dict(document)
    assert isinstance(told.value, UsageError)
    assert told.value.hint
    with pytest.raises(codec.CodecError):
        codec.history_from_dict({"version": 1, "messages": [OK, document]})


def test_keys_of_a_later_version_are_passed_over() -> None:
    document = {**OK, "later": 1, "parts": [{"text": "hi", "later": 2}]}
    assert codec.from_dict(document) == Message("user", (Part(text="hi"),), "x")


@given(history=histories(max_turns=3, max_messages=20))
def test_every_key_of_a_message_is_needed_or_has_a_default(history: list[Message]) -> None:
    for message in history:
        document = codec.to_dict(message)
        for key in document:
            rest = {name: value for name, value in document.items() if name != key}
            if key in {"role", "id", "parts"}:
                with pytest.raises(codec.CodecError):
                    codec.from_dict(rest)
            else:
                assert codec.from_dict(rest).message_id == message.message_id


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(None, id="nothing"),
        pytest.param([OK], id="a bare list"),
        pytest.param("history", id="a text"),
        pytest.param({"version": 1}, id="no messages"),
        pytest.param({"version": 1, "messages": None}, id="messages that are null"),
        pytest.param({"version": 1, "messages": 5}, id="messages that are a number"),
    ],
)
def test_a_document_that_is_no_history_is_a_codec_error(document: Any) -> None:
    with pytest.raises(codec.CodecError):
        codec.history_from_dict(document)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"id": 5}, id="an id that is a number"),
        pytest.param({"id": []}, id="an id that is a list"),
        pytest.param({"id": None}, id="an id that is null would be another each time"),
        pytest.param({"id": ""}, id="an id that is empty would be another each time"),
        pytest.param({"extra": 5}, id="extra that is a number"),
        pytest.param({"parts": {}}, id="parts that are a mapping"),
        pytest.param({"parts": [{"text": 5}]}, id="a text that is a number"),
        pytest.param({"parts": [{"thought": []}]}, id="a thought that is a list"),
        pytest.param({"parts": [{"text": "a", "extra": 5}]}, id="a part's extra"),
        pytest.param(
            {"parts": [{"text": "a", "call": {"id": "1", "name": "n", "args": {}}}]},
            id="a part of two things would lose one",
        ),
        pytest.param(
            {"parts": [{"call": {"id": "1", "name": 2, "args": {}}}]}, id="a name that is a number"
        ),
        pytest.param(
            {"parts": [{"call": {"id": "1", "name": "n", "args": 3}}]}, id="args that are a number"
        ),
        pytest.param(
            {"parts": [{"result": {"call_id": [], "name": "n", "result": 1}}]}, id="a call id"
        ),
        pytest.param(
            {"parts": [{"result": {"call_id": "1", "name": "n", "result": 1, "is_error": "no"}}]},
            id="an is_error that is a text",
        ),
        pytest.param({"parts": [{"media": {"mime_type": 5, "data": "QQ=="}}]}, id="a mime type"),
    ],
)
def test_a_field_of_another_type_is_a_codec_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(codec.CodecError):
        codec.from_dict({**OK, **wrong})
