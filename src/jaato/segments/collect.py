"""Collections: which segments leave, in which order, and why; plans are values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from jaato.segments.changes import Change, Removed, Survived
from jaato.segments.judge import Judge
from jaato.segments.path import path_to
from jaato.segments.queues import Due
from jaato.segments.reach import Doubts, Roots, mark
from jaato.segments.roots import NO_HINTS, Hints, RootKind
from jaato.segments.verdict import Action, Standing, Verdict
from jaato.segments.working import WorkingSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """What a collection would take, in this order."""

    verdicts: tuple[Verdict, ...] = ()
    tokens_before: int
    tokens_freed: int = 0
    goal_tokens: int | None = None
    because: str
    spared: tuple[str, ...] | None = ()
    """What survives it: these; None: all that is left."""

    @property
    def tokens_after(self) -> int:
        """What stays."""
        return self.tokens_before - self.tokens_freed

    @property
    def is_nothing(self) -> bool:
        """Whether everything stays."""
        return not self.verdicts

    @property
    def ids(self) -> tuple[str, ...]:
        """What leaves."""
        return tuple(verdict.segment_id for verdict in self.verdicts)

    @property
    def to_stash(self) -> tuple[str, ...]:
        """What must be found again later."""
        return self._with(Action.STASH)

    @property
    def to_delete(self) -> tuple[str, ...]:
        """What nobody will miss."""
        return self._with(Action.DELETE)

    def _with(self, action: Action) -> tuple[str, ...]:
        return tuple(each.segment_id for each in self.verdicts if each.action is action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """How things stand, and what would leave first."""

    candidates: tuple[Verdict, ...]
    total_candidates: int
    compress: tuple[Verdict, ...]
    roots: dict[RootKind, int]
    reachable_segments: int
    unreachable_segments: int
    tokens_before: int

    @property
    def tokens_freed(self) -> int:
        """What the listed candidates hold."""
        return sum(verdict.tokens for verdict in self.candidates)

    @property
    def tokens_after(self) -> int:
        """What stays without them."""
        return self.tokens_before - self.tokens_freed


def plan_due(working: WorkingSet, *, now: datetime, hints: Hints = NO_HINTS) -> CollectionPlan:
    """What is due after a change: a full collection above the hard limit, else a step."""
    hard = working.config.hard_limit_tokens
    if hard is not None and working.tokens > hard:
        return plan_collection(working, now=now, hints=hints)
    return plan_step(working, now=now, hints=hints)


def plan_step(working: WorkingSet, *, now: datetime, hints: Hints = NO_HINTS) -> CollectionPlan:
    """A small batch, if the soft limit is crossed; costs the same at any number of segments."""
    config, tokens = working.config, working.tokens
    goal = config.soft_limit_tokens
    if goal is None or tokens <= goal:
        return _nothing(working, goal)
    roots = Roots(working.places, hints)
    judge = Judge(working, now)
    doubts = Doubts(working.places, roots, visits=config.step_visits)
    proven: list[Due] = []
    others: list[Due] = []
    skipped = 0
    # What is skipped is few: recent messages and edits, and what the caller hints at.
    for due in working.places.queues.lowest(judge.scorer.of):
        if len(proven) + len(others) >= config.step_looks or skipped > config.step_visits:
            break
        if roots.why(due[3]):
            skipped += 1
            continue
        (proven if doubts.is_unreachable(due[3]) else others).append(due)
    verdicts: list[Verdict] = []
    freed = 0
    ordered = ((due, Standing.UNREACHABLE) for due in proven)
    after = ((due, Standing.UNPROVEN) for due in others)
    for due, standing in (*ordered, *after):
        if tokens - freed <= goal or len(verdicts) >= config.step_batch:
            break
        verdict = judge.leaving(due, standing)
        verdicts.append(verdict)
        freed += verdict.tokens
    taken = {verdict.segment_id for verdict in verdicts}
    return CollectionPlan(
        verdicts=tuple(verdicts),
        tokens_before=tokens,
        tokens_freed=freed,
        goal_tokens=goal,
        because=f"{tokens:,} tokens are above the soft limit of {goal:,}",
        spared=tuple(due[2] for due in (*proven, *others) if due[2] not in taken),
    )


def plan_collection(
    working: WorkingSet,
    *,
    now: datetime,
    target_tokens: int | None = None,
    hints: Hints = NO_HINTS,
) -> CollectionPlan:
    """What leaves until the goal is reached: unreachable first, then the lowest scores.

    Without a target: down to the configured one, if the soft limit is crossed.
    """
    tokens, config = working.tokens, working.config
    goal = config.goal_tokens if target_tokens is None else target_tokens
    threshold = config.starts_above if target_tokens is None else target_tokens
    if goal is None or threshold is None or tokens <= threshold:
        return _nothing(working, threshold)
    roots = Roots(working.places, hints)
    judge = Judge(working, now)
    verdicts: list[Verdict] = []
    freed = 0
    for standing, due in judge.rank(roots, mark(working.places, roots)).in_order():
        if tokens - freed <= goal:
            break
        verdict = judge.leaving(due, standing)
        verdicts.append(verdict)
        freed += verdict.tokens
    short = tokens - freed - goal
    end = f"; all else are roots, {short:,} above the goal" if short > 0 else ""
    return CollectionPlan(
        verdicts=tuple(verdicts),
        tokens_before=tokens,
        tokens_freed=freed,
        goal_tokens=goal,
        because=f"{tokens:,} tokens are above the goal of {goal:,}{end}",
        spared=None,
    )


def analyze(
    working: WorkingSet,
    *,
    now: datetime,
    limit: int = 20,
    target_tokens: int | None = None,
    hints: Hints = NO_HINTS,
) -> Analysis:
    """The first `limit` to leave, whether or not anything must.

    With a target no more than it takes to get there. Otherwise what is unreachable, and what is
    reachable and scores below `reachable_below`.
    """
    roots = Roots(working.places, hints)
    marked = mark(working.places, roots)
    judge = Judge(working, now)
    below = None if target_tokens is not None else working.config.reachable_below
    candidates: list[Verdict] = []
    left = working.tokens
    ranking = judge.rank(roots, marked, limit=limit, reachable_below=below)
    for standing, due in ranking.in_order():
        if len(candidates) >= limit or (target_tokens is not None and left <= target_tokens):
            break
        verdict = judge.leaving(due, standing)
        candidates.append(verdict)
        left -= verdict.tokens
    kinds = Counter(roots.all().values())
    reachable = sum(marked)
    return Analysis(
        candidates=tuple(candidates),
        total_candidates=ranking.eligible,
        compress=tuple(judge.to_compress(roots, marked, limit)),
        roots=dict(kinds),
        reachable_segments=reachable,
        unreachable_segments=len(working) - reachable,
        tokens_before=working.tokens,
    )


def explain(
    working: WorkingSet, segment_id: str, *, now: datetime, hints: Hints = NO_HINTS
) -> Verdict:
    """How one segment stands, by which way the roots lead to it, and what it is worth.

    Looks at no more than ten steps would.
    """
    segment = working[segment_id]
    number = working.places.graph.number(segment.segment_id)
    assert number is not None
    roots, judge = Roots(working.places, hints), Judge(working, now)
    if roots.why(number):
        return judge.verdict(number, Standing.ROOT, Action.KEEP, root=roots.why(number))
    visits = 10 * working.config.step_visits
    if Doubts(working.places, roots, visits=visits).is_unreachable(number):
        return judge.verdict(number, Standing.UNREACHABLE, Action.KEEP)
    path = path_to(working.places, roots, number, visits=visits)
    standing = Standing.REACHABLE if path else Standing.UNPROVEN
    return judge.verdict(number, standing, Action.KEEP, path=path)


def carry_out(working: WorkingSet, collection: CollectionPlan) -> tuple[Change, ...]:
    """Take out what a collection named, and count those that survived it.

    What was pinned, became a root or left since it was planned is passed over. Stash first.
    """
    roots = Roots(working.places)
    leaving = []
    for segment_id in collection.ids:
        number = working.places.graph.number(segment_id)
        if number is not None and not roots.why(number):
            leaving.append(segment_id)
    if not leaving:
        return ()
    removed = Removed(step=working.step, ids=tuple(leaving), why=collection.because)
    survived = Survived(step=working.step, ids=collection.spared)
    changes: tuple[Change, ...] = (removed, survived)
    for change in changes:
        working.apply(change)
    return changes


def _nothing(working: WorkingSet, limit: int | None) -> CollectionPlan:
    because = "no limit is known, and no target was given"
    if limit is not None:
        because = f"{working.tokens:,} tokens are not above {limit:,}"
    return CollectionPlan(tokens_before=working.tokens, goal_tokens=limit, because=because)
