"""Requests as sessions make them and bodies as foreign clients write them, for both OpenAI APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from jaato.exchange import Request, ToolSchema
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.testing.generate import histories
from jaato.wire.foreign import as_text

MODELS = ("gpt-5.5", "o3", "gpt-4o-mini", "qwen/qwen3-coder")
TEXTS = (
    "hi",
    "two words",
    "größer 世界 🌍",
    "lone \ud800 surrogate",
    "\n\n",
    "Error: no such file",
)
PIXEL = "data:image/png;base64,AAECAw=="
ARGUMENTS = (
    '{"path":"src/app.py"}',
    '{"path": "src/app.py", "limit": 3}',
    "{}",
    "",
    "{ }",
    '{"a":1,"a":2}',
    '{"a":1e400}',
    '{"a":1.0,"b":-0.0,"c":12345678901234567890123}',
    '{"q":"gr\\u00f6\\u00dfer"}',
    '{"q":"größer"}',
    '{"path": "src/ap',
    "[1,2]",
    "null",
    '{"a":NaN}',
    '{"jaato.invalid_arguments":"x"}',
    "[" * 100_000,
)
"""Arguments as models write them: in JSON of every spelling, and in what only looks like it."""

_PLAIN_MEDIA = (Media("image/png", bytes(range(8))), Media("audio/wav", b"RIFF"))

scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(TEXTS))
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("a", "type", "text")), inner, max_size=2)
    ),
    max_leaves=4,
)
unknown = st.dictionaries(
    st.sampled_from(("cache_control", "prompt_cache_breakpoint", "x")), values, max_size=2
)
"""Fields that nobody here understands."""


def widened(documents: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Documents with unknown fields beside the known ones."""
    return st.builds(lambda document, more: {**more, **document}, documents, unknown)


