"""Requests that others wrote: decoded and encoded again, they are the same JSON."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.exchange import Request
from jaato.history import Kind, Media, Part, Role, ToolResult
from jaato.history.codec import history_from_dict, history_to_dict
from jaato.wire.anthropic import KEY, WireError, decode, encode
from jaato.wire.anthropic_rules import check

Json = dict[str, Any]

words = st.sampled_from(["yes", "größer 世界 🌍", " spaces around\n", "lone \ud800", "{}", "a b"])
scalars = st.none() | st.booleans() | st.integers() | words | st.just(0.5)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(words, scalars, max_size=2)
unknown = st.dictionaries(st.sampled_from(["future", "x_y", "zeta"]), values, max_size=2)
cache = st.sampled_from([{}, {}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}])


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object of these fields, and now and then of others."""
    return st.builds(
        lambda own, other, marked: {**other, **marked, **own},
        st.fixed_dictionaries(known),
        unknown,
        cache,
    )


def just(value: str) -> st.SearchStrategy[str]:
    return st.just(value)


PIXEL = base64.b64encode(bytes(range(40))).decode()
texts = fields(type=just("text"), text=words)
cited = fields(type=just("text"), text=words, citations=st.none() | st.lists(unknown, max_size=2))
images = st.one_of(
    fields(
        type=just("image"),
        source=fields(
            type=just("base64"),
            media_type=st.sampled_from(["image/png", "image/jpeg", "image/tiff"]),
            data=st.sampled_from([PIXEL, "", "not base64", PIXEL + "\n"]),
        ),
    ),
    fields(type=just("image"), source=fields(type=just("url"), url=words)),
    fields(
        type=just("image"),
        source=st.just({"type": "base64", "media_type": "image/png", "data": PIXEL}),
    ),
)
documents = st.one_of(
    fields(
        type=just("document"),
        title=st.none() | words,
        source=st.just({"type": "base64", "media_type": "application/pdf", "data": PIXEL}),
    ),
    fields(
        type=just("document"),
        source=st.builds(lambda d: {"type": "text", "media_type": "text/plain", "data": d}, words),
    ),
    fields(type=just("document"), source=fields(type=just("content"), content=st.lists(texts))),
)
strange = fields(type=st.sampled_from(["search_result", "container_upload", "never_heard_of"]))
thoughts = st.one_of(
    fields(type=just("thinking"), thinking=words | just(""), signature=words),
    fields(type=just("redacted_thinking"), data=words),
)
compactions = fields(type=just("compaction"), content=st.none() | words, signature=words)
answers = st.lists(unknown, max_size=2) | unknown
arguments = st.dictionaries(words, values, max_size=2)
contents = st.one_of(
    words,
    just(""),
    st.none(),
    st.lists(texts | images | documents | strange, max_size=3),
)


@st.composite
def steps(draw: st.DrawFn, ids: Callable[[], str]) -> list[Json]:
    """A message of the model, and one with all the results it waits for."""
    said: list[Json] = draw(st.lists(cited | thoughts | compactions | strange, max_size=3))
    for name in draw(st.lists(st.sampled_from(["web_search", "code_execution"]), max_size=1)):
        call_id = f"srvtoolu_{ids()}"
        use = draw(fields(type=just("server_tool_use"), name=just(name), input=arguments))
        answer = draw(fields(type=just(f"{name}_tool_result"), content=answers))
        said += [{**use, "id": call_id}, {**answer, "tool_use_id": call_id}]
    said.append(draw(texts))
    calls = draw(
        st.lists(fields(type=just("tool_use"), name=just("run"), input=arguments), max_size=2)
    )
    answered: list[Json] = []
    for call in calls:
        call["id"] = f"toolu_{ids()}"
        answer = draw(fields(type=just("tool_result")))
        answer["tool_use_id"] = call["id"]
        for name, value in (("content", contents), ("is_error", st.booleans())):
            if draw(st.booleans()):
                answer[name] = draw(value)
        answered.append(answer)
    said += calls
    answered += draw(st.lists(texts | images, min_size=not answered, max_size=2))
    return [
        {**draw(unknown), "role": "assistant", "content": said},
        {**draw(unknown), "role": "user", "content": answered},
    ]


@st.composite
def bodies(draw: st.DrawFn) -> Json:
    """Requests as other clients write them, with fields that nobody here has heard of."""
    numbers = itertools.count()
    first = draw(words | st.lists(texts | images | documents | strange, min_size=1, max_size=2))
    messages: list[Json] = [{"role": "user", "content": first}]
    for _ in range(draw(st.integers(0, 3))):
        messages += draw(steps(lambda: str(next(numbers))))
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(words)})
    tools = draw(
        st.lists(
            st.one_of(
                fields(name=words, input_schema=st.just({"type": "object"})),
                fields(
                    name=words,
                    description=words | just(""),
                    type=st.none() | just("custom"),
                    input_schema=fields(type=just("object"), properties=unknown),
                ),
                fields(type=just("web_search_20250305"), name=just("web_search")),
                fields(type=just("browser_toolset_20260801")),
            ),
            max_size=2,
        )
    )
    optional: dict[str, st.SearchStrategy[Any]] = {
        "system": words | just("") | st.lists(texts, max_size=2),
        "max_tokens": st.integers(1, 9000),
        "tools": st.just(tools),
        "tool_choice": fields(type=st.sampled_from(["auto", "any", "none"])),
        "metadata": fields(user_id=words),
        "temperature": st.just(0.5),
        "stop_sequences": st.lists(words, max_size=2),
        "stream": st.booleans(),
        "cache_control": st.just({"type": "ephemeral"}),
        "cache": words,
        "context_management": unknown,
        "output_config": fields(effort=st.sampled_from(["low", "max", "adaptive"])),
        "thinking": st.one_of(
            fields(type=just("enabled"), budget_tokens=st.integers(1024, 4096)),
            fields(type=st.sampled_from(["adaptive", "disabled", "between_tools", "new"])),
            st.just({"type": "adaptive"}),
        ),
    }
    body: Json = {**draw(unknown), "model": "claude", "messages": messages}
    for name, value in optional.items():
        if draw(st.booleans()):
            body[name] = draw(value)
    return body


