"""The total that the provider will see, from its last report and our counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.tokens import UsageAnchor

Report = tuple[float | None, int]


def anchor_after(*reports: Report) -> UsageAnchor:
    anchor = UsageAnchor("m")
    for reported, counted in reports:
        anchor.observe(reported, counted)
    return anchor


@pytest.mark.parametrize(
    ("reports", "counted", "total"),
    [
        pytest.param((), 500, 500, id="no report: our count"),
        pytest.param(((1200, 1000),), 1000, 1200, id="nothing changed: the report"),
        pytest.param(((1200, 1000),), 1100, 1320, id="a tail is scaled by the ratio"),
        pytest.param(((1200, 1000),), 400, 480, id="what was reclaimed is scaled too"),
        pytest.param(((1200, 1000),), 0, 0, id="nothing left"),
        pytest.param(((1200, 1000), (1000, 1000)), 1000, 1000, id="the newest report anchors"),
        pytest.param(((2000, 1000), (1000, 1000)), 1100, 1170, id="the ratio runs: 2, then 1.7"),
        pytest.param(((2000, 1000), (1000, 1000)), 100, 100, id="a ratio takes away only so much"),
        pytest.param(((9000, 1000),), 1000, 9000, id="a report beyond any ratio still anchors"),
        pytest.param(((9000, 1000),), 1100, 9300, id="but changes are scaled within the band"),
        pytest.param(((10, 1000),), 1000, 500, id="a report without cached tokens is no total"),
    ],
)
def test_totals(reports: tuple[Report, ...], counted: int, total: int) -> None:
    assert anchor_after(*reports).total(counted) == total


@pytest.mark.parametrize("reported", [None, 0, -5, math.nan, math.inf], ids=str)
def test_what_is_no_number_above_zero_is_no_report(reported: float | None) -> None:
    anchor = anchor_after((1200, 1000), (reported, 2000))
    assert anchor.total(1000) == 1200
    assert anchor.ratio == 1.2


def test_a_report_on_nothing_is_no_report() -> None:
    assert anchor_after((700, 0)).total(100) == 100


def test_a_model_switch_starts_anew_and_a_return_finds_its_ratio() -> None:
    anchor = anchor_after((1500, 1000))
    anchor.switch("other")
    assert (anchor.model, anchor.ratio, anchor.total(1000)) == ("other", 1.0, 1000)
    anchor.observe(1100, 1000)
    anchor.switch("m")
    assert (anchor.ratio, anchor.total(1000)) == (1.5, 1500)


def test_a_switch_to_the_same_model_keeps_its_report() -> None:
    anchor = anchor_after((9000, 1000))
    anchor.switch("m")
    assert anchor.total(1000) == 9000


reports = st.lists(
    st.tuples(st.none() | st.floats() | st.integers(-5, 10**7), st.integers(-5, 10**7)), max_size=8
)


@given(reports=reports, counts=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)))
def test_totals_never_fall_below_zero_or_against_the_count(
    reports: list[Report], counts: tuple[int, int]
) -> None:
    anchor = anchor_after(*reports)
    fewer, more = sorted(counts)
    assert 0 <= anchor.total(fewer) <= anchor.total(more)
    assert 0.5 <= anchor.ratio <= 3.0
