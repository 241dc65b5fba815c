"""What users hand over as tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jaato.errors import UsageError
from jaato.exchange import ToolOutput
from jaato.tools import FindTools, FunctionTool, as_tools, tool
from jaato.tools.catalogue import Catalogue

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def read(path: str) -> str:
    """Read a file."""
    return f"read {path}"


def test_a_callable_becomes_a_tool_and_a_tool_stays_one() -> None:
    made = tool(read, name="other")
    finder = FindTools(Catalogue())
    first, second, third = as_tools([read, made, finder])
    assert isinstance(first, FunctionTool)
    assert first.schema.name == "read"
    assert second is made
    assert third is finder


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "type": "function",
                "function": {"name": "get", "description": "Get it.", "parameters": SCHEMA},
                "handler": read,
            },
            id="nested",
        ),
        pytest.param(
            {
                "type": "function",
                "name": "get",
                "description": "Get it.",
                "parameters": SCHEMA,
                "handler": read,
            },
            id="flat",
        ),
    ],
)
def test_a_spec_with_a_handler_becomes_a_tool(spec: dict[str, Any]) -> None:
    (made,) = as_tools([spec])
    assert (made.schema.name, made.schema.description) == ("get", "Get it.")
    assert made.schema.parameters == SCHEMA
    assert made.schema.extra == {}
    assert (made.discoverable, made.timeout) == (False, None)
    assert asyncio.run(made.call({"path": "a"})) == ToolOutput(result="read a")


def test_a_spec_may_say_more() -> None:
    spec = {
        "function": {"name": "get", "strict": True},
        "handler": read,
        "discoverable": True,
        "timeout": 3,
    }
    (made,) = as_tools([spec])
    assert (made.discoverable, made.timeout) == (True, 3)
    assert made.schema.extra == {"strict": True}
    # What it leaves out is the function's to say.
    assert made.schema.description == "Read a file."
    assert list(made.schema.parameters["properties"]) == ["path"]


def test_a_spec_may_have_an_async_handler_that_takes_everything_as_one() -> None:
    async def handler(arguments: Any) -> Any:
        return arguments

    (made,) = as_tools([{"function": {"name": "get", "parameters": SCHEMA}, "handler": handler}])
    assert asyncio.run(made.call({"path": "a"})).result == {"path": "a"}


@pytest.mark.parametrize(
    ("objects", "fact"),
    [
        pytest.param([3], "a int is no tool", id="a number"),
        pytest.param(["read"], "a str is no tool", id="a name"),
        pytest.param("read", "not a str", id="a name alone"),
        pytest.param({"name": "x"}, "not a dict", id="a spec alone"),
        pytest.param(read, "not a function", id="a function alone"),
        pytest.param([{"function": {"name": "get"}}], "'get' has no handler", id="no handler"),
        pytest.param([{"function": read}], "is a function", id="a function in place of a spec"),
    ],
)
def test_what_is_no_tool_is_refused(objects: Any, fact: str) -> None:
    with pytest.raises(UsageError, match=fact) as told:
        as_tools(objects)
    assert told.value.hint
