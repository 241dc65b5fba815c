"""Every option of a collection: one table, and the checks that read it.

`docs/configuration.md` prints this table, and a test holds the two together. Nothing here knows
where values come from; whoever reads a file, a mapping or the environment says where it looked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from jaato.gc.problems import ConfigError, Problem, nearest, shown

__all__ = (
    "CONFIG_KEYS",
    "OPTIONS",
    "PLACEHOLDERS",
    "PLUGIN_KEYS",
    "STRATEGIES",
    "SUMMARIZERS",
    "ConfigError",
    "Kind",
    "Option",
    "Place",
    "Problem",
    "check_gap",
    "check_mapping",
    "check_options",
    "check_template",
    "check_value",
    "full_name",
)

STRATEGIES: Final = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
DEFAULT_MIDDLE_TURNS: Final = 10
SUMMARIZERS: Final = ("extractive", "model")
STASHING: Final = ("required", "best_effort", "off")
STUB_CONTENTS: Final = ("plain", "head_tail", "lines")
PLACEHOLDERS: Final = (
    "removed",
    "kept",
    "tokens_freed",
    "truncated",
    "summarized",
    "items",
    "freed",
)


class Kind(StrEnum):
    """What a value must be; the value is how the docs call it."""

    PERCENT = "number"
    COUNT = "whole number"
    FLAG = "true or false"
    TURNS = "list of turn numbers"
    MAPPING = "object"
    TEMPLATE = "template"
    TEXT = "text"
    SUMMARIZER = "summarizer"
    CHOICE = "one of"


class Place(StrEnum):
    """Which of the layers an option belongs to."""

    CONFIG = "config"
    PLUGIN = "plugin"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the table."""

    key: str
    place: Place
    kind: Kind
    default: object
    doc: str
    strategies: tuple[str, ...] = STRATEGIES
    env: str | None = None
    file_default: object = None
    null: str = "the default"
    choices: tuple[str, ...] = ()


_CONFIG = (
    Option(
        key="threshold_percent",
        place=Place.CONFIG,
        kind=Kind.PERCENT,
        default=80.0,
        env="JAATO_GC_THRESHOLD",
        doc="Collect when this share of the window is in use. Ignored in continuous mode.",
    ),
    Option(
        key="target_percent",
        place=Place.CONFIG,
        kind=Kind.PERCENT,
        default=60.0,
        env="JAATO_GC_TARGET",
        doc="How full the window may be after a collection.",
    ),
    Option(
        key="pressure_percent",
        place=Place.CONFIG,
        kind=Kind.PERCENT,
        default=90.0,
        env="JAATO_GC_PRESSURE",
        null="continuous mode",
        doc="From here on PRESERVABLE entries may leave too. 0 is continuous mode (`gc_budget`).",
    ),
    Option(
        key="max_turns",
        place=Place.CONFIG,
        kind=Kind.COUNT,
        default=None,
        null="no limit",
        doc="Collect when a session has more turns than this.",
    ),
    Option(
        key="auto_trigger",
        place=Place.CONFIG,
        kind=Kind.FLAG,
        default=True,
        doc="Collect without being asked. When false, only a manual call collects.",
    ),
    Option(
        key="check_before_send",
        place=Place.CONFIG,
        kind=Kind.FLAG,
        default=True,
        doc="Look at the window before each send.",
    ),
    Option(
        key="preserve_recent_turns",
        place=Place.CONFIG,
        kind=Kind.COUNT,
        default=5,
        doc="The last turns, which always stay.",
    ),
    Option(
        key="pinned_turn_indices",
        place=Place.CONFIG,
        kind=Kind.TURNS,
        default=[],
        doc="Turns that always stay, by their number since the session began, from 0.",
    ),
    Option(
        key="plugin_config",
        place=Place.CONFIG,
        kind=Kind.MAPPING,
        default={},
        doc="The plug-in's own options; they win over the same keys beside it.",
    ),
    Option(
        key="preserve_recent_steps",
        place=Place.CONFIG,
        kind=Kind.COUNT,
        default=8,
        strategies=("gc_budget",),
        doc="The last steps of a long turn, whose content is never replaced by a stub.",
    ),
    Option(
        key="min_free_percent",
        place=Place.CONFIG,
        kind=Kind.PERCENT,
        default=0.0,
        doc="A collection that would free less than this share of the window is left out.",
    ),
    Option(
        key="stash",
        place=Place.CONFIG,
        kind=Kind.CHOICE,
        default="required",
        choices=STASHING,
        doc="`required`: a session takes away only what it could keep. `best_effort`, `off`.",
    ),
    Option(
        key="stub_content",
        place=Place.CONFIG,
        kind=Kind.CHOICE,
        default="lines",
        choices=STUB_CONTENTS,
        doc="What a session's stubs show: `plain`, `head_tail`, or `lines`, those with rare names.",
    ),
)
_PLUGIN = (
    Option(
        key="notify_on_gc",
        place=Place.PLUGIN,
        kind=Kind.FLAG,
        default=False,
        file_default=True,
        doc="Tell the model, in one message, that something left.",
    ),
    Option(
        key="notification_template",
        place=Place.PLUGIN,
        kind=Kind.TEMPLATE,
        default=None,
        doc="The text of that message.",
    ),
    Option(
        key="summarizer",
        place=Place.PLUGIN,
        kind=Kind.SUMMARIZER,
        default=None,
        strategies=("gc_summarize", "gc_hybrid"),
        doc='Makes summaries: a callable, or `"extractive"` or `"model"`.',
    ),
    Option(
        key="summarize_middle_turns",
        place=Place.PLUGIN,
        kind=Kind.COUNT,
        default=DEFAULT_MIDDLE_TURNS,
        strategies=("gc_hybrid",),
        doc="How many turns before the recent ones are summarized; older ones leave.",
    ),
    Option(
        key="summarize_prompt",
        place=Place.PLUGIN,
        kind=Kind.TEXT,
        default=None,
        strategies=("gc_summarize", "gc_hybrid"),
        doc="Replaces the prompt of a model's summary.",
    ),
)
_FILE = (
    Option(
        key="type",
        place=Place.FILE,
        kind=Kind.TEXT,
        default="truncate",
        doc="The strategy, with or without `gc_`.",
    ),
    Option(
        key="plugin",
        place=Place.FILE,
        kind=Kind.TEXT,
        default="truncate",
        doc="The same as `type`, in the second schema.",
    ),
    Option(
        key="config",
        place=Place.FILE,
        kind=Kind.MAPPING,
        default={},
        doc="Any of the keys above, in the second schema.",
    ),
)

