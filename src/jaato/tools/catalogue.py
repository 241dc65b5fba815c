"""The tools of one session: which of them the model sees, and calling any of them by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from jaato.errors import UsageError
from jaato.exchange import ToolOutput, ToolSchema
from jaato.ports import TokenCounter, Tool
from jaato.tools.context import ToolContext, calling
from jaato.tools.find import FIND_TOOLS, FindTools
from jaato.tools.results import failure, output_of, refusal
from jaato.tools.search import Entry, ranked
from jaato.tools.wording import nearest, shown

_MOST_NAMES = 50


class Catalogue:
    """Tools by name. Core ones are always offered; discoverable ones come and go.

    `loaded`: whether discoverable tools are in the request from the start, or wait to be found.
    """

    def __init__(self, tools: Iterable[Tool] = (), *, loaded: bool = True) -> None:
        self._tools: dict[str, Tool] = {}
        # Used as an ordered set.
        self._loaded: dict[str, None] = {}
        self._finder = FindTools(self)
        self._starts_loaded = loaded
        self.add(*tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or (name == FIND_TOOLS and bool(self.discoverable))

    def __len__(self) -> int:
        return len(self._everything())

    @property
    def names(self) -> tuple[str, ...]:
        """Every tool that can be called, loaded or not."""
        return tuple(self._everything())

    @property
    def discoverable(self) -> tuple[str, ...]:
        """The tools whose schema may leave the request."""
        return tuple(name for name, tool in self._tools.items() if tool.discoverable)

    @property
    def loaded(self) -> tuple[str, ...]:
        """The discoverable tools that are in the request, in the order they came."""
        return tuple(self._loaded)

    def get(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._everything().get(name)

    # What there is

    def add(self, *tools: Tool) -> None:
        """Take tools in; all of them, or none where a name is taken."""
        self.renew((), tools)

    def remove(self, *tools: Tool) -> None:
        """Forget tools, such as those of a server that is gone."""
        self.renew(tools, ())

    def renew(self, before: Iterable[Tool], after: Iterable[Tool]) -> None:
        """Put newer tools in the place of older ones; same names keep their place and state.

        All of it, or where a name would be taken, nothing.
        """
        old = {name for tool in before if self._tools.get(name := tool.schema.name) is tool}
        new: dict[str, Tool] = {}
        for tool in after:
            name = tool.schema.name
            if name in new or name == FIND_TOOLS or (name in self._tools and name not in old):
                raise UsageError(
                    f"two tools are named {name!r}",
                    hint="give one of them another name=, or its MCP server a prefix="
                    if name != FIND_TOOLS
                    else "that is the catalogue's own: give the other another name=",
                )
            new[name] = tool
        # What was a core tool and is one no longer was in the request too.
        fresh = [name for name in new if name not in old or not self._tools[name].discoverable]
        kept = {name: tool for name, tool in self._tools.items() if name in new or name not in old}
        self._tools = {**kept, **new}
        self._loaded = {name: None for name in self._loaded if name in self.discoverable}
        if self._starts_loaded:
            self.load(fresh)

    # What the model sees

    def offered(self) -> tuple[ToolSchema, ...]:
        """The schemas of the request: core ones, then discoverable ones in the order they came.

        What is loaded is appended, so that a provider's cached prefix stays as long as it can.
        """
        tools = self._everything()
        core = [tool.schema for tool in tools.values() if not tool.discoverable]
        return (*core, *(tools[name].schema for name in self._loaded))

    def load(self, names: Iterable[str]) -> tuple[str, ...]:
        """Bring discoverable tools into the request; the names that were not there."""
        came = []
        for name in names:
            tool = self._tools.get(name)
            if tool is not None and tool.discoverable and name not in self._loaded:
                self._loaded[name] = None
                came.append(name)
        return tuple(came)

    def unload(self, names: Iterable[str]) -> tuple[str, ...]:
        """Take discoverable tools out of the request; the names that left. Core ones stay."""
        left = []
        for name in names:
            if name in self._loaded:
                del self._loaded[name]
                left.append(name)
        return tuple(left)

    def find(self, query: str, limit: int | None = None) -> tuple[Tool, ...]:
        """The discoverable tools that a query speaks of, best first, loaded or not."""
        entries = [Entry(name, self._tools[name].schema.description) for name in self.discoverable]
        found = ranked(query, entries)
        most = len(found) if limit is None else max(limit, 0)
        return tuple(self._tools[entry.name] for entry in found[:most])

    def schema_tokens(self, counter: TokenCounter) -> dict[str, int]:
        """What the schema of each tool costs in a request, loaded or not."""
        tools = self._everything()
        counts = counter.count_texts([schema_json(tool.schema) for tool in tools.values()])
        return dict(zip(tools, counts, strict=True))

    # Calling

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 -- the port's word; applied right here
        context: ToolContext | None = None,
    ) -> ToolOutput:
        """Call a tool. Whatever goes wrong is an output; only a cancellation is raised.

        `timeout` in seconds, for a tool that has none of its own. One that is not loaded is
        called all the same, and loaded.
        """
        tool = self.get(name)
        if tool is None:
            return refusal(self._unknown(name))
        self.load([name])
        seconds = timeout if tool.timeout is None else tool.timeout
        clock = asyncio.timeout(seconds)
        try:
            with nullcontext() if context is None else calling(context):
                async with clock:
                    output: object = await tool.call(arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- it is the model's to read
            if isinstance(error, TimeoutError) and clock.expired():
                return refusal(f"timed out after {seconds:g} s")
            return failure(error)
        return output if isinstance(output, ToolOutput) else output_of(output)

    def _everything(self) -> Mapping[str, Tool]:
        if not self.discoverable:
            return self._tools
        core = {name: tool for name, tool in self._tools.items() if not tool.discoverable}
        return {**core, FIND_TOOLS: self._finder, **self._tools}

    def _unknown(self, name: str) -> str:
        near = nearest(name, self.names)
        if near is not None:
            return f"no tool named {shown(name)}, did you mean {near!r}?"
        offered = [schema.name for schema in self.offered()]
        told = ", ".join(offered[:_MOST_NAMES]) or "none"
        return f"no tool named {shown(name)}; there are {told}"


def schema_json(schema: ToolSchema) -> str:
    """A schema as it goes over the wire, more or less: providers differ in the words around it."""
    document = {
        "type": "function",
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
