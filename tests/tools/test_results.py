"""What tools return, as data that can be sent."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, UserDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from jaato.exchange import ToolOutput
from jaato.history import Media
from jaato.tools import output_of

PNG = b"\x89PNG\r\n\x1a\n rest"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    inner: Any = field(default_factory=list)


class Pair(NamedTuple):
    a: int
    b: Any


class Node(BaseModel):
    name: str
    number: float = 0.0
    data: bytes = b""


class Loud:
    def __str__(self) -> str:
        return "loud"


class Broken:
    def __str__(self) -> str:
        raise ValueError


class BrokenMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "data"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param("text", "text", id="a text"),
        pytest.param(True, True, id="a truth"),
        pytest.param(2**70, 2**70, id="a large integer"),
        pytest.param(10**5000, hex(10**5000), id="an integer that Python does not spell"),
        pytest.param(float("nan"), "NaN", id="not a number"),
        pytest.param([float("inf"), -float("inf")], ["Infinity", "-Infinity"], id="no end"),
        pytest.param("a\ud800b", "a\ufffdb", id="half a character"),
        pytest.param("\ud83d\ude00", "😀", id="two halves of one"),
        pytest.param({"\udfff": 1}, {"\ufffd": 1}, id="half a character as key"),
        pytest.param((1, [2]), [1, [2]], id="a tuple"),
        pytest.param({3, 1, 2}, [1, 2, 3], id="a set, in order"),
        pytest.param(frozenset({"b", 1}), [1, "b"], id="a set of all kinds"),
        pytest.param(deque([1]), [1], id="a queue"),
        pytest.param(range(3), [0, 1, 2], id="a range"),
        pytest.param({"a": 1}.values(), [1], id="values of a dict"),
        pytest.param({"a": 1}.keys(), ["a"], id="keys of a dict"),
        pytest.param(OrderedDict(a=1), {"a": 1}, id="an ordered dict"),
        pytest.param(UserDict({"a": 1}), {"a": 1}, id="a foreign dict"),
        pytest.param(MappingProxyType({"a": 1}), {"a": 1}, id="a view of a dict"),
        pytest.param(
            {7: 1, None: 2, True: 3, 1.5: 4, (1, 2): 5, Colour.RED: 6},
            {"7": 1, "null": 2, "true": 3, "1.5": 4, "(1, 2)": 5, "red": 6},
            id="keys that are no texts",
        ),
        pytest.param(Colour.RED, "red", id="an enum"),
        pytest.param([Level.HIGH], [3], id="an integer enum"),
        pytest.param(
            Point(1, Point(2)), {"x": 1, "inner": {"x": 2, "inner": []}}, id="a dataclass"
        ),
        pytest.param(Point, "<class", id="a class is no dataclass of values"),
        pytest.param(Pair(1, {2}), {"a": 1, "b": [2]}, id="a named tuple"),
        pytest.param(
            Node(name="n", number=float("nan")),
            {"name": "n", "number": "NaN", "data": "(text/plain, 0 bytes, attached)"},
            id="a model",
        ),
        pytest.param(RootModel[list[int]]([1]), [1], id="a model that is its only value"),
        pytest.param(date(2026, 11, 19), "2026-11-19", id="a date"),
        pytest.param(datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00", id="a time"),
        pytest.param(timedelta(seconds=90), "0:01:30", id="a duration"),
        pytest.param(Decimal("1.50"), "1.50", id="a decimal"),
        pytest.param(Path("/a/b"), "/a/b", id="a path"),
        pytest.param([Loud()], ["loud"], id="anything else"),
        pytest.param(Broken(), "<", id="what cannot say what it is"),
        pytest.param(BrokenMapping(), "<", id="a dict that cannot be read"),
    ],
)
def test_a_value_becomes_plain_data(value: Any, data: Any) -> None:
    output = output_of(value)
    assert not output.is_error
    if data in ("<", "<class"):
        assert output.result.startswith(data)
    else:
        assert output.result == data
        assert type(output.result) is type(data)


def test_what_holds_itself_is_cut() -> None:
    rows: list[Any] = [1]
    rows.append(rows)
    assert output_of(rows).result == [1, "(a cycle)"]
    table: dict[str, Any] = {}
    table["again"] = [table]
    assert output_of(table).result == {"again": ["(a cycle)"]}
    point = Point(1)
    point.inner = point
    assert output_of(point).result == {"x": 1, "inner": "(a cycle)"}


def test_what_stands_twice_is_no_cycle() -> None:
    row = [1]
    assert output_of([row, row]).result == [[1], [1]]


def test_what_is_too_deep_is_cut() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    text = json.dumps(output_of(deep).result)
    assert "nested too deep" in text
    assert len(text) < 1000


def test_the_result_is_no_part_of_what_was_returned() -> None:
    rows = [[1]]
    result = output_of(rows).result
    rows[0].append(2)
    assert result == [[1]]


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        pytest.param(PNG, "image/png", id="a PNG"),
        pytest.param(b"\xff\xd8\xff\xe0", "image/jpeg", id="a JPEG"),
        pytest.param(b"GIF89a..", "image/gif", id="a GIF"),
        pytest.param(b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", id="a WebP"),
        pytest.param(b"RIFF\0\0\0\0WAVEfmt ", "audio/wav", id="a WAV"),
        pytest.param(b"%PDF-1.7", "application/pdf", id="a PDF"),
        pytest.param("Grüße".encode(), "text/plain", id="a text"),
        pytest.param(b"", "text/plain", id="nothing"),
        pytest.param(b"\0\xff\xfe", "application/octet-stream", id="anything"),
    ],
)
def test_bytes_are_attached_with_their_type(data: bytes, mime_type: str) -> None:
    media = Media(mime_type, data)
    for given_ in (data, bytearray(data), memoryview(data), media):
        output = output_of(given_)
        assert output.attachments == (media,)
        assert output.result == f"({mime_type}, {len(data)} bytes, attached)"


def test_bytes_inside_leave_a_word_where_they_were() -> None:
    named = Media("image/png", PNG, "plot.png")
    output = output_of({"before": 1, "plots": [named, b"text"]})
    assert output.result == {
        "before": 1,
        "plots": [
            "(plot.png: image/png, 13 bytes, attached)",
            "(text/plain, 4 bytes, attached)",
        ],
    }
    assert output.attachments == (named, Media("text/plain", b"text"))


def test_an_output_keeps_what_it_is_and_becomes_sendable() -> None:
    own = Media("a/b", b"1")
    output = output_of(ToolOutput(result={"a": float("nan")}, is_error=True, attachments=(own,)))
    assert output == ToolOutput(result={"a": "NaN"}, is_error=True, attachments=(own,))


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=8)
    | st.dates()
    | st.datetimes()
    | st.decimals()
    | st.sampled_from([Colour.RED, Level.HIGH, Broken()])
)
keys = texts | st.integers() | st.none() | st.booleans() | st.floats() | st.dates()


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Point, st.integers(), inner)
        | st.builds(Pair, st.integers(), inner)
    )


anything = st.recursive(scalars, containers, max_leaves=20)


@settings(max_examples=200)
@given(value=anything)
def test_whatever_is_returned_can_be_sent(value: Any) -> None:
    output = output_of(value)
    sent = json.dumps(output.result, ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(sent) == output.result
    assert output_of(output.result) == ToolOutput(result=output.result)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100)
@given(value=json_values)
def test_what_is_plain_already_stays_as_it_is(value: Any) -> None:
    assert output_of(value) == ToolOutput(result=value)


@settings(max_examples=60)
@given(value=anything, data=st.data())
def test_cycles_anywhere_end(value: Any, data: st.DataObject) -> None:
    inside: list[Any] = []

    def collect(one: Any) -> None:
        if isinstance(one, list):
            inside.append(one)
        for held in one if isinstance(one, list | tuple) else ():
            collect(held)

    whole = [value]
    collect(whole)
    data.draw(st.sampled_from(inside)).append(whole)
    json.dumps(output_of(whole).result, allow_nan=False)
