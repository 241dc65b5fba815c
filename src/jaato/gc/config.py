"""`GCConfig`: when a collection runs, how far it goes, and what it must leave alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final

from jaato.gc.options import CONFIG_KEYS, OPTIONS, check_gap, check_value
from jaato.gc.problems import ConfigError, Problem, shown

# Measured on a 40K window over 299 calls (docs/design/configuration.md): a smaller gap rewrites
# the cached prefix so often that it costs more than it saves.
SMALL_GAP_PERCENT: Final = 15.0
_DEFAULT_RATIO: Final = 60.0 / 80.0
_WHERE: Final = "GCConfig"
_THRESHOLD: Final = "threshold_percent"
_PAIR: Final = frozenset({_THRESHOLD, "target_percent"})
_PINS: Final = "pinned_turn_indices"
_MAY_BE_NONE: Final = ("max_turns", "pressure_percent")


class _Default(float):
    """A percentage that nobody wrote down. It looks like any float, and survives copies."""

    problem: Problem | None = None


def default_percent(key: str) -> float:
    """The environment's value for a key, else the default; marked as not explicit."""
    option = OPTIONS[key]
    assert isinstance(option.default, float)
    text = os.environ.get(option.env, "").strip() if option.env else ""
    if not text:
        return _Default(option.default)
    try:
        value = _Default(text)
    except ValueError:
        value = _Default("nan")
    if check_value(option, value, where=""):
        # Raising waits for the other fields, so that every problem is told at once.
        value.problem = Problem(
            f"environment variable {option.env}",
            key,
            text,
            f"{shown(text)} is not a number from 0 to 100",
            f"unset it for the default, {option.default}",
        )
    return value


def is_default(value: object) -> bool:
    """Whether a percentage comes from the environment or the table, and not from the caller."""
    return isinstance(value, _Default)


@dataclass
class GCConfig:
    """Thresholds, mode and preservation of one collector.

    An explicit value wins over the environment, which wins over the default. A target that was
    not given follows a threshold at or below it, in the proportion of the defaults (60 to 80).
    """

    threshold_percent: float = field(default_factory=partial(default_percent, "threshold_percent"))
    target_percent: float = field(default_factory=partial(default_percent, "target_percent"))
    pressure_percent: float | None = field(
        default_factory=partial(default_percent, "pressure_percent")
    )
    max_turns: int | None = None
    auto_trigger: bool = True
    check_before_send: bool = True
    preserve_recent_turns: int = 5
    pinned_turn_indices: list[int] = field(default_factory=list)
    plugin_config: dict[str, Any] = field(default_factory=dict)
    preserve_recent_steps: int = 8
    min_free_percent: float = 0.0
    stash: str = "required"
    stub_content: str = "lines"

    def __post_init__(self) -> None:
        self._accepted: tuple[float, float] | None = None
        problems = self._value_problems()
        if not problems:
            self._settle()
            problems = self.problems()
        if problems:
            raise ConfigError(problems)

    @property
    def continuous_mode(self) -> bool:
        """Whether every turn trims to the target, instead of waiting for the threshold."""
        return not self.pressure_percent

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now: fields may have been assigned since the configuration was made."""
        return self._value_problems() or self._gap_problems()

    def advice(self) -> tuple[str, ...]:
        """What is allowed and likely to cost more than it saves."""
        gap = self.threshold_percent - self.target_percent
        if self.continuous_mode:
            told = (
                "continuous mode rewrites the cached prefix at nearly every turn; where the "
                "provider caches prompts, a pressure_percent above 0 is cheaper"
            )
        elif gap <= 0:
            told = (
                f"target_percent ({self.target_percent:g}) is not below threshold_percent "
                f"({self.threshold_percent:g}), so a collection at the threshold frees nothing"
            )
        elif gap < SMALL_GAP_PERCENT:
            told = (
                f"threshold_percent and target_percent are {gap:g} points apart; below "
                f"{SMALL_GAP_PERCENT:g} the cached prefix is rewritten so often that it costs "
                "more than it saves"
            )
        else:
            return ()
        return (told,)

    def overlaid(self, options: Mapping[str, Any]) -> GCConfig:
        """This configuration with a plug-in's own options laid over it.

        None means "not given", except for `pressure_percent`. Pins add up, so that no option
        loses one. Never raises: ask the outcome for its `problems()`.
        """
        over = {
            key: options[key]
            for key in CONFIG_KEYS & options.keys()
            if options[key] is not None or key == "pressure_percent"
        }
        if not over and self._is_settled():
            return self
        # Called before every model call; `copy.copy` would take longer than all the rest.
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        new._lay(over)
        return new

    def _lay(self, over: Mapping[str, Any]) -> None:
        pins = self.pinned_turn_indices
        for key, value in over.items():
            setattr(self, key, value)
        if "pinned_turn_indices" in over and not (_wrong(_PINS, pins) or self._wrong(_PINS)):
            self.pinned_turn_indices = sorted({*pins, *self.pinned_turn_indices})
        if over.keys() & _PAIR or not self._is_settled():
            self._settle()

    def _is_settled(self) -> bool:
        target, threshold = self.target_percent, self.threshold_percent
        if not isinstance(target, _Default) or self.continuous_mode:
            return True
        return not self._wrong(_THRESHOLD) and (
            target < threshold or target <= threshold * _DEFAULT_RATIO
        )

    def _settle(self) -> None:
        if any(map(self._wrong, _PAIR)):
            return
        if not self._is_settled():
            self.target_percent = _Default(self.threshold_percent * _DEFAULT_RATIO)
        # A target above a threshold that nobody wrote down is odd, not wrong: `advice` tells.
        # Any later assignment makes another pair, which is compared as it stands.
        written = not isinstance(self.threshold_percent, _Default)
        self._accepted = None if written else (self.threshold_percent, self.target_percent)

    def _wrong(self, key: str) -> Problem | None:
        return _wrong(key, getattr(self, key))

    def _value_problems(self) -> tuple[Problem, ...]:
        return tuple(filter(None, (self._wrong(one.name) for one in fields(self))))

    def _gap_problems(self) -> tuple[Problem, ...]:
        pair = (self.threshold_percent, self.target_percent)
        if isinstance(self.target_percent, _Default) or pair == self._accepted:
            return ()
        return check_gap(vars(self), where=_WHERE)


def _wrong(key: str, value: object) -> Problem | None:
    if isinstance(value, _Default) and value.problem:
        return value.problem
    if value is None:
        if key in _MAY_BE_NONE:
            return None
        return Problem(_WHERE, key, None, "None is not a value", "leave it out for the default")
    return check_value(OPTIONS[key], value, where=_WHERE)
