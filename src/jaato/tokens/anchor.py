"""Holding our count to what the provider reports. Arithmetic only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LOWEST_RATIO: Final = 0.5
HIGHEST_RATIO: Final = 3.0
"""The band of reported to counted tokens that a tokenizer can explain."""

NEWEST_WEIGHT: Final = 0.3
"""How much of the running ratio the latest report makes up."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    reported: float
    counted: int


class UsageAnchor:
    """The total that the provider will see: the last report, and our count of what changed since.

    The change (a tail added, what a collection reclaimed) is scaled by the ratio of reported to
    counted tokens that this model has shown. A model without a report has our count.
    """

    __slots__ = ("_anchor", "_model", "_ratios")

    def __init__(self, model: str | None = None) -> None:
        self._model = model
        self._anchor: _Anchor | None = None
        self._ratios: dict[str | None, float] = {}

    @property
    def model(self) -> str | None:
        """Whose reports are being taken."""
        return self._model

    @property
    def ratio(self) -> float:
        """Reported to counted tokens, as this model has shown so far; 1 before any report."""
        return self._ratios.get(self._model, 1.0)

    def switch(self, model: str | None) -> None:
        """Take reports of another model: its own ratio, and no report yet."""
        if model != self._model:
            self._model = model
            self._anchor = None

    def observe(self, reported_total: float | None, counted_total: int) -> None:
        """Take a report, beside our count of the very same messages.

        What is no number above zero is no report.
        """
        if (
            reported_total is None
            or not math.isfinite(reported_total)
            or reported_total <= 0
            or counted_total <= 0
        ):
            return
        seen = min(max(reported_total / counted_total, LOWEST_RATIO), HIGHEST_RATIO)
        known = self._ratios.get(self._model)
        self._ratios[self._model] = (
            seen if known is None else known + NEWEST_WEIGHT * (seen - known)
        )
        # Below the band it is no total: some providers leave out what they read from a cache.
        self._anchor = _Anchor(max(reported_total, LOWEST_RATIO * counted_total), counted_total)

    def total(self, counted_now: int) -> int:
        """What the provider will count for what we count now."""
        ratio, anchor = self.ratio, self._anchor
        if anchor is None:
            return math.ceil(counted_now * ratio)
        changed = anchor.reported + (counted_now - anchor.counted) * ratio
        # After a large collection a ratio above that of the last report would take away too much.
        least = counted_now * min(ratio, anchor.reported / anchor.counted)
        return math.ceil(round(max(changed, least), 6))
