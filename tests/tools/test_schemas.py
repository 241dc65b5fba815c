"""The schema of a tool: what the model is told of a Python function."""

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest
from pydantic import BaseModel, Field

from jaato.errors import UsageError
from jaato.tools import FunctionTool, ToolContext, tool

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Table(TypedDict, total=False):
    rows: Required[list[Row]]
    title: str


class Tree(TypedDict):
    name: str
    children: list["Tree"]


class Node(BaseModel):
    title: str = Field(description="What it is called.")
    children: list["Node"] = []


POINT = {
    "properties": {"x": {"type": "integer"}, "y": {"default": 0, "type": "integer"}},
    "required": ["x"],
    "type": "object",
}
ROW = {
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "type": "object",
}


def taking(hint: Any) -> Callable[..., Any]:
    def function(value: Any) -> Any:
        return value

    function.__annotations__ = {"value": hint}
    return function


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        pytest.param(str, {"type": "string"}, id="a text"),
        pytest.param(int, {"type": "integer"}, id="an integer"),
        pytest.param(Any, {}, id="anything"),
        pytest.param(
            int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, id="an optional integer"
        ),
        pytest.param(
            list[str], {"type": "array", "items": {"type": "string"}}, id="a list of texts"
        ),
        pytest.param(
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
            id="a dict of integers",
        ),
        pytest.param(Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}, id="a literal"),
        pytest.param(Colour, {"enum": ["red", "blue"], "type": "string"}, id="an enum"),
        pytest.param(Path, {"type": "string", "format": "path"}, id="a path"),
        pytest.param(Point, POINT, id="a dataclass"),
        pytest.param(list[Point], {"type": "array", "items": POINT}, id="a list of dataclasses"),
        pytest.param(Row, ROW, id="a TypedDict of typing"),
        pytest.param(
            Table,
            {
                "type": "object",
                "properties": {
                    "rows": {"type": "array", "items": ROW},
                    "title": {"type": "string"},
                },
                "required": ["rows"],
            },
            id="a TypedDict in a TypedDict",
        ),
        pytest.param(
            dict[str, Row | None],
            {
                "type": "object",
                "additionalProperties": {"anyOf": [ROW, {"type": "null"}]},
            },
            id="a TypedDict deep in a type",
        ),
        pytest.param(
            Annotated[int, Field(ge=1, le=9, description="How many.")],
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
            id="a constrained integer",
        ),
        pytest.param(
            Annotated[Row, Field(description="One.")],
            {**ROW, "description": "One."},
            id="a described TypedDict",
        ),
    ],
)
def test_the_schema_of_a_type(hint: Any, schema: dict[str, Any]) -> None:
    parameters = FunctionTool(taking(hint)).schema.parameters
    assert parameters == {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_what_is_used_twice_is_defined_once() -> None:
    @tool
    def line(start: Point, end: Point) -> str:
        return f"{start} {end}"

    parameters = line.schema.parameters
    reference = {"$ref": "#/$defs/Point"}
    assert parameters["properties"] == {"start": reference, "end": reference}
    assert parameters["$defs"] == {"Point": POINT}


@pytest.mark.parametrize("kind", [Node, Tree], ids=["a model", "a TypedDict"])
def test_what_holds_itself_keeps_its_definition(kind: Any) -> None:
    parameters = FunctionTool(taking(kind)).schema.parameters
    name = kind.__name__
    assert parameters["properties"]["value"] == {"$ref": f"#/$defs/{name}"}
    definition = parameters["$defs"][name]
    assert definition["properties"]["children"]["items"] == {"$ref": f"#/$defs/{name}"}
    assert "title" not in definition


def test_two_types_of_one_name_do_not_mix() -> None:
    def other() -> Any:
        @dataclass
        class Point:
            angle: float

        return Point

    def function(a: Point, b: Any, c: Point, d: Any) -> None: ...

    there = other()
    function.__annotations__ |= {"b": there, "d": there}
    parameters = FunctionTool(function).schema.parameters
    properties = parameters["properties"]
    assert properties["a"] == properties["c"] != properties["b"] == properties["d"]
    assert len(parameters["$defs"]) == 2


class TestDefaults:
    def test_a_default_makes_an_argument_optional_and_is_told(self) -> None:
        @tool
        def search(
            query: str,
            limit: int = 10,
            colour: Colour = Colour.RED,
            where: Path = Path("/x"),
        ) -> None: ...

        parameters = search.schema.parameters
        assert parameters["required"] == ["query"]
        told = {name: spec.get("default") for name, spec in parameters["properties"].items()}
        assert told == {"query": None, "limit": 10, "colour": "red", "where": "/x"}

    @pytest.mark.parametrize(
        "default",
        [
            pytest.param(object(), id="an object"),
            pytest.param(float("nan"), id="not a number"),
            pytest.param("\ud800", id="half a character"),
        ],
    )
    def test_a_default_that_json_cannot_say_is_not_told(self, default: Any) -> None:
        def function(value: Any = default) -> None: ...

        parameters = FunctionTool(function).schema.parameters
        assert parameters["properties"] == {"value": {}}
        assert "required" not in parameters

    def test_none_as_default_means_that_none_may_be_given(self) -> None:
        @tool
        def function(a: str = None, b: Annotated[str, Field(min_length=2)] = None) -> None: ...  # type: ignore[assignment] # noqa: RUF013 -- the point

        assert function.schema.parameters["properties"] == {
            "a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "b": {
                "anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}],
                "default": None,
            },
        }

    def test_a_default_may_stand_in_the_field(self) -> None:
        parameters = FunctionTool(fields).schema.parameters
        assert parameters["properties"] == {
            "a": {"type": "integer", "maximum": 9, "description": "A.", "default": 5},
            "b": {"type": "array", "items": {"type": "integer"}, "default": []},
        }
        assert "required" not in parameters


