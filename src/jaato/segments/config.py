"""Every knob of the engine: names, defaults, and what each may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from jaato.errors import UsageError
from jaato.segments.segment import SEGMENT_TYPES

DEFAULT_TYPE_IMPORTANCES: Final[Mapping[str, float]] = MappingProxyType(
    {"decision": 1.0, "note": 0.8, "summary": 0.7, "code": 0.6, "message": 0.5, "log": 0.2}
)


class SegmentConfigError(UsageError):
    """Settings that cannot be used; `problems` holds (key, sentence) for every one of them."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{key}: {what}" for key, what in self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """How the engine scores, what it holds, and when it collects. Everything wrong is told at once.

    A limit of None is unknown: nothing is over it, and only an explicit goal collects.
    """

    soft_limit_tokens: int | None = None
    """Above it each step takes a small batch."""
    hard_limit_tokens: int | None = None
    """Above it a full collection is due."""
    target_tokens: int | None = None
    """Where a full collection stops; None: at the soft limit."""

    recency_weight: float = 0.4
    type_weight: float = 0.3
    reference_weight: float = 0.2
    generation_weight: float = 0.1
    type_importances: Mapping[str, float] = field(
        default_factory=lambda: DEFAULT_TYPE_IMPORTANCES, hash=False
    )
    """What is not named keeps its default."""
    references_for_full: int = 5
    young_bonus: float = 0.1
    half_life_steps: float = 100.0
    half_life_hours: float | None = None
    """If given, age counts time instead of steps."""
    floor_share: float = 0.5
    """The share of a type's importance below which its recency never falls."""

    recent_messages: int = 10
    recent_edits: int = 5
    active_lines: int = 200
    goal_tags: tuple[str, ...] = ("goal", "task")
    invariant_tags: tuple[str, ...] = ("invariant", "constraint", "overview")

    implicit_hops: int = 2
    group_limit: int = 1_000

    delete_below: float = 0.15
    """What is unreachable, unreferenced and scores below may be deleted instead of stashed."""
    reachable_below: float = 0.3
    """What is reachable is proposed by an analysis when it scores below."""
    promote_after: int = 2
    step_batch: int = 10
    step_looks: int = 32
    step_visits: int = 4_000
    verbose_tokens: int = 500
    important_from: float = 0.5

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise SegmentConfigError(problems)
        merged = MappingProxyType({**DEFAULT_TYPE_IMPORTANCES, **self.type_importances})
        object.__setattr__(self, "type_importances", merged)
        for key in ("goal_tags", "invariant_tags"):
            object.__setattr__(self, key, tuple(getattr(self, key)))

    @property
    def counts_time(self) -> bool:
        """Whether age is time, not steps."""
        return self.half_life_hours is not None

    @property
    def goal_tokens(self) -> int | None:
        """Where a full collection stops, if nobody says otherwise."""
        limits = (self.target_tokens, self.soft_limit_tokens, self.hard_limit_tokens)
        return next((limit for limit in limits if limit is not None), None)

    @property
    def starts_above(self) -> int | None:
        """From where on a collection takes something, if nobody says otherwise."""
        limits = (self.soft_limit_tokens, self.hard_limit_tokens, self.target_tokens)
        return next((limit for limit in limits if limit is not None), None)

    def changed(self, **changes: Any) -> SegmentConfig:
        """The same configuration with some keys changed; unknown ones are told with the nearest."""
        check_keys(changes)
        return replace(self, **changes)

    def for_window(
        self,
        token_limit: int,
        *,
        soft_percent: float = 70.0,
        hard_percent: float = 90.0,
        target_percent: float = 60.0,
    ) -> SegmentConfig:
        """The same configuration with its limits as shares of a window."""
        return self.changed(
            soft_limit_tokens=int(token_limit * soft_percent / 100),
            hard_limit_tokens=int(token_limit * hard_percent / 100),
            target_tokens=int(token_limit * target_percent / 100),
        )


def check_keys(keys: Iterable[str]) -> None:
    """Refuse keys that are none of ours."""
    known = [each.name for each in fields(SegmentConfig)]
    problems = []
    for key in keys:
        if key not in known:
            near = get_close_matches(str(key)[:80], known, n=1)
            wanted = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            problems.append((str(key), f"no such key ({wanted})"))
    if problems:
        raise SegmentConfigError(problems)


