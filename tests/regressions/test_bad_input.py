"""Input that nobody should send: a clear error or a reported repair, never a crash or a hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.budget import InstructionBudget
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.problems import ConfigError
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCTriggerReason
from jaato.gc.settle import settle
from jaato.history import FunctionCall, Media, Message, Part, ToolResult, violations
from jaato.testing import (
    WordCounter,
    broken_histories,
    budgets,
    check,
    run_collection,
    sketch,
    sketch_of,
    usage_of,
)
from jaato.tokens import default_counter, history_tokens

COUNTER = WordCounter()
ONE = GCConfig(preserve_recent_turns=1)
MANUAL = GCTriggerReason.MANUAL
Make = Callable[..., DrivenPlugin]
Over = Callable[..., InstructionBudget]


# Histories

MALFORMED = [
    pytest.param("r1 u a u a", id="a result first"),
    pytest.param("u r1 a u a", id="a result without a call"),
    pytest.param("u c1 u a u a", id="a call without a result"),
    pytest.param("u c1 r2 a u a", id="a result of another call"),
    pytest.param("u c1 u r1 a u a", id="a user between call and result"),
    pytest.param("u c1 n r1 a u a", id="a notice between call and result"),
    pytest.param("u c1 s r1 u a", id="a summary between call and result"),
    pytest.param("u c1,2 r1 a u a", id="one of two answers"),
    pytest.param("u c1 r1 r1 a u a", id="the same answer twice"),
    pytest.param("u r1 c1 a u a", id="a result before its call"),
    pytest.param("u c_ c_ r_ a u a", id="empty ids that do not match up"),
    pytest.param("u -a u a", id="a message without parts"),
    pytest.param("-u -a -u -a", id="nothing but messages without parts"),
    pytest.param("r1 r2 R3", id="nothing but results"),
    pytest.param("c1 c2 c3", id="nothing but calls"),
    pytest.param("u c1 -r r1 a u a", id="an empty message between call and result"),
]


@pytest.mark.parametrize("picture", MALFORMED)
@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
@pytest.mark.parametrize("reason", list(GCTriggerReason), ids=str)
def test_a_malformed_history_is_mended_and_reported_or_left_and_reported(
    collector: Make, budget_over: Over, picture: str, tracked: bool, reason: GCTriggerReason
) -> None:
    history = sketch(picture, words=20)
    budget = budget_over(history, 95) if tracked else None
    usage = usage_of(budget) if budget is not None else {}
    after, result = collector(notify_on_gc=True).collect(history, usage, ONE, reason, budget)
    assert result.success
    if after == history:
        assert len(result.details["violations"]) == len(violations(history))
    else:
        assert violations(after) == ()
        assert len(result.details["repairs"]) >= len(violations(history))
    if budget is not None:
        settle(budget, result, history, after, COUNTER)
        assert budget.total_tokens() == history_tokens(COUNTER, after) == result.tokens_after


@pytest.mark.laws
@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), history=broken_histories(max_turns=5))
def test_no_broken_history_crashes_a_collection(
    strategy: str, data: st.DataObject, history: list[Message]
) -> None:
    budget = data.draw(budgets(history, COUNTER)) if data.draw(st.booleans()) else None
    usage = usage_of(budget) if budget is not None else {}
    config = GCConfig(preserve_recent_turns=data.draw(st.integers(0, 3)))
    options = {"summarizer": "extractive"} if strategy in {"gc_summarize", "gc_hybrid"} else {}
    plugin = load_gc_plugin(strategy, {"notify_on_gc": data.draw(st.booleans()), **options})
    assert isinstance(plugin, DrivenPlugin)
    plugin.counter = COUNTER
    untouched = budget.to_dict() if budget is not None else None
    copied = list(history)
    reason = data.draw(st.sampled_from(GCTriggerReason))
    after, result = plugin.collect(history, usage, config, reason, budget)
    assert history == copied
    assert budget is None or budget.to_dict() == untouched
    wrong = violations(history)
    if after == history:
        assert not wrong or not result.success or result.details["violations"]
    else:
        assert violations(after) == ()
        assert not wrong or result.details["repairs"]
    if budget is not None:
        settle(budget, result, history, after, COUNTER)


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
@pytest.mark.parametrize("reason", list(GCTriggerReason), ids=str)
def test_an_empty_history_stays_empty(
    collector: Make, budget_over: Over, tracked: bool, reason: GCTriggerReason
) -> None:
    budget = budget_over([]) if tracked else None
    check(
        run_collection(
            collector(notify_on_gc=True), [], ONE, budget=budget, reason=reason, counter=COUNTER
        )
    )


# Usage

NO_NUMBERS: list[object] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    -5,
    -0.0,
    0,
    None,
    "85",
    True,
    [],
    {},
    b"1",
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    "key", ["percent_used", "total_tokens", "context_limit", "turns", "tokens_remaining"]
)
def test_a_usage_figure_that_is_no_number_is_unknown(
    collector: Make, key: str, value: object
) -> None:
    history = sketch("u a u a u a", words=20)
    total = history_tokens(COUNTER, history)
    plugin, config = collector(), GCConfig(preserve_recent_turns=1, max_turns=10)
    good = {"percent_used": 70.0, "total_tokens": total, "context_limit": 2 * total, "turns": 3}
    for usage in ({key: value}, {**good, key: value}):
        assert plugin.should_collect(usage, config) == (False, None)
        after, result = plugin.collect(history, usage, config, MANUAL)
        assert result.success
        assert violations(after) == ()
        assert result.tokens_freed == total - history_tokens(COUNTER, after)


@pytest.mark.parametrize("value", [*NO_NUMBERS[:3], -5, None, "85", True], ids=repr)
def test_with_a_budget_usage_figures_that_are_no_numbers_change_nothing(
    collector: Make, budget_over: Over, value: object
) -> None:
    history = sketch("u a u a u a u a", words=20)
    budget = budget_over(history)
    usage = usage_of(budget)
    wanted, _ = collector().collect(history, usage, ONE, MANUAL, budget)
    spoilt = dict.fromkeys(usage, value)
    after, _ = collector().collect(history, spoilt, ONE, MANUAL, budget)
    assert sketch_of(after) == sketch_of(wanted)


# Configuration

BROKEN = [
    ("threshold_percent", "x"),
    ("threshold_percent", None),
    ("threshold_percent", float("nan")),
    ("threshold_percent", -1),
    ("threshold_percent", True),
    ("target_percent", 101),
    ("target_percent", []),
    ("pressure_percent", "90"),
    ("max_turns", "5"),
    ("max_turns", -1),
    ("max_turns", 2.5),
    ("preserve_recent_turns", -1),
    ("preserve_recent_turns", None),
    ("preserve_recent_steps", "8"),
    ("pinned_turn_indices", 5),
    ("pinned_turn_indices", ["0"]),
    ("pinned_turn_indices", None),
    ("min_free_percent", float("inf")),
    ("auto_trigger", "no"),
]


@pytest.mark.parametrize(("key", "value"), BROKEN, ids=str)
def test_a_configuration_broken_by_assignment_is_told_and_collects_nothing(
    collector: Make, key: str, value: object
) -> None:
    config = GCConfig()
    setattr(config, key, value)
    history = sketch("u a u a", words=20)
    after, result = collector().collect(history, {"percent_used": 95}, config, MANUAL)
    assert (after, result.success, result.tokens_freed) == (history, False, 0)
    assert key in (result.error or "")
    assert result.removal_list == []


@pytest.mark.parametrize(
    ("key", "value"), [one for one in BROKEN if one != ("max_turns", "5")], ids=str
)
def test_a_configuration_broken_by_assignment_is_told_when_asked_whether_to_collect(
    collector: Make, key: str, value: object
) -> None:
    config = GCConfig()
    setattr(config, key, value)
    try:
        answer = collector().should_collect({"percent_used": 70.0, "turns": 3}, config)
    except ConfigError as error:
        assert {problem.key for problem in error.problems} == {key}  # noqa: PT017 -- either will do
    else:
        assert answer[0] in {True, False}


@pytest.mark.parametrize(("key", "value"), BROKEN, ids=str)
def test_a_broken_configuration_is_never_made(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        GCConfig(**{key: value})


def test_a_target_above_its_threshold_is_told_wherever_it_comes_from(collector: Make) -> None:
    pair: dict[str, Any] = {"threshold_percent": 50.0, "target_percent": 60.0}
    with pytest.raises(ConfigError, match="is above threshold_percent"):
        GCConfig(**pair)
    with pytest.raises(ConfigError, match="is above threshold_percent"):
        collector(**pair)
    config = GCConfig(threshold_percent=80.0)
    config.threshold_percent, config.target_percent = 50.0, 60.0
    _, result = collector().collect(sketch("u a"), {}, config, MANUAL)
    assert "is above threshold_percent" in (result.error or "")
    mixed = collector(target_percent=70.0)
    _, result = mixed.collect(sketch("u a"), {}, GCConfig(threshold_percent=65.0), MANUAL)
    assert not result.success


def test_every_unknown_or_wrong_option_is_told_at_once(collector: Make) -> None:
    with pytest.raises(ConfigError) as told:
        collector(
            preserve_recent_turn=3,
            notify_on_gc="yes",
            notification_template="{what}",
            target_percent=-1,
        )
    assert {problem.key for problem in told.value.problems} == {
        "preserve_recent_turn",
        "notify_on_gc",
        "notification_template",
        "target_percent",
    }
    assert "preserve_recent_turns" in str(told.value)


@pytest.mark.parametrize(
    "template",
    ["{", "}", "{}", "{0}", "{what}", "{removed.__class__}", "{removed!r}", "{removed:>999999999}",
     "{removed:{kept}}", "{removed:s}", 5, b"x", ["x"]],
    ids=repr,
)  # fmt: skip
def test_a_template_that_cannot_be_filled_is_refused_when_it_is_given(
    collector: Make, template: object
) -> None:
    with pytest.raises(ConfigError, match="notification_template"):
        collector(notify_on_gc=True, notification_template=template)


@pytest.mark.parametrize(
    "template", ["plain", "{{}} {removed}", "{kept:,} {items:>3d}", "\ud800 {freed}", "x" * 10_000]
)
def test_a_template_that_can_be_filled_keeps_every_law(
    collector: Make, budget_over: Over, template: str
) -> None:
    history = sketch("u a u a u a u a", words=20)
    options = {"notify_on_gc": True, "notification_template": template}
    seen = run_collection(
        collector(**options), history, ONE, budget=budget_over(history), options=options,
        counter=COUNTER,
    )  # fmt: skip
    check(seen)


# Content


@pytest.mark.timeout(60)
@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_message_of_100_mb_is_collected_without_hanging(collector: Make, role: str) -> None:
    text = "all work and no play makes 7 a dull boy.\n" * 2_500_000
    assert len(text) > 100_000_000
    if role == "user":
        big = [Message("user", (Part(text=text),))]
    else:
        call, answer = FunctionCall("1", "read", {}), ToolResult("1", "read", text)
        big = [
            Message("model", (Part(function_call=call),)),
            Message("tool", (Part(function_response=answer),)),
        ]
    history = [*sketch("u a"), *big, *sketch("a u a", first=10)]
    plugin = collector(counter=default_counter(), summarizer="extractive")
    after, result = plugin.collect(history, {"context_limit": 8_000}, ONE, MANUAL)
    assert result.success, result.error
    assert result.tokens_freed > 20_000_000
    assert history_tokens(default_counter(), after) < 8_000


LONE = "\ud800 lone \udfff"


def surrogates(turn: int) -> list[Message]:
    call = FunctionCall(LONE, LONE, {LONE: [LONE, {LONE: LONE}]})
    answer = ToolResult(LONE, LONE, {LONE: LONE}, attachments=(Media(LONE, b"", LONE),))
    return [
        Message("user", (Part(text=LONE * 30, extra={LONE: LONE}),), f"{LONE}{turn}u"),
        Message("model", (Part(thought=LONE), Part(function_call=call)), f"{LONE}{turn}c"),
        Message("tool", (Part(function_response=answer),), f"{LONE}{turn}r", extra={LONE: LONE}),
        Message("model", (Part(text=LONE * 30),), f"{LONE}{turn}a"),
    ]


@pytest.mark.parametrize("tracked", [False, True], ids=["bare", "budget"])
@pytest.mark.parametrize("exact", [False, True], ids=["words", "exact"])
def test_lone_surrogates_everywhere_are_text_like_any_other(
    collector: Make, budget_over: Over, tracked: bool, exact: bool
) -> None:
    counter = default_counter() if exact else COUNTER
    history = [message for turn in range(5) for message in surrogates(turn)]
    plugin = collector(counter=counter, notify_on_gc=True, summarizer="extractive")
    budget = budget_over(history) if tracked and not exact else None
    seen = run_collection(
        plugin, history, ONE, budget=budget, counter=counter, reason=GCTriggerReason.CONTEXT_LIMIT
    )
    assert seen.result.success, seen.result.error
    assert len(seen.after) < len(history)
    check(seen)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**5_000, id="a number of thousands of digits"),
        pytest.param({1: 2, "1": 3}, id="keys of two types"),
        pytest.param({(1, 2): b"x"}, id="keys that JSON has not"),
        pytest.param({"set": {1, 2}}, id="a set"),
        pytest.param(b"\xff" * 100, id="bytes"),
        pytest.param(float("nan"), id="no number"),
        pytest.param(object(), id="an object"),
    ],
)
def test_results_and_arguments_that_json_does_not_know_are_counted_and_shown(
    collector: Make, value: Any
) -> None:
    cycle: list[Any] = [value]
    cycle.append(cycle)
    history = []
    for turn, content in enumerate([value, [value], {"deep": {"er": value}}, cycle]):
        call, answer = FunctionCall("1", "t", {"a": content}), ToolResult("1", "t", content)
        history += [
            Message("user", (Part(text="go " * 30),), f"u{turn}"),
            Message("model", (Part(function_call=call),), f"c{turn}"),
            Message("tool", (Part(function_response=answer),), f"r{turn}"),
        ]
    after, result = collector(summarizer="extractive").collect(history, {}, ONE, MANUAL)
    assert result.success, result.error
    assert result.tokens_freed > 0
    assert all(one is other for one, other in zip(after[-3:], history[-3:], strict=True))


@pytest.mark.parametrize("call_id", ["", None], ids=repr)
def test_calls_without_an_id_are_paired_by_their_place(collector: Make, call_id: Any) -> None:
    history = []
    for turn in range(4):
        call, answer = FunctionCall(call_id, "t", {}), ToolResult(call_id, "t", "ok " * 30)
        history += [
            Message("user", (Part(text="go " * 30),), f"u{turn}"),
            Message("model", (Part(function_call=call), Part(function_call=call)), f"c{turn}"),
            Message("tool", (Part(function_response=answer),), f"r{turn}"),
            Message("tool", (Part(function_response=answer),), f"s{turn}"),
        ]
    check(run_collection(collector(), history, ONE, counter=COUNTER))
