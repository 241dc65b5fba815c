"""Requests of a session: what goes over the wire comes back, and the API takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from jaato.testing import histories, sketch
from jaato.wire.anthropic import (
    DEFAULT_MAX_TOKENS,
    KEY,
    decode,
    decode_messages,
    encode,
    encode_messages,
)
from jaato.wire.anthropic_blocks import result_text
from jaato.wire.anthropic_rules import check

Json = dict[str, Any]
NO_CACHE = {"cache": False}


def request_of(messages: Iterable[Message], **more: Any) -> Request:
    return Request(model="claude", messages=tuple(messages), **more)


def said(messages: Iterable[Message]) -> list[Any]:
    """What counts of messages: ids and kinds do not go over the wire."""
    return [(message.role, message.parts, message.extra) for message in messages]


def opened(history: Sequence[Message]) -> list[Message]:
    """A session's history begins with what the user asked."""
    first = Message.from_text(Role.USER, "begin")
    return [first, *history] if not history or history[0].role is not Role.USER else [*history]


# --- The normal form of a session, made of generated histories.


def normal(history: Sequence[Message]) -> list[Message]:
    """The same story as a session tells it: unique ids, one message per step for all results."""
    told: list[Message] = []
    waiting: list[FunctionCall] = []
    for at, message in enumerate(history):
        if message.role is Role.MODEL:
            parts = [part for part in _model_parts(message, at) if part is not None]
            while parts and parts[-1].thought is not None:
                parts.pop()
            waiting = [part.function_call for part in parts if _is_client_call(part)]  # type: ignore[misc]
            role = Role.MODEL
        else:
            parts = _user_parts(message, waiting)
            role = Role.TOOL if any(part.function_response for part in parts) else Role.USER
            if role is Role.TOOL and told[-1].role is Role.TOOL:
                parts = _results_first([*told.pop().parts, *parts])
        if parts:
            told.append(Message(role, parts))
    return [*told, Message.from_text(Role.USER, "go on")]


def _model_parts(message: Message, at: int) -> Iterator[Part | None]:
    pairs: dict[str, str] = {}
    for index, part in enumerate(message.parts):
        number = f"{at}_{index}"
        call, answer = part.function_call, part.function_response
        if part.thought is not None:
            signed = {"signature": f"sig{number}"} if index % 2 else {"type": "redacted_thinking"}
            signed |= {} if index % 2 else {"data": number}
            yield Part(thought=part.thought if index % 2 else "", extra={KEY: signed})
        elif call is not None and call.id not in message.call_ids:
            pairs[call.id] = f"srvtoolu_{number}"
            name, args = call.name, call.args
            extra = {KEY: {"type": "server_tool_use"}}
            yield Part(function_call=FunctionCall(pairs[call.id], name, args), extra=extra)
        elif call is not None:
            yield Part(function_call=FunctionCall(f"toolu_{number}", call.name, call.args))
        elif answer is not None:
            result = ToolResult(pairs[answer.call_id], answer.name, [{"said": number}])
            yield Part(function_response=result, extra={KEY: {"type": "run_tool_result"}})
        else:
            yield _plain(part)


def _is_client_call(part: Part) -> bool:
    return part.function_call is not None and not part.extra


def _user_parts(message: Message, waiting: list[FunctionCall]) -> list[Part]:
    parts = []
    for part in message.parts:
        answer = part.function_response
        if answer is None:
            parts.append(_plain(part))
            continue
        call = waiting.pop(0)
        text = result_text(answer.result)
        media = tuple(replace(one, name=None) for one in answer.attachments)
        result = ToolResult(
            call.id, call.name, text if text.strip() else None, answer.is_error, media
        )
        parts.append(Part(function_response=result))
    return _results_first(parts)


def _results_first(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.function_response is None)


def _plain(part: Part) -> Part:
    if part.inline_data is not None:
        return Part(inline_data=Media("image/png", part.inline_data.data))
    return Part(text=part.text)


