"""What users hand over as tools, as tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaato.errors import UsageError
from jaato.ports import Tool
from jaato.tools.callables import FunctionTool

_OURS = frozenset({"type", "function", "handler", "name", "description", "parameters"})


def as_tools(objects: Iterable[Any]) -> list[Tool]:
    """Tools as they are, callables as tools, and dict specs with a `handler` as tools.

    A spec is what providers take, `{"type": "function", "function": {...}}` or the inner part
    alone, and beside it `handler`, and if wanted `discoverable` and `timeout`.
    """
    if isinstance(objects, str | Mapping) or not isinstance(objects, Iterable):
        raise UsageError(
            f"tools are a list, not a {type(objects).__name__}",
            hint="write tools=[...], also for one",
        )
    return [_as_tool(one) for one in objects]


def _as_tool(one: Any) -> Tool:
    if isinstance(one, Mapping):
        return _from_spec(one)
    # A class has the attributes of a tool too, without being one.
    if isinstance(one, Tool) and not isinstance(one, type):
        return one
    if callable(one):
        return FunctionTool(one)
    raise UsageError(
        f"a {type(one).__name__} is no tool",
        hint="give a callable, a Tool, or a dict with `function` and `handler`",
    )


def _from_spec(spec: Mapping[str, Any]) -> FunctionTool:
    inner = spec.get("function", spec)
    if not isinstance(inner, Mapping):
        raise UsageError(
            f"the `function` of a tool spec is a {type(inner).__name__}",
            hint='write {"type": "function", "function": {"name": ...}, "handler": callable}',
        )
    handler = spec.get("handler")
    if handler is None:
        raise UsageError(
            f"the tool spec of {inner.get('name', 'a tool')!r} has no handler",
            hint='add "handler": the function that is called',
        )
    known = {*_OURS, "discoverable", "timeout"}
    return FunctionTool(
        handler,
        name=inner.get("name"),
        description=inner.get("description"),
        parameters=inner.get("parameters"),
        discoverable=bool(spec.get("discoverable", False)),
        timeout=spec.get("timeout"),
        extra={key: value for key, value in inner.items() if key not in known},
    )
