"""Scores and standings become an order and verdicts, at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest, nsmallest
from math import inf

from jaato.moments import moment
from jaato.segments.path import Hop
from jaato.segments.places import TYPE_NUMBER
from jaato.segments.queues import Due, Kin
from jaato.segments.reach import Roots
from jaato.segments.roots import RootKind
from jaato.segments.score import Scorer
from jaato.segments.verdict import NEVER, Action, Standing, Verdict
from jaato.segments.working import WorkingSet

_TYPES = {at: kind for kind, at in TYPE_NUMBER.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What may leave, each list the lowest score first."""

    unreachable: list[Due]
    reachable: list[Due]
    eligible: int
    """How many there are, listed or not."""

    def in_order(self) -> Iterator[tuple[Standing, Due]]:
        """The first to leave first."""
        for due in self.unreachable:
            yield Standing.UNREACHABLE, due
        for due in self.reachable:
            yield Standing.REACHABLE, due


class Judge:
    """Turns places in the queues into verdicts, at one moment."""

    def __init__(self, working: WorkingSet, now: datetime) -> None:
        self._working = working
        self._places = working.places
        self.scorer = Scorer(working.config, step=working.step, now=moment(now))

    def rank(
        self,
        roots: Roots,
        marked: bytearray,
        *,
        limit: int | None = None,
        reachable_below: float | None = None,
    ) -> Ranking:
        """Everything that may leave; with a limit the first so many, and a few more."""
        unreachable: list[Due] = []
        reachable: list[Due] = []
        eligible = 0
        keys = self._places.keys
        for kin, heap in self._places.queues.heaps.items():
            free = [number for number in heap if not marked[number]]
            latest = inf
            if reachable_below is not None:
                latest = self.scorer.latest_below(kin, reachable_below)
            kept = [
                number
                for number in heap
                if marked[number] and keys[number] <= latest and not roots.why(number)
            ]
            eligible += len(free) + len(kept)
            unreachable += self._first(kin, free, limit)
            reachable += self._first(kin, kept, limit)
        unreachable.sort()
        reachable.sort()
        return Ranking(unreachable=unreachable, reachable=reachable, eligible=eligible)

    def _first(self, kin: Kin, numbers: list[int], limit: int | None) -> list[Due]:
        keys, ids, score = self._places.keys, self._places.graph.ids, self.scorer.of
        if limit is not None and limit < len(numbers):
            # Within a class the last touch decides; the smallest key is the lowest score.
            numbers = nsmallest(limit, numbers, key=lambda number: (keys[number], ids[number]))
        return [
            (score(kin, keys[number]), keys[number], ids[number], number, kin) for number in numbers
        ]

    def leaving(self, due: Due, standing: Standing) -> Verdict:
        """The verdict on what leaves: deleted only if nobody can miss it."""
        score, _, _, number, kin = due
        unused = standing is Standing.UNREACHABLE and not kin[1]
        delete = unused and score < self._working.config.delete_below
        return self.verdict(number, standing, Action.DELETE if delete else Action.STASH, kin=kin)

    def verdict(
        self,
        number: int,
        standing: Standing,
        action: Action,
        *,
        kin: Kin | None = None,
        root: RootKind | None = None,
        path: tuple[Hop, ...] = (),
    ) -> Verdict:
        """The verdict on any segment."""
        places = self._places
        segment = places.graph.segment(number)
        kin = kin or places.kin(number, segment)
        parts = self.scorer.parts(kin, places.keys[number])
        return Verdict(
            segment_id=segment.segment_id,
            type=segment.type,
            tokens=segment.tokens,
            score=NEVER if segment.pinned else parts.total,
            recency=parts.recency,
            type_worth=parts.type,
            references=parts.references,
            generation=parts.generation,
            standing=standing,
            action=action,
            refcount=places.refcount(number),
            steps_idle=max(self._working.step - (segment.last_touched_step or 0), 0),
            touched_at=segment.last_touched_at,
            root=root,
            path=path,
        )

    def to_compress(self, roots: Roots, marked: bytearray, limit: int) -> Iterator[Verdict]:
        """The longest of what is reachable, cold, important and verbose."""
        places, config = self._places, self._places.config
        graph, keys = places.graph, places.keys
        sizes: list[tuple[int, str, int]] = []
        for kin, heap in places.queues.heaps.items():
            important = max(
                config.type_importances[_TYPES[kin[0]]], kin[1] / config.references_for_full
            )
            if important < config.important_from:
                continue
            cold = self.scorer.cold_until
            sizes += [
                (segment.tokens, segment.segment_id, number)
                for number in heap
                if marked[number]
                and keys[number] <= cold
                and (segment := graph.segments[number]) is not None
                and segment.tokens >= config.verbose_tokens
                and not roots.why(number)
            ]
        for _, _, number in nlargest(limit, sizes):
            yield self.verdict(number, Standing.REACHABLE, Action.COMPRESS)
