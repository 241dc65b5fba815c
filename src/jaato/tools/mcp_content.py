"""What an MCP server says, in our values: its tools as schemas, its results as outputs."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from jaato.exchange import ToolOutput, ToolSchema
from jaato.history import Media
from jaato.tools.callables import LONGEST_NAME
from jaato.tools.results import attached, clean, output_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ServerTool

# MCP allows dots and more; providers do not.
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


def name_for(name: str, *, prefix: str, taken: Collection[str]) -> str:
    """A server's name for a tool as every provider takes it, and as no other tool has it."""
    plain = _FOREIGN.sub("_", prefix + name)
    if not plain or not (plain[0].isalpha() or plain[0] == "_"):
        plain = f"_{plain}"
    plain = plain[:LONGEST_NAME]
    number = 2
    unique = plain
    while unique in taken:
        end = f"_{number}"
        unique = plain[: LONGEST_NAME - len(end)] + end
        number += 1
    return unique


def schema_of(tool: ServerTool, name: str) -> ToolSchema:
    """A server's tool as the model sees it."""
    return ToolSchema(
        name=name,
        description=clean(tool.description or tool.title or ""),
        parameters={"type": "object", **tool.input_schema},
    )


def output_of_result(result: CallToolResult) -> ToolOutput:
    """The result of a call: its text, with pictures and the like as attachments.

    Structured content is the result where there is no text: beside text it is the same again.
    """
    lines: list[str] = []
    attachments: list[Media] = []
    for block in result.content:
        said = _read(block)
        if isinstance(said, Media):
            attachments.append(said)
            lines.append(attached(said))
        else:
            lines.append(clean(said))
    text: Any = "\n".join(lines)
    if result.structured_content is not None and len(lines) == len(attachments):
        data = output_of(result.structured_content)
        text = data.result if not lines else {"content": data.result, "attachments": lines}
    return ToolOutput(result=text, is_error=bool(result.is_error), attachments=tuple(attachments))


def _read(block: ContentBlock) -> str | Media:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return _media(block.data, block.mime_type, None)
        case "resource_link":
            kind = f" ({block.mime_type})" if block.mime_type else ""
            told = f": {block.description}" if block.description else ""
            return f"{block.title or block.name} <{block.uri}>{kind}{told}"
        case "resource":
            held: Any = block.resource
            if hasattr(held, "text"):
                return f"<{held.uri}>\n{held.text}"
            return _media(held.blob, held.mime_type or "application/octet-stream", held.uri)


def _media(data: str, mime_type: str, name: str | None) -> str | Media:
    try:
        return Media(mime_type, base64.b64decode(data, validate=True), name)
    except ValueError:
        return f"({mime_type}, which the server did not write as base64)"
