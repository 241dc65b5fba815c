"""Bodies and answers of Responses as foreign clients and the API itself write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.wire.openai_documents import (
    ARGUMENTS,
    MODELS,
    PIXEL,
    fixed,
    inner,
    texts,
    tools_of,
    values,
    widened,
)

Json = dict[str, Any]

input_texts = widened(fixed(type="input_text", text=texts))
input_images = widened(
    st.fixed_dictionaries(
        {"type": st.just("input_image")},
        optional={
            "image_url": st.sampled_from(
                (PIXEL, "https://example.org/a.png", "data:image/png;base64,AAECAw", None)
            ),
            "file_id": st.just("file-1"),
            "detail": st.sampled_from(("auto", "low")),
        },
    )
)
input_files = widened(
    st.sampled_from(
        (
            {"type": "input_file", "file_id": "file-1"},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,JVBERg==",
            },
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "", "file_data": "JVBERg=="},
        )
    )
)
input_others = st.one_of(
    widened(
        fixed(
            type="input_audio",
            input_audio=inner(
                data=st.sampled_from(("UklGRg==", "not base64")),
                format=st.sampled_from(("wav", "mp3", "ogg")),
            ),
        )
    ),
    fixed(type="hologram", hologram=values),
    fixed(type=values),
)
input_content = st.one_of(
    texts,
    st.just(""),
    st.lists(st.one_of(input_texts, input_images, input_files, input_others), max_size=3),
)
output_content = st.one_of(
    widened(fixed(type="output_text", text=texts)),
    widened(fixed(type="output_text", text=texts, annotations=[{"url": "u"}], logprobs=[])),
    widened(fixed(type="refusal", refusal=texts)),
    fixed(type="hologram", hologram=values),
)

_SUMMARIES = st.lists(fixed(type="summary_text", text=texts | st.just("")), max_size=3)
_REASONED = st.lists(fixed(type="reasoning_text", text=texts | st.just("")), max_size=2)


def said_items(number: str) -> st.SearchStrategy[Json]:
    """What a model says without calling anything, as the API gives it."""
    message = widened(
        fixed(
            type="message",
            role="assistant",
            id=f"msg_{number}",
            status="completed",
            content=st.lists(output_content, max_size=3),
        )
    )
    other = st.sampled_from(
        (
            {"type": "web_search_call", "id": f"ws_{number}", "status": "completed"},
            {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "x"},
        )
    )
    return st.one_of(message, message, other)


def _said_before(number: str) -> st.SearchStrategy[Json]:
    """The same as a client may write it."""
    plain = widened(fixed(role="assistant", content=st.one_of(texts, st.just(""))))
    return st.one_of(said_items(number), plain, fixed(type="item_reference", id=f"any_{number}"))


def reasoning_items(number: str) -> st.SearchStrategy[Json]:
    """What a model thinks, sealed so that it can be replayed."""
    return widened(
        st.fixed_dictionaries(
            {
                "type": st.just("reasoning"),
                "id": st.just(f"rs_{number}"),
                "summary": _SUMMARIES,
                "encrypted_content": st.just("sealed"),
            },
            optional={"content": _REASONED | st.none(), "status": st.none()},
        )
    )


def call_items(call_id: str, number: str) -> st.SearchStrategy[Json]:
    """Calls of functions, and of tools that take text."""
    return st.one_of(
        widened(
            st.fixed_dictionaries(
                {
                    "type": st.just("function_call"),
                    "call_id": st.just(call_id),
                    "name": st.sampled_from(("run", "read")),
                    "arguments": st.sampled_from(ARGUMENTS),
                },
                optional={"id": st.just(f"fc_{number}"), "status": st.just("completed")},
            )
        ),
        widened(fixed(type="custom_tool_call", call_id=call_id, name="patch", input=texts)),
    )


def output_items(call: Json) -> st.SearchStrategy[Json]:
    """What the tool answers."""
    kind = {"custom_tool_call": "custom_tool_call_output"}.get(call["type"], "function_call_output")
    return widened(fixed(type=kind, call_id=call["call_id"], output=input_content))


@st.composite
def _step(draw: st.DrawFn, number: int) -> list[Json]:
    """What a model says in a row, and what its tools answer."""
    items: list[Json] = []
    for each in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            items.append(draw(reasoning_items(f"{number}_{each}")))
        items.append(draw(_said_before(f"{number}_{each}")))
    ids = [f"call_{number}_{each}" for each in range(draw(st.integers(0, 2)))]
    calls = [draw(call_items(call_id, call_id)) for call_id in ids]
    return [*items, *calls, *(draw(output_items(call)) for call in draw(st.permutations(calls)))]


def _spoken(roles: tuple[str, ...]) -> st.SearchStrategy[Json]:
    return widened(
        st.fixed_dictionaries(
            {"role": st.sampled_from(roles), "content": input_content},
            optional={"type": st.just("message")},
        )
    )


@st.composite
def inputs(draw: st.DrawFn) -> list[Json]:
    """Input items, as the API takes them."""
    items = draw(st.lists(_spoken(("system", "developer")), max_size=2))
    for number in range(draw(st.integers(0, 4))):
        items.append(draw(_spoken(("user", "user", "developer"))))
        items += draw(_step(number)) if draw(st.integers(0, 3)) else []
    return items


def response_bodies() -> st.SearchStrategy[Json]:
    """Bodies of POST /responses."""
    include = ["reasoning.encrypted_content"]
    return st.fixed_dictionaries(
        {},
        optional={
            "model": st.sampled_from(MODELS),
            "input": st.one_of(texts, st.none(), inputs(), inputs(), inputs()),
            "instructions": st.one_of(st.none(), st.just(""), texts),
            "max_output_tokens": st.sampled_from((None, 0, 32)),
            "reasoning": st.sampled_from(
                (
                    None,
                    {"effort": "low"},
                    {"effort": "high", "summary": "auto"},
                    {"summary": "auto"},
                )
            ),
            "include": st.sampled_from((None, [], include, [*include, "x"])),
            "store": st.sampled_from((None, True, False)),
            "previous_response_id": st.just("resp_0"),
            "temperature": st.sampled_from((None, 0, 0.7)),
            "stream": st.booleans(),
            "x_unknown": values,
            "tools": tools_of(lambda function: {"type": "function", **function}),
        },
    )


@st.composite
def answers(draw: st.DrawFn) -> list[Json]:
    """The output items of an answer."""
    items: list[Json] = []
    for each in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 2))
        if kind == 0:
            items.append(draw(reasoning_items(str(each))))
        elif kind == 1:
            items.append(draw(said_items(str(each))))
        else:
            items.append(draw(call_items(f"call_{each}", str(each))))
    return items
