"""Answers as OpenAI's two APIs stream them: the events, in pieces of a size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_FIELDS = {"text": "content", "thought": "reasoning_content", "refusal": "refusal"}


def cut(whole: str, piece: int) -> Iterator[str]:
    """A text in pieces."""
    for at in range(0, len(whole), piece):
        yield whole[at : at + piece]


def chat_chunks(
    parts: Sequence[Json], piece: int, stop: str | None, usage: Mapping[str, Any] | None
) -> Iterator[Json]:
    """The chunks of an answer of Chat Completions."""
    yield _chunk({"role": "assistant", "content": "", "refusal": None})
    calls = 0
    for part in parts:
        if part["type"] != "call":
            for said in cut(part["text"], piece):
                yield _chunk({_FIELDS[part["type"]]: said})
            continue
        function = {"name": part["name"], "arguments": ""}
        begun = {"index": calls, "id": part["id"], "type": "function", "function": function}
        yield _chunk({"tool_calls": [begun]})
        for said in cut(part["arguments"], piece):
            yield _chunk({"tool_calls": [{"index": calls, "function": {"arguments": said}}]})
        calls += 1
    yield _chunk({}, stop or ("tool_calls" if calls else "stop"))
    if usage is not None:
        yield {**_chunk({}), "choices": [], "usage": dict(usage)}


def _chunk(delta: Json, stop: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**chunk, "choices": [choice], "usage": None}


def response_events(
    items: Sequence[Json], piece: int, stop: str | None, usage: Mapping[str, Any] | None
) -> Iterator[Json]:
    """The events of an answer of Responses; `stop` is why it is incomplete, or `failed`."""
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        at = {"output_index": index}
        started = {**item, "status": "in_progress"} | dict.fromkeys(_empty_at_first(item), "")
        events.append({"type": "response.output_item.added", **at, "item": started})
        events += [{**event, **at, "item_id": item.get("id")} for event in _deltas(item, piece)]
        events.append({"type": "response.output_item.done", **at, "item": item})
    done = {**begun, "output": list(items), "usage": None if usage is None else dict(usage)}
    if stop is None:
        events.append({"type": "response.completed", "response": {**done, "status": "completed"}})
    else:
        details = {"status": "incomplete", "incomplete_details": {"reason": stop}}
        events.append({"type": "response.incomplete", "response": {**done, **details}})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _empty_at_first(item: Json) -> list[str]:
    return [key for key in ("arguments", "input") if key in item]


def _deltas(item: Json, piece: int) -> Iterator[Json]:
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                yield from _content(part, number, piece)
        case "reasoning":
            yield from _thinking(item, piece)
        case "function_call" | "custom_tool_call" as kind:
            key = "arguments" if kind == "function_call" else "input"
            name = f"response.{kind}_{key}"
            for said in cut(item[key], piece):
                yield {"type": f"{name}.delta", "delta": said}
            yield {"type": f"{name}.done", key: item[key]}
        case _:
            return


def _content(part: Json, number: int, piece: int) -> Iterator[Json]:
    at = {"content_index": number}
    yield {"type": "response.content_part.added", **at, "part": {"type": part["type"]}}
    key = "refusal" if part["type"] == "refusal" else "text"
    if key in part:
        name = f"response.{part['type']}"
        for said in cut(part[key], piece):
            yield {"type": f"{name}.delta", **at, "delta": said}
        yield {"type": f"{name}.done", **at, key: part[key]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _thinking(item: Json, piece: int) -> Iterator[Json]:
    for number, part in enumerate(item.get("summary") or ()):
        at = {"summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": empty}
        for said in cut(part["text"], piece):
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": said}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
    for number, part in enumerate(item.get("content") or ()):
        at = {"content_index": number}
        for said in cut(part["text"], piece):
            yield {"type": "response.reasoning_text.delta", **at, "delta": said}
        yield {"type": "response.reasoning_text.done", **at, "text": part["text"]}
