"""Every handle that was ever named in a window leads to the full text, wherever it is asked for."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import assert_agrees, opened, read, worker
from tests.session.families import TASK, noted, spawning
from tests.session.shelf import STRATEGIES, Shelf, Watched, gc, handle_of, kept_in, lost, said_in
from tests.session.shelf import results_in as results

from jaato.events import Event
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.history import STUB_MARK, FunctionCall
from jaato.kept import Record
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.journal import journal_path, read_journal
from jaato.session.opening import resume_session
from jaato.session.runtime import JaatoRuntime
from jaato.session.session import AsyncSession
from jaato.session.settings import SessionSettings
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash
from jaato.tools.intake import as_tools
from jaato.wiring import make_provider

NAMED = re.compile(r'recall\("([\w.-]+)"\)')
FULL = re.compile(r"f\d+_\d+\.py")


class Handles:
    """The handles that a session has ever named, with the file that each is of."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self.named: dict[str, str] = {}
        session.on(self.look)

    def look(self, _event: Event) -> None:
        paths: dict[str, str] = {}
        for message in self.session.state.history:
            paths.update((one.id, one.args.get("path", "")) for one in message.function_calls)
            for part in message.parts:
                result = part.function_response
                if result is not None and result.name == "read":
                    for handle in NAMED.findall(str(result.result)):
                        self.named[handle] = paths[result.call_id]

    def assert_resolve(self, session: AsyncSession) -> None:
        assert self.named
        for handle, path in self.named.items():
            text = session.recall(handle)
            assert text is not None
            assert text == read(path, len(text.split("\n")))


def runtime_of(stash: Any, folder: Path | None = None) -> JaatoRuntime:
    return JaatoRuntime(make_provider, folder=folder, open_stash=lambda: stash)


def provider_of(script: Any) -> ScriptedProvider:
    return ScriptedProvider(script, rules="openai", window=9_000)


