"""Every GC plug-in that is installed, found by entry point. The built-ins use the same door."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from typing import Any, Final

from jaato.errors import JaatoError, UsageError
from jaato.gc.options import full_name
from jaato.gc.problems import shown
from jaato.gc.protocol import GC_PLUGIN_ENTRY_POINT, GCPlugin

log = logging.getLogger(__name__)

Factory = Callable[[], GCPlugin]

_CONTRACT: Final = ("initialize", "shutdown", "should_collect", "collect")
_LONGEST_NAME: Final = 80
_LONGEST_REASON: Final = 300


class UnknownStrategyError(UsageError):
    """No installed plug-in registers this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        candidates = [*self.known, *map(_short, self.known)]
        near = get_close_matches(name[:_LONGEST_NAME], candidates, n=1)
        super().__init__(
            f"no strategy named {shown(name)}",
            hint=f"did you mean {near[0]!r}?"
            if near
            else f"installed: {', '.join(self.known) or 'none'}; `jaato strategies` lists them",
        )

    def __reduce__(self) -> tuple[type[UnknownStrategyError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.name, self.known)


class BrokenPluginError(JaatoError):
    """A plug-in is installed and cannot be used; only who asks for it is told."""

    def __init__(self, name: str, origin: str, reason: str) -> None:
        super().__init__(
            f"the GC plug-in {name!r} from {origin} cannot be used: {reason}",
            hint="repair or remove that package; `jaato strategies` shows every plug-in",
        )
        self.name = name
        self.origin = origin
        self.reason = reason

    def __reduce__(self) -> tuple[type[BrokenPluginError], tuple[str, str, str]]:
        return type(self), (self.name, self.origin, self.reason)


@dataclass(frozen=True, slots=True)
class Registration:
    """One installed plug-in: where it comes from, and what is wrong with it, if anything."""

    name: str
    origin: str
    summary: str = ""
    error: str | None = None
    factory: Factory | None = None


class _UnusableError(Exception):
    """Why a plug-in cannot be used, in words."""


def installed_strategies() -> tuple[Registration, ...]:
    """Every registered plug-in, the broken ones with their reason, by name.

    Each is imported and made once, to see whether it can be used. Where several packages register
    one name, all but the first are listed as broken.
    """
    return tuple(
        _registration(entry) if at == 0 else _outranked(entry, entries[0])
        for _, entries in sorted(_entries().items())
        for at, entry in enumerate(entries)
    )


def registered_names() -> frozenset[str]:
    """The names of all plug-ins, sound or not. Imports none of them."""
    return frozenset(_entries())


def discover_gc_plugins() -> dict[str, Factory]:
    """The factories of all plug-ins that load, by name. A broken one is logged and left out."""
    found: dict[str, Factory] = {}
    for registration in installed_strategies():
        if registration.factory is None:
            log.warning(
                "GC plug-in %r from %s left out: %s",
                registration.name,
                registration.origin,
                registration.error,
            )
        else:
            found[registration.name] = registration.factory
    return found


def load_gc_plugin(name: str, config: dict[str, Any] | None = None) -> GCPlugin:
    """A plug-in by name (`gc_budget` or `budget`), made and initialised."""
    entries = _entries()
    # The short names of the built-ins are theirs too.
    wanted = next((one for one in (full_name(name), name, f"gc_{name}") if one in entries), None)
    if wanted is None:
        raise UnknownStrategyError(name, entries)
    entry = entries[wanted][0]
    try:
        plugin = _made(_factory(entry))
    except _UnusableError as error:
        raise BrokenPluginError(wanted, _origin(entry), str(error)) from error.__cause__
    try:
        plugin.initialize(config)
    except JaatoError:
        raise
    except Exception as error:
        reason = f"initialize() raised {_said(error)}"
        raise BrokenPluginError(wanted, _origin(entry), reason) from error
    return plugin


def _entries() -> dict[str, list[EntryPoint]]:
    """Who registers each name; the first is the one that is used."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in _all_entries():
        others = found.setdefault(entry.name, [])
        # Nobody takes the place of a built-in by registering its name.
        others.insert(0 if _is_ours(entry) else len(others), entry)
    return found


def _all_entries() -> Iterable[EntryPoint]:
    try:
        return entry_points(group=GC_PLUGIN_ENTRY_POINT)
    except Exception as error:  # noqa: BLE001 -- one garbled file of anybody's fails the call
        log.debug("looking at each distribution by itself: %s", error)
        return list(_each_by_itself())


def _each_by_itself() -> Iterator[EntryPoint]:
    seen: set[str] = set()
    for distribution in distributions():
        name, _ = _named(distribution)
        if name and name in seen:
            continue
        seen.add(name)
        try:
            yield from distribution.entry_points.select(group=GC_PLUGIN_ENTRY_POINT)
        except Exception as error:  # noqa: BLE001 -- likewise
            log.warning("the entry points of %s cannot be read: %s", name, _said(error))


def _registration(entry: EntryPoint) -> Registration:
    origin = _origin(entry)
    try:
        factory = _factory(entry)
        _made(factory)
    except _UnusableError as error:
        return Registration(entry.name, origin, error=str(error))
    return Registration(entry.name, origin, _summary(entry, factory), factory=factory)


def _outranked(entry: EntryPoint, winner: EntryPoint) -> Registration:
    reason = f"{_origin(winner)} has registered this name already"
    return Registration(entry.name, _origin(entry), error=reason)


def _factory(entry: EntryPoint) -> Factory:
    try:
        factory: Factory = entry.load()
    except KeyboardInterrupt:
        raise
    # Importing a package can fail in any way at all: SystemExit, a panic of an extension module.
    except BaseException as error:
        reason = f"{entry.value!r} is not module:name" if _is_garbled(entry) else _said(error)
        raise _UnusableError(reason) from error
    if not callable(factory):
        raise _UnusableError(f"{entry.value} is not callable")
    return factory


def _made(factory: Factory) -> GCPlugin:
    """A plug-in that has what the contract names; what its methods do is not looked at."""
    try:
        plugin = factory()
        missing = [method for method in _CONTRACT if not callable(getattr(plugin, method, None))]
        named = isinstance(getattr(plugin, "name", None), str)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _UnusableError(f"its factory raised {_said(error)}") from error
    if not named:
        missing.insert(0, "name")
    if missing:
        raise _UnusableError(f"what its factory returns has no {', '.join(missing)}")
    return plugin


def _is_garbled(entry: EntryPoint) -> bool:
    return EntryPoint.pattern.match(entry.value) is None


def _is_ours(entry: EntryPoint) -> bool:
    return _named(entry.dist)[0] == "jaato"


def _origin(entry: EntryPoint) -> str:
    return " ".join(filter(None, _named(entry.dist))) or entry.value


def _named(distribution: Distribution | None) -> tuple[str, str]:
    """Name and version of a package; empty where its metadata do not say."""
    with suppress(Exception):  # no metadata at all, or half of them
        if distribution is not None:
            return distribution.name or "", distribution.version or ""
    return "", ""


def _summary(entry: EntryPoint, factory: Factory) -> str:
    """What the module of a plug-in says it is."""
    # An instance or a partial has the module of its class.
    home = factory.__module__ if hasattr(factory, "__qualname__") else entry.module
    text = getattr(sys.modules.get(home or entry.module), "__doc__", None)
    if not isinstance(text, str):
        return ""
    line = next(iter(text.strip().splitlines()), "").removeprefix(f"`{entry.name}`: ")
    return line[:1].upper() + line[1:]


def _said(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 -- its own __str__ is broken too
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}"[:_LONGEST_REASON] if text else kind


def _short(name: str) -> str:
    return name.removeprefix("gc_")
