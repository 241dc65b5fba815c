"""Tools of a Gemini request as JSON and back: declarations of functions, and tools of Google's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaato.exchange import ToolSchema
from jaato.wire.google_parts import KEY, difference, kept, laid_over, spelled

_NAMES: Final = "jaato.names"
"""In place of declarations: the names of those that stood there, or what was no declaration."""
_ANYTHING: Final = {"type": "object"}


def encode_tools(tools: Sequence[ToolSchema], grouped: Any = None) -> list[Any]:
    """The tools of a request; `grouped` as `decode_tools` found them."""
    if not isinstance(grouped, list):
        return [{"functionDeclarations": [_declaration(tool) for tool in tools]}] if tools else []
    rest = list(tools)
    wire: list[Any] = []
    home: list[Any] | None = None
    for group in grouped:
        if not isinstance(group, Mapping):
            wire.append(group)
            continue
        fields = {key: value for key, value in group.items() if key != _NAMES}
        if _NAMES in group:
            declared = [one for name in group[_NAMES] for one in _taken(rest, name)]
            if declared or not group[_NAMES]:
                home = fields["functionDeclarations"] = declared
        # A group whose functions are all gone goes too, unless there is more in it.
        if fields or _NAMES not in group:
            wire.append(fields)
    if rest and home is not None:
        home += [_declaration(tool) for tool in rest]
    elif rest:
        wire.append({"functionDeclarations": [_declaration(tool) for tool in rest]})
    return wire


def decode_tools(wire: Any) -> tuple[tuple[ToolSchema, ...], list[Any] | None]:
    """The declared functions, and how they were grouped if not in a single list."""
    if not isinstance(wire, list):
        return (), None
    tools: list[ToolSchema] = []
    grouped: list[Any] = []
    for group in wire:
        if not isinstance(group, Mapping):
            grouped.append(group)
            continue
        fields = spelled(group)
        declared = fields.get("functionDeclarations")
        if isinstance(declared, list):
            del fields["functionDeclarations"]
            found = [_schema(one) for one in declared]
            tools += [tool for tool in found if tool is not None]
            names = zip(declared, found, strict=True)
            fields[_NAMES] = [one if tool is None else tool.name for one, tool in names]
        grouped.append(fields)
    simple = bool(tools) and grouped == [{_NAMES: [tool.name for tool in tools]}]
    return tuple(tools), None if simple else grouped


def _taken(rest: list[ToolSchema], name: Any) -> list[Any]:
    """The declaration of the first tool of a name, which leaves `rest`."""
    if not isinstance(name, str):
        return [name]
    for at, tool in enumerate(rest):
        if tool.name == name:
            return [_declaration(rest.pop(at))]
    return []


def _declaration(tool: ToolSchema) -> dict[str, Any]:
    return laid_over(_ours(tool), kept(tool.extra) or {})


def _ours(tool: ToolSchema) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    # A function that takes anything is declared without parameters: so the API documents it.
    if tool.parameters != _ANYTHING:
        wire["parametersJsonSchema"] = tool.parameters
    return wire


def _schema(wire: Any) -> ToolSchema | None:
    if not isinstance(wire, Mapping) or not isinstance(wire.get("name"), str):
        return None
    fields = spelled(wire)
    description = fields.get("description")
    parameters = fields.get("parametersJsonSchema")
    if not isinstance(parameters, Mapping):
        parameters = _json_schema(fields.get("parameters"))
    tool = ToolSchema(
        name=fields["name"],
        description=description if isinstance(description, str) else "",
        parameters=parameters if isinstance(parameters, Mapping) else dict(_ANYTHING),
    )
    over = difference(_ours(tool), fields)
    if not over:
        return tool
    return ToolSchema(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        extra={KEY: over},
    )


def _json_schema(schema: Any) -> Any:
    """An OpenAPI schema of Gemini's as a JSON schema: its types are written in lower case."""
    if isinstance(schema, list):
        return [_json_schema(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _json_schema(value)
        for key, value in schema.items()
    }
