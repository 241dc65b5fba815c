"""JSON schemas of types in few tokens: a schema is paid for at every call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic.json_schema import GenerateJsonSchema

DEFINITIONS = "#/$defs/"


@cache
def generator() -> type[GenerateJsonSchema]:
    """A generator of JSON schemas for pydantic, without the titles that only repeat names."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 -- an optional package

    class Terse(GenerateJsonSchema):
        # What JSON has no words for is left out of the schema, without a warning at each start.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 -- typed so by pydantic

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- its signature
            return False

    return Terse


def inlined(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with what is used once where it is used; other definitions stay behind."""
    uses = dict.fromkeys(definitions, 0)
    for name in _referred([schema, definitions]):
        uses[name] += 1
    bare = {
        name: {key: held for key, held in definition.items() if key != "title"}
        for name, definition in definitions.items()
    }
    once = {name: definition for name, definition in bare.items() if uses[name] == 1}
    whole: dict[str, Any] = _laid_out(schema, once)
    kept = {name: _laid_out(bare[name], once) for name, count in uses.items() if count > 1}
    return {**whole, "$defs": kept} if kept else whole


def _referred(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if name := _target(node):
            yield name
        for held in node.values():
            yield from _referred(held)
    elif isinstance(node, list):
        for held in node:
            yield from _referred(held)


def _laid_out(node: Any, once: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_laid_out(held, once) for held in node]
    if not isinstance(node, Mapping):
        return node
    rest = {key: _laid_out(held, once) for key, held in node.items()}
    name = _target(node)
    if name not in once:
        return rest
    del rest["$ref"]
    # What stands beside a reference (a description, a default) speaks of this use.
    return {**_laid_out(once[name], once), **rest}


def _target(node: Mapping[str, Any]) -> str:
    """The definition that is referred to here; empty where none is."""
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(DEFINITIONS):
        return reference.removeprefix(DEFINITIONS)
    return ""