schemas = st.builds(
    ToolSchema,
    name=st.sampled_from(["read", "run", "search"]),
    description=st.sampled_from(["", "Reads a file."]),
    parameters=st.sampled_from(
        [{"type": "object"}, {"type": "object", "properties": {"path": {"type": "string"}}}]
    ),
    extra=st.sampled_from([{}, {KEY: {"strict": True, "eager_input_streaming": None}}]),
)
options = st.fixed_dictionaries(
    {"cache": st.just(value=False)},
    optional={
        "temperature": st.floats(0, 1),
        "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "tool", "name": "run"}]),
        "stop_sequences": st.just(["STOP"]),
        "metadata": st.just({"user_id": "u"}),
        "output_config": st.just({"format": {"type": "json_schema", "schema": {}}}),
    },
)
requests = st.builds(
    Request,
    model=st.sampled_from(["claude-opus-5-5", "claude-haiku-5-5"]),
    messages=histories(pending=False, max_turns=5, max_messages=60)
    .map(opened)
    .map(normal)
    .map(tuple),
    system=st.sampled_from(["", "Be brief.", "größer\n\nlone \ud800"]),
    tools=st.lists(schemas, max_size=3, unique_by=lambda schema: schema.name).map(tuple),
    max_output_tokens=st.integers(9000, 64_000),
    thinking=st.none() | st.integers(1024, 8000) | st.sampled_from(["high", "adaptive", "max"]),
    options=options,
    extra=st.sampled_from([{}, {KEY: {"future": {"a": [1]}, "betas": None}}]),
)


@given(request=requests)
def test_what_a_session_sends_comes_back(request: Request) -> None:
    body = encode(request)
    assert json.loads(json.dumps(body, allow_nan=False)), "it is JSON"
    back = decode(body)
    assert replace(back, messages=()) == replace(request, messages=())
    assert said(back.messages) == said(request.messages)
    assert encode(back) == body


@given(request=requests)
def test_what_a_session_sends_is_taken(request: Request) -> None:
    assert check(encode(request)) is None
    # With breakpoints, too, and nothing else is different.
    marks = tuple(range(len(request.messages)))
    cached = encode(replace(request, options={**request.options, "cache": True}, marks=marks))
    assert check(cached) is None
    back = decode(cached)
    assert [len(one.parts) for one in back.messages] == [len(one.parts) for one in request.messages]


# --- Any legal history, however odd.


def words_in(messages: Iterable[Message]) -> list[str]:
    """Everything a model reads in messages, except thoughts, in order of kind."""
    texts, calls, results = [], [], []
    for message in messages:
        for part in message.parts:
            if part.text is not None and part.text.strip():
                texts.append(part.text.rstrip())
            elif part.function_call is not None:
                calls.append(f"{part.function_call.name} {part.function_call.args}")
            elif part.function_response is not None:
                text = result_text(part.function_response.result)
                results.append(text if text.strip() else "")
    return [*texts, *calls, *results]


@given(history=histories(pending=False).map(opened))
def test_every_legal_history_is_taken(history: list[Message]) -> None:
    body = encode(request_of(history, system="Be brief.", marks=(len(history) - 1, 0)))
    assert check(body) is None


@given(history=histories(pending=False).map(opened))
def test_nothing_said_is_lost(history: list[Message]) -> None:
    back = decode_messages(encode_messages(history))
    lines = [line for line in words_in(back) if not line.endswith("not shown]")]
    assert sorted(lines) == sorted(words_in(history))


@given(history=histories().map(opened))
def test_what_the_wire_carries_stays_as_it_is(history: list[Message]) -> None:
    sent = encode_messages(history)
    assert encode_messages(decode_messages(sent)) == sent


@given(history=histories(max_turns=4), more=histories(max_turns=2, collected=False))
def test_appending_changes_nothing_before(history: list[Message], more: list[Message]) -> None:
    # Where the model is to go on with its own words, their end is trimmed; so end with the user.
    before = [*opened(history), Message.from_text(Role.USER, "so?")]
    sent = encode_messages(before)
    assert encode_messages([*before, *more])[: len(sent)] == sent


# --- Single rules of the wire.


def call(call_id: str, name: str = "run", **args: Any) -> Part:
    return Part(function_call=FunctionCall(call_id, name, args))


def answer(call_id: str, result: Any = "ok", **more: Any) -> Part:
    return Part(function_response=ToolResult(call_id, "run", result, **more))


def shape(documents: Iterable[Json]) -> str:
    """A picture of messages on the wire: who speaks, and what of."""
    letters = {"text": "t", "tool_use": "c", "tool_result": "r", "image": "i", "thinking": "h"}
    return " ".join(
        document["role"][0]
        + ":"
        + "".join(letters.get(block["type"], "?") for block in document["content"])
        for document in documents
    )


