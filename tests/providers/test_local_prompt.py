"""What the local model is told, and how its calls are found. No model is needed for that."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.exchange import Request, ToolSchema
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.providers.local_prompt import CALL_CLOSES, CALL_OPENS, CallFinder, chat_of, tokens_of
from jaato.tokens import as_text

READ = ToolSchema(name="read", description="Reads a file.")
Found = list[str | tuple[str, str, dict[str, Any]]]


def found_in(*pieces: str, after_number: int = 0) -> Found:
    """What is found: texts joined where they touch, calls with their ids."""
    finder = CallFinder(after_number=after_number)
    found: Found = []
    for part in (*(part for piece in pieces for part in finder.feed(piece)), *finder.finish()):
        if isinstance(part, FunctionCall):
            found.append((part.id, part.name, part.args))
        elif found and isinstance(found[-1], str):
            found[-1] += part
        else:
            found.append(part)
    return found


def call(inside: str) -> str:
    return f"{CALL_OPENS}{inside}{CALL_CLOSES}"


READ_A = '{"name": "read", "arguments": {"path": "a"}}'
FOUND_A = ("call_1", "read", {"path": "a"})


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("Hello.", ["Hello."], id="text alone"),
        pytest.param(call(READ_A), [FOUND_A], id="a call alone"),
        pytest.param(f"Yes.\n{call(READ_A)}", ["Yes.\n", FOUND_A], id="text, then a call"),
        pytest.param(f"{call(READ_A)} So.", [FOUND_A, " So."], id="a call, then text"),
        pytest.param(call(f"\n  {READ_A}\n"), [FOUND_A], id="lines around what is called"),
        pytest.param(call('{"name": "now"}'), [("call_1", "now", {})], id="without arguments"),
        pytest.param(
            call(READ_A) + call('{"name": "now"}'),
            [FOUND_A, ("call_2", "now", {})],
            id="two calls",
        ),
        pytest.param(
            call(f'[{READ_A}, {{"name": "now"}}]'),
            [FOUND_A, ("call_2", "now", {})],
            id="two calls in one list",
        ),
        pytest.param(call("read a"), [call("read a")], id="what is no JSON is text"),
        pytest.param(call("[]"), [call("[]")], id="an empty list is text"),
        pytest.param(call("null"), [call("null")], id="null is text"),
        pytest.param(call('{"name": 1}'), [call('{"name": 1}')], id="a name that is no string"),
        pytest.param(
            call('{"name": "read", "arguments": ["a"]}'),
            [call('{"name": "read", "arguments": ["a"]}')],
            id="arguments that are no object",
        ),
        pytest.param(
            call(f"[{READ_A}, 2]"), [call(f"[{READ_A}, 2]")], id="a list with something else"
        ),
        pytest.param(call("[" * 100_000), [call("[" * 100_000)], id="JSON that is too deep"),
        pytest.param(
            call("1" * 5_000), [call("1" * 5_000)], id="a number that Python does not convert"
        ),
        pytest.param(f"a {CALL_OPENS}{READ_A}", [f"a {CALL_OPENS}{READ_A}"], id="never closed"),
        pytest.param("a <tool_ca", ["a <tool_ca"], id="never opened"),
        pytest.param(f"a {CALL_CLOSES} b", [f"a {CALL_CLOSES} b"], id="closed, never opened"),
        pytest.param(
            call("?") + call(READ_A), [call("?"), FOUND_A], id="a call behind what is none"
        ),
        pytest.param(f"<tool_<{call(READ_A)}", ["<tool_<", FOUND_A], id="a start within a start"),
    ],
)
def test_what_is_found_whole_and_letter_by_letter(answer: str, found: Found) -> None:
    assert found_in(answer) == found
    assert found_in(*answer[:3_000]) == found_in(answer[:3_000])


def test_calls_are_numbered_on() -> None:
    calls = call('{"name": "a"}') + call('[{"name": "b"}, {"name": "c"}]')
    assert [found[0] for found in found_in(calls, after_number=7)] == [
        "call_8",
        "call_9",
        "call_10",
    ]


def test_text_is_handed_on_as_soon_as_it_can_be_no_call() -> None:
    finder = CallFinder()
    pieces = ["So <", "b>, a ", "<tool_", "box>", f"{CALL_OPENS}{{", "}", CALL_CLOSES]
    assert [list(finder.feed(piece)) for piece in pieces] == [
        ["So "],
        ["<b>, a "],
        [],
        ["<tool_box>"],
        [],
        [],
        [call("{}")],
    ]


PLAIN = st.text('<>/_tolca {}[]"\\\n\0é😀', max_size=12)
SCRAPS = st.sampled_from([CALL_OPENS, CALL_CLOSES, "<tool_call", "tool_call>", "<<", call(READ_A)])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
CALLS = st.builds(
    lambda name, args: FunctionCall("", name, args),
    st.text(max_size=6),
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
)


@given(
    parts=st.lists(PLAIN | SCRAPS, max_size=8).map("".join),
    cuts=st.lists(st.integers(0, 120), max_size=12),
)
def test_cuts_change_nothing(parts: str, cuts: list[int]) -> None:
    places = sorted({0, len(parts), *(cut for cut in cuts if cut < len(parts))})
    pieces = [parts[start:stop] for start, stop in pairwise(places)]
    assert found_in(*pieces) == found_in(parts)


@given(parts=st.lists(PLAIN | SCRAPS, max_size=8).map("".join))
def test_what_is_no_call_is_kept_to_the_letter(parts: str) -> None:
    back = "".join(one if isinstance(one, str) else call(READ_A) for one in found_in(parts))
    assert back == parts


@given(calls=st.lists(CALLS, min_size=1, max_size=3))
def test_a_call_of_the_history_is_written_as_calls_are_read(calls: list[FunctionCall]) -> None:
    message = Message(Role.MODEL, [Part(function_call=one) for one in calls])
    written = chat_of(Request(model="m", messages=(message,)))[0]["content"]
    found = [one[1:] for one in found_in(written) if not isinstance(one, str)]
    assert found == [(one.name, one.args) for one in calls]


def request(*messages: Message, system: str = "", tools: tuple[ToolSchema, ...] = ()) -> Request:
    return Request(model="m", messages=messages, system=system, tools=tools)


def user(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def model(*parts: Part) -> Message:
    return Message(Role.MODEL, parts)


def result(value: Any, *, is_error: bool = False, attachments: tuple[Media, ...] = ()) -> Message:
    told = ToolResult("call_1", "read", value, is_error=is_error, attachments=attachments)
    return Message(Role.TOOL, [Part(function_response=told)])


CALLED = Part(function_call=FunctionCall("call_1", "read", {"path": "a"}))
UNSEEN = "[not shown, this model reads text only: image/png, 5 bytes]"
CALL_A = '<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>'


@pytest.mark.parametrize(
    ("asked", "chat"),
    [
        pytest.param(request(user("Hi.")), ["user: Hi."], id="a question"),
        pytest.param(
            request(user("Hi."), system="Be brief."),
            ["system: Be brief.", "user: Hi."],
            id="the system prompt comes first",
        ),
        pytest.param(
            request(user("Hi."), model(Part(text="Yes?")), user("Go on.")),
            ["user: Hi.", "assistant: Yes?", "user: Go on."],
            id="turns alternate",
        ),
        pytest.param(
            request(user("Hi."), user("Hello?")),
            ["user: Hi.\n\nHello?"],
            id="two of a role in a row are one",
        ),
        pytest.param(
            request(user("Go."), model(Part(text="Yes."), CALLED), result("text of a")),
            [
                "user: Go.",
                f"assistant: Yes.\n{CALL_A}",
                "user: <tool_response>\ntext of a\n</tool_response>",
            ],
            id="a call and its result",
        ),
        pytest.param(
            request(result({"lines": [1, None]}), user("So?")),
            ['user: <tool_response>\n{"lines":[1,null]}\n</tool_response>\n\nSo?'],
            id="a result is JSON, and the user's next words follow",
        ),
        pytest.param(
            request(result("no such file", is_error=True)),
            ["user: <tool_response>\nerror: no such file\n</tool_response>"],
            id="an error says so",
        ),
        pytest.param(
            request(result("", attachments=(Media("image/png", b"12345"),))),
            [f"user: <tool_response>\n\n{UNSEEN}\n</tool_response>"],
            id="an attachment is named",
        ),
        pytest.param(
            request(model(Part(thought="Hmm."), Part(text="Yes."))),
            ["assistant: Yes."],
            id="thoughts were output",
        ),
        pytest.param(request(), [], id="nothing"),
    ],
)
def test_the_chat(asked: Request, chat: list[str]) -> None:
    assert [f"{turn['role']}: {turn['content']}" for turn in chat_of(asked)] == chat


def test_tools_are_described_in_the_system_prompt_a_line_each() -> None:
    tools = (READ, ToolSchema(name="now", description="{the} time"))
    (system, _) = chat_of(request(user("Hi."), system="Be brief.", tools=tools))
    assert system["role"] == "system"
    before, _, rest = system["content"].partition("<tools>\n")
    lines, _, after = rest.partition("\n</tools>")
    assert before.startswith("Be brief.\n\n")
    assert [json.loads(line)["name"] for line in lines.splitlines()] == ["read", "now"]
    assert CALL_OPENS in after


class Letters:
    """A tokenizer whose tokens are letters; special ones are negative."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return [-ord(letter) if special else ord(letter) for letter in text]


def test_what_is_said_is_never_read_as_markup() -> None:
    chat = [
        {"role": "user", "content": "<|im_end|>\0001\0 {{ x }}"},
        {"role": "user", "content": ""},
    ]

    def template(turns: list[dict[str, str]]) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in turns) + "."

    tokens = tokens_of(chat, template, Letters())
    assert "".join(chr(token) for token in tokens if token >= 0) == chat[0]["content"]
    assert "".join(chr(-token) for token in tokens if token < 0) == "<user><user>."


def test_arguments_read_as_they_are_counted() -> None:
    args = {"path": "é", "lines": [1, 2.5, None]}
    message = model(Part(function_call=FunctionCall("call_1", "read", args)))
    (turn,) = chat_of(request(message))
    assert as_text(args) in turn["content"]
