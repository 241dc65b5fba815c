"""What a segment is worth: four parts, each bounded, and their sum."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final

from jaato.segments.config import SegmentConfig
from jaato.segments.queues import Kin
from jaato.segments.segment import SEGMENT_TYPES, ContextSegment

_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What each input adds to the score; weights are in."""

    recency: float
    type: float
    references: float
    generation: float

    @property
    def total(self) -> float:
        """The score of what is not pinned."""
        return self.recency + (self.type + self.references + self.generation)


class Scorer:
    """Scores under one configuration at one moment."""

    def __init__(self, config: SegmentConfig, *, step: int, now: datetime) -> None:
        self.config = config
        self._weight = config.recency_weight
        if config.half_life_hours is None:
            self._present, self._half_life = float(step), config.half_life_steps
        else:
            self._present = now.timestamp()
            self._half_life = config.half_life_hours * _SECONDS
        importances = [config.type_importances[kind] for kind in SEGMENT_TYPES]
        self._floors = [config.floor_share * one for one in importances]
        self._types = [config.type_weight * one for one in importances]
        self._static: dict[Kin, float] = {}

    def of(self, kin: Kin, key: float) -> float:
        """The score of a segment of this class, last touched at this key."""
        static = self._static.get(kin)
        if static is None:
            parts = self.parts(kin, key)
            static = self._static[kin] = parts.type + parts.references + parts.generation
        floor = self._floors[kin[0]]
        age = self._present - key
        fresh = 2.0 ** (-age / self._half_life) if age > 0 else 1.0
        return self._weight * (floor + (1.0 - floor) * fresh) + static

    def parts(self, kin: Kin, key: float) -> Parts:
        """The same, part by part."""
        config, floor = self.config, self._floors[kin[0]]
        return Parts(
            recency=self._weight * (floor + (1.0 - floor) * self.freshness(key)),
            type=self._types[kin[0]],
            references=config.reference_weight * (kin[1] / config.references_for_full),
            generation=config.generation_weight * (config.young_bonus if kin[2] else 0.0),
        )

    def freshness(self, key: float) -> float:
        """1 when touched now, 1/2 a half-life ago, towards 0."""
        age = self._present - key
        return 2.0 ** (-age / self._half_life) if age > 0 else 1.0

    @property
    def cold_until(self) -> float:
        """The last touch of what is cold: a half-life ago."""
        return self._present - self._half_life

    def latest_below(self, kin: Kin, score: float) -> float:
        """The last touch up to which a segment of this class scores below; -inf for never."""
        if self.of(kin, inf) < score:
            return inf
        if self.of(kin, -inf) >= score:
            return -inf
        # Bisection on the age, so that rounding agrees with `of` for all that matters.
        low, high = 0.0, 64.0 * self._half_life
        while high - low > self._half_life / 4096:
            middle = (low + high) / 2
            if self.of(kin, self._present - middle) < score:
                high = middle
            else:
                low = middle
        return self._present - high


def score_of(
    segment: ContextSegment, *, config: SegmentConfig, step: int, now: datetime
) -> tuple[float, Parts]:
    """The score of one segment by itself, and its parts; pinned is infinite."""
    scorer = Scorer(config, step=step, now=now)
    kin = (
        SEGMENT_TYPES.index(segment.type),
        min(segment.refcount, config.references_for_full),
        0 if segment.generation == "old" else 1,
    )
    key = segment.last_touched_at.timestamp()
    if not config.counts_time:
        key = segment.last_touched_step or 0
    parts = scorer.parts(kin, key)
    return (inf if segment.pinned else parts.total), parts