@pytest.mark.parametrize(
    ("picture", "sent"),
    [
        pytest.param("u a u", "u:t a:t u:t", id="a plain conversation"),
        pytest.param("u u a", "u:t u:t a:t", id="two messages of the user, as the API joins them"),
        pytest.param("s u a", "u:t u:t a:t", id="a summary is a message of the user"),
        pytest.param("n u a", "u:t u:t a:t", id="so is a notice"),
        pytest.param("u c1,2 r1,2", "u:t a:cc u:rr", id="parallel calls"),
        pytest.param("u c1,2 r2 r1", "u:t a:cc u:rr", id="results in two messages become one"),
        pytest.param("u c1,2 R1 u R2", "u:t a:cc u:rrt", id="with what the user said between"),
        pytest.param("u c1,2 R1+u+R2 a", "u:t a:cc u:rrt a:t", id="results stand in front"),
        pytest.param("u c1 r1 u a", "u:t a:c u:r u:t a:t", id="the user speaks behind results"),
        pytest.param("u c1 r1+m", "u:t a:c u:ri", id="an image beside a result"),
        pytest.param("u c1+r1+a u", "u:t a:c u:r a:t u:t", id="an answer inside a message"),
        pytest.param(
            "u ac1,2+r1+a r2", "u:t a:tcct u:rr", id="of two calls one is answered inside"
        ),
        pytest.param("u t a", "u:t a:t", id="thoughts that nobody signed"),
        pytest.param("u -u a", "u:t u:t a:t", id="an empty message of the user gets a word"),
        pytest.param("u -a u", "u:t u:t", id="an empty one of the model goes"),
    ],
)
def test_messages_go_out_as_the_api_takes_them(picture: str, sent: str) -> None:
    documents = encode_messages(sketch(picture))
    assert shape(documents) == sent
    assert check({"model": "m", "max_tokens": 1, "messages": documents}) is None


@pytest.mark.parametrize(
    ("ids", "sent"),
    [
        pytest.param(("toolu_1", "toolu_2"), ["toolu_1", "toolu_2"], id="good ids stay"),
        pytest.param(("x", "x", "x"), ["x", "x_2", "x_3"], id="repeated ids are told apart"),
        pytest.param(("", ""), ["call", "call_2"], id="empty ids get a name"),
        pytest.param(("a.b", "a b", "a_b"), ["a_b", "a_b_2", "a_b_3"], id="odd characters go"),
        pytest.param(("x", "x_2", "x"), ["x", "x_2", "x_3"], id="a name that is taken is not used"),
    ],
)
def test_every_call_has_an_id_of_its_own(ids: tuple[str, ...], sent: list[str]) -> None:
    results = [answer(call_id, f"result {at}") for at, call_id in enumerate(ids)]
    together = [Message(Role.MODEL, map(call, ids)), Message(Role.TOOL, results)]
    apart = [
        message
        for call_id, result in zip(ids, results, strict=True)
        for message in (Message(Role.MODEL, [call(call_id)]), Message(Role.TOOL, [result]))
    ]
    for history in (together, apart):
        blocks = [block for one in encode_messages(history) for block in one["content"]]
        assert [block["id"] for block in blocks if "id" in block] == sent
        answered = {b["tool_use_id"]: b["content"] for b in blocks if "tool_use_id" in b}
        assert answered == {new: f"result {at}" for at, new in enumerate(sent)}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        pytest.param(answer("1", {"a": [1, None]}), {"content": '{"a":[1,null]}'}, id="JSON"),
        pytest.param(answer("1", None), {}, id="nothing"),
        pytest.param(answer("1", " \n"), {}, id="white space"),
        pytest.param(answer("1", float("inf")), {"content": "Infinity"}, id="infinity"),
        pytest.param(
            answer("1", "no", is_error=True), {"content": "no", "is_error": True}, id="an error"
        ),
        pytest.param(
            answer("1", attachments=(Media("image/png", b"\1"), Media("audio/wav", b"\0" * 2000))),
            {
                "content": [
                    {"type": "text", "text": "ok"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "AQ=="},
                    },
                    {"type": "text", "text": "[attachment: audio/wav, 2,000 bytes, not shown]"},
                ]
            },
            id="attachments",
        ),
        pytest.param(
            answer("1", None, attachments=(Media("application/pdf", b"\1", "a.pdf"),)),
            {
                "content": [
                    {
                        "type": "document",
                        "title": "a.pdf",
                        "source": {
                            "type": "base64",
                            "media_type": "application/pdf",
                            "data": "AQ==",
                        },
                    }
                ]
            },
            id="nothing but a document",
        ),
    ],
)
def test_results_of_tools(part: Part, block: Json) -> None:
    (message,) = encode_messages([Message(Role.TOOL, [part])])
    assert message["content"] == [{"type": "tool_result", "tool_use_id": "1", **block}]


