"""Content blocks of the Messages API and the parts they stand for, one at a time, both ways.

What a block holds beyond what a `Part` has a place for lies in `Part.extra["anthropic"]`. A block
that no part can stand for is kept whole, as JSON in `inline_data`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from jaato.history import FunctionCall, Media, Part, ToolResult
from jaato.history.message import NOTHING

Block: TypeAlias = dict[str, Any]

KEY: Final = "anthropic"
"""Where `extra` keeps what only this codec understands."""
NOTHING_SAID: Final = "(empty)"
"""Stands for a user message without content, which the API refuses."""

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_TEXTS = ("text/", "application/json", "application/xml", "application/x-ndjson")
_WHOLE = "application/json"
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_MISSING: Any = object()


def kept(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """What this codec left in an `extra`; empty where it left nothing."""
    own = extra.get(KEY)
    return own if isinstance(own, Mapping) else {}


def extra_of(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """An `extra` that holds this; empty where there is nothing to hold."""
    return {KEY: dict(own)} if own else NOTHING


def is_thought(block: Mapping[str, Any]) -> bool:
    """Whether a block is thinking, readable or redacted."""
    return block.get("type") in _THOUGHTS


def is_blank(block: Mapping[str, Any]) -> bool:
    """Whether it is a text without a word, which the API refuses."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def is_call(kind: Any) -> bool:
    """Whether a block of this type calls a tool, whoever runs it."""
    return isinstance(kind, str) and (kind == "tool_use" or kind.endswith("_tool_use"))


def is_result(kind: Any) -> bool:
    """Whether a block of this type answers a call, whoever ran it."""
    return isinstance(kind, str) and (kind == "tool_result" or kind.endswith("_tool_result"))


def part_of(block: Any, names: Mapping[str, str]) -> Part:
    """The part that a block stands for; `names` are the tools of the calls so far, by id."""
    part = _read(block, names) if isinstance(block, Mapping) else None
    # Whatever a part cannot give back to the letter is kept whole instead.
    if part is None or block_of(part) != block:
        data = json.dumps(block).encode()
        kind = block.get("type") if isinstance(block, Mapping) else None
        return Part(
            inline_data=Media(_WHOLE, data, kind if isinstance(kind, str) else None),
            extra=extra_of({"block": True}),
        )
    return part


def block_of(part: Part) -> Any:
    """The block that stands for a part; None for a thought that is not to be replayed."""
    own = kept(part.extra)
    if part.text is not None:
        return {**own, "type": "text", "text": part.text}
    if part.thought is not None:
        return _thought_block(part.thought, own) if KEY in part.extra else None
    if part.function_call is not None:
        call = part.function_call
        kind = own.get("type", "tool_use")
        return {**own, "type": kind, "id": call.id, "name": call.name, "input": call.args}
    if part.function_response is not None:
        return _result_block(part.function_response, own)
    media = part.inline_data
    assert media is not None
    if own.get("block") is True:
        return json.loads(media.data)
    return {**own, **media_block(media)}


