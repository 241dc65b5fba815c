"""Each rule by which the API refuses a request, with its words, and requests that break none."""

from __future__ import annotations

from typing import Any

import pytest

from jaato.wire.anthropic_rules import RuleBreach, check

Json = dict[str, Any]


def text(said: str = "hi", **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def use(call_id: str = "t1", **more: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "run", "input": {}, **more}


def result(call_id: str = "t1", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok", **more}


def search(call_id: str = "s1", **more: Any) -> Json:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}, **more}


def found(call_id: str = "s1") -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def thinking(**more: Any) -> Json:
    return {"type": "thinking", "thinking": "hm", "signature": "s", **more}


def user(*blocks: Json | str) -> Json:
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else [*blocks]}


def assistant(*blocks: Json | str) -> Json:
    return {**user(*blocks), "role": "assistant"}


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "m", "max_tokens": 100, "messages": [*messages], **more}


def tool(name: str = "run", **more: Any) -> Json:
    return {"name": name, "input_schema": {"type": "object"}, **more}


CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(body(user("hi")), id="a string"),
        pytest.param(body(user(text()), user("and"), assistant("ok")), id="one speaker in a row"),
        pytest.param(body(user("hi"), assistant("")), id="an empty final assistant message"),
        pytest.param(
            body(user("hi"), assistant(use()), user(result(), text("go")), tools=[tool()]),
            id="a call, its result, and what the user says",
        ),
        pytest.param(
            body(user("hi"), assistant(use("a"), use("b")), user(result("b"), result("a"))),
            id="parallel calls in any order",
        ),
        pytest.param(
            body(user("hi"), assistant(search(), found(), text())), id="a tool of the provider"
        ),
        pytest.param(body(user("hi"), assistant(search())), id="a turn that is paused"),
        pytest.param(body(user("hi"), assistant(thinking(), text())), id="a thought before a text"),
        pytest.param(body(user("hi"), {"role": "system", "content": "new rules"}), id="a new rule"),
        pytest.param(
            body(user(text(**CACHED)), system=[text(**CACHED)], tools=[tool(**CACHED)], **CACHED),
            id="four breakpoints",
        ),
        pytest.param(
            body(user("hi"), tools=[{"type": "web_search_20250305", "name": "web_search"}]),
            id="a tool that needs no schema",
        ),
        pytest.param(
            body(user("hi"), max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
            id="a budget for thinking",
        ),
    ],
)
def test_what_the_api_takes(request_: Json) -> None:
    assert check(request_) is None


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param({"model": "m", "messages": []}, "max_tokens: Field required", id="no limit"),
        pytest.param({"max_tokens": 1}, "model: Field required", id="no model"),
        pytest.param({"model": "m", "max_tokens": 1}, "messages: Field required", id="no messages"),
        pytest.param(
            body(max_tokens="5"),
            "max_tokens: Input should be a valid integer",
            id="a limit in words",
        ),
        pytest.param(
            body(max_tokens=-1),
            "max_tokens: Input should be greater than or equal to 0",
            id="a limit below nothing",
        ),
        pytest.param(
            {**body(), "messages": "hi"},
            "messages: Input should be a valid list",
            id="messages that are no list",
        ),
        pytest.param(body(), "messages: at least one message is required", id="an empty list"),
        pytest.param(
            body({"role": "tool", "content": "x"}),
            'messages: Unexpected role "tool". Allowed roles are "user" or "assistant"',
            id="a role that it does not know",
        ),
        pytest.param(
            {**body(), "messages": ["hi"]},
            "messages.0: Input should be an object",
            id="a message that is a string",
        ),
        pytest.param(
            body({"role": "user"}),
            "messages.0.content: Input should be a valid string or list",
            id="no content",
        ),
        pytest.param(
            body(assistant("hi")),
            'messages: first message must use the "user" role',
            id="who begins",
        ),
        pytest.param(
            body(user("hi"), {"role": "user", "content": []}),
            "messages.1: user messages must have non-empty content",
            id="an empty user message",
        ),
        pytest.param(
            body(user("hi"), assistant(""), user("hi")),
            "messages.1: all messages must have non-empty content except for the optional final "
            "assistant message",
            id="an empty assistant message",
        ),
        pytest.param(
            body(user({"text": "hi"})), "messages.0.content.0.type: Field required", id="no type"
        ),
        pytest.param(
            body(user(text(""))), "messages: text content blocks must be non-empty", id="no text"
        ),
        pytest.param(
            body(user(" \n")),
            "messages: text content blocks must contain non-whitespace text",
            id="white space",
        ),
        pytest.param(
            body(user("hi"), system=[text("")]),
            "system: text content blocks must be non-empty",
            id="an empty system prompt",
        ),
        pytest.param(
            body(user("hi"), assistant(use()), user(result(content=[text("")]))),
            "messages: text content blocks must be non-empty",
            id="an empty text in a result",
        ),
        pytest.param(
            body(user(text("", **CACHED))),
            "messages.0.text: cache_control cannot be set for empty text blocks",
            id="a breakpoint on nothing",
        ),
        pytest.param(
            body(user("hi"), assistant("I say ")),
            "messages: final assistant content cannot end with trailing whitespace",
            id="white space at the end",
        ),
        pytest.param(
            body(user("hi"), assistant(use("a"), use("b")), user(result("a"))),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "b. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
            id="a call without a result",
        ),
        pytest.param(
            body(user("hi"), assistant(use("a"), use("b")), user(result("a")), user(result("b"))),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "b. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
            id="results in two messages",
        ),
        pytest.param(
            body(user("hi"), assistant(use()), user(text(), result())),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "t1. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
            id="a text before a result",
        ),
        pytest.param(
            body(user("hi"), assistant("no calls"), user(text(), result())),
            "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: t1. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous "
            "message.",
            id="a result without a call",
        ),
        pytest.param(
            body(user("hi"), assistant(use()), user(result(), result())),
            "messages.2.content.1: each tool_use must have a single result. Found multiple "
            "`tool_result` blocks with id: t1",
            id="two results of one call",
        ),
        pytest.param(
            body(user("hi"), assistant(use()), user(result()), assistant(use()), user(result())),
            "messages.3.content.0: `tool_use` ids must be unique",
            id="an id that comes back",
        ),
        pytest.param(
            body(user("hi"), assistant(use("a.b")), user(result("a.b"))),
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            id="an id with a dot",
        ),
        pytest.param(
            body(user("hi"), assistant(use(input="{}")), user(result())),
            "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
            id="arguments as a string",
        ),
        pytest.param(
            body(user("hi"), assistant(use(), result())),
            "messages.1: `tool_result` blocks can only be in `user` messages",
            id="a result in an assistant message",
        ),
        pytest.param(
            body(user(use())),
            "messages.0: `tool_use` blocks can only be in `assistant` messages",
            id="a call in a user message",
        ),
        pytest.param(
            body(user("hi"), assistant(found())),
            "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` "
            "blocks: s1. Each `web_search_tool_result` block must have a corresponding "
            "`server_tool_use` block before it.",
            id="an answer that nobody asked for",
        ),
        pytest.param(
            body(user("hi"), assistant(search(), text()), user("and?")),
            "messages.1: `web_search` tool use with id `s1` was found without a corresponding "
            "`web_search_tool_result` block",
            id="a provider's tool without an answer",
        ),
        pytest.param(
            body(user("hi"), assistant(text(), thinking())),
            "messages.1: The final block in an assistant message cannot be `thinking`.",
            id="a thought at the end",
        ),
        pytest.param(
            body(user("hi"), assistant({"type": "thinking", "thinking": "hm"}, text())),
            "messages.1.content.0.thinking.signature: Field required",
            id="a thought without a signature",
        ),
        pytest.param(
            body(user("hi"), assistant(thinking(**CACHED), text())),
            "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
            id="a breakpoint on a thought",
        ),
        pytest.param(
            body(user(text(**CACHED), text(**CACHED)), system=[text(**CACHED)] * 2, **CACHED),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
            id="five breakpoints",
        ),
        pytest.param(
            body(user("hi"), assistant(use()), user(result(content=[text(**CACHED)] * 5))),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
            id="breakpoints inside a result",
        ),
        pytest.param(
            body(user("hi"), tools=[tool(), tool()]),
            "tools: Tool names must be unique.",
            id="names",
        ),
        pytest.param(
            body(user("hi"), tools=[tool("files.read")]),
            "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
            id="a name with a dot",
        ),
        pytest.param(
            body(user("hi"), tools=[{"name": "run"}]),
            "tools.0.custom.input_schema: Field required",
            id="a tool without a schema",
        ),
        pytest.param(
            body(user("hi"), tools=[tool(input_schema={})]),
            "tools.0.custom.input_schema.type: Input should be 'object'",
            id="a schema of nothing",
        ),
        pytest.param(
            body(user("hi"), thinking={"type": "enabled"}),
            "thinking.enabled.budget_tokens: Field required",
            id="no budget",
        ),
        pytest.param(
            body(user("hi"), thinking={"type": "enabled", "budget_tokens": 10}),
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
            id="too small a budget",
        ),
        pytest.param(
            body(user("hi"), thinking={"type": "enabled", "budget_tokens": 1024}),
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
            id="no room besides thinking",
        ),
    ],
)  # fmt: skip
def test_what_the_api_refuses(request_: Json, message: str) -> None:
    assert check(request_) == RuleBreach(message=message)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        pytest.param(900, None, id="it fits to the token"),
        pytest.param(
            901,
            "input length and `max_tokens` exceed context limit: 901 + 100 > 1000, decrease input "
            "length or `max_tokens` and try again",
            id="no room for the answer",
        ),
        pytest.param(
            1001, "prompt is too long: 1001 tokens > 1000 maximum", id="no room for the prompt"
        ),
    ],
)
def test_the_window(tokens: int, message: str | None) -> None:
    request_ = body(user("hi"))
    breach = check(request_, window=1000, count=lambda _: tokens)
    assert breach == (None if message is None else RuleBreach(message=message))
    assert check(request_, window=1000, count=tokens) == breach
    assert check(request_, count=tokens) is None


def test_a_breach_is_what_the_api_answers() -> None:
    breach = check(body())
    assert breach is not None
    assert (breach.status, breach.document()) == (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "messages: at least one message is required",
            },
        },
    )
