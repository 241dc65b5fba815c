"""The tool by which a model finds the tools that are not in its window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from jaato.exchange import ToolOutput, ToolSchema
from jaato.ports import Tool
from jaato.tools.declared import DeclaredArguments
from jaato.tools.results import refusal
from jaato.tools.wording import ArgumentsError

FIND_TOOLS: Final = "find_tools"
USUAL_LIMIT: Final = 5
_MOST_NAMES = 50


class Findable(Protocol):
    """Where tools are found."""

    @property
    def discoverable(self) -> Collection[str]:
        """The names of all that can be found."""
        ...

    def find(self, query: str, limit: int | None = None) -> Sequence[Tool]:
        """The tools that a query speaks of, best first."""
        ...

    def load(self, names: Iterable[str]) -> Sequence[str]:
        """Bring tools into the request."""
        ...


class FindTools:
    """Finds tools by words, and brings what it found into the request."""

    discoverable: Final = False
    timeout: Final = None

    def __init__(self, catalogue: Findable) -> None:
        self._catalogue = catalogue
        self._arguments = DeclaredArguments(
            {
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What the tool should do, in a few words, or its name.",
                    },
                    "limit": {
                        "type": "integer",
                        "description": "How many tools at most.",
                        "default": USUAL_LIMIT,
                        "minimum": 1,
                    },
                },
                "required": ["query"],
                "additionalProperties": False,
            },
            tool=FIND_TOOLS,
        )
        self.schema: ToolSchema = ToolSchema(
            name=FIND_TOOLS,
            description="Find more tools. There are tools that you do not see: describe what you"
            " need, and those that fit can be called from then on.",
            parameters=self._arguments.schema,
        )

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """The names, descriptions and parameters of what was found, as text."""
        try:
            values = self._arguments.read(arguments)
        except ArgumentsError as error:
            return refusal(str(error))
        query, limit = values["query"], values.get("limit", USUAL_LIMIT)
        if limit < 1:
            return refusal(f"argument 'limit': input should be 1 or more (got {limit})")
        found = self._catalogue.find(query, limit)
        if not found:
            return ToolOutput(result=self._nothing(query))
        self._catalogue.load(tool.schema.name for tool in found)
        lines = [f"- {in_short(tool.schema)}" for tool in found]
        return ToolOutput(result="\n".join(["These tools can be called now:", *lines]))

    def _nothing(self, query: str) -> str:
        names = sorted(self._catalogue.discoverable)
        if not names:
            return "There are no tools to find."
        shown = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return f"No tool fits {query!r}. There are {shown}{more}."


def in_short(schema: ToolSchema) -> str:
    """A tool in one line: its name, its parameters with their types, its description."""
    properties = schema.parameters.get("properties")
    required = schema.parameters.get("required", ())
    told = [
        f"{name}{'' if name in required else '?'}{_kind(spec)}"
        for name, spec in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    line = f"{schema.name}({', '.join(told)})"
    description = " ".join(schema.description.split())
    return f"{line}: {description}" if description else line


def _kind(spec: object) -> str:
    if not isinstance(spec, Mapping):
        return ""
    if isinstance(spec.get("enum"), list):
        return f": {' | '.join(map(repr, spec['enum']))}"
    kinds = [spec, *(one for one in spec.get("anyOf", ()) if isinstance(one, Mapping))]
    names = [kind for one in kinds if isinstance(kind := one.get("type"), str) and kind != "null"]
    return f": {' | '.join(names)}" if names else ""