def fixed(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Documents of these fields; what is no strategy stands for itself."""
    return st.fixed_dictionaries(
        {
            key: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for key, value in fields.items()
        }
    )


texts = st.sampled_from(TEXTS)


def requests(form: Callable[[Sequence[Message]], list[Message]]) -> st.SearchStrategy[Request]:
    """Requests as sessions make them, their histories in a `form`."""
    schemas = st.builds(
        ToolSchema,
        name=st.sampled_from(("read_file", "run")),
        description=st.sampled_from(("", "Reads a file.")),
        parameters=st.sampled_from(
            ({}, {"type": "object"}, {"type": "object", "properties": {"path": {}}})
        ),
    )
    options = {"temperature": 0.5, "prompt_cache_key": "me", "tool_choice": "auto", "store": True}
    return st.builds(
        Request,
        model=st.sampled_from(MODELS),
        messages=histories(max_turns=4, max_messages=20).map(form).map(tuple),
        system=st.sampled_from(("", "Be brief.", "Two\n\nparagraphs.")),
        tools=st.lists(schemas, max_size=2).map(tuple),
        max_output_tokens=st.sampled_from((None, 0, 4096)),
        thinking=st.sampled_from((None, "low", "high")),
        options=st.sets(st.sampled_from(sorted(options))).map(
            lambda keys: {k: options[k] for k in keys}
        ),
    )


def session_form(history: Iterable[Message], *, in_order: bool) -> list[Message]:
    """A history as a session with one of these providers would have written it.

    One tool message per step, ids that differ, results that are text, no thoughts. Unless the API
    keeps parts `in_order`, a model message holds its texts first and results hold text only.
    """
    ids = count()
    waiting: dict[str, list[FunctionCall]] = {}
    formed: list[Message] = []
    for message in history:
        if message.role is Role.MODEL:
            waiting = {}
            parts = _model_parts(message, ids, waiting)
            formed.append(Message(Role.MODEL, parts if in_order else sorted(parts, key=_is_call)))
            continue
        results = [
            _result(part.function_response, waiting, in_order=in_order)
            for part in message.parts
            if part.function_response is not None and waiting.get(part.function_response.call_id)
        ]
        formed.append(Message(Role.TOOL, results))
        parts = [_user_part(part) for part in message.parts if part.function_response is None]
        formed.append(Message(Role.USER, parts))
    return _merged([message for message in formed if message.parts], in_order=in_order)


def _model_parts(
    message: Message, ids: Iterable[int], waiting: dict[str, list[FunctionCall]]
) -> list[Part]:
    numbers = iter(ids)
    parts = []
    for part in message.parts:
        call = part.function_call
        if part.text is not None:
            parts.append(Part(text=part.text))
        elif call is not None and call.id in message.call_ids:
            named = replace(call, id=f"call_{next(numbers)}_x")
            waiting.setdefault(call.id, []).append(named)
            parts.append(Part(function_call=named))
    return parts


def _is_call(part: Part) -> bool:
    return part.function_call is not None


def _result(result: ToolResult, waiting: dict[str, list[FunctionCall]], *, in_order: bool) -> Part:
    call = waiting[result.call_id].pop(0)
    text = as_text(result.result)
    if result.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}"
    media = tuple(_PLAIN_MEDIA[:1] if result.attachments and in_order else ())
    return Part(function_response=ToolResult(call.id, call.name, text, attachments=media))


def _user_part(part: Part) -> Part:
    media = part.inline_data
    if media is None:
        return Part(text=part.text)
    return Part(inline_data=_PLAIN_MEDIA[media.mime_type.startswith("audio/")])


def _merged(history: Sequence[Message], *, in_order: bool) -> list[Message]:
    merged: list[Message] = []
    for message in history:
        joins = message.role is Role.TOOL or (in_order and message.role is Role.MODEL)
        if merged and joins and merged[-1].role is message.role:
            merged[-1] = merged[-1].with_parts([*merged[-1].parts, *message.parts])
        else:
            merged.append(message)
    return merged


def said(request: Request) -> tuple[Any, ...]:
    """All of a request that goes over the wire, to compare by."""
    messages = [(message.role, message.parts, message.extra) for message in request.messages]
    return (*(getattr(request, name) for name in _FIELDS), messages)


_FIELDS = ("model", "system", "tools", "max_output_tokens", "thinking", "options", "extra")


def inner(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A nested document with unknown fields."""
    return widened(fixed(**fields))


# Chat Completions

text_parts = widened(fixed(type="text", text=texts))
image_parts = widened(
    fixed(
        type="image_url",
        image_url=inner(
            url=st.sampled_from(
                (
                    PIXEL,
                    "https://example.org/a.png",
                    "data:image/png;base64,AAECAw",
                    "data:text/plain;base64,aGk=",
                    "data:image/svg+xml,<svg/>",
                )
            )
        ),
    )
)
other_parts = st.one_of(
    widened(
        fixed(
            type="input_audio",
            input_audio=inner(
                data=st.sampled_from(("UklGRg==", "not base64")),
                format=st.sampled_from(("wav", "mp3", "ogg")),
            ),
        )
    ),
    widened(
        fixed(
            type="file",
            file=st.sampled_from(
                (
                    {"file_id": "file-1"},
                    {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                    {"filename": "a.md", "file_data": "data:text/markdown;base64,IyBoaQ=="},
                    {"file_data": "data:application/pdf;base64,JVBERg=="},
                    {"filename": "", "file_data": "JVBERg=="},
                )
            ),
        )
    ),
    widened(fixed(type="video_url", video_url=inner(url="https://example.org/a.mp4"))),
    fixed(type="hologram", hologram=values),
    fixed(type="image_url", image_url="https://example.org/flat.png"),
    fixed(type=values),
)
refusal_parts = widened(fixed(type="refusal", refusal=texts))
user_content = st.one_of(
    texts, st.just(""), st.lists(st.one_of(text_parts, image_parts, other_parts), max_size=3)
)
assistant_content = st.one_of(
    texts,
    st.just(""),
    st.none(),
    st.lists(st.one_of(text_parts, refusal_parts, other_parts), max_size=2),
)
tool_content = st.one_of(
    texts, st.just(""), st.lists(st.one_of(text_parts, image_parts), max_size=3)
)


@st.composite
def _assistant(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = draw(widened(fixed(role="assistant", content=assistant_content)))
    if draw(st.integers(0, 3)) == 0:
        del message["content"]
    optional: dict[str, st.SearchStrategy[Any]] = {
        "refusal": st.one_of(st.none(), texts),
        "reasoning_content": st.one_of(st.none(), texts),
        "reasoning": texts,
        "annotations": st.just([]),
        "function_call": st.none(),
        "name": st.just("bot"),
    }
    for key, value in optional.items():
        if draw(st.integers(0, 5)) == 0:
            message[key] = draw(value)
    if ids:
        message["tool_calls"] = [draw(_tool_call(call_id)) for call_id in ids]
    elif draw(st.integers(0, 5)) == 0:
        message["tool_calls"] = draw(st.sampled_from((None, [])))
    return message


def _tool_call(call_id: str) -> st.SearchStrategy[dict[str, Any]]:
    function = inner(name="run", arguments=st.sampled_from(ARGUMENTS))
    return st.one_of(
        widened(fixed(id=call_id, type="function", function=function)),
        fixed(id=call_id, function=function),
        widened(fixed(id=call_id, type="custom", custom=inner(name="patch", input=texts))),
        fixed(id=call_id, type="novel", novel=values),
    )


@st.composite
def _chat_step(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return [draw(widened(fixed(role="user", content=user_content)))]
        case 2:
            return [
                draw(
                    widened(
                        fixed(role=st.sampled_from(("system", "developer")), content=user_content)
                    )
                )
            ]
        case 3:
            function = {"name": "old", "arguments": draw(st.sampled_from(ARGUMENTS))}
            call = {"role": "assistant", "content": None, "function_call": function}
            return [call, draw(widened(fixed(role="function", name="old", content=texts)))]
        case _:
            ids = [f"call_{number}_{n}" for n in range(draw(st.integers(0, 2)))]
            results = [
                draw(widened(fixed(role="tool", tool_call_id=call_id, content=tool_content)))
                for call_id in draw(st.permutations(ids))
            ]
            return [draw(_assistant(ids)), *results]


def tools_of(wrap: Callable[[Mapping[str, Any]], dict[str, Any]]) -> st.SearchStrategy[Any]:
    """Lists of tools: functions in the form of an API, and what is no function."""
    function = widened(
        st.fixed_dictionaries(
            {"name": st.sampled_from(("run", "read"))},
            optional={
                "description": st.sampled_from(("", "Runs.", None)),
                "parameters": st.sampled_from(({}, None, {"type": "object", "properties": {}})),
                "strict": st.sampled_from((True, False, None)),
            },
        )
    )
    other = st.sampled_from(
        (
            {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
            {"type": "web_search", "user_location": None},
            {"type": "mcp", "server_label": "docs", "name": "docs"},
        )
    )
    return st.lists(st.one_of(function.map(wrap), other), max_size=2)


@st.composite
def chat_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Bodies of POST /chat/completions."""
    leading = fixed(role=st.sampled_from(("system", "developer")), content=user_content)
    messages = draw(st.lists(widened(leading), max_size=2))
    for number in range(draw(st.integers(0, 4))):
        messages += draw(_chat_step(number))
    return draw(
        st.fixed_dictionaries(
            {"model": st.sampled_from(MODELS), "messages": st.just(messages)},
            optional={
                "max_tokens": st.sampled_from((None, 16)),
                "max_completion_tokens": st.sampled_from((None, 32)),
                "reasoning_effort": st.sampled_from((None, "", "low")),
                "temperature": st.sampled_from((None, 0, 0.7)),
                "stream": st.booleans(),
                "stop": st.sampled_from((None, ["x"])),
                "x_unknown": values,
                "tools": tools_of(
                    lambda function: {"type": "function", "function": dict(function)}
                ),
            },
        )
    )
