"""Where a request lets the provider keep its prompt: the `cache_control` of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jaato.wire.anthropic_blocks import is_blank, is_result
from jaato.wire.anthropic_messages import Sent

MOST_BREAKPOINTS: Final = 4
"""How many breakpoints the API takes in one request."""

_CACHEABLE = frozenset(
    {"text", "image", "document", "search_result", "tool_use", "server_tool_use", "mcp_tool_use"}
)


def put_breakpoints(
    body: dict[str, Any], sent: Sequence[Sent], marks: Sequence[int], ttl: str | None
) -> None:
    """Mark the system prompt, the tools, and what the marks name, as far as the API allows.

    Breakpoints that are there already stay, and count.
    """
    left = MOST_BREAKPOINTS - _count(body, sent)
    control = {"type": "ephemeral", **({} if ttl is None else {"ttl": ttl})}
    for place in (*_fixed_places(body, left), *(_place_of(mark, sent) for mark in marks)):
        if left > 0 and place is not None and "cache_control" not in place:
            place["cache_control"] = dict(control)
            left -= 1


def breakpoints_in(blocks: Any) -> int:
    """How many there are in a list of blocks or tools, and in what lies inside them."""
    if not isinstance(blocks, list):
        return 0
    return sum(
        (block.get("cache_control") is not None) + breakpoints_in(block.get("content"))
        for block in blocks
        if isinstance(block, Mapping)
    )


def _count(body: Mapping[str, Any], sent: Sequence[Sent]) -> int:
    # One for the whole request is put on its last block by the API.
    top = body.get("cache_control") is not None
    fixed = breakpoints_in(body.get("system")) + breakpoints_in(body.get("tools"))
    return top + fixed + sum(breakpoints_in(one.blocks) for one in sent)


def _fixed_places(body: dict[str, Any], left: int) -> Iterator[dict[str, Any] | None]:
    """The end of the system prompt and the last tool, as copies that may be written to."""
    if left <= 0:
        return
    system, tools = body.get("system"), body.get("tools")
    if isinstance(system, str) and system.strip():
        system = [{"type": "text", "text": system}]
    if isinstance(system, list):
        body["system"] = [dict(block) if isinstance(block, Mapping) else block for block in system]
        yield _last_cacheable(body["system"])
    if isinstance(tools, list) and tools and isinstance(tools[-1], Mapping):
        body["tools"] = [*tools[:-1], dict(tools[-1])]
        yield body["tools"][-1]


def _place_of(mark: int, sent: Sequence[Sent]) -> dict[str, Any] | None:
    """The last block up to a position of the history that can carry a breakpoint."""
    for one in reversed(sent):
        if one.at <= mark:
            place = _last_cacheable(one.blocks)
            if place is not None:
                return place
    return None


def _last_cacheable(blocks: Sequence[Any]) -> dict[str, Any] | None:
    return next((block for block in reversed(blocks) if _is_cacheable(block)), None)


def _is_cacheable(block: Any) -> bool:
    if not isinstance(block, dict) or is_blank(block):
        return False
    return block.get("type") in _CACHEABLE or is_result(block.get("type"))