def test_only_thoughts_with_a_signature_are_replayed() -> None:
    parts = [
        Part(thought="another provider's", extra={"openai": {"id": "rs_1"}}),
        Part(thought="", extra={KEY: {"signature": "hidden"}}),
        Part(thought="mine", extra={KEY: {"signature": "s"}}),
        Part(thought="nobody's"),
        Part(text="so"),
        Part(thought="at the end", extra={KEY: {"signature": "t"}}),
    ]
    assert encode_messages([Message(Role.MODEL, parts)])[0]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "hidden"},
        {"type": "thinking", "thinking": "mine", "signature": "s"},
        {"type": "text", "text": "so"},
    ]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(
            Part(
                function_response=ToolResult("s1", "web_search", "[removed]"),
                extra={KEY: {"type": "web_search_tool_result"}, STUB_MARK: True},
            ),
            id="by a collection",
        ),
        pytest.param(
            Part(
                function_response=ToolResult("s1", "web_search", "[removed]"),
                extra={KEY: {"type": "web_search_tool_result"}},
            ),
            id="by a session",
        ),
    ],
)
def test_an_answer_of_the_providers_tool_that_was_shortened_is_a_text(result: Part) -> None:
    ask = Part(
        function_call=FunctionCall("s1", "web_search", {}),
        extra={KEY: {"type": "server_tool_use"}},
    )
    history = [
        Message.from_text(Role.USER, "look"),
        Message(Role.MODEL, [ask, result, Part(text="found")]),
        Message.from_text(Role.USER, "and?"),
    ]
    body = encode(request_of(history))
    assert check(body) is None
    assert [block["text"] for block in body["messages"][1]["content"]] == ["[removed]", "found"]


@pytest.mark.parametrize(
    ("given_thinking", "wire", "max_tokens"),
    [
        pytest.param(None, {}, DEFAULT_MAX_TOKENS, id="left to the provider"),
        pytest.param(
            4000,
            {"thinking": {"type": "enabled", "budget_tokens": 4000}},
            DEFAULT_MAX_TOKENS + 4000,
            id="a budget comes on top of the answer",
        ),
        pytest.param(
            "high",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            DEFAULT_MAX_TOKENS,
            id="an effort",
        ),
        pytest.param(
            "disabled", {"thinking": {"type": "disabled"}}, DEFAULT_MAX_TOKENS, id="switched off"
        ),
    ],
)
def test_thinking(given_thinking: int | str | None, wire: Json, max_tokens: int) -> None:
    body = encode(request_of(sketch("u"), thinking=given_thinking))
    found = {key: body[key] for key in ("thinking", "output_config") if key in body}
    assert (found, body["max_tokens"]) == (wire, max_tokens)
    assert check(body) is None


def test_options_are_handed_on_and_do_not_overrule_the_request() -> None:
    body = encode(
        request_of(
            sketch("u"),
            max_output_tokens=100,
            thinking="low",
            options={
                "temperature": 0.2,
                "max_tokens": 5,
                "thinking": {"type": "enabled", "display": "omitted"},
                "output_config": {"format": {"type": "json_schema"}},
                "cache": True,
            },
        )
    )
    assert body["temperature"] == 0.2
    assert body["max_tokens"] == 100
    assert body["thinking"] == {"type": "adaptive", "display": "omitted"}
    assert body["output_config"] == {"format": {"type": "json_schema"}, "effort": "low"}
    assert "cache" not in body


def test_kinds_are_for_us_alone() -> None:
    summary = Message(Role.USER, [Part(text="so far")], kind=Kind.SUMMARY)
    (document,) = encode_messages([summary])
    assert document == {"role": "user", "content": [{"type": "text", "text": "so far"}]}