OPTIONS: Final[Mapping[str, Option]] = MappingProxyType(
    {option.key: option for option in (*_CONFIG, *_PLUGIN, *_FILE)}
)
CONFIG_KEYS: Final = frozenset(option.key for option in _CONFIG)
PLUGIN_KEYS: Final = frozenset(option.key for option in _PLUGIN)


def full_name(strategy: str) -> str:
    """`gc_hybrid` for `hybrid`; a name that is none of ours stays as it is."""
    return f"gc_{strategy}" if f"gc_{strategy}" in STRATEGIES else strategy


def check_value(option: Option, value: object, *, where: str, key: str = "") -> Problem | None:
    """What is wrong with one value. Whether None stands for an absent one is the caller's rule."""
    key = key or option.key
    if option.kind is Kind.TEMPLATE:
        return check_template(value, where=where, key=key)
    if option.kind is Kind.CHOICE:
        mismatch = _choice(value, option.choices)
    else:
        mismatch = _CHECKS[option.kind](value)
    if mismatch is None:
        return None
    expected, hint = mismatch
    if option.null != "the default":
        hint = hint or f"null or None is {option.null}"
    return Problem(where, key, value, f"{shown(value)} is not {expected}", hint)


def check_options(
    strategy: str, options: object, *, where: str | None = None
) -> tuple[Problem, ...]:
    """Everything that is wrong with a plug-in's options, at once.

    None means "not given". Of a strategy that is not ours only the keys of `GCConfig` are checked.
    """
    place = where or full_name(strategy)
    if not isinstance(options, Mapping):
        return (Problem(place, "", options, f"{shown(options)} is not a mapping of options"),)
    return (*check_mapping(strategy, options, where=place), *check_gap(options, where=place))


