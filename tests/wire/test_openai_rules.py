"""What OpenAI refuses, in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from jaato.wire.openai_rules import RuleBreach, check_chat, check_responses

Json = dict[str, Any]


def user(content: Any = "hi") -> Json:
    return {"role": "user", "content": content}


def function(name: Any = "run", arguments: Any = "{}") -> Json:
    return {"name": name, "arguments": arguments}


# --- Chat Completions.


def chat(*messages: Json, **more: Any) -> Json:
    return {"model": "gpt-5.5", "messages": list(messages), **more}


def asking(*ids: Any, **more: Any) -> Json:
    """A message that calls tools."""
    calls = [{"id": call_id, "type": "function", "function": function()} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def answer(call_id: Any = "a", content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(chat(user()), id="a text"),
        pytest.param(chat({"role": "system", "content": "x"}, user()), id="with instructions"),
        pytest.param(chat(user(""), {"role": "assistant", "content": ""}), id="empty texts"),
        pytest.param(chat(user(), asking("a"), answer("a")), id="a call and its result"),
        pytest.param(
            chat(user(), asking("a", "b"), answer("b"), answer("a"), user()),
            id="results in another order",
        ),
        pytest.param(
            chat(user(), asking("a"), answer("a"), asking("a"), answer("a")),
            id="an id that comes back in a later step",
        ),
        pytest.param(chat(user(), asking("x" * 40), answer("x" * 40)), id="the longest id"),
        pytest.param(
            chat(user(), {"role": "assistant", "content": None, "refusal": "No."}), id="a refusal"
        ),
        pytest.param(
            chat(
                user(),
                {"role": "assistant", "content": None, "function_call": function()},
                {"role": "function", "name": "run", "content": "ok"},
            ),
            id="a call of old",
        ),
        pytest.param(
            chat(user([{"type": "image_url", "image_url": {"url": "data:"}}])), id="a picture"
        ),
        pytest.param(chat(user(), tools=None), id="null for tools"),
        pytest.param(
            chat(user(), tools=[{"type": "custom", "custom": {"name": "any name"}}]),
            id="a tool that is no function",
        ),
    ],
)
def test_what_chat_takes(body: Json) -> None:
    assert check_chat(body) is None


@pytest.mark.parametrize(
    ("body", "message", "code", "param"),
    [
        pytest.param(
            {"messages": [user()]}, "you must provide a model parameter", None, None, id="no model"
        ),
        pytest.param(
            {"model": "m"},
            "Missing required parameter: 'messages'.",
            "missing_required_parameter",
            "messages",
            id="no messages",
        ),
        pytest.param(
            chat(),
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "empty_array",
            "messages",
            id="an empty history",
        ),
        pytest.param(
            chat({"role": "critic", "content": "x"}),
            "Invalid value: 'critic'. Supported values are: 'system', 'assistant', 'user', "
            "'function', 'tool', and 'developer'.",
            "invalid_value",
            "messages[0].role",
            id="an unknown role",
        ),
        pytest.param(
            chat(user(None)),
            "Invalid value for 'content': expected a string, got null.",
            None,
            "messages.[0].content",
            id="nothing said",
        ),
        pytest.param(
            chat(user(), {"role": "assistant", "content": None}),
            "Invalid value for 'content': expected a string, got null.",
            None,
            "messages.[1].content",
            id="nothing answered",
        ),
        pytest.param(
            chat(user(), {"role": "assistant", "content": "x", "tool_calls": []}),
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length "
            "1, but got an empty array instead.",
            "empty_array",
            "messages[1].tool_calls",
            id="calls that are none",
        ),
        pytest.param(
            chat(user(), asking("x" * 41), answer("x" * 41)),
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with "
            "maximum length 40, but got a string with length 41 instead.",
            "string_above_max_length",
            "messages[1].tool_calls[0].id",
            id="an id that is too long",
        ),
        pytest.param(
            chat(user(), asking(""), answer("")),
            "Invalid 'messages[1].tool_calls[0].id': empty string. Expected a string with minimum "
            "length 1, but got an empty string instead.",
            "empty_string",
            "messages[1].tool_calls[0].id",
            id="an empty id",
        ),
        pytest.param(
            chat(user(), asking(None)),
            "Missing required parameter: 'messages[1].tool_calls[0].id'.",
            "missing_required_parameter",
            "messages[1].tool_calls[0].id",
            id="no id",
        ),
        pytest.param(
            chat(
                user(),
                asking(tool_calls=[{"id": "a", "type": "function", "function": function("a.b")}]),
            ),
            "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "invalid_value",
            "messages[1].tool_calls[0].function.name",
            id="a name with a dot",
        ),
        pytest.param(
            chat(
                user(),
                asking(tool_calls=[{"id": "a", "type": "function", "function": function("a", {})}]),
            ),
            "Missing required parameter: 'messages[1].tool_calls[0].function.arguments'.",
            "missing_required_parameter",
            "messages[1].tool_calls[0].function.arguments",
            id="arguments that are no text",
        ),
        pytest.param(
            chat(user(), answer("a")),
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            None,
            "messages.[1].role",
            id="a result of no call",
        ),
        pytest.param(
            chat(user(), asking("a"), answer(None)),
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a "
            "'tool_call_id'.",
            None,
            "messages.[2].tool_call_id",
            id="a result that does not say of what",
        ),
        pytest.param(
            chat(user(), asking("a"), answer("b")),
            "Invalid parameter: 'tool_call_id' of 'b' not found in 'tool_calls' of previous "
            "message.",
            None,
            "messages.[2].tool_call_id",
            id="a result of another call",
        ),
        pytest.param(
            chat(user(), asking("a"), answer("a"), answer("a")),
            "Invalid parameter: Duplicate value for 'tool_call_id' of 'a', in messages[2] and "
            "messages[3].",
            None,
            "messages.[3].tool_call_id",
            id="two results of one call",
        ),
        pytest.param(
            chat(user(), asking("a", "b"), answer("a"), user()),
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "b",
            None,
            "messages.[3].role",
            id="a result is missing",
        ),
        pytest.param(
            chat(user(), asking("a", "b")),
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "a, b",
            None,
            "messages.[1].role",
            id="all results are missing",
        ),
        pytest.param(
            chat(user(), asking("a", "a"), answer("a")),
            "Duplicate call_ids submitted: ['a']",
            None,
            "messages.[1].tool_calls",
            id="two calls with one id",
        ),
        pytest.param(
            chat(
                user(), asking("a"), answer("a", [{"type": "image_url", "image_url": {"url": ""}}])
            ),
            "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', "
            "but this message with role 'tool' contains an image URL.",
            "invalid_value",
            "messages[2]",
            id="a picture in a result",
        ),
        pytest.param(
            chat(user(), tools=[]),
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "empty_array",
            "tools",
            id="tools that are none",
        ),
        pytest.param(
            chat(user(), tools=[{"type": "function", "function": {"name": "x"}}] * 129),
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got "
            "an array with length 129 instead.",
            "array_above_max_length",
            "tools",
            id="too many tools",
        ),
        pytest.param(
            chat(user(), tools=[{"type": "function", "function": {"name": "a b"}}]),
            "Invalid 'tools[0].function.name': string does not match pattern. Expected a string "
            "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "invalid_value",
            "tools[0].function.name",
            id="a tool with a space in its name",
        ),
    ],
)
def test_what_chat_refuses(body: Json, message: str, code: str | None, param: str | None) -> None:
    assert check_chat(body) == RuleBreach(message=message, code=code, param=param)


def one_each(texts: Sequence[str]) -> list[int]:
    """A token per text that says something."""
    return [int(bool(text)) for text in texts]


# One for what is said, three around the message, three in front of the answer.
HI = 7


@pytest.mark.parametrize(
    ("window", "more", "asked"),
    [
        pytest.param(HI, {}, None, id="it fits to the token"),
        pytest.param(
            HI - 1,
            {},
            "your messages resulted in 7 tokens. Please reduce the length of the messages.",
            id="no room for the prompt",
        ),
        pytest.param(
            HI,
            {"tools": [{"type": "function", "function": {"name": "x"}}]},
            "your messages resulted in 8 tokens (7 in the messages, 1 in the functions). Please "
            "reduce the length of the messages or functions.",
            id="no room for the tools",
        ),
        pytest.param(
            HI + 4,
            {"max_completion_tokens": 5},
            "you requested 12 tokens (7 in the messages, 5 in the completion). Please reduce the "
            "length of the messages or completion.",
            id="no room for the answer",
        ),
        pytest.param(
            HI + 4,
            {"max_tokens": 4, "tools": [{"type": "function", "function": {"name": "x"}}]},
            "you requested 12 tokens (7 in the messages, 1 in the functions, 4 in the "
            "completion). Please reduce the length of the messages, functions or completion.",
            id="no room for all three",
        ),
    ],
)
def test_the_window_of_chat(window: int, more: Json, asked: str | None) -> None:
    breach = check_chat(chat(user(), **more), window, one_each)
    said = f"This model's maximum context length is {window} tokens. However, {asked}"
    assert breach == (
        None
        if asked is None
        else RuleBreach(message=said, code="context_length_exceeded", param="messages")
    )
    assert check_chat(chat(user(), **more), window) is None, "nobody counts"


def test_all_that_goes_over_the_wire_is_counted() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    body = chat(user([picture]), asking("a"), answer("a"))
    breach = check_chat(body, 1, one_each)
    # A picture; a name and arguments; a result; four frames.
    assert breach is not None
    assert f"resulted in {85 + 2 + 1 + 12} tokens" in breach.message


# --- Responses.


def items(*items: Any, **more: Any) -> Json:
    return {"model": "gpt-5.5", "input": list(items), "store": False, **more}


def call(call_id: Any = "a", kind: str = "function_call") -> Json:
    return {"type": kind, "call_id": call_id, **function(), "input": ""}


def output(call_id: Any = "a", kind: str = "function_call") -> Json:
    return {"type": f"{kind}_output", "call_id": call_id, "output": "ok"}


def thought(number: int = 1, **more: Any) -> Json:
    item = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    return {**item, "encrypted_content": "sealed", **more}


SAID = {"role": "assistant", "content": "So."}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"model": "m", "input": "hi"}, id="a text"),
        pytest.param(items(user()), id="a message"),
        pytest.param(items(user(), call(), output()), id="a call and its result"),
        pytest.param(
            items(user(), call("a"), call("b"), output("b"), output("a")), id="another order"
        ),
        pytest.param(
            items(user(), call("a", "custom_tool_call"), output("a", "custom_tool_call")),
            id="a tool that takes text",
        ),
        pytest.param(items(user(), thought(), SAID), id="a thought and what it led to"),
        pytest.param(items(user(), thought(), call(), output()), id="a thought and a call"),
        pytest.param(items(user(), thought(1), thought(2), SAID), id="thoughts in a row"),
        pytest.param(
            items(user(), thought(encrypted_content=None), SAID, store=True), id="a stored thought"
        ),
        pytest.param(
            items(user(), thought(encrypted_content=None, content=[{"text": "x"}]), SAID),
            id="a thought in full",
        ),
        pytest.param(items(output(), previous_response_id="resp_1"), id="the call is stored"),
        pytest.param({"model": "m", "previous_response_id": "resp_1"}, id="all is stored"),
        pytest.param({"model": "m", "prompt": {"id": "p"}}, id="a prompt that is stored"),
        pytest.param(items(user(), tools=[]), id="an empty list of tools"),
        pytest.param(
            items(
                user(), {"type": "item_reference", "id": "x"}, {"type": "item_reference", "id": "x"}
            ),
            id="two references to one item",
        ),
    ],
)
def test_what_responses_takes(body: Json) -> None:
    assert check_responses(body) is None


@pytest.mark.parametrize(
    ("body", "breach"),
    [
        pytest.param(
            items(),
            RuleBreach(
                message='One of "input" or "previous_response_id" or \'prompt\' or '
                "'conversation_id' must be provided.",
                code="missing_required_parameter",
            ),
            id="nothing to answer",
        ),
        pytest.param(
            items(user(None)),
            RuleBreach(
                message="Invalid type for 'input[0].content': expected one of an array of objects "
                "or string, but got null instead.",
                code="invalid_type",
                param="input[0].content",
            ),
            id="nothing said",
        ),
        pytest.param(
            items(call("x" * 65)),
            RuleBreach(
                message="Invalid 'input[0].call_id': string too long. Expected a string with "
                "maximum length 64, but got a string with length 65 instead.",
                code="string_above_max_length",
                param="input[0].call_id",
            ),
            id="an id that is too long",
        ),
        pytest.param(
            items(output(None)),
            RuleBreach(
                message="Missing required parameter: 'input[0].call_id'.",
                code="missing_required_parameter",
                param="input[0].call_id",
            ),
            id="a result that does not say of what",
        ),
        pytest.param(
            items(user(), output("a")),
            RuleBreach(
                message="No tool call found for function call output with call_id a.", param="input"
            ),
            id="a result of no call",
        ),
        pytest.param(
            items(user(), output("a"), call("a")),
            RuleBreach(
                message="No tool call found for function call output with call_id a.", param="input"
            ),
            id="a result in front of its call",
        ),
        pytest.param(
            items(user(), call("a"), call("b"), output("a")),
            RuleBreach(message="No tool output found for function call b.", param="input"),
            id="a result is missing",
        ),
        pytest.param(
            items(user(), call("a", "custom_tool_call"), output("a")),
            RuleBreach(
                message="No tool call found for function call output with call_id a.", param="input"
            ),
            id="a result of another kind",
        ),
        pytest.param(
            items(user(), call("a", "custom_tool_call")),
            RuleBreach(message="No tool output found for custom tool call a.", param="input"),
            id="a result of a tool that takes text is missing",
        ),
        pytest.param(
            items(user(), thought(), user()),
            RuleBreach(
                message="Item 'rs_1' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            ),
            id="a thought without what it led to",
        ),
        pytest.param(
            items(user(), call(), thought(), output()),
            RuleBreach(
                message="Item 'rs_1' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            ),
            id="a thought in front of a result",
        ),
        pytest.param(
            items(user(), thought()),
            RuleBreach(
                message="Item 'rs_1' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            ),
            id="a thought at the end",
        ),
        pytest.param(
            items(user(), thought(encrypted_content=None), SAID),
            RuleBreach(
                message="Item with id 'rs_1' not found. Items are not persisted when `store` is "
                "set to false. Try again with `store` set to true, or remove this item from your "
                "input.",
                status=404,
                param="input",
            ),
            id="a thought that was not stored",
        ),
        pytest.param(
            items(user(), thought(), SAID, thought(), SAID),
            RuleBreach(
                message="Duplicate item found with id rs_1. Remove duplicate items from your "
                "input and try again.",
                param="input",
            ),
            id="an item that comes twice",
        ),
        pytest.param(
            items(user(), tools=[{"type": "function", "name": "a.b"}]),
            RuleBreach(
                message="Invalid 'tools[0].name': string does not match pattern. Expected a "
                "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
                code="invalid_value",
                param="tools[0].name",
            ),
            id="a tool with a dot in its name",
        ),
    ],
)
def test_what_responses_refuses(body: Json, breach: RuleBreach) -> None:
    assert check_responses(body) == breach


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        pytest.param({"model": "m", "input": "hi"}, HI, id="a text"),
        pytest.param(items(user(), instructions="Be brief."), HI + 1, id="with instructions"),
        pytest.param(items(user(), tools=[{"type": "function", "name": "x"}]), HI + 1, id="tools"),
        pytest.param(items(user(), call(), output()), HI + 3 + 2 + 3 + 1, id="a call, its result"),
        pytest.param(items(user([{"type": "input_image"}])), HI - 1 + 85, id="a picture"),
    ],
)
def test_the_window_of_responses(body: Json, tokens: int) -> None:
    assert check_responses(body, tokens, one_each) is None
    breach = check_responses(body, tokens - 1, one_each)
    assert breach == RuleBreach(
        message="Your input exceeds the context window of this model. Please adjust your input "
        "and try again.",
        code="context_length_exceeded",
        param="input",
    )


def test_a_breach_is_what_the_api_answers() -> None:
    breach = check_chat({"messages": []})
    assert breach is not None
    assert (breach.status, breach.document) == (
        400,
        {
            "error": {
                "message": "you must provide a model parameter",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        },
    )
