"""Every GC plug-in that is installed, found by entry point. The built-ins use the same door."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from jaato.errors import JaatoError, UsageError
from jaato.gc.options import full_name
from jaato.gc.protocol import GC_PLUGIN_ENTRY_POINT, GCPlugin

log = logging.getLogger(__name__)

Factory = Callable[[], GCPlugin]

_CONTRACT = ("initialize", "shutdown", "should_collect", "collect")


class UnknownStrategyError(UsageError):
    """No installed plug-in registers this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        near = get_close_matches(name, [*self.known, *map(_short, self.known)], n=1)
        super().__init__(
            f"no strategy named {name!r}",
            hint=f"did you mean {near[0]!r}?"
            if near
            else f"installed: {', '.join(self.known) or 'none'}; `jaato strategies` lists them",
        )


class BrokenPluginError(JaatoError):
    """A plug-in is installed and cannot be used; only who asks for it is told."""

    def __init__(self, name: str, origin: str, reason: str) -> None:
        super().__init__(
            f"the GC plug-in {name!r} from {origin} cannot be used: {reason}",
            hint="reinstall or remove that package; `jaato strategies` shows every plug-in",
        )
        self.name = name
        self.origin = origin
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Registration:
    """One installed plug-in: where it comes from, and what is wrong with it, if anything."""

    name: str
    origin: str
    summary: str = ""
    error: str | None = None
    factory: Factory | None = None


def installed_strategies() -> tuple[Registration, ...]:
    """Every registered plug-in, the broken ones with their reason, by name."""
    return tuple(_registration(name, entry) for name, entry in sorted(_entries().items()))


def discover_gc_plugins() -> dict[str, Factory]:
    """The factories of all plug-ins that load, by name. A broken one is logged and left out."""
    found: dict[str, Factory] = {}
    for registration in installed_strategies():
        if registration.factory is None:
            log.warning("GC plug-in %r left out: %s", registration.name, registration.error)
        else:
            found[registration.name] = registration.factory
    return found


def load_gc_plugin(name: str, config: dict[str, Any] | None = None) -> GCPlugin:
    """A plug-in by name (`gc_budget` or `budget`), made and initialised."""
    entries = _entries()
    wanted = name if name in entries else full_name(name)
    if wanted not in entries and f"gc_{name}" in entries:
        wanted = f"gc_{name}"
    if wanted not in entries:
        raise UnknownStrategyError(name, entries)
    registration = _registration(wanted, entries[wanted])
    if registration.factory is None:
        raise BrokenPluginError(wanted, registration.origin, registration.error or "unknown")
    try:
        plugin = registration.factory()
    except Exception as error:
        raise BrokenPluginError(wanted, registration.origin, _said(error)) from error
    missing = [method for method in _CONTRACT if not callable(getattr(plugin, method, None))]
    if missing:
        reason = f"it has no {', '.join(missing)}"
        raise BrokenPluginError(wanted, registration.origin, reason)
    plugin.initialize(config)
    return plugin


def _entries() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GC_PLUGIN_ENTRY_POINT):
        # Nobody takes the place of a built-in by registering its name.
        if entry.name not in found or _is_ours(entry):
            found[entry.name] = entry
    return found


def _is_ours(entry: EntryPoint) -> bool:
    return entry.dist is not None and entry.dist.name == "jaato"


def _registration(name: str, entry: EntryPoint) -> Registration:
    origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    try:
        factory = entry.load()
    # Importing someone's package can fail in any way at all, SystemExit included.
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- reported, not hidden
        return Registration(name, origin, error=_said(error))
    if not callable(factory):
        return Registration(name, origin, error=f"{entry.value} is not callable")
    summary = _first_line(factory)
    return Registration(name, origin, summary, factory=factory)


def _first_line(factory: Factory) -> str:
    """What the module of a plug-in says it is."""
    module = __import__(factory.__module__, fromlist=["__doc__"]) if factory.__module__ else None
    text = (getattr(module, "__doc__", None) or factory.__doc__ or "").strip()
    return text.splitlines()[0] if text else ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _short(name: str) -> str:
    return name.removeprefix("gc_")
