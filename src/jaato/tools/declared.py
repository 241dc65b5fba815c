"""Arguments of a tool whose JSON schema was given: names, and the types at the top. No pydantic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from jaato.errors import UsageError
from jaato.tools.wording import ArgumentsError, missing, shown, unknown

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (NoneType,),
}


class DeclaredArguments:
    """Reads arguments against a JSON schema of an object; what is nested is the tool's to check."""

    def __init__(self, schema: Mapping[str, Any], *, tool: str, takes_any: bool = True) -> None:
        properties = schema.get("properties", {})
        if schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
            raise UsageError(
                f"the parameters of the tool {tool!r} are no JSON schema of an object",
                hint='write {"type": "object", "properties": {...}, "required": [...]}',
            )
        self.schema: Mapping[str, Any] = {"type": "object", **schema}
        self.names = tuple(properties)
        self.required = tuple(schema.get("required", ()))
        self._properties = properties
        self._is_closed = schema.get("additionalProperties") is False or not takes_any

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values by name; raises `ArgumentsError`."""
        problems = [missing(name) for name in self.required if name not in arguments]
        values = {}
        for name, value in arguments.items():
            spec = self._properties.get(name)
            if isinstance(spec, Mapping):
                value, problem = _checked(value, spec)  # noqa: PLW2901 -- the value as it was meant
                if problem:
                    problems.append(f"argument {name!r}: {problem}")
            values[name] = value
        if self._is_closed:
            strange = [name for name in arguments if name not in self._properties]
            problems += unknown(strange, self.names)
        if problems:
            raise ArgumentsError(problems)
        return values


def _checked(value: Any, spec: Mapping[str, Any]) -> tuple[Any, str | None]:
    declared = spec.get("type")
    kinds = [declared] if isinstance(declared, str) else declared
    if isinstance(kinds, list) and all(kind in _TYPES for kind in kinds):
        value = _meant(value, kinds)
        if not _is_any_of(value, kinds):
            return value, f"input should be {' or '.join(kinds)} (got {shown(value)})"
    allowed = spec.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return value, f"input should be one of {shown(allowed)} (got {shown(value)})"
    return value, None


def _meant(value: Any, kinds: list[str]) -> Any:
    """The value, or where only a type is wrong that models often get wrong, what was meant."""
    if _is_any_of(value, kinds):
        return value
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return int(value)
    if not isinstance(value, str):
        return value
    try:
        # Lists and numbers often come as text.
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if _is_any_of(parsed, kinds) else value


def _is_any_of(value: Any, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)