async def begun(runtime: JaatoRuntime, script: Any, name: str, **more: Any) -> JaatoSession:
    plugin = gc(name, preserve_recent_turns=1)
    return await opened(
        provider_of(script), runtime=runtime, limit=9_000, plugin=plugin, session_id="kept", **more
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_also_after_the_stub_has_left_and_in_another_process(tmp_path: Path, name: str) -> None:
    async def go() -> None:
        stash = FileStash(tmp_path / "stash")
        script = worker(7, calls=2, lines=60)
        session = await begun(runtime_of(stash, tmp_path), script, name)
        handles = Handles(session)
        for at in range(6):
            await session.asend_message(f"go on with {at}")
            assert_agrees(session)
        present = {handle_of(part) for part in results(session.get_history()) if part.extra}
        assert set(handles.named) - present or name == "gc_budget"
        handles.assert_resolve(session)
        await session.aclose()
        stash.close()

        again = runtime_of(FileStash(tmp_path / "stash"), tmp_path)
        again.adopt(provider_of(script))
        chosen = SessionSettings(
            provider="scripted",
            model="scripted",
            tools=tuple(as_tools([read])),
            plugin=gc(name, preserve_recent_turns=1),
        )
        resumed = await resume_session(again, chosen, "kept")
        handles.assert_resolve(resumed)
        assert present == {handle_of(part) for part in results(resumed.get_history()) if part.extra}
        await resumed.asend_message("and on")
        assert_agrees(resumed)
        handles.assert_resolve(resumed)
        records = read_journal(journal_path(tmp_path, "kept")).records
        assert again.stash is not None
        assert lost(resumed.state, again.stash, said_in(records)) == []
        await resumed.aclose()

    asyncio.run(go())


@pytest.mark.parametrize("name", STRATEGIES)
def test_whole_sessions_lose_nothing_and_agree_to_the_token(name: str) -> None:
    async def go() -> None:
        stash = MemoryStash()
        session = await begun(runtime_of(stash), worker(5, calls=3, lines=50, thought="hm"), name)
        seen: dict[str, Any] = {}

        def look(_event: Event) -> None:
            for message in session.state.history:
                seen.setdefault(message.message_id, message)

        session.on(look)
        for at in range(8):
            await session.asend_message(f"go on with {at}")
            assert_agrees(session)
            for result in session.get_gc_history():
                assert result.success
        notices = {"[System"}
        said = [one for one in seen.values() if one.text[:7] not in notices]
        assert lost(session.state, stash, said) == []
        assert session.get_gc_history()

    asyncio.run(go())


class Crowded(Watched):
    """A stash in which every name that is wished for belongs to somebody else."""

    def put(self, records: Any, handles: Any = ()) -> list[str]:
        for wish in filter(None, handles):
            self.inner.put([Record(text="somebody else's", session="another")], [wish])
        return super().put(records, handles)


def test_figures_agree_where_every_planned_name_is_taken() -> None:
    async def go() -> None:
        stash = Crowded()
        session = await begun(runtime_of(stash), worker(7, calls=2, lines=60), "gc_budget")
        handles = Handles(session)
        for at in range(5):
            await session.asend_message(f"go on with {at}")
            assert_agrees(session)
        before = session.get_context_usage()["total_tokens"]
        result = await session.amanual_gc()
        assert result is not None
        assert result.tokens_before == before
        assert result.tokens_after == session.get_context_usage()["total_tokens"]
        assert "somebody else's" in [record.text for record in stash.records]
        handles.assert_resolve(session)

    asyncio.run(go())


# Subagents


def test_a_child_keeps_under_its_own_name_and_its_parent_can_call_it_back() -> None:
    async def go() -> None:
        stash = MemoryStash()
        script = spawning({"task": TASK}, child=worker(9, calls=2, lines=60))
        session = await begun(runtime_of(stash), script, "gc_budget")
        children = noted(session)
        watched: list[Handles] = []
        opener = session.open_child
        assert opener is not None

        async def watch(*arguments: Any) -> AsyncSession:
            child = await opener(*arguments)
            watched.append(Handles(child))
            return child

        session.open_child = watch
        await session.asend_message("let it be done")
        [child], [handles] = children, watched
        assert child.get_gc_history()
        handles.assert_resolve(child)
        handles.assert_resolve(session)
        assert kept_in(stash, session=child.session_id)
        assert {record.session for record in kept_in(stash)} == {child.session_id}
        assert child.search_stash("compute")
        assert session.search_stash("compute") == []

    asyncio.run(go())


# What an older log has


def test_texts_in_the_log_are_found_and_their_handles_stay(tmp_path: Path) -> None:
    async def go() -> None:
        script = worker(7, calls=2, lines=60)
        old = await begun(JaatoRuntime(make_provider, folder=tmp_path), script, "gc_budget")
        handles = Handles(old)
        await old.asend_message("read")
        await old.aclose()
        assert set(handles.named) >= {"r1", "r2"}

        stash = MemoryStash()
        # What somebody imports may be called anything.
        stash.put([Record(text="somebody else's", session="another")], ["r1"])
        runtime = runtime_of(stash, tmp_path)
        runtime.adopt(provider_of(script))
        plugin = gc(preserve_recent_turns=1)
        tools = tuple(as_tools([read]))
        chosen = SessionSettings(provider="scripted", model="scripted", tools=tools, plugin=plugin)
        session = await resume_session(runtime, chosen, "kept")
        handles.assert_resolve(session)
        tool = session.catalogue._tools["recall"]
        output = await tool.call({"handle": "r1"})
        assert not output.is_error
        assert str(output.result).startswith("f0_0.py:0 value_0")
        for at in range(5):
            await session.asend_message(f"go on with {at}")
            assert_agrees(session)
        handles.assert_resolve(session)
        texts = {session.recall(handle) for handle in handles.named if handle.startswith("r")}
        assert not texts & {record.text for record in kept_in(stash, session="kept", turn=0)}
        await session.aclose()

    asyncio.run(go())


# What was called back


def recalling(steps: int) -> Any:
    """Reads, and calls back the first thing that a stub names, once."""

    def script(request: Request) -> Reply:
        named = [
            (handle, part)
            for message in request.messages
            for part in message.parts
            if part.function_response is not None
            for handle in NAMED.findall(str(part.function_response.result))
        ]
        asked = [
            c for message in request.messages for c in message.function_calls if c.name == "recall"
        ]
        if named and not asked:
            return Reply(calls=(FunctionCall("back", "recall", {"handle": f" {named[0][0]}\n"}),))
        return base(request)

    base = worker(steps, calls=2, lines=60)
    return script


def test_what_is_called_back_is_marked_by_its_handle_and_kept_once() -> None:
    async def go() -> None:
        stash = MemoryStash()
        session = await begun(runtime_of(stash), recalling(12), "gc_budget")
        seen: dict[str, Any] = {}

        def look(_event: Event) -> None:
            for part in results(session.state.history):
                result = part.function_response
                if result is not None and result.name == "recall":
                    state = "stub" if STUB_MARK in part.extra else "whole"
                    seen.setdefault(f"{part.extra['jaato.recalled']} {state}", result.result)

        session.on(look)
        await session.asend_message("read")
        await session.asend_message("more")
        handle = next(iter(seen)).partition(" ")[0]
        assert stash.get(handle).text.startswith(seen[f"{handle} whole"][:500])
        assert f'recall("{handle}")' in seen[f"{handle} stub"]
        assert not kept_in(stash, tool="recall", type="result")

    asyncio.run(go())


def test_a_plug_in_that_two_sessions_share_keeps_for_each() -> None:
    plugin, stash = gc(), Watched()
    config = GCConfig(preserve_recent_turns=1, target_percent=75.0)
    one = Shelf(plugin, stash=stash, config=config)
    other = Shelf(plugin, stash=stash, config=config)
    for shelf in (one, other):
        texts = [
            str(part.function_response and part.function_response.result) for part in shelf.results
        ]
        result = shelf.collect()
        assert result.tokens_after == shelf.state.window.counted
        assert shelf.keeper.get(handle_of(shelf.results[0])) == texts[0]
