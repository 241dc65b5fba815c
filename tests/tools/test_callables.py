"""Calling a function by what a model wrote: arguments, threads, context, what goes wrong."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from jaato.errors import UsageError
from jaato.exchange import ToolOutput
from jaato.history import Media
from jaato.ports import Tool
from jaato.tools import FunctionTool, ToolContext, calling, current_context, tool


def call(function: Callable[..., Any] | FunctionTool, /, **arguments: Any) -> ToolOutput:
    made = function if isinstance(function, FunctionTool) else FunctionTool(function)
    return asyncio.run(made.call(arguments))


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    id: int


class Node(BaseModel):
    title: str
    children: list[Node] = []


def read(path: str, limit: int = 3) -> str:
    """Read a file."""
    return path[:limit]


def appended(rows: list[int] = Field(default_factory=list)) -> list[int]:  # noqa: B008 -- as pydantic has it
    rows.append(1)
    return rows


def test_a_function_tool_is_a_tool() -> None:
    assert isinstance(FunctionTool(read), Tool)


def test_a_call() -> None:
    assert call(read, path="abcdef") == ToolOutput(result="abc")


class TestArguments:
    @pytest.mark.parametrize(
        ("hint", "written", "meant"),
        [
            pytest.param(int, "3", 3, id="a number as text"),
            pytest.param(int, 3.0, 3, id="a whole float"),
            pytest.param(float, 3, 3.0, id="an integer for a float"),
            pytest.param(bool, "true", True, id="a truth as text"),
            pytest.param(list[int], "[1, 2]", [1, 2], id="a list as text"),
            pytest.param(list[int], ["1", 2], [1, 2], id="numbers as text in a list"),
            pytest.param(Point, '{"x": 1}', Point(1), id="an object as text"),
            pytest.param(Point, {"x": "1", "y": 2}, Point(1, 2), id="a dataclass"),
            pytest.param(Row, {"id": "7"}, {"id": 7}, id="a TypedDict"),
            pytest.param(
                Node,
                {"title": "a", "children": [{"title": "b"}]},
                Node(title="a", children=[Node(title="b")]),
                id="a model in a model",
            ),
            pytest.param(Colour, "red", Colour.RED, id="an enum"),
            pytest.param(Literal[1, "a"], "a", "a", id="a literal"),
            pytest.param(int | None, None, None, id="nothing"),
            pytest.param(int | None, "null", None, id="nothing as text"),
            pytest.param(Path, "/a", Path("/a"), id="a path"),
            pytest.param(date, "2026-11-19", date(2026, 11, 19), id="a date"),
            pytest.param(UUID, "0" * 32, UUID(int=0), id="a UUID"),
            pytest.param(set[int], [1, 1], {1}, id="a set"),
            pytest.param(tuple[int, str], [1, "a"], (1, "a"), id="a tuple"),
            pytest.param(bytes, "é", "é".encode(), id="bytes"),
            pytest.param(str, "[1]", "[1]", id="a text that looks like a list stays one"),
            pytest.param(str, "\ud800", "\ud800", id="half a character"),
            pytest.param(Any, [1], [1], id="anything"),
        ],
    )
    def test_what_was_written_is_read_as_it_was_meant(
        self, hint: Any, written: Any, meant: Any
    ) -> None:
        seen: list[Any] = []

        def function(value: Any) -> None:
            seen.append(value)

        function.__annotations__ = {"value": hint}
        assert call(function, value=written) == ToolOutput()
        assert seen == [meant]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            pytest.param(
                {"pth": "x"},
                "argument 'path': field required; unknown argument 'pth', did you mean 'path'?",
                id="a name mistyped",
            ),
            pytest.param({}, "argument 'path': field required", id="nothing"),
            pytest.param(
                {"path": 3},
                "argument 'path': input should be a valid string (got 3)",
                id="a number for a text",
            ),
            pytest.param(
                {"path": "x", "limit": "many"},
                "argument 'limit': input should be a valid integer, unable to parse string"
                " as an integer (got 'many')",
                id="a word for a number",
            ),
            pytest.param(
                {"path": "x", "Limit": 3},
                "unknown argument 'Limit', did you mean 'limit'?",
                id="a name in capitals",
            ),
            pytest.param(
                {"path": "x", "zzz": 3},
                "unknown argument 'zzz'; there are limit",
                id="a name like no other",
            ),
            pytest.param(
                {"path": None},
                "argument 'path': input should be a valid string (got null)",
                id="null",
            ),
            pytest.param(
                {"path": ["y" * 100]},
                f"argument 'path': input should be a valid string (got [\"{'y' * 55}...)",
                id="a long value is shown in short",
            ),
        ],
    )
    def test_what_is_wrong_is_said_in_words(self, arguments: dict[str, Any], words: str) -> None:
        assert call(read, **arguments) == ToolOutput(result=words, is_error=True)

    @pytest.mark.parametrize(
        ("hint", "written", "words"),
        [
            pytest.param(
                list[Point],
                [{"x": 1}, {"y": "q"}],
                "argument 'value[1].x': field required; argument 'value[1].y': input should be"
                " a valid integer, unable to parse string as an integer (got 'q')",
                id="in a list of objects",
            ),
            pytest.param(
                int | list[int],
                "x",
                "argument 'value': input should be a valid integer, unable to parse string as an"
                " integer or input should be a valid list (got 'x')",
                id="every branch of a union at once",
            ),
            pytest.param(
                Annotated[int, Field(ge=1)],
                0,
                "argument 'value': input should be greater than or equal to 1 (got 0)",
                id="a constraint",
            ),
            pytest.param(
                Colour, "blue", "argument 'value': input should be 'red' (got 'blue')", id="an enum"
            ),
            pytest.param(
                dict[str, int],
                {"a": 1, "b": "x"},
                "argument 'value.b': input should be a valid integer, unable to parse string as"
                " an integer (got 'x')",
                id="in a dict",
            ),
            pytest.param(
                list[int],
                ["x"] * 9,
                "; ".join(
                    [
                        *(
                            f"argument 'value[{at}]': input should be a valid integer, unable to"
                            " parse string as an integer (got 'x')"
                            for at in range(6)
                        ),
                        "and 3 more",
                    ]
                ),
                id="a long list of problems is cut",
            ),
        ],
    )
    def test_where_it_is_wrong_is_said_too(self, hint: Any, written: Any, words: str) -> None:
        def function(value: Any) -> None: ...

        function.__annotations__ = {"value": hint}
        assert call(function, value=written) == ToolOutput(result=words, is_error=True)

    def test_a_validator_that_raises_is_an_error(self) -> None:
        def never(value: int) -> int:
            raise KeyError(value)

        def function(value: Annotated[int, AfterValidator(never)]) -> None: ...

        function.__annotations__ = {"value": Annotated[int, AfterValidator(never)]}
        assert call(function, value=3) == ToolOutput(result="KeyError: 3", is_error=True)

    def test_arguments_that_are_no_object_are_an_error(self) -> None:
        wrong: Any = [1]
        assert asyncio.run(FunctionTool(read).call(wrong)).is_error

    def test_what_the_function_does_to_them_is_not_seen_outside(self) -> None:
        @tool
        def spoil(rows: Any) -> str:
            rows.append("spoilt")
            return "done"

        given = {"rows": [1]}
        assert asyncio.run(spoil.call(given)).result == "done"
        assert given == {"rows": [1]}

    def test_every_kind_of_parameter_is_filled(self) -> None:
        def function(
            a: int, b: int = 2, /, c: int = 3, *, d: int, e: int = Field(5), f: Any = None
        ) -> list[Any]:
            return [a, b, c, d, e, f]

        assert call(function, a=1, d=4).result == [1, 2, 3, 4, 5, None]
        assert call(function, a="1", b="0", c="0", d="0", e="0", f=0).result == [1, 0, 0, 0, 0, 0]

    def test_a_default_made_by_a_factory_is_made_for_each_call(self) -> None:
        made = FunctionTool(appended)
        assert [call(made).result, call(made).result] == [[1], [1]]

    @pytest.mark.parametrize(
        "name", ["schema", "copy", "json", "model_config", "_x", "self_", "class_"]
    )
    def test_no_name_of_a_parameter_is_special(self, name: str) -> None:
        names: dict[str, Any] = {}
        exec(f"def function({name}: int): return {name}", names)  # noqa: S102 -- a name at run time
        assert call(names["function"], **{name: "3"}).result == 3


class TestContext:
    def test_it_is_filled_in(self) -> None:
        @tool
        def who(a: int, context: ToolContext, other: ToolContext | None = None) -> list[Any]:
            return [a, context.agent_id, context.call_id, context is other]

        async def run() -> ToolOutput:
            with calling(ToolContext(session_id="s", agent_id="child", call_id="c1", turn=4)):
                return await who.call({"a": 1})

        assert asyncio.run(run()).result == [1, "child", "c1", True]

    def test_it_may_be_positional(self) -> None:
        def who(context: ToolContext, /, a: int) -> list[Any]:
            return [context.agent_id, a]

        assert call(who, a=1).result == ["main", 1]

    def test_a_model_cannot_fill_it_in(self) -> None:
        @tool
        def who(context: ToolContext) -> str:
            return context.agent_id

        output = call(who, context={"agent_id": "root"})
        assert output.result == "unknown argument 'context'; there are none"

    def test_outside_of_a_call_it_says_nothing(self) -> None:
        assert current_context() == ToolContext()
        with calling(ToolContext(turn=2)):
            assert current_context().turn == 2
        assert current_context().turn == 0


VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


class TestWhereItRuns:
    def test_a_plain_function_runs_beside_the_loop_with_its_context_variables(self) -> None:
        def function() -> list[Any]:
            seen = VARIABLE.get()
            VARIABLE.set("changed")
            return [seen, threading.current_thread() is threading.main_thread()]

        async def run() -> tuple[Any, str]:
            VARIABLE.set("set")
            output = await FunctionTool(function).call({})
            return output.result, VARIABLE.get()

        assert asyncio.run(run()) == (["set", False], "set")

    def test_the_loop_goes_on_meanwhile(self) -> None:
        release = threading.Event()

        def blocked() -> str:
            release.wait()
            return "released"

        async def run() -> Any:
            call = asyncio.create_task(FunctionTool(blocked).call({}))
            await asyncio.sleep(0)
            release.set()
            return (await call).result

        assert asyncio.run(run()) == "released"

    def test_more_calls_than_a_pool_has_threads_run_at_once(self) -> None:
        together = threading.Barrier(100)

        def meet() -> int:
            return together.wait() * 0

        async def run() -> list[ToolOutput]:
            return await asyncio.gather(*(FunctionTool(meet).call({}) for _ in range(100)))

        assert {output.result for output in asyncio.run(run())} == {0}

    def test_a_function_that_never_ends_holds_up_nobody(self) -> None:
        release = threading.Event()
        ended = threading.Event()

        def hang() -> None:
            release.wait()
            ended.set()

        async def run() -> None:
            async with asyncio.timeout(0.01):
                await FunctionTool(hang).call({})

        with pytest.raises(TimeoutError):
            asyncio.run(run())
        # The loop is closed by now, and nobody waits for what it says.
        release.set()
        assert ended.wait(10)

    def test_an_async_function_runs_in_the_loop(self) -> None:
        async def function(a: int) -> bool:
            await asyncio.sleep(0)
            return threading.current_thread() is threading.main_thread()

        assert call(function, a=1).result is True

    def test_an_async_object_runs_in_the_loop(self) -> None:
        class Asynchronous:
            async def __call__(self, a: int) -> int:
                return a + 1

        assert call(FunctionTool(Asynchronous(), name="a"), a=1).result == 2

    def test_what_a_plain_function_promises_is_awaited(self) -> None:
        async def later(a: int) -> int:
            return a + 1

        assert call(FunctionTool(lambda a: later(a), name="later"), a=1).result == 2  # noqa: PLW0108 -- no coroutine function


class OddError(Exception):
    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException, *, is_async: bool) -> FunctionTool:
    def function() -> None:
        raise error

    async def async_function() -> None:
        raise error

    return FunctionTool(async_function if is_async else function)


class TestWhatIsRaised:
    @pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
    @pytest.mark.parametrize(
        ("error", "words"),
        [
            pytest.param(ValueError("no such row"), "ValueError: no such row", id="an error"),
            pytest.param(RuntimeError(), "RuntimeError", id="an error without words"),
            pytest.param(UsageError("a", hint="b"), "UsageError: a (b)", id="one of ours"),
            pytest.param(TimeoutError(), "TimeoutError", id="a time-out of its own"),
            pytest.param(SystemExit(2), "SystemExit: 2", id="an exit"),
            pytest.param(ValueError("\ud800"), "ValueError: \ufffd", id="half a character"),
        ],
    )
    def test_the_model_reads_it(self, error: BaseException, words: str, *, is_async: bool) -> None:
        output = call(raising(error, is_async=is_async))
        assert output == ToolOutput(result=words, is_error=True)

    @pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
    @pytest.mark.parametrize("error", [StopIteration(3), StopAsyncIteration()], ids=repr)
    def test_the_end_of_an_iterator_does_not_hang(
        self, error: BaseException, *, is_async: bool
    ) -> None:
        output = call(raising(error, is_async=is_async))
        assert output.is_error
        assert type(error).__name__ in output.result

    def test_an_error_without_a_readable_text(self) -> None:
        output = call(raising(OddError(), is_async=False))
        assert output.is_error
        assert output.result.startswith("OddError: <")

    @pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
    def test_an_interruption_is_not_swallowed(self, *, is_async: bool) -> None:
        with pytest.raises(KeyboardInterrupt):
            call(raising(KeyboardInterrupt(), is_async=is_async))

    @pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
    def test_a_cancellation_is_not_swallowed(self, *, is_async: bool) -> None:
        with pytest.raises(asyncio.CancelledError):
            call(raising(asyncio.CancelledError(), is_async=is_async))

    def test_a_model_that_does_not_fit_inside_the_function_is_an_error_like_others(self) -> None:
        def function() -> None:
            with pytest.raises(ValidationError) as told:
                Node.model_validate({})
            raise told.value

        assert call(function).result.startswith("ValidationError: 1 validation error for Node")


def test_an_output_passes_through() -> None:
    given = ToolOutput(result="no", is_error=True, attachments=(Media("image/png", b"1"),))
    assert call(lambda_named(lambda: given)) == given


def lambda_named(function: Callable[[], Any]) -> FunctionTool:
    return FunctionTool(function, name="function")


def needing_other(path: str, other: str) -> None: ...


def needing_limit(path: str, limit: int) -> None: ...


def without_limit(path: str, x: int = 1) -> None: ...


def whole(arguments: Any) -> None: ...


class TestGivenSchema:
    SCHEMA = {  # noqa: RUF012 -- read only
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "default": 3},
            "mode": {"enum": ["r", "w"]},
        },
        "required": ["path"],
    }

    def tool(self, function: Callable[..., Any], **schema: Any) -> FunctionTool:
        return FunctionTool(function, name="read", parameters={**self.SCHEMA, **schema})

    def test_it_is_what_the_model_sees(self) -> None:
        def function(path: str, limit: int = 3, mode: str = "r") -> str:
            """Read a file,
            or a part.

            Args:
                path: Where.
            """
            return f"{path} {limit} {mode}"

        made = self.tool(function)
        assert made.schema.parameters == self.SCHEMA
        assert made.schema.description == "Read a file, or a part."
        assert call(made, path="a").result == "a 3 r"
        assert call(made, path="a", limit="4").result == "a 4 r"
        assert call(made, path="a", limit=4.0).result == "a 4 r"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            pytest.param({}, "argument 'path': field required", id="nothing"),
            pytest.param(
                {"path": 1}, "argument 'path': input should be string (got 1)", id="a number"
            ),
            pytest.param(
                {"path": "a", "limit": True},
                "argument 'limit': input should be integer (got true)",
                id="a truth is no integer",
            ),
            pytest.param(
                {"path": "a", "limit": "x"},
                "argument 'limit': input should be integer (got 'x')",
                id="a word",
            ),
            pytest.param(
                {"path": "a", "mode": "x"},
                "argument 'mode': input should be one of [\"r\", \"w\"] (got 'x')",
                id="none of the values",
            ),
            pytest.param(
                {"path": "a", "Path": "b"},
                "unknown argument 'Path', did you mean 'path'?",
                id="a name mistyped",
            ),
        ],
    )
    def test_what_is_wrong_is_said_in_words(self, arguments: dict[str, Any], words: str) -> None:
        def function(path: str, limit: int = 3, mode: str = "r") -> None: ...

        output = call(self.tool(function), **arguments)
        assert output == ToolOutput(result=words, is_error=True)

    def test_a_function_may_take_everything_by_name(self) -> None:
        made = self.tool(lambda **everything: everything)
        assert call(made, path="a", new=[1]).result == {"path": "a", "new": [1]}
        closed = self.tool(lambda **everything: everything, additionalProperties=False)
        assert call(closed, path="a", new=[1]).is_error

    def test_a_function_may_take_everything_as_one(self) -> None:
        made = self.tool(lambda arguments: arguments)
        assert call(made, path="a", new=1).result == {"path": "a", "new": 1}

    def test_a_function_may_take_everything_as_one_with_its_context(self) -> None:
        def function(arguments: Any, context: ToolContext) -> list[Any]:
            return [arguments, context.agent_id]

        assert call(self.tool(function), path="a").result == [{"path": "a"}, "main"]

    def test_a_function_that_does_not_tell_what_it_takes(self) -> None:
        made = FunctionTool(
            dict, parameters={"type": "object", "properties": {"a": {"type": "integer"}}}
        )
        assert call(made, a=1).result == {"a": 1}

    @pytest.mark.parametrize(
        ("function", "parameters", "fact"),
        [
            pytest.param(needing_other, SCHEMA, "needs 'other', which its schema lacks", id="more"),
            pytest.param(needing_limit, SCHEMA, "needs 'limit', and its schema", id="optional"),
            pytest.param(without_limit, SCHEMA, "takes no 'limit'", id="less"),
            pytest.param(whole, {"type": "array"}, "no JSON schema of an object", id="list"),
            pytest.param(
                whole, {"properties": [1]}, "no JSON schema of an object", id="properties"
            ),
        ],
    )
    def test_a_function_that_its_schema_does_not_fit_is_refused(
        self, function: Callable[..., Any], parameters: dict[str, Any], fact: str
    ) -> None:
        with pytest.raises(UsageError, match=fact) as told:
            FunctionTool(function, name="read", parameters=parameters)
        assert told.value.hint