def check_mapping(
    strategy: str,
    values: Mapping[Any, object],
    *,
    where: str,
    prefix: str = "",
    also: Collection[str] = (),
) -> tuple[Problem, ...]:
    """The problems of each key by itself; `also` are keys that somebody else looks at."""
    ours = full_name(strategy) in STRATEGIES
    known = CONFIG_KEYS | PLUGIN_KEYS if ours else CONFIG_KEYS
    problems = []
    for key, value in values.items():
        problem = None
        if not isinstance(key, str):
            problem = Problem(where, shown(key), value, "a key must be text")
        elif key in known:
            if value is not None:
                problem = check_value(OPTIONS[key], value, where=where, key=prefix + key)
        elif ours and key not in also:
            known_here = known.union(also)
            hint = "only at the top of a file" if key in OPTIONS else nearest(key, known_here)
            message = f"no such key (its value is {shown(value)})"
            problem = Problem(where, prefix + key, value, message, hint)
        if problem:
            problems.append(problem)
    return tuple(problems)


def check_gap(values: Mapping[Any, object], *, where: str, prefix: str = "") -> tuple[Problem, ...]:
    """A target above its threshold, where both are given and the mode is not continuous."""
    threshold, target = values.get("threshold_percent"), values.get("target_percent")
    if _percent(threshold) or _percent(target) or not values.get("pressure_percent", True):
        return ()
    assert isinstance(threshold, int | float)
    assert isinstance(target, int | float)
    if target <= threshold:
        return ()
    message = f"{shown(target)} is above threshold_percent ({shown(threshold)})"
    hint = "a collection starts at the threshold and stops at the target"
    return (Problem(where, f"{prefix}target_percent", target, message, hint),)


# A trial run could not tell a harmless width from one that fills the memory.
_FORMAT_SPEC = re.compile(r"(?:[<>^]?[0-9]{1,2})?[,_]?d?")


def check_template(
    template: object, *, where: str = "options", key: str = "notification_template"
) -> Problem | None:
    """What is wrong with a notification template, if anything; every value in it is a count."""
    if not isinstance(template, str):
        return Problem(where, key, template, f"{shown(template)} is not text")
    try:
        fields = list(Formatter().parse(template))
    except ValueError as error:
        message = f"{shown(template)} is no template: {error}"
        return Problem(where, key, template, message, "write a brace that is text twice")
    for _, name, spec, conversion in fields:
        if name is None:
            continue
        if name not in PLACEHOLDERS:
            message = f"{shown(template)} has an unknown placeholder, {shown('{' + name + '}')}"
            return Problem(where, key, template, message, nearest(name, PLACEHOLDERS))
        if conversion or not _FORMAT_SPEC.fullmatch(spec or ""):
            message = f"{shown(template)} formats {name} in an unknown way"
            return Problem(where, key, template, message, f"write {{{name}}} or {{{name}:,}}")
    return None


Mismatch: TypeAlias = tuple[str, str | None] | None
"""What was expected instead, and a hint; None where the value is right."""


def _percent(value: object) -> Mismatch:
    # Both comparisons are false for NaN.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _ALL:
        return None
    return "a number from 0 to 100", _unquoted(value)


def _count(value: object) -> Mismatch:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    return "a whole number from 0", _unquoted(value)


def _flag(value: object) -> Mismatch:
    return None if isinstance(value, bool) else ("true or false", _unquoted(value))


def _turns(value: object) -> Mismatch:
    if isinstance(value, list | tuple | set | frozenset | range) and not any(map(_count, value)):
        return None
    return "a list of turn numbers from 0", None


def _mapping(value: object) -> Mismatch:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return None
    return "an object with text keys", None


def _text(value: object) -> Mismatch:
    return None if isinstance(value, str) and value.strip() else ("a text", None)


def _summarizer(value: object) -> Mismatch:
    if callable(value) or (isinstance(value, str) and value in SUMMARIZERS):
        return None
    return "a summarizer", nearest(value if isinstance(value, str) else "", SUMMARIZERS)


def _choice(value: object, choices: tuple[str, ...]) -> Mismatch:
    if isinstance(value, str) and value in choices:
        return None
    expected = f"one of {', '.join(choices)}"
    return expected, nearest(value if isinstance(value, str) else "", choices)


def _unquoted(value: object) -> str | None:
    return "leave out the quotes" if isinstance(value, str) else None


_ALL: Final = 100
_CHECKS: Final[Mapping[Kind, Callable[[object], Mismatch]]] = {
    Kind.PERCENT: _percent,
    Kind.COUNT: _count,
    Kind.FLAG: _flag,
    Kind.TURNS: _turns,
    Kind.MAPPING: _mapping,
    Kind.TEXT: _text,
    Kind.SUMMARIZER: _summarizer,
}
