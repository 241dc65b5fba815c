"""When POST /responses is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaato.wire.foreign import as_text, said_in
from jaato.wire.openai_breach import (
    MEDIA_TOKENS,
    MESSAGE_FRAME,
    Count,
    RuleBreach,
    id_breach,
    tools_breach,
)
from jaato.wire.openai_items import LONGEST_ID


def check_responses(
    body: Mapping[str, Any], window: int | None = None, count: Count | None = None
) -> RuleBreach | None:
    """The first rule that a body of POST /responses breaks; None if it is fine.

    The window is checked if it is given together with a way to `count` the tokens of texts.
    """
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    stateful = bool(body.get("previous_response_id") or body.get("conversation"))
    if not items:
        return None if stateful or body.get("prompt") else _nothing_to_answer()
    for breach in (
        _shapes(items),
        _duplicates(items),
        _reasoning(items, stored=body.get("store") is not False),
        _outputs(items, stateful=stateful),
        tools_breach(body, None),
    ):
        if breach is not None:
            return breach
    return None if window is None or count is None else _window(body, items, window, count)


def _window(
    body: Mapping[str, Any], items: Sequence[Mapping[str, Any]], window: int, count: Count
) -> RuleBreach | None:
    texts = [text for item in items for text in _item_texts(item)]
    texts += [as_text(tool) for tool in body.get("tools") or ()]
    tokens = sum(count([*texts, body.get("instructions") or ""]))
    tokens += MESSAGE_FRAME * (len(items) + 1) + MEDIA_TOKENS * sum(map(_item_media, items))
    if tokens <= window:
        return None
    return RuleBreach(
        message="Your input exceeds the context window of this model. "
        "Please adjust your input and try again.",
        code="context_length_exceeded",
        param="input",
    )


def _nothing_to_answer() -> RuleBreach:
    return RuleBreach(
        message='One of "input" or "previous_response_id" or \'prompt\' or '
        "'conversation_id' must be provided.",
        code="missing_required_parameter",
    )


def _shapes(items: Sequence[Mapping[str, Any]]) -> RuleBreach | None:
    for number, item in enumerate(items):
        if _kind(item) == "message" and item.get("content") is None:
            return RuleBreach(
                message=f"Invalid type for 'input[{number}].content': expected one of an array of "
                "objects or string, but got null instead.",
                code="invalid_type",
                param=f"input[{number}].content",
            )
        if _kind(item) in {"function_call", "function_call_output"}:
            at = f"input[{number}].call_id"
            breach = id_breach(item.get("call_id"), LONGEST_ID, at)
            if breach is not None:
                return breach
    return None


def _duplicates(items: Sequence[Mapping[str, Any]]) -> RuleBreach | None:
    seen: set[str] = set()
    for item in items:
        name = item.get("id")
        if not isinstance(name, str) or item.get("type") == "item_reference":
            continue
        if name in seen:
            return _about_input(
                f"Duplicate item found with id {name}. "
                "Remove duplicate items from your input and try again."
            )
        seen.add(name)
    return None


def _reasoning(items: Sequence[Mapping[str, Any]], *, stored: bool) -> RuleBreach | None:
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if _kind(item) != "reasoning":
            continue
        if not (stored or item.get("encrypted_content") or item.get("content")):
            return RuleBreach(
                message=f"Item with id '{item.get('id')}' not found. Items are not persisted when "
                "`store` is set to false. Try again with `store` set to true, or remove this "
                "item from your input.",
                status=404,
                param="input",
            )
        kind = _kind(following)
        outside = kind.endswith("_output") or following.get("role", "assistant") != "assistant"
        if not following or outside:
            return _about_input(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item."
            )
    return None


def _outputs(items: Sequence[Mapping[str, Any]], *, stateful: bool) -> RuleBreach | None:
    for call, output, name in (
        ("function_call", "function_call_output", "function call"),
        ("custom_tool_call", "custom_tool_call_output", "custom tool call"),
    ):
        asked: list[str] = []
        answered: set[str] = set()
        for item in items:
            call_id = str(item.get("call_id"))
            if _kind(item) == call:
                asked.append(call_id)
            elif _kind(item) == output:
                if call_id not in asked and not stateful:
                    return _about_input(
                        f"No tool call found for {name} output with call_id {call_id}."
                    )
                answered.add(call_id)
        for call_id in asked:
            if call_id not in answered:
                return _about_input(f"No tool output found for {name} {call_id}.")
    return None


def _about_input(message: str) -> RuleBreach:
    return RuleBreach(message=message, param="input")


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type", "message"))


def _item_texts(item: Mapping[str, Any]) -> Iterator[str]:
    yield said_in(item.get("content"))
    yield said_in(item.get("output"))
    yield said_in(item.get("summary"))
    for key in ("name", "arguments", "input"):
        yield as_text(item.get(key) or "")


def _item_media(item: Mapping[str, Any]) -> int:
    held = [item.get(key) for key in ("content", "output")]
    parts = [part for each in held if isinstance(each, list) for part in each]
    media = {"input_image", "input_file", "input_audio"}
    return sum(part.get("type") in media for part in parts if isinstance(part, Mapping))