@given(body=bodies())
def test_foreign_json_comes_back_to_the_letter(body: Json) -> None:
    before = json.dumps(body)
    assert encode(decode(body)) == body
    assert json.dumps(body) == before, "decoding leaves what it reads alone"


@given(body=bodies())
def test_what_was_decoded_survives_being_written_to_disk(body: Json) -> None:
    request = decode(body)
    stored = history_from_dict(json.loads(json.dumps(history_to_dict(request.messages))))
    assert tuple(stored) == request.messages


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param(
            {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
            Part(text="hi", extra={KEY: {"cache_control": {"type": "ephemeral"}}}),
            id="a text with a breakpoint",
        ),
        pytest.param(
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            Part(thought="hm", extra={KEY: {"signature": "s"}}),
            id="a signed thought",
        ),
        pytest.param(
            {"type": "redacted_thinking", "data": "xyz"},
            Part(thought="", extra={KEY: {"type": "redacted_thinking", "data": "xyz"}}),
            id="a redacted thought",
        ),
        pytest.param(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"},
            },
            Part(inline_data=Media("image/png", b"\0\1\2")),
            id="an image",
        ),
        pytest.param(
            {
                "type": "document",
                "title": "notes",
                "source": {"type": "text", "media_type": "text/plain", "data": "ü"},
            },
            Part(inline_data=Media("text/plain", "ü".encode(), "notes")),
            id="a document",
        ),
        pytest.param(
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/gif", "data": "AAEC"},
                    },
                ],
            },
            Part(
                function_response=ToolResult(
                    "t1", "look", "see", is_error=True, attachments=(Media("image/gif", b"\0\1\2"),)
                )
            ),
            id="a result with an image",
        ),
        pytest.param(
            {
                "type": "web_search_tool_result",
                "tool_use_id": "t1",
                "content": [{"url": "u", "encrypted_content": "e"}],
            },
            Part(
                function_response=ToolResult(
                    "t1", "look", [{"url": "u", "encrypted_content": "e"}]
                ),
                extra={KEY: {"type": "web_search_tool_result"}},
            ),
            id="an answer of the provider's own tool",
        ),
        pytest.param(
            {"type": "compaction", "content": "so far", "signature": "s"},
            Part(
                inline_data=Media(
                    "application/json",
                    b'{"type": "compaction", "content": "so far", "signature": "s"}',
                    "compaction",
                ),
                extra={KEY: {"block": True}},
            ),
            id="a compaction is kept whole",
        ),
    ],
)
def test_a_block_is_a_part(block: Json, part: Part) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    body = {"model": "m", "messages": [{"role": "assistant", "content": [call, block]}]}
    assert decode(body).messages[0].parts[1] == part


def test_a_call_and_its_answer_are_one_pair_wherever_they_stand() -> None:
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "find it"},
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                    {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "done"},
                    {"type": "text", "text": "a reminder"},
                ],
            },
        ],
    }
    assert check(body) is None
    user, model, tool = decode(body).messages
    assert (user.role, user.kind, user.opens_turn) == (Role.USER, Kind.PLAIN, True)
    assert (model.role, model.call_ids) == (Role.MODEL, ("t1",))
    assert (tool.role, tool.result_ids, tool.text) == (Role.TOOL, ("t1",), "a reminder")
    assert tool.parts[0].function_response == ToolResult("t1", "run", "done")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no messages"),
        pytest.param({"messages": "hello"}, id="messages that are no list"),
        pytest.param({"messages": ["hello"]}, id="a message that is no object"),
        pytest.param({"messages": [{"role": "user"}]}, id="a message without content"),
        pytest.param({"messages": [{"role": "user", "content": 5}]}, id="content that is a number"),
    ],
)
def test_what_is_no_request_is_named(body: Json) -> None:
    with pytest.raises(WireError) as caught:
        decode(body)
    assert caught.value.hint


def test_a_result_that_was_shortened_is_not_what_came() -> None:
    content = [{"type": "text", "text": "long " * 100, "citations": []}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content, "future": 1}
    request = decode({"messages": [{"role": "user", "content": [result]}]})
    (message,) = request.messages
    (part,) = message.parts
    short = Part(function_response=ToolResult("t1", "", "[removed]"), extra=part.extra)
    shorter = Request(model="m", messages=(message.with_parts([short]),))
    (sent,) = encode(shorter)["messages"]
    assert sent["content"] == [{**result, "content": "[removed]"}]
