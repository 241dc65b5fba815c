from __future__ import annotations

from typing import Any

import pytest

from jaato.gc.config import GCConfig
from jaato.gc.result import GCTriggerReason
from jaato.testing import sketch, sketch_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("u a u a", "u a", id="the oldest turn goes first"),
        pytest.param("u c1 r1 a", "u c1 r1 a", id="the last turn stays whole"),
        pytest.param("u c1 r1 a u a", "u a", id="a call leaves with its result"),
        pytest.param("u c1,2 r1 r2 a u c3", "u c3", id="a pending call stays"),
        pytest.param("a u a u a", "u a", id="what comes before the first request is old too"),
        pytest.param("u a s u a", "s u a", id="a summary stays"),
        pytest.param("", "", id="nothing is nothing"),
    ],
)
def test_without_a_limit_everything_unprotected_leaves(
    collect: Any, before: str, after: str
) -> None:
    shorter, result = collect("gc_truncate", before)
    assert sketch_of(shorter) == sketch_of(sketch(after))
    assert result.success


def test_with_a_limit_it_stops_at_the_target(collect: Any) -> None:
    shorter, result = collect("gc_truncate", "u a " * 10, percent=90.0)
    assert sketch_of(shorter) == sketch_of(sketch("u a " * 6))
    assert result.details["turns_before"] == 10
    assert result.details["turns_after"] == 6
    assert result.items_collected == 4
    assert [item.child_key for item in result.removal_list] == [
        "turn_0",
        "turn_1",
        "turn_2",
        "turn_3",
    ]
    assert {item.reason for item in result.removal_list} == {"truncated"}


def test_below_the_target_nothing_happens_and_the_result_says_why(collect: Any) -> None:
    history = sketch("u a u a")
    shorter, result = collect("gc_truncate", history, percent=50.0)
    assert shorter == history
    assert result.items_collected == 0
    assert "target" in result.details["because"]


@pytest.mark.parametrize(
    ("pins", "after"),
    [
        pytest.param([0], "u a u a", id="the first turn"),
        pytest.param([1, 2], "u a u a u a", id="two in the middle"),
        pytest.param([99], "u a", id="a turn that is not there"),
    ],
)
def test_pinned_turns_stay(collect: Any, pins: list[int], after: str) -> None:
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=pins)
    shorter, _ = collect("gc_truncate", "u a " * 5, config=config)
    assert sketch_of(shorter) == sketch_of(sketch(after))


def test_the_turn_limit_is_collected_down_to_its_share(collect: Any) -> None:
    config = GCConfig(preserve_recent_turns=1, max_turns=10)
    shorter, result = collect(
        "gc_truncate", "u a " * 11, config=config, reason=GCTriggerReason.TURN_LIMIT
    )
    assert result.details["turns_after"] == 6
    assert len(shorter) == 12


def test_the_option_of_the_plugin_wins_over_the_configuration(collect: Any) -> None:
    shorter, _ = collect("gc_truncate", "u a " * 5, keep=1, preserve_recent_turns=3)
    assert len(shorter) == 6


def test_a_notice_stands_in_front_and_replaces_the_old_one(collect: Any) -> None:
    once, result = collect("gc_truncate", "u a u a u a", notify_on_gc=True)
    assert sketch_of(once) == "n u a"
    assert result.notification is not None
    assert once[0].text == f"[System: {result.notification}]"
    twice, _ = collect("gc_truncate", [*once, *sketch("u a u a", first=50)], notify_on_gc=True)
    assert sketch_of(twice) == "n u a"
    assert twice[0] is not once[0]


def test_every_placeholder_works(collect: Any) -> None:
    template = "{removed} {kept} {tokens_freed} {truncated} {summarized} {items} {freed}"
    _, result = collect(
        "gc_truncate", "u a " * 9, notify_on_gc=True, notification_template=template
    )
    freed = str(result.tokens_before - result.tokens_after)
    removed, kept, tokens, truncated, summarized, items, also = result.notification.split()
    assert (removed, kept, truncated, summarized, items) == ("8", "1", "8", "0", "8")
    assert tokens == also
    assert int(tokens) > int(freed)  # the notice itself costs something


def test_a_request_under_lock_stays_when_its_turn_leaves(collect: Any, budget_over: Any) -> None:
    history = sketch("u c1 r1 a u a u a", words=50)
    shorter, result = collect("gc_truncate", history, budget=budget_over(history, 200.0))
    assert sketch_of(shorter) == "u u a"
    assert shorter[0] is history[0]
    left = [message_id for item in result.removal_list for message_id in item.message_ids]
    assert left[:3] == ["m1", "m2", "m3"]
    assert all(item.child_key != "turn_0" for item in result.removal_list)


def test_too_small_a_gain_is_not_worth_an_edit(collect: Any, budget_over: Any) -> None:
    history = sketch("u a u a " + "u " * 20, words=50)
    config = GCConfig(preserve_recent_turns=20, min_free_percent=50.0)
    budget = budget_over(history)
    shorter, result = collect("gc_truncate", history, config=config, budget=budget)
    assert shorter == history
    assert "too few" in result.details["because"] or "only" in result.details["because"]
