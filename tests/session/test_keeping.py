"""What leaves a window is in the stash, whole, with all that is known of it."""

from __future__ import annotations

from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.foreign_plugins import Answering, Printed, halved
from tests.session.operations import COUNTER, assert_counted, messages
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
    whole_of,
)

from jaato.budget import locate
from jaato.gc.config import GCConfig
from jaato.gc.marks import create_gc_notification_message
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import (
    RECALLED_MARK,
    STUB_MARK,
    FunctionCall,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
    violations,
)
from jaato.kept import Record
from jaato.session.problems import WindowFullError
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash

PIXEL = Media("image/png", b"\x89PNG", "pixel.png")
LONG = " ".join(f"w{at}" for at in range(200))


def step(at: int, result: Any = LONG, path: str = "", **more: Any) -> list[Message]:
    """A call of `read` with an id that comes back in each turn, and its result."""
    call = FunctionCall("c1", "read", {"path": path or f"src/f{at}.py"})
    answer = ToolResult("c1", "read", result, **more)
    return [
        Message(Role.MODEL, [Part(text=f"step {at}"), Part(function_call=call)], f"call{at}"),
        Message(Role.TOOL, [Part(function_response=answer)], f"result{at}"),
    ]


def turn(at: int, *steps: Message) -> list[Message]:
    """A turn with these steps in it."""
    prompt = Message(Role.USER, [Part(text=f"prompt {at} {LONG}")], f"prompt{at}")
    answer = Message(Role.MODEL, [Part(text=f"answer {at} {LONG}")], f"answer{at}")
    return [prompt, *steps, answer]


def turns(*many: list[Message]) -> list[Message]:
    return [message for at, steps in enumerate(many) for message in turn(at, *steps)]


def rewriting(change: Any) -> Answering:
    """A plug-in that makes something else of every message it may change."""

    def answer(history: list[Message], good: GCResult) -> Any:
        return [history[0], *map(change, history[1:-1]), history[-1]], good

    return Answering(answer)


# Whoever collects

PLUGINS = [*(pytest.param(gc, name, id=name) for name in STRATEGIES),
           pytest.param(lambda _: Printed(), "", id="a stranger's")]  # fmt: skip


@pytest.mark.parametrize(("make", "name"), PLUGINS)
def test_whatever_leaves_can_be_restored_as_it_was(make: Any, name: str) -> None:
    said = turns(step(0), step(1), step(2), step(3), step(4))
    shelf = Shelf(make(name), said, stash=Watched(), config=GCConfig(preserve_recent_turns=1))
    assert shelf.collect().success
    there = {message.message_id: message for message in shelf.state.history}
    changed = [message for message in said if there.get(message.message_id) != message]
    assert changed
    restored = {whole_of(record).message_id: whole_of(record) for record in kept(shelf)}
    assert restored == {message.message_id: message for message in changed}
    assert_counted(shelf.state)


