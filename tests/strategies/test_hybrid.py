from __future__ import annotations

from typing import Any

import pytest

from jaato.testing import sketch_of


def short(_conversation: str) -> str:
    return "what was done"


@pytest.mark.parametrize(
    ("middle", "after", "truncated", "summarized"),
    [
        pytest.param(2, "s u a", 3, 2, id="the middle is folded, older turns leave"),
        pytest.param(10, "s u a", 0, 5, id="a wide middle leaves nothing to truncate"),
        pytest.param(0, "u a", 5, 0, id="no middle, no summary"),
        pytest.param(None, "s u a", 0, 5, id="null is the default of ten"),
    ],
)
def test_generations(
    collect: Any, middle: int | None, after: str, truncated: int, summarized: int
) -> None:
    shorter, result = collect(
        "gc_hybrid", "u a " * 6, summarizer=short, summarize_middle_turns=middle
    )
    assert sketch_of(shorter) == after
    assert result.details["turns_before"] == 6
    assert result.details["turns_truncated"] == truncated
    assert result.details["turns_summarized"] == summarized
    assert result.details["had_summarizer"] is True
    assert result.details["preserve_recent"] == 1
    assert result.details["summarize_middle"] == (10 if middle is None else middle)


def test_without_a_summarizer_it_truncates(collect: Any) -> None:
    shorter, result = collect("gc_hybrid", "u a " * 6)
    assert sketch_of(shorter) == "u a"
    assert result.details["had_summarizer"] is False
    assert {item.reason for item in result.removal_list} == {"ancient_truncated"}


def test_truncation_stops_at_the_target(collect: Any) -> None:
    shorter, result = collect(
        "gc_hybrid", "u a " * 10, percent=90.0, summarizer=short, summarize_middle_turns=2
    )
    assert sketch_of(shorter) == "u a " * 5 + "s u a"
    assert result.details["turns_truncated"] == 2
    reasons = [item.reason for item in result.removal_list]
    assert sorted(set(reasons)) == ["ancient_truncated", "middle_summarized"]
