"""Sessions that do anything in any order, and a log in memory that shows what they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from jaato.budget import GCPolicy, InstructionSource, locate
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.history import Message, Role
from jaato.session.record import (
    Enriched,
    Opened,
    Pinned,
    Record,
    Reported,
    Reset,
    Switched,
    SystemSet,
    TakenBack,
    ToolsSet,
    TurnClosed,
    record_from_dict,
    record_to_dict,
)
from jaato.session.state import State
from jaato.testing import WordCounter, histories
from jaato.tokens import message_tokens

COUNTER = WordCounter()
OPENED = Opened(
    session_id="s", agent_id="main", provider="p", model="m", limit=2_000, counter=COUNTER.name
)
STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")


class Ticks:
    """A clock that moves by one with each look."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Lines:
    """A log in memory: lines of JSON, as the file has them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def append(self, record: Record, at: float) -> int:
        line = json.dumps(record_to_dict(record, at), ensure_ascii=False, default=str)
        self.lines.append(line)
        return len(self.lines) - 1

    def take_back(self, where: int) -> None:
        del self.lines[where:]

    def text_at(self, where: int) -> str | None:
        text = json.loads(self.lines[where])["text"]
        return str(text)

    def records(self, stop: int | None = None) -> Iterator[tuple[Record, float, int]]:
        for where, line in enumerate(self.lines[:stop]):
            yield (*record_from_dict(json.loads(line)), where)


class Words(WordCounter):
    """Counts the same under another name, so that nothing it says was remembered."""

    name = "words, counted again"


@dataclass(frozen=True)
class Seen:
    """All that resuming must bring back."""

    history: list[Message]
    snapshot: dict[str, Any]
    usage: dict[str, Any]
    rest: tuple[Any, ...]
    texts: dict[str, str | None]


def seen(state: State) -> Seen:
    window = state.window
    return Seen(
        list(state.history),
        json.loads(json.dumps(state.budget.snapshot())),
        window.usage(),
        (
            state.provider,
            state.pins,
            state.turn_is_open,
            dict(window.system),
            dict(window.enrichment),
            window.turns,
            window.turn_at,
            window.turn_number,
            window.most_tokens(),
            list(state.results),
        ),
        {f"r{n}": state.get(f"r{n}") for n in range(1, 9)},
    )


def fresh() -> tuple[State, Lines]:
    log = Lines()
    log.append(OPENED, 1_000.0)
    state = State(OPENED, COUNTER, at=1_000.0, clock=Ticks())
    state.write_to(log)
    return state, log


def assert_counted(state: State) -> None:
    """The budget is what a count from the beginning says."""
    conversation = state.budget.get_entry(InstructionSource.CONVERSATION)
    assert conversation is not None
    again = [Message(m.role, m.parts, m.message_id, m.kind) for m in state.history]
    assert conversation.total_tokens() == sum(message_tokens(Words(), one) for one in again)
    for message in state.history:
        assert locate(state.budget, message.message_id) is not None


def messages() -> st.SearchStrategy[list[Message]]:
    return histories(max_turns=10, collected=False, max_messages=60)


def perform(state: State, waiting: list[Message], kind: str, number: int) -> None:
    """One operation; `waiting` are the messages that have not come yet."""
    if kind == "add":
        add(state, waiting, number)
    elif kind == "collect":
        collect(state, STRATEGIES[number % 4], number)
    else:
        OPERATIONS[kind](state, number)


def add(state: State, waiting: list[Message], number: int) -> None:
    for _ in range(number % 7 + 1):
        if waiting:
            message = waiting.pop(0)
            turn_type = "clarification_q" if number > 250 else None
            state.add(message, turn_type if message.opens_turn else None)


def pin(state: State, number: int) -> None:
    state.commit(Pinned(turns=tuple(sorted({*state.pins, number % 5}))))


def offer_tools(state: State, number: int) -> None:
    tools = {f"tool{n}": (n * 7 + 3, n % 2 == 1) for n in range(number % 5)}
    state.commit(ToolsSet(tokens=tools))


def enrich(state: State, number: int) -> None:
    texts = {"a/clock": "it is noon " * (number % 4), "b": "x"}
    state.commit(Enriched(texts=texts if number % 3 else {}))


def instruct(state: State, number: int) -> None:
    state.commit(SystemSet(texts={"base": "be brief " * (number % 5), "client": "hm"}))


def report(state: State, number: int) -> None:
    counted = state.window.counted
    reported = None if number % 5 == 0 else int(counted * (0.7 + number / 300))
    state.commit(Reported(reported=reported, counted=counted, thinking=number % 3 * 10))


def switch(state: State, number: int) -> None:
    limit = None if number % 4 == 0 else 500 + number * 20
    state.commit(Switched(provider="p", model=f"m{number % 3}", limit=limit))


def close(state: State, number: int) -> None:
    state.commit(TurnClosed(error="it broke" if number % 2 else None))


def stash(state: State, number: int) -> None:
    state.put(f"a whole text, number {number % 3} \ud800")


def refuse(state: State, number: int) -> None:
    state.add(Message.from_text(Role.USER, f"too long {number}"))
    state.commit(TakenBack(why="it does not fit"))


def reset(state: State, _number: int) -> None:
    state.commit(Reset())


OPERATIONS: dict[str, Callable[[State, int], None]] = {
    "pin": pin,
    "tools": offer_tools,
    "enrich": enrich,
    "system": instruct,
    "report": report,
    "switch": switch,
    "close": close,
    "stash": stash,
    "refused": refuse,
    "reset": reset,
}


def operations() -> st.SearchStrategy[list[tuple[str, int]]]:
    """What a session may be told, in any order."""
    kinds = ("add",) * 4 + ("collect",) * 2 + tuple(OPERATIONS)
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 255)), max_size=24)


def collect(state: State, strategy: str, number: int) -> None:
    options = {"summarizer": "extractive"} if strategy in {"gc_summarize", "gc_hybrid"} else {}
    plugin = load_gc_plugin(strategy, options)
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    config = GCConfig(
        preserve_recent_turns=number % 3, target_percent=2.0, pinned_turn_indices=list(state.pins)
    )
    reason = GCTriggerReason.CONTEXT_LIMIT if number % 2 else GCTriggerReason.MANUAL
    after, result = plugin.collect(
        state.history, state.window.usage(), config, reason, state.budget
    )
    state.replace(after if result.success else state.history, result)


def policies(state: State) -> dict[str, GCPolicy]:
    """The policy of each message that is there."""
    found = {}
    for message in state.history:
        located = locate(state.budget, message.message_id)
        if located is not None:
            found[message.message_id] = located.entry.gc_policy
    return found