@pytest.mark.parametrize(("make", "name"), PLUGINS)
@given(
    said=messages(),
    keep=st.integers(0, 3),
    percents=st.lists(st.sampled_from((60.0, 85.0, 120.0, 300.0)), min_size=1, max_size=4),
    ladder=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_nothing_that_was_ever_said_is_lost(
    make: Any, name: str, said: list[Message], keep: int, percents: list[float], ladder: bool
) -> None:
    stash = MemoryStash()
    config = GCConfig(preserve_recent_turns=keep, target_percent=20.0)
    shelf = Shelf(make(name), stash=stash, said=(), config=config)
    step_size = len(said) // len(percents) + 1
    for at, percent in enumerate(percents):
        for message in said[at * step_size : (at + 1) * step_size]:
            shelf.state.add(message)
        shelf.fill(percent)
        if ladder:
            with suppress(WindowFullError):
                shelf.make_room()
        shelf.collect()
        assert lost(shelf.state, stash, said_in(shelf.log)) == []
        assert_counted(shelf.state)
        assert len(violations(shelf.state.history)) <= 1


@given(said=messages(), keep=st.integers(0, 2))
@settings(deadline=None, max_examples=15)
def test_nothing_is_lost_on_a_disk_either(said: list[Message], keep: int) -> None:
    config = GCConfig(preserve_recent_turns=keep, target_percent=20.0)
    with TemporaryDirectory() as folder:
        stash = FileStash(folder)
        shelf = Shelf(gc(), said, stash=stash, config=config, percent=120.0)
        shelf.collect()
        stash.close()
        again = FileStash(folder)
        assert lost(shelf.state, again, said) == []
        again.close()


def test_what_a_hook_takes_out_is_nowhere_in_the_stash() -> None:
    stash = MemoryStash(redact=lambda text: text.replace("hunter2", "[secret]"))
    said = turns(step(0, f"the password is hunter2 {LONG}", path="hunter2.py"), step(1), step(2))
    shelf = Shelf(gc("gc_truncate"), said, stash=stash, config=GCConfig(preserve_recent_turns=1))
    assert shelf.collect().success
    assert "hunter2" not in str(kept(shelf))
    assert "the password is [secret]" in str(kept(shelf))


def kept(shelf: Shelf, **where: Any) -> list[Any]:
    assert shelf.stash is not None
    return kept_in(shelf.stash, **where)


# What is known of it


def test_a_record_says_where_it_comes_from() -> None:
    said = turns(step(0), step(1), step(2))
    shelf = Shelf(
        gc("gc_truncate"), said, stash=Watched(), config=GCConfig(preserve_recent_turns=1)
    )
    located = {
        message.message_id: locate(shelf.state.budget, message.message_id) for message in said
    }
    shelf.collect()
    for record in kept(shelf):
        [message_id] = record.message_ids
        place = located[message_id]
        message = whole_of(record)
        assert place is not None
        assert record.session == "s"
        assert record.turn == place.turn
        assert record.created_at == place.entry.created_at
        assert record.tokens == place.entry.total_tokens()
        assert record.tags == (message.role.value,)
    [result] = kept(shelf, type="result", turn=1)
    assert (result.tool, result.files, result.text) == ("read", ("src/f1.py",), LONG)
    assert result.label.startswith("read src/f1.py: w0 w1")
    [prompt, asked, _] = kept(shelf, type="message", turn=1)
    assert prompt.text == said[4].text
    assert (prompt.tool, prompt.files) == ("", ())
    assert (asked.tool, asked.files) == ("read", ("src/f1.py",))
    assert asked.text == 'step 1\nread({"path":"src/f1.py"})'


@pytest.mark.parametrize("how", ["stubbed by a strategy", "stubbed by the ladder", "cut"])
def test_a_result_that_became_smaller_knows_its_own_call(how: str) -> None:
    # The ids of calls come back in each turn, and the files are those of its own.
    shelf = Shelf(gc(), turns(step(0), step(1), step(2)), stash=Watched(), percent=100.0)
    if how == "stubbed by a strategy":
        shelf.collector.config = GCConfig(preserve_recent_turns=1, target_percent=90.0)
        shelf.collect()
    elif how == "stubbed by the ladder":
        shelf.collector.install(None)
        shelf.make_room()
    else:
        message = shelf.room.shortened(shelf.state.history[2], 0, 80)
        assert text_of(message.parts[0]) != LONG
    record = kept(shelf, type="result")[0]
    assert (record.text, record.turn, record.tool) == (LONG, 0, "read")
    assert record.files == ("src/f0.py",)
    assert record.message_ids == ("result0",)
    located = locate(shelf.state.budget, "result0")
    assert located is not None
    assert record.created_at == located.entry.created_at


def test_a_long_argument_knows_its_call() -> None:
    written = [f"text of {at} " * 200 for at in range(6)]
    steps: list[Message] = []
    for at, text in enumerate(written):
        call = FunctionCall("c", "write", {"path": f"out/{at}.md", "text": text})
        steps.append(Message(Role.MODEL, [Part(function_call=call)], f"write{at}"))
        steps.append(Message(Role.TOOL, [Part(function_response=ToolResult("c", "write", "ok"))]))
    said = [*turn(0, *steps), *turn(1, *step(1, "short"))]
    shelf = Shelf(None, said, stash=Watched(), percent=110.0)
    created = locate(shelf.state.budget, "write0")
    assert created is not None
    made, tokens = created.entry.created_at, COUNTER.count_texts([written[0]])[0]
    shelf.make_room()
    record = kept(shelf)[0]
    assert record.text == written[0]
    assert (record.session, record.turn, record.tool) == ("s", 0, "write")
    assert record.files == ("out/0.md",)
    assert record.message_ids == ("write0",)
    assert (record.type, record.tokens, record.created_at) == ("message", tokens, made)
    assert lost(shelf.state, shelf.stash or MemoryStash(), said) == []


def test_a_summary_that_leaves_is_kept_as_one() -> None:
    config = GCConfig(preserve_recent_turns=1, pressure_percent=80.0)
    shelf = Shelf(gc("gc_summarize"), stash=Watched(), config=config)
    shelf.collect()
    [summary] = [one for one in shelf.state.history if one.kind.value == "summary"]
    for message in turns(step(7), step(8)):
        shelf.state.add(message)
    shelf.collector.install(gc("gc_truncate"), config)
    shelf.fill(95.0)
    shelf.collect()
    assert summary not in shelf.state.history
    [record] = kept(shelf, type="summary")
    assert whole_of(record) == summary
    assert record.text == summary.text


def test_notices_are_not_kept() -> None:
    notice = create_gc_notification_message("4 turns were removed")
    shelf = Shelf(
        gc("gc_truncate", notify_on_gc=True), [notice, *turns([], [], [])], stash=Watched()
    )
    shelf.collector.config = GCConfig(preserve_recent_turns=1)
    shelf.collect()
    assert notice not in shelf.state.history
    assert kept(shelf)
    assert not [record for record in kept(shelf) if "4 turns" in record.text]


# Attachments


@pytest.mark.parametrize("result", [LONG, "", None], ids=["a text", "no text", "nothing"])
def test_attachments_of_a_result_are_kept_with_it(result: Any) -> None:
    said = turns(step(0, result, attachments=(PIXEL,)), step(1), step(2))
    shelf = Shelf(
        gc("gc_truncate"), said, stash=Watched(), config=GCConfig(preserve_recent_turns=1)
    )
    shelf.collect()
    assert lost(shelf.state, shelf.stash or MemoryStash(), said) == []
    [record] = kept(shelf, type="result", turn=0)
    assert whole_of(record) == said[2]


def test_what_stood_in_a_prompt_is_kept() -> None:
    said = turns([], [], [])
    said.insert(2, Message(Role.USER, [Part(inline_data=PIXEL)], "picture"))
    shelf = Shelf(
        gc("gc_truncate"), said, stash=Watched(), config=GCConfig(preserve_recent_turns=1)
    )
    shelf.collect()
    [record] = [one for one in kept(shelf) if one.message_ids == ("picture",)]
    assert whole_of(record) == said[2]
    assert record.text == "image/png pixel.png, 4 bytes"


# Not twice


def test_what_has_a_handle_is_not_kept_again_when_its_stub_leaves() -> None:
    said = turns(step(0), step(1), step(2))
    shelf = Shelf(gc(), said, stash=Watched(), percent=100.0)
    shelf.collector.config = GCConfig(preserve_recent_turns=1, target_percent=90.0)
    shelf.collect()
    handle = handle_of(shelf.results[0])
    shelf.collector.install(gc("gc_truncate"), GCConfig(preserve_recent_turns=1))
    shelf.collect()
    assert [one.text for one in kept(shelf, turn=0)].count(LONG) == 1
    assert shelf.keeper.get(handle) == LONG
    assert lost(shelf.state, shelf.stash or MemoryStash(), said) == []


def test_a_result_that_was_cut_and_then_stubbed_keeps_its_first_handle() -> None:
    shelf = Shelf(gc(), turns(step(0), step(1), step(2)), stash=Watched(), percent=100.0)
    short = shelf.room.shortened(shelf.state.history[2], 0, 100)
    history = [short if one.message_id == "result0" else one for one in shelf.state.history]
    shelf.state.replace(history, GCResult(True, 1, 1, 0, "ladder", GCTriggerReason.MANUAL))
    handle = handle_of(shelf.results[0])
    shelf.collector.config = GCConfig(preserve_recent_turns=1, target_percent=90.0)
    shelf.collect()
    assert shelf.results[0].extra[STUB_MARK] == handle
    assert f'recall("{handle}")' in text_of(shelf.results[0])
    assert [one.text for one in kept(shelf, type="result", turn=0)] == [LONG]


def test_what_was_called_back_is_not_kept_again() -> None:
    stash = Watched()
    [handle] = stash.inner.put([Record(text=LONG, session="s", type="result", tool="read")])
    called = ToolResult("c1", "recall", LONG)
    part = Part(function_response=called, extra={RECALLED_MARK: handle})
    call = Message(Role.MODEL, [Part(function_call=FunctionCall("c1", "recall", {}))])
    said = turns([call, Message(Role.TOOL, [part], "back")], step(1), step(2))
    shelf = Shelf(gc("gc_truncate"), said, stash=stash, config=GCConfig(preserve_recent_turns=1))
    shelf.collect()
    assert "back" not in {message.message_id for message in shelf.state.history}
    assert [one.text for one in kept(shelf)].count(LONG) == 2  # The first one, and that of turn 1.
    assert not kept(shelf, tool="recall", type="result")


def test_a_list_of_what_was_found_can_be_cut_like_anything_else() -> None:
    part = Part(function_response=ToolResult("c1", "recall", LONG), extra={RECALLED_MARK: True})
    call = Message(Role.MODEL, [Part(function_call=FunctionCall("c1", "recall", {}))])
    said = turns([call, Message(Role.TOOL, [part], "list")])
    shelf = Shelf(None, said, stash=Watched())
    message = shelf.room.shortened(said[2], 0, 80)
    assert shelf.keeper.get(handle_of(message.parts[0])) == LONG


# What strangers do


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda one: one.with_parts([Part(text="so") if p.text else p for p in one.parts]),
            id="other words",
        ),
        pytest.param(
            lambda one: one if len(one.parts) == 1 else one.with_parts(one.parts[1:]),
            id="fewer parts",
        ),
        pytest.param(
            lambda one: one.with_parts(
                [
                    Part(function_call=FunctionCall(p.function_call.id, p.function_call.name, {}))
                    if p.function_call
                    else p
                    for p in one.parts
                ]
            ),
            id="calls without arguments",
        ),
        pytest.param(
            lambda one: Message(one.role, [Part(text="new")])
            if one.role is Role.MODEL and not one.call_ids
            else one,
            id="another message in its place",
        ),
        pytest.param(lambda one: stubbed(one, "not a handle!"), id="a mark that is no handle"),
        pytest.param(lambda one: stubbed(one, "theirs"), id="a mark that could be a handle"),
        pytest.param(lambda one: stubbed(one, True), id="a bare mark"),
        pytest.param(lambda one: stubbed(one, ["x"]), id="an odd mark"),
    ],
)  # fmt: skip
def test_what_a_stranger_rewrites_is_kept(change: Any) -> None:
    said = turns(step(0), step(1), step(2))
    shelf = Shelf(rewriting(change), said, stash=Watched())
    result = shelf.collect()
    assert (result.success, result.error) == (True, None)
    assert shelf.state.history != said
    assert lost(shelf.state, shelf.stash or MemoryStash(), said) == []
    assert_counted(shelf.state)


def stubbed(message: Message, mark: Any) -> Message:
    parts = [
        Part(
            function_response=ToolResult(p.function_response.call_id, "read", "gone"),
            extra={STUB_MARK: mark},
        )
        if p.function_response
        else p
        for p in message.parts
    ]
    return message.with_parts(parts)


def test_a_stranger_that_halves_is_kept_to_the_letter() -> None:
    said = turns(*(step(at, {"rows": [at, float("inf")], "x": None}) for at in range(6)))
    shelf = Shelf(Answering(lambda one, good: halved(one, "x", good.trigger_reason)), said,
                  stash=Watched())  # fmt: skip
    assert shelf.collect().success
    assert lost(shelf.state, shelf.stash or MemoryStash(), said) == []
