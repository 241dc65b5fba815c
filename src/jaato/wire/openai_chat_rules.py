"""When POST /chat/completions is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaato.wire.foreign import as_text, said_in
from jaato.wire.openai_breach import (
    MEDIA_TOKENS,
    MESSAGE_FRAME,
    Count,
    RuleBreach,
    empty_array,
    id_breach,
    missing,
    name_breach,
    tools_breach,
)
from jaato.wire.openai_chat_messages import LONGEST_ID

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")


def check_chat(
    body: Mapping[str, Any], window: int | None = None, count: Count | None = None
) -> RuleBreach | None:
    """The first rule that a body of POST /chat/completions breaks; None if it is fine.

    The window is checked if it is given together with a way to `count` the tokens of texts.
    """
    if not body.get("model"):
        return RuleBreach(message="you must provide a model parameter")
    messages = body.get("messages")
    if not isinstance(messages, list):
        return missing("messages")
    if not messages:
        return empty_array("messages")
    # In this order: what follows may rely on the shapes.
    breach = _chat_shapes(messages) or _chat_order(messages) or tools_breach(body, "function")
    if breach is not None:
        return breach
    if window is None or count is None:
        return None
    said = sum(count([text for message in messages for text in _chat_texts(message)]))
    said += MESSAGE_FRAME * (len(messages) + 1) + MEDIA_TOKENS * sum(map(_chat_media, messages))
    functions = sum(count([as_text(tool) for tool in body.get("tools") or ()]))
    answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    return _chat_window(window, said, functions, answer)


def _chat_shapes(messages: Sequence[Mapping[str, Any]]) -> RuleBreach | None:
    for number, message in enumerate(messages):
        breach = _role(message, number) or _said(message, number) or _calls(message, number)
        if breach is not None:
            return breach
    return None


def _role(message: Mapping[str, Any], number: int) -> RuleBreach | None:
    role = message.get("role")
    if role in _ROLES:
        return None
    known = ", ".join(f"'{each}'" for each in _ROLES[:-1])
    return RuleBreach(
        message=f"Invalid value: '{role}'. Supported values are: {known}, and '{_ROLES[-1]}'.",
        code="invalid_value",
        param=f"messages[{number}].role",
    )


def _said(message: Mapping[str, Any], number: int) -> RuleBreach | None:
    role, content = message["role"], message.get("content")
    if content is None:
        beside = ("tool_calls", "function_call", "refusal", "audio")
        if role == "assistant" and any(message.get(key) for key in beside):
            return None
        return RuleBreach(
            message="Invalid value for 'content': expected a string, got null.",
            param=f"messages.[{number}].content",
        )
    kinds = {part.get("type") for part in content} if isinstance(content, list) else set()
    if "image_url" in kinds and role != "user":
        return RuleBreach(
            message=f"Invalid 'messages[{number}]'. Image URLs are only allowed for messages with "
            f"role 'user', but this message with role '{role}' contains an image URL.",
            code="invalid_value",
            param=f"messages[{number}]",
        )
    return None


def _calls(message: Mapping[str, Any], number: int) -> RuleBreach | None:
    calls = message.get("tool_calls")
    if calls is None:
        return None
    at = f"messages[{number}].tool_calls"
    if not calls:
        return empty_array(at)
    for index, call in enumerate(calls):
        breach = id_breach(call.get("id"), LONGEST_ID, f"{at}[{index}].id")
        function = call.get("function")
        if breach is None and function is not None:
            breach = name_breach(function.get("name"), f"{at}[{index}].function.name")
            if breach is None and not isinstance(function.get("arguments"), str):
                breach = missing(f"{at}[{index}].function.arguments")
        if breach is not None:
            return breach
    return None


def _chat_order(messages: Sequence[Mapping[str, Any]]) -> RuleBreach | None:
    asked: list[str] = []
    answered: dict[str, int] = {}
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            breach = _answer(message, number, asked, answered)
            if breach is not None:
                return breach
            continue
        if asked and len(answered) < len(asked):
            return _unanswered(asked, answered, number)
        asked = [call["id"] for call in message.get("tool_calls") or ()]
        answered = {}
        twice = {call_id for call_id in asked if asked.count(call_id) > 1}
        if twice:
            return RuleBreach(
                message=f"Duplicate call_ids submitted: {sorted(twice)}",
                param=f"messages.[{number}].tool_calls",
            )
    if len(answered) < len(asked):
        return _unanswered(asked, answered, len(messages) - 1)
    return None


def _answer(
    message: Mapping[str, Any], number: int, asked: Sequence[str], answered: dict[str, int]
) -> RuleBreach | None:
    call_id = message.get("tool_call_id")
    if not asked:
        return RuleBreach(
            message="Invalid parameter: messages with role 'tool' must be a response to a "
            "preceeding message with 'tool_calls'.",
            param=f"messages.[{number}].role",
        )
    if not isinstance(call_id, str):
        return RuleBreach(
            message="Missing parameter 'tool_call_id': messages with role 'tool' must have a "
            "'tool_call_id'.",
            param=f"messages.[{number}].tool_call_id",
        )
    where = f"messages.[{number}].tool_call_id"
    if call_id not in asked:
        return RuleBreach(
            message=f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' "
            "of previous message.",
            param=where,
        )
    if call_id in answered:
        return RuleBreach(
            message=f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in "
            f"messages[{answered[call_id]}] and messages[{number}].",
            param=where,
        )
    answered[call_id] = number
    return None


def _unanswered(asked: Sequence[str], answered: Mapping[str, int], number: int) -> RuleBreach:
    left = ", ".join(call_id for call_id in asked if call_id not in answered)
    return RuleBreach(
        message="An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each 'tool_call_id'. The following tool_call_ids did not have response "
        f"messages: {left}",
        param=f"messages.[{number}].role",
    )


def _chat_window(window: int, said: int, functions: int, answer: int) -> RuleBreach | None:
    prompt = said + functions
    if prompt + answer <= window:
        return None
    shares = [f"{said} in the messages"]
    reduce = ["messages"]
    if functions:
        shares.append(f"{functions} in the functions")
        reduce.append("functions")
    if prompt > window:
        asked = f"your messages resulted in {prompt} tokens"
        asked += f" ({', '.join(shares)})" if functions else ""
    else:
        shares.append(f"{answer} in the completion")
        reduce.append("completion")
        asked = f"you requested {prompt + answer} tokens ({', '.join(shares)})"
    what = reduce[0] if len(reduce) == 1 else f"{', '.join(reduce[:-1])} or {reduce[-1]}"
    return RuleBreach(
        message=f"This model's maximum context length is {window} tokens. However, {asked}. "
        f"Please reduce the length of the {what}.",
        code="context_length_exceeded",
        param="messages",
    )


def _chat_texts(message: Mapping[str, Any]) -> Iterator[str]:
    yield said_in(message.get("content"))
    for key in ("refusal", "reasoning_content", "reasoning", "name"):
        yield as_text(message.get(key) or "")
    calls = [call.get("function") or call.get("custom") for call in message.get("tool_calls") or ()]
    for call in [*calls, message.get("function_call")]:
        if call:
            yield call.get("name") or ""
            yield as_text(call.get("arguments") or call.get("input") or "")


def _chat_media(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    said = ("text", "refusal")
    return sum(part.get("type") not in said for part in content or () if isinstance(part, Mapping))
