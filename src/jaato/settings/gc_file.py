"""`.jaato/gc.json` in both of its schemas, and the same object wherever else it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from jaato.gc.config import GCConfig
from jaato.gc.options import (
    CONFIG_KEYS,
    OPTIONS,
    STRATEGIES,
    check_mapping,
    check_value,
    full_name,
)
from jaato.gc.problems import ConfigError, Problem, shown
from jaato.gc.registry import registered_names
from jaato.settings.problems import read_document

DEFAULT_PATH: Final = Path(".jaato") / "gc.json"
_TOP_KEYS: Final = ("type", "plugin", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSettings:
    """What a file asks for: a strategy by its name, its configuration and its own options."""

    strategy: str
    config: GCConfig
    options: dict[str, Any]
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """An object whose every value has been checked, taken apart. Absent and null are not kept."""

    name: str
    values: dict[str, Any]
    plugin_config: dict[str, Any]

    @property
    def strategy(self) -> str:
        """The name a plug-in would be registered under."""
        return full_name(self.name)

    def config(self) -> GCConfig:
        """The configuration; what `plugin_config` says wins."""
        over = {**self.values, **self.plugin_config, "plugin_config": self.plugin_config}
        return GCConfig(**{key: over[key] for key in over if key in CONFIG_KEYS})

    def options(self) -> dict[str, Any]:
        """The plug-in's own options; one that is not ours gets all of its `plugin_config`."""
        notify = OPTIONS["notify_on_gc"]
        taken = CONFIG_KEYS if self.strategy in STRATEGIES else frozenset[str]()
        beside = {key: value for key, value in self.values.items() if key not in CONFIG_KEYS}
        own = {key: value for key, value in self.plugin_config.items() if key not in taken}
        return {notify.key: notify.file_default, **beside, **own}

    def settings(self) -> GCSettings:
        """All of it."""
        config = self.config()
        return GCSettings(
            strategy=self.strategy,
            config=config,
            options=self.options(),
            advice=(*config.advice(), *self._without_effect(config)),
        )

    def _without_effect(self, config: GCConfig) -> Iterable[str]:
        if self.strategy not in STRATEGIES:
            return
        for key in sorted({*self.values, *self.plugin_config}):
            if self.strategy not in OPTIONS[key].strategies:
                yield f"{key} has no effect with {self.strategy}"
        if config.continuous_mode and self.strategy != "gc_budget":
            yield f"{self.strategy} has no continuous mode: it waits for threshold_percent"


def load_gc_settings(path: str | Path = DEFAULT_PATH) -> GCSettings:
    """The settings in a file. Loads no plug-in: whether the strategy exists is not looked at."""
    document = read_document(Path(path))
    return read_sections(
        document.values, where=document.where, problems=document.problems
    ).settings()


def read_sections(
    document: object, *, where: str, prefix: str = "", problems: Iterable[Problem] = ()
) -> Sections:
    """A settings object, taken apart. Raises with everything that is wrong, `problems` included."""
    found = list(problems)
    if not isinstance(document, Mapping):
        message = f"{shown(document)} is not an object"
        raise ConfigError([*found, Problem(where, prefix.rstrip("."), document, message)])
    name = _name(document, where, prefix, found)
    found += check_mapping(name, document, where=where, prefix=prefix, also=_TOP_KEYS)
    config = _section(document, "config", where, prefix, found)
    found += check_mapping(name, config, where=where, prefix=f"{prefix}config.")
    own: dict[str, Any] = {}
    for holder, place in ((document, prefix), (config, f"{prefix}config.")):
        section = _section(holder, "plugin_config", where, place, found)
        inside = f"{place}plugin_config."
        found += check_mapping(name, section, where=where, prefix=inside)
        if "plugin_config" in section and full_name(name) in STRATEGIES:
            key, value = f"{inside}plugin_config", section["plugin_config"]
            found.append(Problem(where, key, value, "plugin_config holds no other one"))
        # The outermost is the one that the first schema documents.
        own = {**section, **own}
    flat = {key: value for key, value in document.items() if key not in _TOP_KEYS}
    values = {**_given(flat), **_given(config)}
    values.pop("plugin_config", None)
    sections = Sections(name=name, values=values, plugin_config=_given(own))
    found += _config_problems(sections, where, prefix, {problem.key for problem in found})
    if found:
        raise ConfigError(found)
    return sections


def _given(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The keys that say something. Null says something about the pressure only."""
    return {
        key: value
        for key, value in values.items()
        if value is not None or key == "pressure_percent"
    }


def _name(document: Mapping[Any, Any], where: str, prefix: str, found: list[Problem]) -> str:
    names = _given({key: document.get(key) for key in ("type", "plugin")})
    for key, value in list(names.items()):
        if problem := check_value(OPTIONS[key], value, where=where, key=prefix + key):
            found.append(problem)
            del names[key]
    if len({full_name(name) for name in names.values()}) > 1:
        message = f"{shown(names['plugin'])} is another strategy than type, {shown(names['type'])}"
        found.append(Problem(where, f"{prefix}plugin", names["plugin"], message, "keep one"))
    key, name = next(iter(names.items()), ("type", str(OPTIONS["type"].default)))
    meant = _meant(name)
    if meant is not None:
        message = f"no strategy named {shown(name)}"
        found.append(Problem(where, prefix + key, name, message, f"did you mean {meant!r}?"))
    return meant or name


def _meant(name: str) -> str | None:
    """The built-in strategy that a name misspells; None where it is a name of its own.

    Whether a third party's strategy is installed is only looked at when it is loaded.
    """
    short = name.removeprefix("gc_")
    if full_name(short) in STRATEGIES:
        return None
    ours = [strategy.removeprefix("gc_") for strategy in STRATEGIES]
    near = get_close_matches(short[:80], ours, n=1, cutoff=0.8)
    if not near or not registered_names().isdisjoint({name, f"gc_{short}"}):
        return None
    return near[0]


def _section(
    document: Mapping[Any, Any], key: str, where: str, prefix: str, found: list[Problem]
) -> Mapping[Any, Any]:
    section = document.get(key)
    if section is None:
        return {}
    if isinstance(section, Mapping):
        return section
    if key == "config":  # `plugin_config` is a row of the table, and checked with the others
        found.append(Problem(where, prefix + key, section, f"{shown(section)} is not an object"))
    return {}


def _config_problems(
    sections: Sections, where: str, prefix: str, known: set[str]
) -> Iterable[Problem]:
    """What only the whole can tell: the environment's values, and the gap."""
    sound = {
        key: value
        for key, value in {**sections.values, **sections.plugin_config}.items()
        if key in CONFIG_KEYS
        and (value is None or not check_value(OPTIONS[key], value, where=where))
    }
    try:
        GCConfig(**sound)
    except ConfigError as error:
        for problem in error.problems:
            ours = problem.where == "GCConfig"
            placed = replace(problem, where=where, key=prefix + problem.key) if ours else problem
            if placed.key not in known:
                yield placed
