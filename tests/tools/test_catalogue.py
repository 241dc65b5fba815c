"""The tools of a session: what is offered, what is found, and calls by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.errors import UsageError
from jaato.exchange import ToolOutput, ToolSchema
from jaato.ports import Tool
from jaato.testing import WordCounter
from jaato.tools import (
    FIND_TOOLS,
    Catalogue,
    FindTools,
    FunctionTool,
    ToolContext,
    current_context,
    tool,
)


def named(name: str, *, discoverable: bool = False, description: str = "") -> FunctionTool:
    def function(value: int = 0) -> str:
        return f"{name} {value}"

    return FunctionTool(function, name=name, description=description, discoverable=discoverable)


def core(*names: str) -> list[Tool]:
    return [named(name) for name in names]


def found(*names: str) -> list[Tool]:
    return [named(name, discoverable=True) for name in names]


def offered(catalogue: Catalogue) -> str:
    return " ".join(schema.name for schema in catalogue.offered())


def call(catalogue: Catalogue, name: str, /, **arguments: Any) -> ToolOutput:
    return asyncio.run(catalogue.call(name, arguments))


class TestOffered:
    def test_core_tools_in_order(self) -> None:
        assert offered(Catalogue(core("b", "a"))) == "b a"

    def test_an_empty_catalogue_offers_nothing(self) -> None:
        catalogue = Catalogue()
        assert catalogue.offered() == ()
        assert len(catalogue) == 0
        assert FIND_TOOLS not in catalogue

    def test_discoverable_tools_come_behind_with_the_tool_that_finds_them(self) -> None:
        catalogue = Catalogue([*found("x"), *core("a"), *found("y")])
        assert offered(catalogue) == "a find_tools x y"
        assert catalogue.names == ("a", "find_tools", "x", "y")
        assert (catalogue.discoverable, catalogue.loaded) == (("x", "y"), ("x", "y"))

    def test_they_may_wait_to_be_found(self) -> None:
        catalogue = Catalogue([*core("a"), *found("x", "y")], loaded=False)
        assert offered(catalogue) == "a find_tools"
        assert catalogue.load(["y"]) == ("y",)
        assert offered(catalogue) == "a find_tools y"

    def test_what_comes_back_comes_last(self) -> None:
        catalogue = Catalogue([*core("a"), *found("x", "y", "z")])
        assert catalogue.unload(["x"]) == ("x",)
        assert offered(catalogue) == "a find_tools y z"
        assert catalogue.load(["x", "y"]) == ("x",)
        assert offered(catalogue) == "a find_tools y z x"

    def test_core_tools_and_strangers_cannot_be_unloaded_or_loaded(self) -> None:
        catalogue = Catalogue([*core("a"), *found("x")])
        assert catalogue.unload(["a", "find_tools", "zzz"]) == ()
        assert catalogue.load(["a", "find_tools", "zzz"]) == ()
        assert offered(catalogue) == "a find_tools x"


class TestNames:
    @pytest.mark.parametrize(
        ("tools", "fact", "hint"),
        [
            pytest.param(core("a", "b", "a"), "two tools are named 'a'", "prefix", id="twice"),
            pytest.param(
                [*core("a"), *found("a")], "two tools are named 'a'", "name=", id="of two kinds"
            ),
            pytest.param(
                core("find_tools"), "named 'find_tools'", "the catalogue's own", id="reserved"
            ),
        ],
    )
    def test_a_name_that_is_taken_is_refused(
        self, tools: Sequence[Tool], fact: str, hint: str
    ) -> None:
        with pytest.raises(UsageError, match=fact) as told:
            Catalogue(tools)
        assert hint in (told.value.hint or "")

    def test_a_refusal_changes_nothing(self) -> None:
        catalogue = Catalogue(core("a"))
        with pytest.raises(UsageError):
            catalogue.add(*core("b", "a"))
        assert catalogue.names == ("a",)

    def test_a_tool_is_got_by_its_name(self) -> None:
        (one,) = core("a")
        catalogue = Catalogue([one])
        assert catalogue.get("a") is one
        assert catalogue.get("b") is None
        assert "a" in catalogue
        assert isinstance(Catalogue(found("x")).get(FIND_TOOLS), FindTools)


class TestRenewal:
    def test_what_stays_keeps_its_place_and_what_is_new_comes_last(self) -> None:
        before = found("x", "y", "z")
        catalogue = Catalogue([*core("a"), *before])
        catalogue.unload(["x"])
        after = found("w", "z", "x")
        catalogue.renew(before, after)
        assert offered(catalogue) == "a find_tools z w"
        assert catalogue.get("x") is after[2]
        assert catalogue.get("y") is None

    def test_new_tools_wait_where_tools_wait(self) -> None:
        before = found("x")
        catalogue = Catalogue(before, loaded=False)
        catalogue.renew(before, found("x", "y"))
        assert catalogue.loaded == ()
        assert catalogue.discoverable == ("x", "y")

    def test_a_tool_may_become_discoverable_and_stays_in_the_request(self) -> None:
        before = core("x")
        catalogue = Catalogue(before)
        catalogue.renew(before, found("x"))
        assert offered(catalogue) == "find_tools x"

    def test_a_tool_may_become_core(self) -> None:
        before = found("x", "y")
        catalogue = Catalogue(before)
        catalogue.renew(before, [*core("x"), before[1]])
        assert offered(catalogue) == "x find_tools y"

    def test_a_name_of_somebody_else_is_not_taken_over(self) -> None:
        mine, theirs = core("x"), core("x")
        catalogue = Catalogue(mine)
        with pytest.raises(UsageError, match="two tools are named 'x'"):
            catalogue.renew((), theirs)
        catalogue.renew(theirs, ())
        assert catalogue.get("x") is mine[0]

    def test_the_last_discoverable_tool_takes_the_finder_along(self) -> None:
        tools = found("x")
        catalogue = Catalogue([*core("a"), *tools])
        catalogue.remove(*tools)
        assert offered(catalogue) == "a"
        assert catalogue.loaded == ()


class Plain:
    """A tool by somebody else, which is no gentleman."""

    discoverable = False

    def __init__(self, answer: Any, timeout: float | None = None) -> None:
        self.answer = answer
        self.timeout = timeout
        self.schema = ToolSchema(name="plain")

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer == "wait":
            await asyncio.Event().wait()
        result: ToolOutput = self.answer
        return result


class TestCalls:
    def test_a_tool_by_its_name(self) -> None:
        assert call(Catalogue(core("a", "b")), "b", value="3") == ToolOutput(result="b 3")

    def test_a_tool_that_is_not_loaded_is_loaded_and_called(self) -> None:
        catalogue = Catalogue(found("x", "y"), loaded=False)
        assert call(catalogue, "y") == ToolOutput(result="y 0")
        assert catalogue.loaded == ("y",)

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            pytest.param(
                "readfile", "no tool named 'readfile', did you mean 'read_file'?", id="nearly"
            ),
            pytest.param(
                "functions.read_file",
                "no tool named 'functions.read_file', did you mean 'read_file'?",
                id="with a prefix",
            ),
            pytest.param(
                "zzz",
                "no tool named 'zzz'; there are read_file, find_tools",
                id="like no other: what is loaded is told",
            ),
            pytest.param("", "no tool named ''; there are read_file, find_tools", id="empty"),
        ],
    )
    def test_an_unknown_name_is_an_error_that_helps(self, name: str, words: str) -> None:
        catalogue = Catalogue([*core("read_file"), *found("hidden")], loaded=False)
        assert call(catalogue, name) == ToolOutput(result=words, is_error=True)

    def test_without_any_tool_there_are_none(self) -> None:
        output = call(Catalogue(), "x")
        assert output == ToolOutput(result="no tool named 'x'; there are none", is_error=True)

    @pytest.mark.parametrize(
        ("own", "of_session", "seconds"),
        [
            pytest.param(0.01, None, "0.01", id="the tool's"),
            pytest.param(None, 0.02, "0.02", id="the session's"),
            pytest.param(0.01, 60.0, "0.01", id="the tool's comes first"),
        ],
    )
    def test_a_call_that_takes_too_long_is_given_up(
        self, own: float | None, of_session: float | None, seconds: str
    ) -> None:
        catalogue = Catalogue([Plain("wait", own)])
        output = asyncio.run(catalogue.call("plain", {}, timeout=of_session))
        assert output == ToolOutput(result=f"timed out after {seconds} s", is_error=True)

    @pytest.mark.parametrize(
        ("answer", "output"),
        [
            pytest.param(
                ValueError("no"), ToolOutput(result="ValueError: no", is_error=True), id="an error"
            ),
            pytest.param(
                TimeoutError("slow"),
                ToolOutput(result="TimeoutError: slow", is_error=True),
                id="a time-out of its own",
            ),
            pytest.param(
                SystemExit(1), ToolOutput(result="SystemExit: 1", is_error=True), id="an exit"
            ),
            pytest.param({"a": 1}, ToolOutput(result={"a": 1}), id="what is no output"),
        ],
    )
    def test_whatever_a_tool_does_there_is_an_output(self, answer: Any, output: ToolOutput) -> None:
        catalogue = Catalogue([Plain(answer)])
        assert asyncio.run(catalogue.call("plain", {}, timeout=60)) == output

    @pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
    def test_who_wants_it_to_stop_is_heard(self, error: type[BaseException]) -> None:
        with pytest.raises(error):
            call(Catalogue([Plain(error())]), "plain")

    def test_a_cancelled_call_is_cancelled(self) -> None:
        async def run() -> bool:
            task = asyncio.create_task(Catalogue([Plain("wait")]).call("plain", {}, timeout=60))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert asyncio.run(run())

    def test_the_context_is_that_of_the_call(self) -> None:
        @tool
        def who(context: ToolContext) -> list[Any]:
            return [context.call_id, current_context().turn]

        async def run() -> tuple[Any, ToolContext]:
            catalogue = Catalogue([who])
            output = await catalogue.call("who", {}, context=ToolContext(call_id="c", turn=2))
            return output.result, current_context()

        assert asyncio.run(run()) == (["c", 2], ToolContext())


class TestTokens:
    def test_every_schema_is_counted_as_it_is_sent(self) -> None:
        catalogue = Catalogue([*core("a"), *found("x", "y")], loaded=False)
        counter = WordCounter()
        tokens = catalogue.schema_tokens(counter)
        assert list(tokens) == ["a", "find_tools", "x", "y"]
        assert all(tokens.values())

    def test_a_schema_of_any_mapping_is_counted(self) -> None:
        class Foreign(Plain):
            def __init__(self) -> None:
                super().__init__(None)
                properties = Catalogue.__dict__  # a mapping that is no dict
                self.schema = ToolSchema(name="plain", parameters={"x": properties, "y": {1}})

        assert Catalogue([Foreign()]).schema_tokens(WordCounter())["plain"] > 0


class TestFindTools:
    def tools(self) -> list[Tool]:
        @tool(discoverable=True)
        def send_email(to: str, subject: str = "", copies: int | None = None) -> None:
            """Send a message.

            To somebody.
            """

        @tool(discoverable=True)
        def read_mailbox(folder: str) -> None:
            """Read the messages in a folder."""

        @tool(discoverable=True)
        def resize() -> None: ...

        return [*core("read_file"), send_email, read_mailbox, resize]

    def test_it_finds_and_loads_and_says_what_it_found(self) -> None:
        catalogue = Catalogue(self.tools(), loaded=False)
        output = call(catalogue, FIND_TOOLS, query="email message")
        assert output == ToolOutput(
            result="These tools can be called now:\n"
            "- send_email(to: string, subject?: string, copies?: integer):"
            " Send a message. To somebody.\n"
            "- read_mailbox(folder: string): Read the messages in a folder."
        )
        assert offered(catalogue) == "read_file find_tools send_email read_mailbox"

    def test_it_finds_no_more_than_it_is_asked_for(self) -> None:
        catalogue = Catalogue(self.tools(), loaded=False)
        assert call(catalogue, FIND_TOOLS, query="email message", limit="1").result == (
            "These tools can be called now:\n"
            "- send_email(to: string, subject?: string, copies?: integer):"
            " Send a message. To somebody."
        )
        assert catalogue.loaded == ("send_email",)

    def test_a_tool_without_words_is_told_by_its_name(self) -> None:
        catalogue = Catalogue(self.tools(), loaded=False)
        assert call(catalogue, FIND_TOOLS, query="resizing").result.endswith("\n- resize()")

    def test_a_core_tool_is_not_found_because_it_is_seen(self) -> None:
        catalogue = Catalogue(self.tools(), loaded=False)
        result = call(catalogue, FIND_TOOLS, query="file").result
        assert result == "No tool fits 'file'. There are read_mailbox, resize, send_email."

    def test_what_is_there_is_not_listed_without_end(self) -> None:
        catalogue = Catalogue(found(*(f"tool{n:03}" for n in range(60))), loaded=False)
        result = call(catalogue, FIND_TOOLS, query="qqq").result
        assert result.endswith("tool048, tool049 and 10 more.")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            pytest.param({}, "argument 'query': field required", id="no query"),
            pytest.param(
                {"query": "x", "limit": 0},
                "argument 'limit': input should be 1 or more (got 0)",
                id="no room",
            ),
            pytest.param(
                {"search": "x"},
                "argument 'query': field required;"
                " unknown argument 'search'; there are query, limit",
                id="another name",
            ),
        ],
    )
    def test_bad_arguments_are_an_error(self, arguments: dict[str, Any], words: str) -> None:
        catalogue = Catalogue(self.tools())
        assert call(catalogue, FIND_TOOLS, **arguments) == ToolOutput(result=words, is_error=True)

    def test_it_is_a_tool_on_its_own(self) -> None:
        finder = FindTools(Catalogue(core("a")))
        assert isinstance(finder, Tool)
        output = asyncio.run(finder.call({"query": "a"}))
        assert output.result == "There are no tools to find."

    def test_types_are_told_in_short(self) -> None:
        parameters = {
            "properties": {
                "mode": {"enum": ["r", "w"]},
                "many": {"anyOf": [{"type": "string"}, {"type": "array"}, {"type": "null"}]},
                "any": {},
                "odd": True,
            }
        }
        odd = FunctionTool(
            dict, name="odd", description="", parameters=parameters, discoverable=True
        )
        catalogue = Catalogue([odd])
        result = call(catalogue, FIND_TOOLS, query="odd").result
        assert result.endswith("- odd(mode?: 'r' | 'w', many?: string | array, any?, odd?)")


NAMES = tuple("abcdefgh")
name_lists = st.lists(st.sampled_from([*NAMES, FIND_TOOLS, "stranger"]), max_size=5)
steps = st.one_of(
    st.tuples(st.just("load"), name_lists),
    st.tuples(st.just("unload"), name_lists),
    st.tuples(st.just("find"), st.sampled_from([*NAMES, "tool", "nothing"])),
    st.tuples(st.just("call"), st.sampled_from(NAMES)),
)


@settings(max_examples=100)
@given(
    kinds=st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)),
    loaded=st.booleans(),
    story=st.lists(steps, max_size=12),
)
def test_nothing_is_lost_or_doubled_and_the_order_is_stable(
    kinds: list[bool],
    loaded: bool,
    story: list[tuple[str, Any]],
) -> None:
    catalogue = Catalogue(
        (
            named(name, discoverable=is_found, description=f"The tool {name}.")
            for name, is_found in zip(NAMES, kinds, strict=True)
        ),
        loaded=loaded,
    )
    everything = catalogue.names
    fixed = [name for name, is_found in zip(NAMES, kinds, strict=True) if not is_found]
    fixed += [FIND_TOOLS] if any(kinds) else []

    async def tell() -> None:
        before = offered(catalogue).split()
        for action, what in story:
            match action:
                case "load":
                    catalogue.load(what)
                case "unload":
                    catalogue.unload(what)
                case "find":
                    await catalogue.call(FIND_TOOLS, {"query": what, "limit": 3})
                case "call":
                    output = await catalogue.call(what, {})
                    assert output == ToolOutput(result=f"{what} 0")
                case _:
                    raise AssertionError(action)
            after = offered(catalogue).split()
            assert after == [*fixed, *catalogue.loaded]
            assert len(set(after)) == len(after)
            assert set(after) <= set(everything)
            # What stays keeps its order, and what comes is appended.
            stayed = [name for name in before if name in after]
            assert after[: len(stayed)] == stayed
            if action != "unload":
                assert stayed == before
            before = after
        assert catalogue.names == everything
        assert set(catalogue.discoverable) == set(everything) - set(fixed)

    asyncio.run(tell())


@settings(max_examples=40)
@given(
    first=st.lists(st.sampled_from(NAMES), unique=True),
    second=st.lists(st.sampled_from(NAMES), unique=True),
    hidden=name_lists,
)
def test_a_renewal_leaves_what_it_was_given(
    first: list[str], second: list[str], hidden: list[str]
) -> None:
    other = named("other")
    before, after = found(*first), found(*second)
    catalogue = Catalogue([*before, other])
    catalogue.unload(hidden)
    visible = [name for name in catalogue.loaded if name in second]
    catalogue.renew(before, after)
    assert set(catalogue.discoverable) == set(second)
    assert all(catalogue.get(one.schema.name) is one for one in after)
    assert catalogue.get("other") is other
    # Those that stayed are as they were; new ones come behind them.
    fresh = [name for name in second if name not in first]
    assert list(catalogue.loaded) == [*visible, *fresh]


def test_the_schemas_are_json() -> None:
    catalogue = Catalogue([*core("a"), *found("x")])
    for schema in catalogue.offered():
        json.dumps(schema.parameters)