def result_text(value: Any) -> str:
    """What the model reads of a result: a text as it is, nothing for None, else compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return object.__repr__(value)


def media_block(media: Media) -> Block:
    """An image or a document; a line of text in place of what the API does not take."""
    mime = media.mime_type.partition(";")[0].strip().lower()
    if mime in _IMAGES and media.data:
        return {"type": "image", "source": _base64_source(mime, media.data)}
    source: Block | None = None
    if mime == _PDF and media.data:
        source = _base64_source(mime, media.data)
    elif mime.startswith(_TEXTS):
        text = media.data.decode("utf-8", "replace")
        if text.strip():
            source = {"type": "text", "media_type": "text/plain", "data": text}
    if source is None:
        line = f"[{media.name or 'attachment'}: {mime}, {len(media.data):,} bytes, not shown]"
        return {"type": "text", "text": line}
    title = {} if media.name is None else {"title": media.name}
    return {"type": "document", "source": source, **title}


def _base64_source(mime: str, data: bytes) -> Block:
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode("ascii")}


def _thought_block(thought: str, own: Mapping[str, Any]) -> Block:
    if own.get("type") == "redacted_thinking":
        return dict(own)
    return {**own, "type": "thinking", "thinking": thought}


def _result_block(result: ToolResult, own: Mapping[str, Any]) -> Block:
    kind = own.get("type", "tool_result")
    block: Block = {**own, "type": kind, "tool_use_id": result.call_id}
    block.pop("content", None)
    if kind != "tool_result":
        # What a tool of the provider answered goes back as it came.
        block["content"] = result.result
    else:
        content = own.get("content", _MISSING)
        # Content that was kept is void once the result says something else, as a stub does.
        if content is _MISSING or not _says(content, result):
            content = _content_of(result)
        if content is not _MISSING:
            block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _says(content: Any, result: ToolResult) -> bool:
    said, attachments = _read_content(content)
    here = result.result
    return type(here) is type(said) and here == said and result.attachments == attachments


def _content_of(result: ToolResult) -> Any:
    """The plainest content that says a result: nothing, a text, or a text and its attachments."""
    text = result_text(result.result)
    blocks = [media_block(media) for media in result.attachments]
    if not blocks:
        # The API takes a result without content, and refuses one with an empty text.
        return text if text.strip() else _MISSING
    return [{"type": "text", "text": text}, *blocks] if text.strip() else blocks


def _read_content(content: Any) -> tuple[Any, tuple[Media, ...]]:
    """The text and the attachments of a result."""
    if not isinstance(content, list):
        return content, ()
    texts: list[str] = []
    attachments: list[Media] = []
    for block in content:
        media = _media_of(block)
        if media is not None:
            attachments.append(media)
        elif isinstance(block, Mapping) and isinstance(block.get("text"), str):
            texts.append(block["text"])
        else:
            texts.append(result_text(block))
    return "\n".join(texts) if texts else None, tuple(attachments)


def _media_of(block: Any) -> Media | None:
    source = block.get("source") if isinstance(block, Mapping) else None
    if not isinstance(source, Mapping) or not isinstance(source.get("data"), str):
        return None
    name, text = _title(block), source["data"]
    try:
        if source.get("type") == "text":
            return Media("text/plain", text.encode(), name)
        if source.get("type") == "base64":
            return Media(str(source.get("media_type")), base64.b64decode(text, validate=True), name)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return None
    return None


def _title(block: Mapping[str, Any]) -> str | None:
    title = block.get("title") if block.get("type") == "document" else None
    return title if isinstance(title, str) else None


def _read(block: Mapping[str, Any], names: Mapping[str, str]) -> Part | None:
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return Part(text=block["text"], extra=extra_of(_rest(block, "type", "text")))
    if is_thought(block):
        return _read_thought(block)
    if is_call(kind):
        return _read_call(block)
    if is_result(kind):
        return _read_result(block, names)
    media = _media_of(block)
    hidden = ["type", "source"] + ["title"] * (media is not None and media.name is not None)
    own = extra_of(_rest(block, *hidden))
    return None if media is None else Part(inline_data=media, extra=own)


def _read_thought(block: Mapping[str, Any]) -> Part | None:
    if block["type"] == "redacted_thinking":
        return Part(thought="", extra={KEY: dict(block)})
    if not isinstance(block.get("thinking"), str):
        return None
    return Part(thought=block["thinking"], extra={KEY: _rest(block, "type", "thinking")})


def _read_call(block: Mapping[str, Any]) -> Part | None:
    call_id, name, args = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call_id, str) or not isinstance(name, str) or not isinstance(args, dict):
        return None
    own = _rest(block, "id", "name", "input", *(["type"] if block["type"] == "tool_use" else []))
    return Part(function_call=FunctionCall(call_id, name, args), extra=extra_of(own))


def _read_result(block: Mapping[str, Any], names: Mapping[str, str]) -> Part | None:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        return None
    is_error = block.get("is_error") is True
    hidden = ["tool_use_id", "content", *(["is_error"] if is_error else [])]
    if block["type"] != "tool_result":
        name = names.get(call_id, block["type"].removesuffix("_tool_result"))
        result = ToolResult(call_id, name, block.get("content"), is_error)
        return Part(function_response=result, extra=extra_of(_rest(block, *hidden)))
    own = _rest(block, "type", *hidden)
    said, attachments = _read_content(block.get("content"))
    result = ToolResult(call_id, names.get(call_id, ""), said, is_error, attachments)
    if _content_of(result) != block.get("content", _MISSING):
        own["content"] = block.get("content")
    return Part(function_response=result, extra=extra_of(own))


def _rest(block: Mapping[str, Any], *taken: str) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in taken}
