"""`recall`: what the model gets back, by handle, words, file and turn; and what it is told else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.agents import opened, steps_of_turn
from tests.session.operations import COUNTER, fresh
from tests.session.shelf import Watched

from jaato.exchange import Request, ToolOutput
from jaato.gc.config import GCConfig
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.history.codec import to_dict
from jaato.kept import Record, StashError, StashUnavailableError
from jaato.ports import Stash
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.emitter import Emitter
from jaato.session.keeping import Keeper
from jaato.session.leaving import WHOLE
from jaato.session.recall import MOST_FOUND, PAGE_CHARS, RecallTool
from jaato.session.runtime import JaatoRuntime
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash
from jaato.tools.results import output_of
from jaato.wiring import make_provider

PIXEL = Media("image/png", b"\x89PNG", "pixel.png")
NEXT = re.compile(r"\n\[[\d,]+ characters more: offset=(\d+)\]$")


class Desk:
    """The tool of a session `s`, with a stash that has something of it and something of another."""

    def __init__(self, stash: Stash | None = None, largest: int = 2_000) -> None:
        self.state, _ = fresh()
        self.stash = stash
        keeper = Keeper(self.state, Emitter("main"), lambda: self.stash, GCConfig)
        self.tool = RecallTool(
            keeper, COUNTER, lambda: largest, session_id="s", can_search=stash is not None
        )

    def put(self, text: str, **about: Any) -> str:
        assert self.stash is not None
        return self.stash.put([Record(text=text, **{"session": "s", "type": "result", **about})])[0]

    def ask(self, **arguments: Any) -> ToolOutput:
        return asyncio.run(self.tool.call(arguments))

    def refused(self, **arguments: Any) -> str:
        output = self.ask(**arguments)
        assert output.is_error
        return str(output.result)

    def read(self, **arguments: Any) -> str:
        output = self.ask(**arguments)
        assert not output.is_error, output.result
        return str(output.result)

    def handles(self, **arguments: Any) -> list[str]:
        return re.findall(r'^recall\("([\w.-]+)"\): ', self.read(**arguments), re.MULTILINE)


def filled() -> tuple[Desk, dict[str, str]]:
    desk = Desk(MemoryStash())
    cart = {"files": ("src/shop/cart.py",), "tool": "read"}
    log = {"tool": "run", "label": "run: the log"}
    return desk, {
        "cart": desk.put("def total(prices): ...", turn=1, **cart),
        "cart2": desk.put("def total(prices): return sum(prices)", turn=3, tokens=9, **cart),
        "log": desk.put("connection refused on port 8080", turn=3, **log),
        "said": desk.put("please use tabs, not spaces", type="message", turn=0),
        "other": desk.put("def total(prices): other", session="x", turn=1, **cart),
    }


# By handle


def test_a_handle_brings_the_whole_text() -> None:
    desk, there = filled()
    assert desk.read(handle=there["log"]) == "connection refused on port 8080"
    assert desk.read(handle=f"  {there['log']}\n") == "connection refused on port 8080"
    # A handle is enough to be given a text: a parent reads what its child kept.
    assert desk.read(handle=there["other"]) == "def total(prices): other"


def test_a_handle_comes_before_everything_else() -> None:
    desk, there = filled()
    assert desk.read(handle=there["log"], query="tabs", turn=0, file="x") == desk.read(
        handle=there["log"]
    )


@given(
    text=st.text(alphabet="ab \n世🌍\ud800", min_size=1)
    | st.integers(1, 30_000).map("word ".__mul__),
    largest=st.sampled_from([1, 10, 64, 500, 100_000]),
)
@settings(deadline=None, max_examples=60)
def test_pages_join_to_the_whole_text(text: str, largest: int) -> None:
    desk = Desk(MemoryStash(), largest)
    handle = desk.put(text)
    pages, offset = [], 0
    while True:
        page = desk.read(handle=handle, offset=offset)
        assert len(page) <= PAGE_CHARS + 60
        assert COUNTER.count_texts([page])[0] <= max(largest, 40)
        more = NEXT.search(page)
        # A text may look as if it went on; the last page is known by its length.
        if more is None or int(more[1]) <= offset:
            pages.append(page)
            break
        pages.append(page[: more.start()])
        offset = int(more[1])
        if len(pages) > 60:
            return
    assert "".join(pages) == text


def test_an_offset_behind_the_end_is_told() -> None:
    desk = Desk(MemoryStash())
    handle = desk.put("short")
    assert "only 5 characters" in desk.refused(handle=handle, offset=5)
    assert desk.read(handle=handle, offset=4) == "t"
    assert desk.read(handle=handle, offset=-3) == "short"


@pytest.mark.parametrize("part", ["a result", "a prompt"])
def test_attachments_come_back_with_the_first_page(part: str) -> None:
    desk = Desk(MemoryStash())
    result = ToolResult("c", "look", "w " * 9_000, attachments=(PIXEL,))
    message = (
        Message(Role.TOOL, [Part(function_response=result)])
        if part == "a result"
        else Message(Role.USER, [Part(text="look"), Part(inline_data=PIXEL)])
    )
    handle = desk.put("w " * 9_000, extra={WHOLE: to_dict(message)})
    assert desk.ask(handle=handle).attachments == (PIXEL,)
    assert desk.ask(handle=handle, offset=500).attachments == ()


@pytest.mark.parametrize("extra", [{}, {WHOLE: "x"}, {WHOLE: {}}, {WHOLE: {"role": "no"}},
                                   {WHOLE: {"role": "user", "parts": 7}}])  # fmt: skip
def test_what_others_keep_has_a_text_at_least(extra: dict[str, Any]) -> None:
    desk = Desk(MemoryStash())
    output = desk.ask(handle=desk.put("imported", extra=extra))
    assert (output.result, output.attachments, output.is_error) == ("imported", (), False)


# By words, file and turn


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"query": "total prices"}, {"cart", "cart2"}, id="words"),
        pytest.param({"file": "cart.py"}, {"cart", "cart2"}, id="the end of a path"),
        pytest.param({"file": "src/"}, {"cart", "cart2"}, id="a folder"),
        pytest.param({"turn": 3}, {"cart2", "log"}, id="a turn"),
        pytest.param({"query": "total", "file": "cart.py", "turn": None}, {"cart", "cart2"},
                     id="words in a file"),
        pytest.param({"query": "", "file": " ", "turn": 3, "handle": ""}, {"cart2", "log"},
                     id="empty texts are none"),
        pytest.param({"file": " cart.py "}, {"cart", "cart2"}, id="blanks around a path"),
    ],
)  # fmt: skip
def test_what_is_found_is_listed(asked: dict[str, Any], found: set[str]) -> None:
    desk, there = filled()
    assert set(desk.handles(**asked)) == {there[one] for one in found}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param({"query": "refused port"}, "connection refused on port 8080", id="words"),
        pytest.param({"turn": 0}, "please use tabs, not spaces", id="a turn, from 0"),
        pytest.param({"file": "cart.py", "turn": 1}, "def total(prices): ...", id="file and turn"),
        pytest.param({"query": "total", "turn": 3}, "def total(prices): return sum(prices)",
                     id="words in a turn"),
        pytest.param({"query": "total", "file": "cart.py", "turn": 3, "handle": "  "},
                     "def total(prices): return sum(prices)", id="all three, and a blank handle"),
    ],
)  # fmt: skip
def test_what_is_found_alone_is_brought_at_once(asked: dict[str, Any], text: str) -> None:
    desk, _ = filled()
    assert desk.read(**asked) == text


def test_a_line_of_a_list_says_what_it_is() -> None:
    desk, there = filled()
    first, second = desk.read(turn=3).split("\n")
    assert first == f'recall("{there["log"]}"): result, run, turn 3: run: the log'
    assert second.startswith(
        f'recall("{there["cart2"]}"): result, read, src/shop/cart.py, turn 3, 9 tokens'
    )


def test_a_list_is_limited_and_has_pages() -> None:
    desk = Desk(MemoryStash(), largest=60)
    handles = [desk.put(f"entry number_{at} of many", turn=1) for at in range(50)]
    found: list[str] = []
    offset = 0
    while offset >= 0:
        page = desk.read(turn=1, offset=offset)
        assert COUNTER.count_texts([page])[0] <= 60
        more = NEXT.search(page)
        found.append(page[: more.start()] if more else page)
        offset = int(more[1]) if more else -1
    assert re.findall(r'recall\("(\w+)"\)', "".join(found)) == handles[::-1]
    assert len(Desk.handles(Desk(desk.stash), query="number many")) == MOST_FOUND


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param({"handle": "k00000000"}, "nothing is kept under", id="an unknown handle"),
        pytest.param({"handle": "../../etc/passwd"}, "nothing is kept", id="what is no handle"),
        pytest.param({"handle": "x" * 10_000}, "nothing is kept under 'xxx", id="a very long one"),
        pytest.param({"query": "zebra"}, "nothing of that kind", id="no such words"),
        pytest.param({"turn": 99}, "nothing of that kind", id="no such turn"),
        pytest.param({"turn": -1}, "nothing of that kind", id="a turn before the first"),
        pytest.param({"turn": 2**80}, "", id="a turn beyond all numbers"),
        pytest.param({"file": "none.py"}, "nothing of that kind", id="no such file"),
        pytest.param({}, "one of 'handle', 'query', 'file' and 'turn'", id="nothing asked"),
        pytest.param({"query": "  ", "file": "", "handle": " "}, "one of 'handle'", id="blanks"),
        pytest.param({"handle": 7}, "'handle' is a text", id="a number for a handle"),
        pytest.param({"handle": ["a"]}, "'handle' is a text", id="a list for a handle"),
        pytest.param({"query": {"a": 1}}, "'query' is a text", id="an object for words"),
        pytest.param({"turn": "3"}, "'turn' is a whole number", id="a text for a turn"),
        pytest.param({"turn": True}, "'turn' is a whole number", id="a yes for a turn"),
        pytest.param({"handle": "x", "offset": 1.5}, "'offset' is a whole", id="half an offset"),
    ],
)
def test_what_cannot_be_given_is_told(asked: dict[str, Any], told: str) -> None:
    desk, _ = filled()
    assert told in desk.refused(**asked)


# Where it cannot be read


def test_a_damaged_record_is_called_one(tmp_path: Path) -> None:
    stash = FileStash(tmp_path / "stash")
    desk = Desk(stash)
    handle = desk.put("a secret about port 8080")
    path = tmp_path / "stash" / "stash.jsonl"
    path.write_bytes(path.read_bytes().replace(b"8080", b"9090"))
    assert "is damaged" in desk.refused(handle=handle)
    stash.close()


class Away(Watched):
    """A stash whose server is away."""

    def get(self, handle: str) -> Record:
        raise StashUnavailableError("no connection")


def test_a_stash_that_is_away_is_told_and_the_log_is_still_there() -> None:
    desk = Desk(Away())
    assert desk.refused(handle="k1") == "no connection"
    handle = desk.state.put("in the log")
    assert desk.read(handle=handle) == "in the log"


# Without a stash


def test_without_a_stash_only_handles_are_offered() -> None:
    bare, full = Desk(None).tool.schema.parameters, Desk(MemoryStash()).tool.schema.parameters
    assert set(bare["properties"]) == {"handle", "offset"}
    assert bare["required"] == ["handle"]
    assert set(full["properties"]) == {"handle", "offset", "query", "file", "turn"}
    assert full["required"] == []
    desk = Desk(None)
    handle = desk.state.put("in the log")
    assert desk.read(handle=handle) == "in the log"
    assert "give the handle" in desk.refused(query="log")
    assert json.dumps(bare)


# In a session


def session_of(stash: Stash | None, script: Callable[[Request], Reply], **more: Any) -> Any:
    runtime = JaatoRuntime(make_provider, open_stash=None if stash is None else lambda: stash)
    provider = ScriptedProvider(script, rules="openai")
    return opened(provider, runtime=runtime, session_id="s", **more)


def test_a_picture_that_left_with_a_cut_result_comes_back_to_the_model() -> None:
    def look() -> Any:
        """Look."""
        return ToolOutput(result="word " * 9_000, attachments=(PIXEL,))

    def script(request: Request) -> Reply:
        at = steps_of_turn(request)
        if at == 0:
            return Reply(calls=(FunctionCall("c0", "look", {}),))
        shown = str(request.messages[-1].parts[0].function_response)
        if at == 1:
            handle = re.findall(r'recall\("(\w+)"\)', shown)[0]
            return Reply(calls=(FunctionCall("c1", "recall", {"handle": handle}),))
        return Reply(text="seen")

    async def go() -> None:
        stash = MemoryStash()
        session = await session_of(stash, script, tools=[look])
        assert await session.asend_message("look") == "seen"
        results = [p.function_response for m in session.get_history() for p in m.parts]
        cut, back = [one for one in results if one is not None]
        assert cut.attachments == ()
        assert back.attachments == (PIXEL,)
        [entry] = stash.entries()
        assert stash.get(entry.handle).text == output_of("word " * 9_000).result

    asyncio.run(go())


def test_a_program_searches_what_left_a_session_and_reads_it() -> None:
    async def go() -> None:
        desk, there = filled()
        session = await session_of(desk.stash, lambda _: Reply(text="hm"))
        assert session.recall(there["log"]) == "connection refused on port 8080"
        assert session.recall("k00000000") is None
        assert session.recall("../x") is None
        found = {
            "total": session.search_stash("total"),
            "cart.py": session.search_stash(file="cart.py"),
            "turn 3": session.search_stash(turn=3),
            "run": session.search_stash(tool="run"),
            "one": session.search_stash("total", limit=1),
            "all": session.search_stash(),
            "none": session.search_stash("zebra"),
        }
        assert {name: {hit.entry.handle for hit in hits} for name, hits in found.items()} == {
            "total": {there["cart"], there["cart2"]},
            "cart.py": {there["cart"], there["cart2"]},
            "turn 3": {there["cart2"], there["log"]},
            "run": {there["log"]},
            "one": {found["total"][0].entry.handle},
            "all": {there[one] for one in ("cart", "cart2", "log", "said")},
            "none": set(),
        }
        assert found["run"][0].excerpt == "run: the log"

    asyncio.run(go())


def test_a_program_without_a_stash_finds_nothing_and_one_that_is_away_is_told() -> None:
    async def go() -> None:
        session = await session_of(None, lambda _: Reply(text="hm"))
        assert session.search_stash("total") == []
        assert session.recall("k1") is None
        session = await session_of(Away(), lambda _: Reply(text="hm"))
        with pytest.raises(StashError, match="no connection"):
            session.recall("k1")

    asyncio.run(go())
