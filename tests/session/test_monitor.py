"""The streaming monitor: one crossing, told once, believed from reports first."""

from __future__ import annotations

import pytest

from jaato.session.monitor import StreamMonitor


def test_crossing_is_told_once() -> None:
    monitor = StreamMonitor(threshold=80.0, limit=1_000, tokens=790)
    assert not monitor.streamed("x" * 20)
    assert monitor.streamed("x" * 40)
    assert not monitor.streamed("x" * 400)
    assert monitor.crossed


def test_a_report_replaces_the_guess() -> None:
    monitor = StreamMonitor(threshold=80.0, limit=1_000, tokens=700)
    monitor.streamed("x" * 390)
    assert not monitor.reported(710)
    assert monitor.percent == pytest.approx(71.0)
    assert monitor.reported(800)


def test_a_window_that_was_full_before_is_told_with_the_first_piece() -> None:
    assert StreamMonitor(threshold=80.0, limit=1_000, tokens=900).streamed("x")


@pytest.mark.parametrize(
    ("threshold", "limit"),
    [
        pytest.param(None, 1_000, id="nothing to watch for"),
        pytest.param(80.0, None, id="an unknown limit is no limit"),
    ],
)
def test_nothing_is_told_without_a_threshold_or_a_limit(
    threshold: float | None, limit: int | None
) -> None:
    monitor = StreamMonitor(threshold=threshold, limit=limit, tokens=10**9)
    assert not monitor.streamed("x" * 1_000)
    assert not monitor.reported(10**9)
    assert not monitor.reported(None)
