"""Every record is one line of JSON, and the line is the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.budget import InstructionSource
from jaato.gc.config import GCConfig
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.session.record import (
    VERSION,
    Added,
    Enriched,
    Opened,
    Piece,
    Pinned,
    Record,
    RecordError,
    Replaced,
    Reported,
    Reset,
    Stashed,
    Switched,
    SystemSet,
    TakenBack,
    ToolsSet,
    TurnClosed,
    joined,
    pieces_between,
    record_from_dict,
    record_to_dict,
    turn_type_of,
)
from jaato.testing import WordCounter, budget_of, histories, sketch, sketch_of, usage_of

TEXTS = st.text(st.characters(), max_size=30)
"""Lone surrogates included: what a tool reads from a disk may hold them."""
COUNTS = st.integers(0, 10**9)
LIMITS = st.none() | st.integers(1, 10**7)

RESULT = GCResult(
    success=True,
    items_collected=2,
    tokens_before=100,
    tokens_after=40,
    plugin_name="gc_budget",
    trigger_reason=GCTriggerReason.TURN_LIMIT,
    notification="2 turns left",
    details={"edit_point": 3, "because": None, "tokens": [1, 2.5]},
    removal_list=[
        GCRemovalItem(InstructionSource.ENRICHMENT, None, 20, "enrichment_bulk_clear"),
        GCRemovalItem(InstructionSource.CONVERSATION, "turn_3/m2", 40, "ephemeral", ["a", "b"]),
    ],
)
FAILED = GCResult(
    success=False,
    items_collected=0,
    tokens_before=5,
    tokens_after=5,
    plugin_name="gc_summarize",
    trigger_reason=GCTriggerReason.CONTEXT_LIMIT,
    error="the summarizer failed: \ud83d it broke",
)
EVERYTHING = Message(
    Role.TOOL,
    [
        Part(text="\ud800 alone, and a pair \ud83d\ude00 in halves"),
        Part(thought="hm", extra={"signature": "s\x00"}),
        Part(function_call=FunctionCall("1", "read", {"path": "a", "deep": {"n": [None, 1.5]}})),
        Part(
            function_response=ToolResult(
                "0", "read", {"ok": True}, is_error=True, attachments=(Media("image/png", b"\xff"),)
            )
        ),
        Part(inline_data=Media("application/pdf", b"%PDF", "a.pdf")),
    ],
    "an id with \u2028",
)


def through_a_line(record: Record, at: float = 5.25) -> tuple[Record, float]:
    line = json.dumps(record_to_dict(record, at), ensure_ascii=False, separators=(",", ":"))
    assert "\n" not in line
    data = line.encode("utf-8", "surrogatepass")
    return record_from_dict(json.loads(data.decode("utf-8", "surrogatepass")))


RECORDS: list[st.SearchStrategy[Record]] = [
    st.builds(
        Opened,
        session_id=TEXTS,
        agent_id=TEXTS,
        provider=TEXTS,
        model=TEXTS,
        limit=LIMITS,
        counter=TEXTS,
        parent_id=st.none() | TEXTS,
    ),
    st.builds(SystemSet, texts=st.dictionaries(TEXTS, TEXTS, max_size=3)),
    st.builds(Enriched, texts=st.dictionaries(TEXTS, TEXTS, max_size=3)),
    st.builds(
        ToolsSet, tokens=st.dictionaries(TEXTS, st.tuples(COUNTS, st.booleans()), max_size=3)
    ),
    st.builds(Reported, reported=st.none() | COUNTS, counted=COUNTS, thinking=st.none() | COUNTS),
    st.builds(Switched, provider=TEXTS, model=TEXTS, limit=LIMITS),
    st.builds(Pinned, turns=st.lists(COUNTS, max_size=4).map(tuple)),
    st.builds(Stashed, handle=TEXTS, text=TEXTS, label=TEXTS),
    st.builds(TurnClosed, error=st.none() | TEXTS),
    st.builds(TakenBack, why=TEXTS),
    st.builds(Reset, why=TEXTS),
]


@settings(max_examples=150)
@given(record=st.one_of(RECORDS), at=st.floats(0, 10**11))
def test_any_record_comes_back_from_its_line(record: Record, at: float) -> None:
    assert through_a_line(record, at) == (record, at)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(Added(message=EVERYTHING, tokens=9), id="a message of every kind of part"),
        pytest.param(
            Added(message=EVERYTHING, tokens=9, turn_type="clarification_q"), id="a turn type"
        ),
        pytest.param(Replaced(pieces=((0, 3), EVERYTHING, (7, 8)), result=RESULT), id="an edit"),
        pytest.param(Replaced(pieces=(), result=FAILED), id="a failure"),
    ],
)
def test_messages_and_results_come_back_whole(record: Record) -> None:
    assert through_a_line(record) == (record, 5.25)


@settings(max_examples=60)
@given(history=histories())
def test_generated_messages_come_back(history: list[Message]) -> None:
    for message in history:
        assert through_a_line(Added(message=message, tokens=3))[0] == Added(
            message=message, tokens=3
        )


@settings(max_examples=60)
@given(history=histories(max_messages=80), data=st.data())
def test_pieces_make_the_same_history_again(history: list[Message], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history)))
    after: list[Message] = []
    for at, (message, stays) in enumerate(zip(history, kept, strict=True)):
        if stays:
            after.append(message)
        elif at % 3 == 0:
            after += sketch("s", first=10_000 + at)
        elif at % 3 == 1:
            after.append(message.with_parts([Part(text="shorter")]))
    pieces = pieces_between(history, after)
    record, _ = through_a_line(Replaced(pieces=pieces, result=RESULT))
    assert isinstance(record, Replaced)
    again = joined(history, record.pieces)
    assert again == after
    # What stayed is a range, not a copy: the log grows by what is new.
    assert [one for one in record.pieces if isinstance(one, Message)] == [
        one for one in after if all(one is not old for old in history)
    ]


@pytest.mark.parametrize(
    ("kept", "pieces"),
    [
        pytest.param([], (), id="nothing"),
        pytest.param([0, 1, 2, 3], ((0, 4),), id="everything is one range"),
        pytest.param([0, 3], ((0, 1), (3, 4)), id="a gap makes two"),
        pytest.param([2, 3, 0], ((2, 4), (0, 1)), id="another order is kept"),
        pytest.param([1, 1], ((1, 2), (1, 2)), id="a message twice is there twice"),
    ],
)
def test_ranges(kept: list[int], pieces: tuple[Piece, ...]) -> None:
    before = sketch("u a u a")
    after = [before[at] for at in kept]
    assert pieces_between(before, after) == pieces
    assert all(one is two for one, two in zip(joined(before, pieces), after, strict=True))


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
def test_what_a_strategy_did_comes_back(strategy: str) -> None:
    history = sketch(" ".join(["u c1 r1 a"] * 6), words=40)
    budget = budget_of(history, WordCounter(), context_limit=800)
    options = {"summarizer": "extractive"} if strategy in {"gc_summarize", "gc_hybrid"} else {}
    plugin = load_gc_plugin(strategy, options)
    plugin.counter = WordCounter()  # type: ignore[attr-defined]  # the built-ins have one
    after, result = plugin.collect(
        history,
        usage_of(budget),
        GCConfig(preserve_recent_turns=1),
        GCTriggerReason.THRESHOLD,
        budget,
    )
    assert result.removal_list
    record = Replaced(pieces=pieces_between(history, after), result=result)
    read, _ = through_a_line(record)
    assert isinstance(read, Replaced)
    assert read == record
    assert sketch_of(joined(history, read.pieces)) == sketch_of(after)


def test_a_turn_type_comes_back_as_what_it_is() -> None:
    record = Added(message=EVERYTHING, tokens=1, turn_type="clarification_a")
    assert turn_type_of(record) == "clarification_a"
    assert turn_type_of(Added(message=EVERYTHING, tokens=1)) is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(
            {"type": "telepathy", "at": 1.0},
            "there is no record 'telepathy' (a newer jaato may have written it)",
            id="a kind that does not exist yet",
        ),
        pytest.param(
            {"type": "session", "version": VERSION + 1, "at": 1.0},
            f"a log of version {VERSION + 1}, and this jaato reads {VERSION}",
            id="a version that does not exist yet",
        ),
    ],
)
def test_what_a_newer_one_wrote_is_told(document: Mapping[str, Any], said: str) -> None:
    with pytest.raises(RecordError) as raised:
        record_from_dict(document)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "turn"},
        {"type": ["turn"], "at": 1.0},
        {"type": "message", "at": 1.0},
        {"type": "message", "at": 1.0, "tokens": 1, "message": {"role": "nobody"}},
        {"type": "pins", "at": 1.0, "turns": 5},
        {"type": "tools", "at": 1.0, "tokens": {"read": 3}},
        {"type": "collection", "at": 1.0, "pieces": [[1]], "result": {}},
        {"type": "session", "at": 1.0, "version": VERSION},
        {"type": "turn", "at": "noon"},
    ],
    ids=json.dumps,
)
def test_nonsense_raises_what_a_reader_catches(document: Mapping[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        record_from_dict(document)
