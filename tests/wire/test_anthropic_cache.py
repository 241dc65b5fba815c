"""Where the provider may keep the prompt: at most four breakpoints, where the API allows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.exchange import Request, ToolSchema
from jaato.history import Media, Message, Part, Role
from jaato.testing import histories, sketch
from jaato.wire.anthropic import KEY, decode, encode
from jaato.wire.anthropic_rules import check

MARK = {"type": "ephemeral"}
TOOLS = (ToolSchema(name="a"), ToolSchema(name="b"))


def marked(value: Any, path: str = "") -> Iterator[str]:
    """Where in a body there is a breakpoint."""
    if isinstance(value, dict):
        if "cache_control" in value:
            yield path.strip(".")
        for key, one in value.items():
            yield from marked(one, f"{path}.{key}")
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from marked(one, f"{path}.{at}")


def bare(value: Any) -> Any:
    """A body without breakpoints, its system prompt as a list."""
    return json.loads(json.dumps(value).replace(', "cache_control": {"type": "ephemeral"}', ""))


def request_of(picture: str, **more: Any) -> Request:
    return Request(model="m", messages=tuple(sketch(picture)), **more)


@pytest.mark.parametrize(
    ("request_", "places"),
    [
        pytest.param(request_of("u"), [], id="nothing is stable"),
        pytest.param(request_of("u", system="be"), ["system.0"], id="the system prompt"),
        pytest.param(request_of("u", tools=TOOLS), ["tools.1"], id="the last tool"),
        pytest.param(
            request_of("u a u", system="be", tools=TOOLS, marks=(1,)),
            ["system.0", "tools.1", "messages.1.content.0"],
            id="and what the marks name",
        ),
        pytest.param(
            request_of("u a u a u", system="be", tools=TOOLS, marks=(4, 2, 0)),
            ["system.0", "tools.1", "messages.2.content.0", "messages.4.content.0"],
            id="the best marks, as long as there is room",
        ),
        pytest.param(
            request_of("u a u a u", marks=(0, 1, 2, 3, 4)),
            [f"messages.{at}.content.0" for at in range(4)],
            id="four at most",
        ),
        pytest.param(request_of("u a", system=" ", marks=(7, -1)), ["messages.1.content.0"],
                     id="a mark behind the end is the end, one before the beginning is none"),
        pytest.param(
            request_of("u c1,2 r1 r2", marks=(3,)),
            ["messages.2.content.1"],
            id="the last of results that were put together",
        ),
        pytest.param(
            request_of("u a", system="be", marks=(1,), options={"cache": False}),
            [],
            id="none at all",
        ),
    ],
)  # fmt: skip
def test_breakpoints(request_: Request, places: list[str]) -> None:
    body = encode(request_)
    assert sorted(marked(body)) == sorted(places)
    assert check(body) is None


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_how_long_it_is_kept(ttl: str) -> None:
    body = encode(request_of("u", system="be", options={"cache_ttl": ttl}))
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": ttl}
    assert "cache_ttl" not in body


def test_never_on_a_thought_or_on_what_is_kept_whole() -> None:
    whole = Part(
        inline_data=Media("application/json", b'{"type": "fallback"}'), extra={KEY: {"block": True}}
    )
    history = (
        Message.from_text(Role.USER, "go"),
        Message(
            Role.MODEL,
            [Part(thought="hm", extra={KEY: {"signature": "s"}}), Part(text="said"), whole],
        ),
        Message(Role.MODEL, [Part(thought="hm", extra={KEY: {"signature": "s"}}), whole]),
    )
    body = encode(Request(model="m", messages=history, marks=(2,)))
    assert list(marked(body)) == ["messages.1.content.1"]


def test_what_a_foreign_request_marked_stays_and_counts() -> None:
    block = {"type": "text", "text": "x", "cache_control": MARK}
    body: dict[str, Any] = {
        "model": "m",
        "max_tokens": 1,
        "cache_control": MARK,
        "system": [{"type": "text", "text": "be"}],
        "tools": [{"name": "a", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [block, block]}, {"role": "user", "content": "y"}],
    }
    came = decode(body)
    assert encode(came) == body
    more = encode(replace(came, options={"cache_control": MARK}, marks=(1,)))
    assert sorted(marked(more)) == [
        "",
        "messages.0.content.0",
        "messages.0.content.1",
        "system.0",
    ]
    assert "cache_control" not in body["system"][0], "what was decoded is left alone"


@given(history=histories(pending=False, max_turns=4), marks=st.lists(st.integers(-2, 40)))
def test_a_breakpoint_changes_nothing_else(history: list[Message], marks: list[int]) -> None:
    plain = Request(model="m", messages=tuple(history), options={"cache": False})
    cached = encode(replace(plain, options={}, marks=tuple(marks)))
    assert bare(cached) == bare(encode(plain))
    places = list(marked(cached))
    assert len(places) <= 4
    assert not any("thinking" in place for place in places)
