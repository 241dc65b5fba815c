"""Subagent profiles: one JSON file each below `.jaato/profiles/`, and the `gc` object in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from jaato.errors import UsageError
from jaato.gc.config import GCConfig, default_percent, is_default
from jaato.gc.problems import ConfigError, Problem, nearest, shown
from jaato.settings.gc_file import Sections, read_sections
from jaato.settings.problems import Document, read_document

_LOG = logging.getLogger(__name__)


@dataclass
class GCProfileConfig:
    """The collector of one subagent, as its profile writes it.

    A `target_percent` or `pressure_percent` of None was not given. (In a file `null` is continuous
    mode, and arrives here as 0.) Options without a field of their own stand in `plugin_config`.
    """

    type: str = "truncate"
    threshold_percent: float = field(default_factory=partial(default_percent, "threshold_percent"))
    target_percent: float | None = None
    pressure_percent: float | None = None
    preserve_recent_turns: int = 5
    notify_on_gc: bool = True
    summarize_middle_turns: int | None = None
    max_turns: int | None = None
    plugin_config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GCProfileConfig:
        """The profile in a `gc` object; every schema and key of `gc.json` will do."""
        return cls._of(read_sections(data, where="gc"))

    @classmethod
    def _of(cls, sections: Sections) -> GCProfileConfig:
        known = {one.name for one in fields(cls)}
        values = dict(sections.values)
        if values.get("pressure_percent", 0) is None:
            values["pressure_percent"] = 0.0
        rest = {key: values.pop(key) for key in sections.values if key not in known}
        return cls(type=sections.name, plugin_config={**rest, **sections.plugin_config}, **values)

    def to_gc_config(self) -> GCConfig:
        """The configuration part. Raises `ConfigError` where a field was filled with nonsense."""
        return self._sections().config()

    def plugin_options(self) -> dict[str, Any]:
        """What the plug-in itself is initialised with."""
        return self._sections().options()

    def _sections(self) -> Sections:
        written = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.pressure_percent is None:
            del written["pressure_percent"]
        if is_default(self.threshold_percent):
            del written["threshold_percent"]
        return read_sections(written, where="GCProfileConfig")


@dataclass
class SubagentProfile:
    """A subagent that can be spawned by its name."""

    name: str
    description: str = ""
    plugins: list[str] = field(default_factory=list)
    plugin_configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    system_instructions: str | None = None
    model: str | None = None
    provider: str | None = None
    max_turns: int | None = None
    auto_approved: bool = False
    icon: str | list[str] | None = None
    gc: GCProfileConfig | None = None


def discover_profiles(
    dir: str | Path,  # noqa: A002 -- the specification of record names it so
    base_path: str | Path | None = None,
    *,
    strict: bool = False,
) -> dict[str, SubagentProfile]:
    """The profiles in a directory by their name, in the order of their files.

    A broken one is logged with its reason and left out; `strict` raises with the reasons of all.
    """
    folder = Path(base_path or "") / dir
    profiles: dict[str, SubagentProfile] = {}
    found: list[Problem] = []
    for path in _files(folder, found):
        try:
            profile = _profile(read_document(path), path.stem)
        except ConfigError as error:
            found += error.problems
        except UsageError as error:  # the file went away since the directory was listed
            found.append(Problem(str(path), "", None, str(error)))
        else:
            if profiles.setdefault(profile.name, profile) is not profile:
                message = f"another file already has a profile named {shown(profile.name)}"
                found.append(Problem(str(path), "name", profile.name, message))
    if found and strict:
        raise ConfigError(found)
    for problem in found:
        _LOG.warning("profile left out: %s", problem)
    return profiles


def _files(folder: Path, found: list[Problem]) -> list[Path]:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        found.append(Problem(str(folder), "", None, f"cannot be read: {reason}"))
        return []
    visible = (name for name in names if name.endswith(".json") and not name.startswith("."))
    return [folder / name for name in sorted(visible)]


def read_profile(values: Mapping[str, Any], *, over: SubagentProfile) -> SubagentProfile:
    """A profile given as an object: what it leaves out is as in another one."""
    document = Document(where="inline_config", values=dict(values))
    inline = _profile(document, over.name)
    given = {key for key, value in values.items() if value is not None}
    return replace(over, **{key: getattr(inline, key) for key in given})


def _profile(document: Document, stem: str) -> SubagentProfile:
    """The profile in a file. Its name is only ever a name, whatever path it spells."""
    found = list(document.problems)
    values = {key: value for key, value in document.values.items() if value is not None}
    for key, value in values.items():
        found += _key_problems(key, value, document.where)
    gc = None
    if "gc" in values:
        try:
            gc = GCProfileConfig._of(  # noqa: SLF001 -- this module's own
                read_sections(values.pop("gc"), where=document.where, prefix="gc.")
            )
        except ConfigError as error:
            found += error.problems
    if found:
        raise ConfigError(found)
    return SubagentProfile(**{"name": stem, **values}, gc=gc)


def _key_problems(key: str, value: object, where: str) -> Iterator[Problem]:
    if key not in _KEYS:
        message = f"no such key (its value is {shown(value)})"
        yield Problem(where, key, value, message, nearest(key, _KEYS))
        return
    is_right, expected = _KEYS[key]
    if not is_right(value):
        yield Problem(where, key, value, f"{shown(value)} is not {expected}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _are_objects(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_KEYS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "name": (_is_name, "a name"),
    "description": (_is_text, "a text"),
    "plugins": (_are_names, "a list of plug-in names"),
    "plugin_configs": (_are_objects, "an object that holds one object for each plug-in"),
    "system_instructions": (_is_text, "a text"),
    "model": (_is_name, "a name"),
    "provider": (_is_name, "a name"),
    "max_turns": (_is_positive, "a whole number from 1"),
    "auto_approved": (lambda value: isinstance(value, bool), "true or false"),
    "icon": (lambda value: _is_text(value) or _are_names(value), "a text or a list of lines"),
    "gc": (lambda _: True, "what `read_sections` checks"),
}