def fields(
    a: int = Field(5, le=9, description="A."),
    b: list[int] = Field(default_factory=list),  # noqa: B008 -- as pydantic has it
) -> list[Any]:
    return [a, b]


NOBODY = ToolContext()


GOOGLE = """Read a file.

    All of it, or a part.

    Args:
        path (str): Where it is,
            from the root.
        limit: How much.

    Returns:
        The text.
    """
NUMPY = """Read a file.

    All of it, or a part.

    Parameters
    ----------
    path : str
        Where it is,
        from the root.
    limit : int, optional
        How much.

    Returns
    -------
    str
        The text.
    """
SPHINX = """Read a file.

    All of it, or a part.

    :param path: Where it is,
        from the root.
    :param int limit: How much.
    :returns: The text.
    """


@pytest.mark.parametrize(
    "docstring",
    [
        pytest.param(GOOGLE, id="Google"),
        pytest.param(NUMPY, id="NumPy"),
        pytest.param(SPHINX, id="Sphinx"),
    ],
)
def test_a_docstring_describes_the_tool_and_its_parameters(docstring: str) -> None:
    def read(path: str, limit: int = 3) -> str:
        return path[:limit]

    read.__doc__ = docstring
    schema = FunctionTool(read).schema
    assert schema.name == "read"
    assert schema.description == "Read a file.\n\nAll of it, or a part."
    told = {name: one["description"] for name, one in schema.parameters["properties"].items()}
    assert told == {"path": "Where it is, from the root.", "limit": "How much."}


def test_numpy_may_describe_two_parameters_at_once() -> None:
    @tool
    def area(width: int, height: int) -> int:
        """Say the area.

        Parameters
        ----------
        width, height : int
            In metres.
        """
        return width * height

    for spec in area.schema.parameters["properties"].values():
        assert spec["description"] == "In metres."


def test_a_description_in_the_annotation_comes_before_the_docstring() -> None:
    @tool
    def function(a: Annotated[int, Field(description="Here.")]) -> None:
        """Do.

        Args:
            a: There.
        """

    assert function.schema.parameters["properties"]["a"]["description"] == "Here."


def test_no_docstring_is_no_description() -> None:
    assert FunctionTool(taking(int)).schema.description == ""


def test_the_context_is_not_in_the_schema() -> None:
    @tool
    def function(
        a: int,
        context: ToolContext,
        maybe: ToolContext | None = None,
        marked: Annotated[ToolContext, "x"] = NOBODY,
    ) -> None: ...

    assert list(function.schema.parameters["properties"]) == ["a"]