def config_to_dict(config: SegmentConfig) -> dict[str, Any]:
    """What differs from the defaults, as JSON."""
    default = SegmentConfig()
    document: dict[str, Any] = {}
    for each in fields(SegmentConfig):
        value = getattr(config, each.name)
        if value != getattr(default, each.name):
            document[each.name] = dict(value) if isinstance(value, Mapping) else value
            if isinstance(value, tuple):
                document[each.name] = list(value)
    return document


def config_from_dict(document: Mapping[str, Any]) -> SegmentConfig:
    """The configuration that `config_to_dict` wrote, or that somebody wrote by hand."""
    return SegmentConfig().changed(**document)


_SHARES: Final = (
    "recency_weight",
    "type_weight",
    "reference_weight",
    "generation_weight",
    "young_bonus",
    "floor_share",
    "delete_below",
    "reachable_below",
    "important_from",
)
_COUNTS_FROM: Final[Mapping[str, int]] = {
    "references_for_full": 1,
    "recent_messages": 0,
    "recent_edits": 0,
    "active_lines": 0,
    "implicit_hops": 0,
    "group_limit": 0,
    "promote_after": 1,
    "step_batch": 1,
    "step_looks": 1,
    "step_visits": 0,
    "verbose_tokens": 0,
}
# The classes of the step's queues are types x references x generations: they stay few.
_COUNTS_TO: Final[Mapping[str, int]] = {"references_for_full": 100, "promote_after": 10}
_WEIGHTS: Final = _SHARES[:4]
_ROUNDING: Final = 1e-9


def _problems(config: SegmentConfig) -> Iterable[tuple[str, str]]:
    yield from _score_problems(config)
    yield from _limit_problems(config)
    for key, least in _COUNTS_FROM.items():
        value, most = getattr(config, key), _COUNTS_TO.get(key)
        if type(value) is not int or value < least or (most is not None and value > most):
            end = "" if most is None else f" to {most}"
            yield key, f"{value!r:.60} is not a whole number from {least}{end}"
    for key in ("half_life_steps", "half_life_hours"):
        value = getattr(config, key)
        unused = value is None and key == "half_life_hours"
        if not unused and (not _is_number(value) or value <= 0):
            yield key, f"{value!r:.60} is not a number above 0"
    for key in ("goal_tags", "invariant_tags"):
        value = getattr(config, key)
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            yield key, f"{value!r:.60} is not a list of tags"


def _limit_problems(config: SegmentConfig) -> Iterable[tuple[str, str]]:
    known: list[tuple[str, int]] = []
    for key in ("target_tokens", "soft_limit_tokens", "hard_limit_tokens"):
        value = getattr(config, key)
        if type(value) is int and value >= 0:
            known.append((key, value))
        elif value is not None:
            yield key, f"{value!r:.60} is not a whole number from 0, or None for unknown"
    for (low, less), (high, more) in pairwise(known):
        if less > more:
            yield low, f"{less:,} is above {high} ({more:,}); target <= soft <= hard"
    looks, batch = config.step_looks, config.step_batch
    if type(looks) is type(batch) is int and looks < batch:
        yield "step_looks", f"{looks} is below step_batch ({batch})"


def _score_problems(config: SegmentConfig) -> Iterable[tuple[str, str]]:
    shares = {key: getattr(config, key) for key in _SHARES}
    bad = [key for key, value in shares.items() if not _is_share(value)]
    for key in bad:
        yield key, f"{shares[key]!r:.60} is not a number from 0 to 1"
    total = 1.0 if set(bad).intersection(_WEIGHTS) else sum(shares[key] for key in _WEIGHTS)
    if abs(total - 1.0) > _ROUNDING:
        yield "weights", f"the four weights sum to {total:g}, not 1, so a score is no share of 1"
    importances: object = config.type_importances
    if not isinstance(importances, Mapping):
        yield "type_importances", f"{importances!r:.60} is not a mapping of types to numbers"
        return
    for key, value in importances.items():
        if key not in SEGMENT_TYPES:
            yield f"type_importances.{key}", f"no such type (one of {', '.join(SEGMENT_TYPES)})"
        elif not _is_share(value):
            yield f"type_importances.{key}", f"{value!r:.60} is not a number from 0 to 1"


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and 0 <= value <= 1
