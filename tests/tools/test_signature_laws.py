"""Laws over generated signatures: the schema says what the call takes, and nothing is lost."""

from __future__ import annotations

import asyncio
import enum
import inspect
import json
import keyword
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel

from jaato.exchange import ToolOutput
from jaato.tools import FunctionTool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    label: str


class Row(TypedDict):
    id: int
    tags: NotRequired[list[str]]


class Node(BaseModel):
    name: str
    points: list[Point]


@dataclass(frozen=True)
class Kind:
    """A type, and what a model would write for it."""

    hint: Any
    values: st.SearchStrategy[Any]

    def __repr__(self) -> str:
        return str(self.hint)


integers = st.integers(-(2**60), 2**60)
words = st.text(st.characters(codec="utf-8"), max_size=6)
points = st.fixed_dictionaries({"x": integers, "label": words})
PLAIN = [
    Kind(int, integers),
    Kind(str, words),
    Kind(bool, st.booleans()),
    Kind(float, st.floats(allow_nan=False, allow_infinity=False)),
    Kind(Any, st.none() | integers | words | st.lists(words, max_size=2)),
    Kind(Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    Kind(Colour, st.sampled_from(["red", "blue"])),
    Kind(Point, points),
    Kind(Row, st.fixed_dictionaries({"id": integers}, optional={"tags": st.lists(words)})),
    Kind(Node, st.fixed_dictionaries({"name": words, "points": st.lists(points, max_size=2)})),
]


def many(container: Any, *hints: Any) -> Any:
    return container[hints if len(hints) > 1 else hints[0]]


def nested(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.one_of(
        inner.map(lambda kind: Kind(many(list, kind.hint), st.lists(kind.values, max_size=3))),
        inner.map(
            lambda kind: Kind(
                many(dict, str, kind.hint), st.dictionaries(words, kind.values, max_size=3)
            )
        ),
        inner.map(lambda kind: Kind(kind.hint | None, st.none() | kind.values)),
    )


kinds = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=3)
names = (
    st.from_regex(r"[a-z][a-zA-Z_]{0,8}", fullmatch=True)
    .filter(str.isidentifier)
    .filter(lambda name: not keyword.iskeyword(name))
)


@dataclass(frozen=True)
class Drawn:
    tool: FunctionTool
    required: list[str]
    kinds: dict[str, Kind]


@st.composite
def tools(draw: st.DrawFn) -> Drawn:
    """A tool that returns what it was given, by a signature of all kinds of parameters."""
    chosen = draw(st.dictionaries(names, kinds, max_size=4))
    optional = {name for name in chosen if draw(st.booleans())}
    ordered = sorted(chosen, key=lambda name: name in optional)
    ways = [inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD]
    before = draw(st.integers(0, len(ordered)))
    parameters = [
        inspect.Parameter(
            name,
            ways[at >= before],
            annotation=chosen[name].hint,
            default=None if name in optional else inspect.Parameter.empty,
        )
        for at, name in enumerate(ordered)
    ]
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Any:
        return signature.bind(*args, **kwargs).arguments

    setattr(function, "__signature__", signature)  # noqa: B010 -- what inspect looks at
    required = [name for name in ordered if name not in optional]
    return Drawn(FunctionTool(function), required, chosen)


def call(tool: FunctionTool, arguments: dict[str, Any]) -> ToolOutput:
    return asyncio.run(tool.call(arguments))


@settings(max_examples=60)
@given(drawn=tools(), data=st.data())
def test_what_the_schema_allows_arrives_as_it_was_written(
    drawn: Drawn, data: st.DataObject
) -> None:
    parameters = drawn.tool.schema.parameters
    Draft202012Validator.check_schema(parameters)
    assert json.loads(json.dumps(parameters)) == parameters
    assert list(parameters.get("required", [])) == drawn.required
    given_ = {
        name: data.draw(kind.values)
        for name, kind in drawn.kinds.items()
        if name in drawn.required or data.draw(st.booleans())
    }
    Draft202012Validator(parameters).validate(given_)
    output = call(drawn.tool, given_)
    assert not output.is_error, output.result
    arrived = output.result
    # What is optional inside an object may be filled in, and a default may be passed on.
    assert {name: arrived[name] for name in given_} == given_
    assert all(arrived[name] is None for name in arrived.keys() - given_.keys())


@settings(max_examples=40)
@given(drawn=tools(), data=st.data())
def test_what_the_schema_does_not_allow_is_refused_by_name(
    drawn: Drawn, data: st.DataObject
) -> None:
    given_ = {name: data.draw(drawn.kinds[name].values) for name in drawn.required}
    leaves_out = bool(drawn.required) and data.draw(st.booleans())
    if leaves_out:
        wrong = data.draw(st.sampled_from(drawn.required))
        del given_[wrong]
        words = f"argument {wrong!r}: field required"
    else:
        wrong = data.draw(names.filter(lambda name: name not in drawn.kinds))
        given_[wrong] = 1
        words = f"unknown argument {wrong!r}"
    assert not Draft202012Validator(drawn.tool.schema.parameters).is_valid(given_)
    output = call(drawn.tool, given_)
    assert output.is_error
    assert output.result.startswith(words)


rubbish = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(drawn=tools(), data=st.data())
def test_whatever_a_model_writes_there_is_an_output(drawn: Drawn, data: st.DataObject) -> None:
    written = {name: data.draw(rubbish) for name in drawn.kinds}
    written |= data.draw(st.dictionaries(st.text(max_size=5), rubbish, max_size=2))
    output = call(drawn.tool, written)
    json.dumps(output.result, ensure_ascii=False, allow_nan=False).encode()
    if output.is_error:
        assert "argument" in output.result


@pytest.mark.parametrize("kind", PLAIN, ids=repr)
def test_a_schema_has_no_title_that_only_repeats_a_name(kind: Kind) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": kind.hint}
    assert '"title"' not in json.dumps(FunctionTool(function).schema.parameters)