class Reader:
    """Reads things."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, path: str) -> str:
        """Read one."""
        return self.root + path

    @classmethod
    def make(cls, path: str) -> str:
        """Make one."""
        return path

    @staticmethod
    def plain(path: str) -> str:
        """Do without."""
        return path


class ByCalling:
    """Is about the object."""

    def __call__(self, path: str) -> str:
        """Read by calling."""
        return path


def read(root: str, /, path: str, *, limit: int = 3) -> str:
    """Read below a root."""
    return f"{root}{path}"[:limit]


@functools.wraps(read)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return read(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "name", "description", "arguments"),
    [
        pytest.param(read, "read", "Read below a root.", "root path limit", id="a function"),
        pytest.param(Reader("/").read, "read", "Read one.", "path", id="a method"),
        pytest.param(Reader.make, "make", "Make one.", "path", id="a class method"),
        pytest.param(Reader.plain, "plain", "Do without.", "path", id="a static method"),
        pytest.param(Reader, "Reader", "Reads things.", "root", id="a class"),
        pytest.param(ByCalling(), "ByCalling", "Read by calling.", "path", id="an object"),
        pytest.param(wrapped, "read", "Read below a root.", "root path limit", id="a wrapper"),
        pytest.param(
            functools.partial(read, "/"), "read", "Read below a root.", "path limit", id="a partial"
        ),
        pytest.param(
            functools.partial(read, limit=2),
            "read",
            "Read below a root.",
            "root path",
            id="what a partial names is not the model's",
        ),
    ],
)
def test_every_callable_is_a_tool(
    function: Callable[..., Any], name: str, description: str, arguments: str
) -> None:
    schema = FunctionTool(function).schema
    assert (schema.name, schema.description) == (name, description)
    assert list(schema.parameters["properties"]) == arguments.split()


def test_a_type_from_around_a_function_is_found() -> None:
    class Local(BaseModel):
        a: int

    def function(value: "Local") -> Any:
        return Local

    assert FunctionTool(function).schema.parameters["properties"]["value"]["required"] == ["a"]


def test_a_return_type_that_cannot_be_resolved_does_not_matter() -> None:
    def function(a: int) -> "Decimal": ...  # type: ignore[empty-body]

    assert list(FunctionTool(function).schema.parameters["properties"]) == ["a"]


def test_the_decorator_takes_what_the_docstring_does_not_say() -> None:
    @tool(name="other", description="Else.", discoverable=True, timeout=2.5)
    def function(a: int) -> int:
        """Do."""
        return a + 1

    assert (function.schema.name, function.schema.description) == ("other", "Else.")
    assert (function.discoverable, function.timeout) == (True, 2.5)
    assert repr(function) == "FunctionTool('other')"
    # It is still the function it was.
    assert function(1) == 2
    assert tool(read, name="there").schema.name == "there"


def stars(*paths: str) -> None: ...


def names(a: int, **rest: str) -> None: ...


def generator(a: int) -> Any:
    yield a


async def async_generator(a: int) -> Any:
    yield a


def unresolved(a: "Decimal") -> None: ...


def uncheckable(a: ByCalling) -> None: ...


def unsayable(a: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("make", "fact", "hint"),
    [
        pytest.param(lambda: tool(stars), r"'stars' takes \*paths", "JSON schema", id="*args"),
        pytest.param(lambda: tool(names), r"'names' takes \*\*rest", "one by one", id="**kwargs"),
        pytest.param(
            lambda: tool(Reader.read), "'read' is a method without its object", "thing", id="self"
        ),
        pytest.param(lambda: tool(generator), "is a generator", "a list", id="a generator"),
        pytest.param(
            lambda: tool(async_generator), "is a generator", "a list", id="an async generator"
        ),
        pytest.param(
            lambda: tool(lambda x: x), "'<lambda>' is no name for a tool", "name=", id="a lambda"
        ),
        pytest.param(
            lambda: tool(read, name="a b"), "'a b' is no name", "letters", id="a name with a space"
        ),
        pytest.param(lambda: tool(read, name=""), "'' is no name", "letters", id="an empty name"),
        pytest.param(
            lambda: tool(read, name="x" * 65), "is no name", "64 char", id="a name too long"
        ),
        pytest.param(lambda: tool(read, timeout=0), "a timeout of 0", "None", id="no time at all"),
        pytest.param(
            lambda: tool(unresolved),
            "parameter 'a' of the tool 'unresolved'.*'Decimal'",
            "run time",
            id="a type that is not there",
        ),
        pytest.param(
            lambda: tool(uncheckable),
            "parameter 'a' of the tool 'uncheckable' has a type that cannot be checked",
            "JSON",
            id="a type that pydantic does not know",
        ),
        pytest.param(
            lambda: tool(unsayable),
            "tool 'unsayable' has no JSON schema",
            "JSON",
            id="a type that JSON cannot say",
        ),
        pytest.param(
            lambda: FunctionTool(3),  # type: ignore[arg-type]
            "not of a int",
            "function",
            id="no callable",
        ),
        pytest.param(
            lambda: FunctionTool(dict, name="d"),
            "parameters of the tool 'd' cannot be read",
            "wrap it",
            id="a callable that does not tell",
        ),
    ],
)
def test_what_cannot_be_a_tool_is_refused(make: Callable[[], Any], fact: str, hint: str) -> None:
    with pytest.raises(UsageError, match=fact) as told:
        make()
    assert hint in (told.value.hint or "")
