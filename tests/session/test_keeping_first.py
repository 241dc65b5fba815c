"""Nothing leaves before it is kept; and what happens where it cannot be kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import assert_agrees, opened, read, worker
from tests.session.operations import assert_counted
from tests.session.shelf import (
    STRATEGIES,
    Shelf,
    Watched,
    gc,
    handle_of,
    kept_in,
    lost,
    said_in,
    text_of,
)

from jaato.errors import UsageError
from jaato.events import Collected, Noticed, ResultShortened, TurnEnded
from jaato.exchange import ToolOutput
from jaato.gc.config import GCConfig
from jaato.gc.result import GCTriggerReason
from jaato.history import FunctionCall, Message, violations
from jaato.kept import (
    Record,
    StashClosedError,
    StashError,
    StashFullError,
    StashUnavailableError,
    StashWriteError,
)
from jaato.providers.scripted import ScriptedProvider
from jaato.session.blocking import JaatoSession
from jaato.session.runtime import JaatoRuntime
from jaato.stash.files import FileStash
from jaato.wiring import make_provider

REFUSALS = [
    pytest.param(StashWriteError("the disk is read-only"), id="cannot be written"),
    pytest.param(StashFullError("no space left"), id="full"),
    pytest.param(StashClosedError("gave up after a failed sync"), id="closed"),
    pytest.param(StashUnavailableError("no connection"), id="out of reach"),
    pytest.param(UsageError("a record that cannot be kept"), id="finds the records wrong"),
    pytest.param(LookupError("a hook that raises"), id="a hook that raises"),
]
ROOT = Path(__file__).parents[2]
STEPS = "u c1 r1 c2 r2 c3 r3 c4 r4 c5 r5 c6 r6"


def of(stash: str, **rules: Any) -> GCConfig:
    return GCConfig(preserve_recent_turns=1, stash=stash, **rules)


def refusing(error: Exception, after: int = 0) -> Watched:
    stash = Watched()
    stash.refusal, stash.refuses_after = error, after
    return stash


# At the time of writing


@pytest.mark.parametrize("name", STRATEGIES)
def test_when_a_collection_is_kept_the_window_still_holds_everything(name: str) -> None:
    looked: list[int] = []

    def look(records: Sequence[Record]) -> None:
        looked.append(len(records))
        assert shelf.state.history == before
        assert shelf.state.budget.snapshot() == snapshot
        assert shelf.events == []
        assert len(shelf.log.lines) == written

    shelf = Shelf(gc(name), stash=Watched(look), config=of("required"))
    before, written = list(shelf.state.history), len(shelf.log.lines)
    snapshot = shelf.state.budget.snapshot()
    assert shelf.collect().success
    assert len(looked) == 1
    assert shelf.state.history != before


@pytest.mark.parametrize("percent", [110.0, 300.0], ids=["stubs", "cuts as well"])
def test_when_a_rung_is_kept_the_window_still_holds_everything(percent: float) -> None:
    def look(records: Sequence[Record]) -> None:
        [record] = records
        [now] = [one for one in shelf.state.history if one.message_id == record.message_ids[0]]
        said = [text_of(part) for part in now.parts if part.function_response]
        assert record.text in [
            *said,
            *(v for call in now.function_calls for v in call.args.values()),
        ]

    shelf = Shelf(None, STEPS, stash=Watched(look), percent=percent, words=200)
    shelf.make_room()
    assert shelf.state.window.overflow(0) == 0
    assert isinstance(shelf.stash, Watched)
    assert shelf.stash.puts


# Where it must be kept


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_collection_that_cannot_be_kept_does_nothing_and_says_so(
    name: str, refusal: Exception
) -> None:
    shelf = Shelf(gc(name), stash=refusing(refusal), config=of("required"))
    before, snapshot = list(shelf.state.history), shelf.state.budget.snapshot()
    result = shelf.collect()
    assert not result.success
    assert str(refusal) in str(result.error)
    assert (result.items_collected, result.tokens_freed, result.removal_list) == (0, 0, [])
    assert shelf.state.history == before
    assert shelf.state.budget.snapshot() == snapshot
    assert [event.result for event in shelf.told(Collected)] == [result]
    assert not shelf.told(Noticed)
    assert_counted(shelf.state)


def test_it_is_not_tried_at_every_step_and_works_when_the_stash_does() -> None:
    shelf = Shelf(gc(), stash=refusing(StashFullError("no space left")), config=of("required"))
    assert not shelf.collect(GCTriggerReason.THRESHOLD).success
    assert shelf.collector.due() is None
    assert isinstance(shelf.stash, Watched)
    shelf.stash.refusal = None
    assert shelf.collect().success
    assert lost(shelf.state, shelf.stash, said_in(shelf.log)) == []


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("percent", [110.0, 300.0], ids=["stubs", "cuts"])
def test_a_ladder_that_cannot_be_kept_changes_nothing(refusal: Exception, percent: float) -> None:
    shelf = Shelf(None, STEPS, stash=refusing(refusal), percent=percent, words=200)
    before, snapshot = list(shelf.state.history), shelf.state.budget.snapshot()
    with pytest.raises(StashError, match=str(refusal)):
        shelf.make_room()
    assert shelf.state.history == before
    assert shelf.state.budget.snapshot() == snapshot
    assert shelf.events == []


@pytest.mark.parametrize("percent", [110.0, 300.0], ids=["stubs", "cuts"])
@pytest.mark.parametrize("after", range(1, 6))
def test_a_rung_is_made_whole_or_not_at_all(percent: float, after: int) -> None:
    stash = refusing(StashFullError("full"), after)
    shelf = Shelf(None, STEPS, stash=stash, percent=percent, words=200)
    try:
        shelf.make_room()
    except StashFullError:
        assert shelf.state.window.overflow(0) > 0
    assert lost(shelf.state, stash, said_in(shelf.log)) == []
    assert_counted(shelf.state)
    smaller = {handle_of(part) for part in shelf.results if part.extra}
    assert sum(event.result.items_collected for event in shelf.told(Collected)) >= len(smaller)
    assert {event.handle for event in shelf.told(ResultShortened)} <= smaller


def unopened() -> Any:
    raise StashWriteError("the stash in /nowhere cannot be opened")


def test_a_stash_that_cannot_be_opened_is_one_that_cannot_be_written() -> None:
    for opener, error in [(unopened, "cannot be opened"), (lambda: 1 / 0, "division by zero")]:
        shelf = Shelf(gc(), config=of("required"))
        shelf.keeper._open = opener
        result = shelf.collect()
        assert not result.success
        assert error in str(result.error)
        with pytest.raises(StashError, match=error):
            shelf.keeper.get("k1234")
        shelf.collector.config = of("best_effort")
        assert shelf.collect().success
        assert len(shelf.told(Noticed)) == 1


# Where it should be kept, and where it need not be


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_best_effort_collects_all_the_same_and_tells(name: str, refusal: Exception) -> None:
    shelf = Shelf(gc(name), stash=refusing(refusal), config=of("best_effort"))
    result = shelf.collect()
    assert result.success
    assert result.tokens_freed > 0
    assert result.tokens_after == shelf.state.window.counted
    [noticed] = shelf.told(Noticed)
    assert str(refusal) in noticed.text
    assert_counted(shelf.state)


@pytest.mark.parametrize("stash", ["best_effort", "off"])
def test_stubs_that_are_not_in_the_stash_name_a_text_of_the_log(stash: str) -> None:
    plugin, config = gc(), of(stash, target_percent=80.0)
    shelf = Shelf(plugin, stash=refusing(StashFullError("full")), config=config)
    texts = [text_of(part) for part in shelf.results]
    result = shelf.collect()
    assert result.tokens_after == shelf.state.window.counted
    assert handle_of(shelf.results[0]) == "r1"
    assert 'recall("r1")' in text_of(shelf.results[0])
    assert shelf.keeper.get("r1") == texts[0]


def test_off_puts_nothing() -> None:
    stash = Watched()
    shelf = Shelf(gc("gc_truncate"), stash=stash, config=of("off"))
    assert shelf.collect().success
    shelf = Shelf(None, STEPS, stash=stash, percent=300.0, words=200, config=of("off"))
    shelf.make_room()
    assert (stash.puts, stash.records) == ([], [])
    assert shelf.told(Noticed) == []
    assert handle_of(shelf.results[0]) == "r1"


@pytest.mark.parametrize("percent", [110.0, 300.0], ids=["stubs", "cuts"])
def test_best_effort_on_the_ladder(percent: float) -> None:
    stash = refusing(StashFullError("full"))
    shelf = Shelf(None, STEPS, stash=stash, percent=percent, words=200, config=of("best_effort"))
    texts = [text_of(part) for part in shelf.results]
    shelf.make_room()
    assert shelf.state.window.overflow(0) == 0
    assert shelf.told(Noticed)
    for part, text in zip(shelf.results, texts, strict=True):
        assert text in {text_of(part), shelf.keeper.get(str(handle_or_none(part)))}


def handle_or_none(part: Any) -> str | None:
    return handle_of(part) if part.extra else None


# Whole sessions


async def session_with(stash: Any, **more: Any) -> JaatoSession:
    runtime = JaatoRuntime(make_provider, open_stash=lambda: stash, folder=more.pop("folder", None))
    provider = ScriptedProvider(worker(4, calls=2, lines=60), rules="openai", window=12_000)
    chosen = {"plugin": gc(preserve_recent_turns=1), "limit": 12_000, **more}
    return await opened(provider, runtime=runtime, **chosen)


async def talk(session: JaatoSession, turns: int) -> None:
    for at in range(turns):
        assert await session.asend_message(f"go on with {at}") == "done after 4 steps"
        assert_agrees(session)


def test_a_full_stash_ends_the_turn_and_the_session_goes_on_when_it_is_not() -> None:
    async def go() -> None:
        stash = refusing(StashFullError("no space left"))
        session = await session_with(stash)
        ended: list[TurnEnded] = []
        events: list[Any] = []
        session.on(ended.append, TurnEnded)  # type: ignore[arg-type]  # only of this kind
        session.on(events.append, Collected, ResultShortened)
        with pytest.raises(StashFullError, match="no space left"):
            await talk(session, 8)
        assert "no space left" in str(ended[-1].error)
        assert not any(getattr(event, "result", None) and event.result.success for event in events)
        assert not violations(session.get_history())
        assert_agrees(session)
        with pytest.raises(StashFullError):
            await session.acontinue_turn()
        stash.refusal = None
        assert await session.acontinue_turn() == "done after 4 steps"
        await talk(session, 6)
        assert stash.records
        await session.aclose()

    asyncio.run(go())


def test_a_large_result_that_cannot_be_kept_stays_whole() -> None:
    async def go() -> None:
        stash = refusing(StashFullError("no space left"))
        session = await session_with(stash, limit=60_000, plugin=None)
        noticed: list[Noticed] = []
        session.on(noticed.append, Noticed)  # type: ignore[arg-type]  # only of this kind
        result = await big_read(session)
        assert result == read("big.py", 1_500)
        assert "no space left" in noticed[0].text
        stash.refusal = None
        assert "recall(" in await big_read(session)
        assert [record.text for record in stash.records] == [read("big.py", 1_500)]

    asyncio.run(go())


async def big_read(session: JaatoSession) -> str:
    """The result of a call that is larger than one result may be."""
    call = FunctionCall("c", "read", {"path": "big.py", "lines": 1_500})
    calls = session._runner.calls
    output = {0: ToolOutput(result=read("big.py", 1_500))}
    message: Message = calls.message([call], output, session._room)
    return text_of(message.parts[0])


SECOND = """
import asyncio, sys
from tests.session.test_keeping_first import filled
asyncio.run(filled(sys.argv[1], sys.argv[2]))
"""


async def filled(folder: str, name: str) -> int:
    """A session that fills a stash in a folder, and finds all of its own there again."""
    stash = FileStash(folder)
    session = await session_with(stash, session_id=name)
    for at in range(6):
        assert await session.asend_message(f"read {at} for {name}") == "done after 4 steps"
    handles = [handle_of(p) for p in results(session) if p.extra]
    assert all(session.recall(handle) for handle in handles)
    own = kept_in(stash, session=name)
    assert own
    assert {record.session for record in own} == {name}
    assert stash.verify().is_sound
    stash.close()
    return len(own)


def results(session: JaatoSession) -> list[Any]:
    return [p for one in session.get_history() for p in one.parts if p.function_response]


def test_two_processes_keep_in_one_folder(tmp_path: Path) -> None:
    async def go() -> None:
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SECOND, str(tmp_path / "stash"), "other", cwd=ROOT
        )
        await filled(str(tmp_path / "stash"), "this")
        assert await other.wait() == 0

    asyncio.run(go())
    stash = FileStash(tmp_path / "stash")
    assert stash.verify().is_sound
    assert {record.session for record in kept_in(stash)} == {"this", "other"}
    stash.close()


def test_a_history_that_changes_while_it_is_kept_is_not_overwritten() -> None:
    def look(_records: Sequence[Record]) -> None:
        shelf.state.add(Message.from_text("user", "meanwhile"))

    shelf = Shelf(gc(), stash=Watched(look), config=of("required"))
    result = shelf.collect()
    assert not result.success
    assert "changed" in str(result.error)
    assert shelf.state.history[-1].text == "meanwhile"
