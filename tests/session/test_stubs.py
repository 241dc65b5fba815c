"""The line that a stub leaves: what was there, how large, its handle; and what it shows of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.operations import COUNTER, assert_counted, messages
from tests.session.shelf import STRATEGIES, Shelf, Watched, gc, handle_of, text_of

from jaato.budget import locate
from jaato.gc.config import GCConfig
from jaato.gc.stub_lines import GAP, STUB_TOKENS
from jaato.history import RECALLED_MARK, FunctionCall, Message, Part, Role, ToolResult
from jaato.kept import Record
from jaato.session.shorten import SHORTENED_MARK
from jaato.wiring import load_gc_from_file

LOG = "\n".join([*(f"step {at} is done" for at in range(60)), "wrote artifact id=zx81-44fa"])


def results_of(*texts: Any, name: str = "run", **extra: Any) -> list[Message]:
    """A turn whose one step has these results, and turns behind it."""
    calls = [Part(function_call=FunctionCall(f"c{at}", name, {})) for at, _ in enumerate(texts)]
    answers = [
        Part(function_response=ToolResult(f"c{at}", name, text), extra=extra)
        for at, text in enumerate(texts)
    ]
    said = [Message.from_text("user", "go"), Message(Role.MODEL, calls)]
    said += [Message(Role.TOOL, answers, "results"), Message.from_text("model", "so")]
    for at in range(2):
        said += [Message.from_text("user", f"more {at}"), Message.from_text("model", "yes")]
    return said


def stubbing(**rules: Any) -> GCConfig:
    return GCConfig(preserve_recent_turns=1, target_percent=60.0, **rules)


def stubs_of(shelf: Shelf) -> list[str]:
    result = shelf.collect()
    assert result.success
    assert result.tokens_after == shelf.state.window.counted
    assert_counted(shelf.state)
    return [text_of(part) for part in shelf.results]


# What it says


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        pytest.param("plain", [], id="plain: the line alone"),
        pytest.param("lines", ["wrote artifact id=zx81-44fa"], id="lines: the rare one"),
    ],
)
def test_what_a_stub_shows(content: str, shown: list[str]) -> None:
    config = stubbing(stub_content=content)
    shelf = Shelf(gc(), results_of(LOG), stash=Watched(), config=config)
    [stub] = stubs_of(shelf)
    header, *lines = stub.split("\n")
    tokens = 4 + 8 + COUNTER.count_texts([LOG])[0] + 1
    assert header.startswith("[run result, ")
    assert header.endswith(f' tokens, left the window: recall("{handle_of(shelf.results[0])}")]')
    assert abs(int(header.split(", ")[1].split()[0]) - tokens) <= 8
    assert shown == [] == lines or set(shown) <= set(lines)


def test_head_and_tail() -> None:
    config = stubbing(stub_content="head_tail")
    [stub] = stubs_of(Shelf(gc(), results_of(LOG), stash=Watched(), config=config))
    shown = stub.partition("\n")[2]
    assert shown.startswith("step 0 is done\nstep 1 is")
    assert GAP in shown
    assert shown.endswith("artifact id=zx81-44fa")


@pytest.mark.parametrize("content", ["plain", "head_tail", "lines"])
def test_a_gc_file_says_what_stubs_show(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gc.json"
    path.write_text(
        json.dumps({"type": "budget", "stub_content": content, "preserve_recent_turns": 1,
                    "target_percent": 60.0, "notify_on_gc": False})
    )  # fmt: skip
    found = load_gc_from_file(path, strict=True)
    assert found is not None
    plugin, config = found
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    [stub] = stubs_of(Shelf(plugin, results_of(LOG), stash=Watched(), config=config))
    assert (GAP in stub, "zx81" in stub) == {
        "plain": (False, False), "head_tail": (True, True), "lines": (False, True),
    }[content]  # fmt: skip


@given(
    texts=st.lists(
        st.text(min_size=150) | st.just(LOG) | st.just("x y " * 90), min_size=1, max_size=3
    ),
    content=st.sampled_from(["plain", "head_tail", "lines"]),
)
@settings(deadline=None, max_examples=60)
def test_each_has_one_header_and_keeps_to_its_budget(texts: list[str], content: str) -> None:
    shelf = Shelf(gc(), results_of(*texts), stash=Watched(), config=stubbing(stub_content=content))
    stubs_of(shelf)
    # Where stubs are not enough, their turn has left.
    for part, text in zip(shelf.results, texts, strict=False):
        if not part.extra:
            assert text_of(part) == text
            continue
        header, _, shown = text_of(part).partition("\n")
        assert header.count("recall(") == 1
        assert f'recall("{handle_of(part)}")' in header
        assert COUNTER.count_texts([shown])[0] <= STUB_TOKENS
        assert shelf.keeper.get(handle_of(part)) == text


def test_an_error_is_called_one() -> None:
    said = results_of(LOG)
    failed = ToolResult("c0", "run", LOG, is_error=True)
    said[2] = said[2].with_parts([Part(function_response=failed)])
    shelf = Shelf(gc(), said, stash=Watched(), config=stubbing())
    assert stubs_of(shelf)[0].startswith("[run error, ")
    assert shelf.results[0].function_response is not None
    assert shelf.results[0].function_response.is_error


def test_a_list_of_what_was_found_is_removed_without_a_handle() -> None:
    said = results_of(LOG, name="recall", **{RECALLED_MARK: True})
    shelf = Shelf(gc(), said, stash=Watched(), config=stubbing())
    [stub] = stubs_of(shelf)
    assert stub.endswith(" tokens, removed]")
    assert isinstance(shelf.stash, Watched)
    assert shelf.stash.records == []


def test_a_result_that_says_nothing_names_no_text() -> None:
    # Its handle would lead nowhere, or to what somebody else calls so.
    shelf = Shelf(gc(), results_of(LOG, ""), stash=Watched(), config=stubbing())
    first, second = stubs_of(shelf)
    assert shelf.keeper.get(handle_of(shelf.results[0])) == LOG
    assert "recall(" in first
    assert second == ""


@pytest.mark.parametrize("mark", [RECALLED_MARK, SHORTENED_MARK])
def test_what_has_a_handle_is_named_by_it(mark: str) -> None:
    stash = Watched()
    [handle] = stash.inner.put([Record(text=LOG)])
    shelf = Shelf(gc(), results_of(LOG, **{mark: handle}), stash=stash, config=stubbing())
    [stub] = stubs_of(shelf)
    assert f'recall("{handle}")' in stub
    assert stash.puts == []


# A handle that is taken


@pytest.mark.parametrize("many", [1, 3])
def test_a_handle_that_is_taken_is_replaced_in_the_stub(many: int) -> None:
    texts = [f"{LOG}\nnumber {at}" for at in range(many)]
    stash = Watched()
    shelf = Shelf(gc(), results_of(*texts), stash=stash, config=stubbing())
    plans = [shelf.keeper.write_stub(shelf.state.history[2], at, 100)[1] for at in range(many)]
    for plan in plans:
        # Somebody has a text of that name, and it stays theirs.
        stash.inner.put([Record(text="somebody else's")], [str(plan)])
    stubs = stubs_of(shelf)
    for at, (stub, text) in enumerate(zip(stubs, texts, strict=True)):
        handle = handle_of(shelf.results[at])
        assert handle not in plans
        assert f'recall("{handle}")' in stub
        assert str(plans[at]) not in stub
        assert shelf.keeper.get(handle) == text
        assert shelf.keeper.get(str(plans[at])) == "somebody else's"


@pytest.mark.parametrize("name", STRATEGIES)
@given(said=messages(), taken=st.booleans(), keep=st.integers(0, 2))
@settings(deadline=None, max_examples=30)
def test_the_figures_agree_to_the_token(
    name: str, said: list[Message], taken: bool, keep: int
) -> None:
    stash = Watched()
    config = GCConfig(preserve_recent_turns=keep, target_percent=30.0)
    shelf = Shelf(gc(name), said, stash=stash, config=config)
    if taken:
        for message in said:
            for at, part in enumerate(message.parts):
                if part.function_response is not None:
                    plan = shelf.keeper.write_stub(message, at, 100)[1]
                    if isinstance(plan, str):
                        stash.inner.put([Record(text="theirs")], [plan])
    result = shelf.collect()
    assert result.tokens_after == shelf.state.window.counted
    assert_counted(shelf.state)
    for part in shelf.results:
        if isinstance(part.extra.get("jaato.stub"), str):
            assert shelf.keeper.get(handle_of(part)) != "theirs"


@pytest.mark.parametrize("name", STRATEGIES)
def test_figures_agree_where_thoughts_leave_as_well(name: str) -> None:
    said: list[Message] = []
    for at in range(4):
        said.append(Message.from_text("user", f"question {at} " + "w " * 60))
        thought = Part(thought=f"hm {at} " * 5, extra={"signature": "x"})
        said.append(Message(Role.MODEL, [thought, Part(text=f"answer {at} " + "w " * 60)]))
    shelf = Shelf(gc(name), said, stash=Watched(), config=GCConfig(preserve_recent_turns=2))
    shelf.collector.binds_thoughts = True
    result = shelf.collect()
    assert result.tokens_freed > 0
    assert not any(message.thoughts for message in shelf.state.history)
    assert result.tokens_after == shelf.state.window.counted


# Called back


def recalled_turn(at: int, stash: Watched, *names: str) -> list[Message]:
    """A step whose results are of `recall`, or of something else."""
    calls, answers = [], []
    for n, name in enumerate(names):
        text = f"{LOG}\nof {at} {n}"
        extra: dict[str, Any] = {}
        if name == "recall":
            [extra[RECALLED_MARK]] = stash.inner.put([Record(text=text)])
        calls.append(Part(function_call=FunctionCall(f"c{n}", name, {})))
        answers.append(Part(function_response=ToolResult(f"c{n}", name, text), extra=extra))
    return [
        Message.from_text("user", f"turn {at}"), Message(Role.MODEL, calls),
        Message(Role.TOOL, answers, f"results{at}"), Message.from_text("model", "so"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("drawn", "pins", "rules", "stubbed"),
    [
        pytest.param(
            ["read", "recall", "read", "read"], [], {}, ["results1"],
            id="before what is older and was read",
        ),
        pytest.param(
            ["read", "recall", "read", "read"], [1], {}, ["results0"], id="not in a pinned turn"
        ),
        pytest.param(
            ["read", "read", "read", "recall"], [], {}, ["results0"], id="not in the last steps"
        ),
        pytest.param(
            ["read", "read", "recall", "read"],
            [], {"preserve_recent_turns": 2, "preserve_recent_steps": 2}, ["results2"],
            id="in a recent turn, before its last steps",
        ),
        pytest.param(
            ["read", "read recall", "read", "read"], [], {}, ["results0"],
            id="not where something else would go with it",
        ),
        pytest.param(
            ["read", "recall read", "read", "read"], [], {}, ["results0"],
            id="wherever that stands",
        ),
        pytest.param(
            ["read", "recall recall", "read", "read"], [], {}, ["results1"], id="two at once"
        ),
    ],
)  # fmt: skip
def test_what_was_called_back_goes_first(
    drawn: list[str], pins: list[int], rules: dict[str, Any], stubbed: list[str]
) -> None:
    stash = Watched()
    said = [
        one for at, names in enumerate(drawn) for one in recalled_turn(at, stash, *names.split())
    ]
    config = GCConfig(**{"preserve_recent_turns": 1, "target_percent": 75.0,
                         "pinned_turn_indices": pins, **rules})  # fmt: skip
    shelf = Shelf(gc(), said, stash=stash, config=config, percent=80.0)
    shelf.collect()
    assert [
        m.message_id for m in shelf.state.history if any("jaato.stub" in p.extra for p in m.parts)
    ] == stubbed
    assert len(shelf.state.history) == len(said)
    assert locate(shelf.state.budget, stubbed[0]) is not None
    assert_counted(shelf.state)
