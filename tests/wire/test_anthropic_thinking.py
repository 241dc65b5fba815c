"""Thoughts are bound to what led to them: what may change before one comes back, and what not."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaato.exchange import Request, ToolSchema
from jaato.history import Message, Part, Role, ToolResult
from jaato.wire.anthropic import decode_answer, encode
from jaato.wire.anthropic_blocks import is_thought
from jaato.wire.anthropic_rules import ThinkingPrefix, check

Json = dict[str, Any]
MOVED = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
SIGNATURES = ThinkingPrefix()

kinds = st.lists(st.sampled_from(["thinking", "redacted_thinking", "text"]), max_size=3)
steps = st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=4)


def answered(body: Json, kinds: list[str], *, calls: bool, number: int) -> list[Json]:
    """What the model answers to a body, signed."""
    content: list[Json] = [
        {"type": "text", "text": f"text {number}.{at}"}
        if kind == "text"
        else {"type": kind, **({"thinking": f"{number}.{at}"} if kind == "thinking" else {})}
        for at, kind in enumerate(kinds)
    ]
    if calls:
        content.append({"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}})
    else:
        content.append({"type": "text", "text": f"so, {number}"})
    return SIGNATURES.signed(body, content)


def conversation(steps: list[tuple[list[str], bool]]) -> Json:
    """A conversation in which the model thinks, as it stands before its next request."""
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "system": "be brief",
        "tools": [{"name": "run", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "begin"}],
    }
    for number, (kinds, calls) in enumerate(steps):
        content = answered(body, kinds, calls=calls, number=number)
        reply: Json = {"type": "text", "text": f"and {number}?"}
        if calls:
            reply = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"r{number}"}
        body["messages"] += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [reply]},
        ]
    return body


conversations = st.builds(conversation, steps)


def refusal(body: Json) -> str | None:
    breach = check(body, signatures=SIGNATURES)
    return None if breach is None else breach.message


def thoughts_in(body: Json) -> list[tuple[int, int]]:
    return [
        (at, index)
        for at, message in enumerate(body["messages"])
        for index, block in enumerate(message["content"])
        if isinstance(block, dict) and is_thought(block)
    ]


def without(body: Json, gone: list[tuple[int, int]]) -> Json:
    shorter = copy.deepcopy(body)
    for at, index in reversed(gone):
        del shorter["messages"][at]["content"][index]
    return shorter


@given(body=conversations)
def test_what_only_grew_is_taken(body: Json) -> None:
    assert refusal(body) is None
    whole = copy.deepcopy(body)
    for length in range(1, len(whole["messages"]) + 1, 2):
        assert refusal({**whole, "messages": whole["messages"][:length]}) is None


@given(body=conversations, data=st.data())
def test_breakpoints_and_the_shape_of_content_may_change(body: Json, data: st.DataObject) -> None:
    body["system"] = [
        {"type": "text", "text": body["system"], "cache_control": {"type": "ephemeral"}}
    ]
    body["messages"][0]["content"] = [{"type": "text", "text": "begin"}]
    at = data.draw(st.integers(0, len(body["messages"]) - 1))
    blocks = [block for block in body["messages"][at]["content"] if not is_thought(block)]
    blocks[-1]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    body["temperature"] = 0.3
    assert refusal(body) is None


@given(body=conversations, data=st.data())
def test_the_first_thoughts_may_go_and_all_of_them(body: Json, data: st.DataObject) -> None:
    thoughts = thoughts_in(body)
    many = data.draw(st.integers(0, len(thoughts)))
    assert refusal(without(body, thoughts[:many])) is None
    # So may the last ones, as long as nothing is thought behind them.
    assert refusal(without(body, thoughts[many:])) is None


@given(body=conversations, data=st.data())
def test_a_thought_between_others_may_not_go(body: Json, data: st.DataObject) -> None:
    thoughts = thoughts_in(body)
    assume(len(thoughts) > 2)
    which = data.draw(st.integers(1, len(thoughts) - 2))
    shorter = without(body, [thoughts[which]])
    at, index = thoughts_in(shorter)[which]
    assert refusal(shorter) == f"messages.{at}.content.{index}: {MOVED}"


@given(body=conversations, data=st.data())
def test_nothing_before_a_thought_may_change(body: Json, data: st.DataObject) -> None:
    thoughts = thoughts_in(body)
    assume(thoughts)
    at, _ = data.draw(st.sampled_from(thoughts))
    what = data.draw(st.sampled_from(["system", "tools", "edit", "insert", "drop"]))
    earlier = [place for place in range(at) if place % 2 == 0]
    where = data.draw(st.sampled_from(earlier))
    changed = copy.deepcopy(body)
    match what:
        case "system":
            changed["system"] += "."
            at, _ = thoughts[0]
        case "tools":
            changed["tools"][0]["description"] = "new"
            at, _ = thoughts[0]
        case "edit":
            changed["messages"][where] = _edited(changed["messages"][where])
        case "insert":
            changed["messages"].insert(where + 1, {"role": "user", "content": "a reminder"})
            assume(changed["messages"][where]["content"] != [])
        case _:
            changed["messages"] = changed["messages"][2:]
            assume("tool_result" not in str(changed["messages"][0]))
    kept = [(a, i) for a, i in thoughts_in(changed)]
    if not kept:
        return
    message = refusal(changed)
    if what in {"system", "tools", "drop"}:
        assert message == f"messages.{kept[0][0]}.content.{kept[0][1]}: {MOVED}"
    else:
        behind = [(a, i) for a, i in kept if a > where]
        assert message == f"messages.{behind[0][0]}.content.{behind[0][1]}: {MOVED}"
        # With all thoughts behind the change gone, the rest is good.
        assert refusal(without(changed, behind)) is None
    assert refusal({**changed, "thinking": DROP_BLOCK}) is None


DROP_BLOCK = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def _edited(message: Json) -> Json:
    if isinstance(message["content"], str):
        return {**message, "content": message["content"] + "!"}
    *blocks, last = message["content"]
    field = "text" if last["type"] == "text" else "content"
    return {**message, "content": [*blocks, {**last, field: last[field] + "!"}]}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"thinking": "something else"}, id="its text"),
        pytest.param({"signature": "forged"}, id="its signature"),
        pytest.param({"signature": "a.b.c"}, id="a signature that looks right"),
    ],
)
def test_a_thought_is_sent_back_as_it_came(change: Json) -> None:
    body = conversation([(["thinking"], False)])
    body["messages"][1]["content"][0].update(change)
    assert refusal(body) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_thoughts_do_not_change_places() -> None:
    body = conversation([(["thinking", "thinking"], False)])
    content = body["messages"][1]["content"]
    content[0], content[1] = content[1], content[0]
    assert refusal(body) == f"messages.1.content.1: {MOVED}"


def test_another_signer_is_another_provider() -> None:
    body = conversation([(["thinking"], False)])
    assert ThinkingPrefix("other").refusal(body) is not None


@given(steps=steps)
def test_a_session_sends_its_thoughts_back_as_they_came(
    steps: list[tuple[list[str], bool]],
) -> None:
    request = Request(
        model="m",
        system="be brief",
        tools=(ToolSchema(name="run"),),
        messages=(Message.from_text(Role.USER, "begin"),),
        marks=(0,),
    )
    for number, (kinds, calls) in enumerate(steps):
        body = encode(request)
        assert check(body, signatures=SIGNATURES) is None
        content = answered(body, kinds, calls=calls, number=number)
        said = decode_answer({"content": content}).message
        reply = Part(text=f"and {number}?")
        if calls:
            reply = Part(function_response=ToolResult(f"t{number}", "run", {"n": number}))
        messages = (*request.messages, said, Message("tool" if calls else "user", [reply]))
        request = replace(request, messages=messages, marks=(len(messages) - 1, number))
    body = encode(request)
    assert check(body, signatures=SIGNATURES) is None
    assert len(thoughts_in(body)) == sum(kind != "text" for kinds, _ in steps for kind in kinds)
