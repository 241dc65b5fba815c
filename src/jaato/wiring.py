"""The one place that turns names and settings into objects."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from jaato.errors import JaatoError, UsageError
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.ports import Provider, Stash, Telemetry
from jaato.session.runtime import ChildSettings, JaatoRuntime
from jaato.settings import (
    DEFAULT_PATH,
    GCProfileConfig,
    MissingFileError,
    SubagentProfile,
    discover_profiles,
    load_gc_settings,
    read_profile,
)
from jaato.telemetry.environment import from_environment

log = logging.getLogger(__name__)

PROFILES_FOLDER: Final = ".jaato/profiles"
SESSIONS_FOLDER: Final = ".jaato/sessions"
STASH_FOLDER: Final = ".jaato/stash"
IN_MEMORY: Final = ":memory:"
STASH_SCHEMES: Final = frozenset({"valkey", "valkeys", "redis", "rediss", "unix"})
StashPlace = str | Path | Stash | None


class _Default(str):
    """Where something is unless anybody says so: who says the same, says so."""

    __slots__ = ()


DEFAULT_STASH: Final = _Default(STASH_FOLDER)

PROVIDERS: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("jaato.providers.openai", "OpenAIProvider"),
    "anthropic": ("jaato.providers.anthropic", "AnthropicProvider"),
    "google": ("jaato.providers.google", "GoogleProvider"),
    "local": ("jaato.providers.local", "LocalProvider"),
    "scripted": ("jaato.providers.scripted", "ScriptedProvider"),
}
"""The providers by name: module and class. A module is imported when it is asked for."""


def load_gc_from_file(
    path: str | Path | None = None, *, strict: bool = False
) -> tuple[GCPlugin, GCConfig] | None:
    """The plug-in and configuration that a `gc.json` asks for; None where there is no such file.

    A broken file is logged and gives None as well, unless `strict`: then it raises. What is
    allowed and likely to cost more than it saves is logged too.
    """
    where = Path(DEFAULT_PATH if path is None else path)
    try:
        settings = load_gc_settings(where)
        plugin = load_gc_plugin(settings.strategy, dict(settings.options))
    except MissingFileError:
        return None
    except JaatoError as error:
        if strict:
            raise
        log.error("%s is not used: %s", where, error)  # noqa: TRY400 -- the sentence says it all
        return None
    for advice in settings.advice:
        log.warning("%s: %s", where, advice)
    return plugin, settings.config


def make_provider(name: str, settings: Mapping[str, Any]) -> Provider:
    """A provider by its name, with its own settings (`api_key`, `base_url`, and so on)."""
    if name not in PROVIDERS:
        near = get_close_matches(name, PROVIDERS, n=1)
        raise UsageError(
            f"no provider named {name!r:.80}",
            hint=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(PROVIDERS)}",
        )
    module, kind = PROVIDERS[name]
    factory = getattr(import_module(module), kind)
    try:
        provider: Provider = factory(**settings)
    except TypeError as error:
        raise UsageError(
            f"the provider {name!r} cannot be made: {error}",
            hint="its settings are the arguments of its class",
        ) from error
    return provider


def make_runtime(
    *,
    folder: str | Path | None = SESSIONS_FOLDER,
    profiles: str | Path = PROFILES_FOLDER,
    telemetry: Telemetry | None = None,
    stash: StashPlace = DEFAULT_STASH,
) -> JaatoRuntime:
    """What agents share. Sessions are logged below `folder`; None keeps them in memory.

    `stash`: where what leaves a window is kept: a folder, the address of a Valkey server, a stash
    that is open already (its maker closes it), or None for none. By default it is in a folder, and
    that of sessions in memory is in memory.
    """
    place = IN_MEMORY if stash is DEFAULT_STASH and folder is None else stash
    return JaatoRuntime(
        make_provider,
        folder=None if folder is None else Path(folder),
        telemetry=from_environment() if telemetry is None else telemetry,
        resolve_child=partial(resolve_child, profiles),
        list_profiles=partial(_described, profiles),
        open_stash=partial(open_stash, place) if isinstance(place, str | Path) else None,
        stash=None if isinstance(place, str | Path) else place,
    )


def open_stash(place: str | Path) -> Stash:
    """A stash by where it is: a folder, or `valkey://…` and `redis://…`. Raises `StashError`."""
    text = str(place)
    if text == IN_MEMORY:
        return import_module("jaato.stash.memory").MemoryStash()  # type: ignore[no-any-return]
    scheme, is_address, _ = text.partition("://")
    if is_address and scheme in STASH_SCHEMES:
        return import_module("jaato.stash.valkey").ValkeyStash(text)  # type: ignore[no-any-return]
    if is_address or not text.strip():
        raise UsageError(
            f"{text!r:.80} is no place for a stash",
            hint=f"a folder, or an address that begins with {', '.join(sorted(STASH_SCHEMES))}",
        )
    return import_module("jaato.stash.files").FileStash(text)  # type: ignore[no-any-return]


def _described(folder: str | Path) -> dict[str, str]:
    return {name: profile.description for name, profile in discover_profiles(folder).items()}


def resolve_child(
    folder: str | Path, profile: str | None, inline_config: Mapping[str, Any] | None
) -> ChildSettings:
    """How a subagent is set up: by a profile, by settings for this one time over it, or neither."""
    chosen = SubagentProfile(name="subagent") if profile is None else _profile(folder, profile)
    if inline_config:
        chosen = read_profile(inline_config, over=chosen)
    return ChildSettings(
        name=chosen.name,
        system_instructions=chosen.system_instructions,
        provider=chosen.provider,
        model=chosen.model,
        tools=tuple(chosen.plugins) or None,
        max_steps=chosen.max_turns,
        gc=None if chosen.gc is None else _collector(chosen.gc),
    )


def _profile(folder: str | Path, name: str) -> SubagentProfile:
    profiles = discover_profiles(folder)
    if name not in profiles:
        near = get_close_matches(name, profiles, n=1)
        known = ", ".join(profiles) or "none"
        raise UsageError(
            f"no profile named {name!r:.80}",
            hint=f"did you mean {near[0]!r}?" if near else f"below {str(folder)!r}: {known}",
        )
    return profiles[name]


def _collector(gc: GCProfileConfig) -> tuple[GCPlugin, GCConfig]:
    return load_gc_plugin(gc.type, gc.plugin_options()), gc.to_gc_config()
