"""What agents share: providers, telemetry, where logs are, and how a child gets its settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.errors import UsageError
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.ports import Provider, Stash, Telemetry, TokenCounter
from jaato.session.journal import session_names
from jaato.telemetry.off import OFF
from jaato.tokens import default_counter

ProviderFactory = Callable[[str, Mapping[str, Any]], Provider]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """How a subagent differs from its parent; None is "as the parent"."""

    name: str = "subagent"
    system_instructions: str | None = None
    provider: str | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    gc: tuple[GCPlugin, GCConfig] | None = None


ChildResolver = Callable[[str | None, Mapping[str, Any] | None], ChildSettings]


class JaatoRuntime:
    """Shared by a session and its subagents, and by as many sessions as a program has.

    `folder`: where sessions keep their logs; None keeps them in memory only.
    """

    def __init__(
        self,
        make_provider: ProviderFactory,
        *,
        folder: Path | None = None,
        telemetry: Telemetry = OFF,
        resolve_child: ChildResolver | None = None,
        list_profiles: Callable[[], Mapping[str, str]] = dict,
        open_stash: Callable[[], Stash] | None = None,
        stash: Stash | None = None,
        counter_for: Callable[[str | None], TokenCounter] = default_counter,
    ) -> None:
        self.folder = folder
        self.telemetry = telemetry
        self.counter_for = counter_for
        self._make_provider = make_provider
        self._resolve_child = resolve_child
        self._open_stash = open_stash
        self._stash = stash
        self._owns_stash = stash is None
        self._lock = threading.Lock()
        self.profiles = list_profiles
        """The profiles that a subagent may have, and what each is for."""
        self._providers: dict[tuple[str, tuple[tuple[str, str], ...]], Provider] = {}
        self._adopted: dict[str, Provider] = {}

    def provider(self, name: str, settings: Mapping[str, Any] | None = None) -> Provider:
        """The provider of a name and settings, made once."""
        settings = settings or {}
        if not settings and name in self._adopted:
            return self._adopted[name]
        key = (name, tuple(sorted((key, repr(value)) for key, value in settings.items())))
        if key not in self._providers:
            self._providers[key] = self._make_provider(name, settings)
        return self._providers[key]

    def adopt(self, provider: Provider) -> None:
        """Use a provider that was made elsewhere, under its own name."""
        self._adopted[provider.name] = provider

    def child(self, profile: str | None, inline_config: Mapping[str, Any] | None) -> ChildSettings:
        """How a subagent is set up."""
        if self._resolve_child is not None:
            return self._resolve_child(profile, inline_config)
        if profile or inline_config:
            raise UsageError("this runtime has no profiles", hint="use jaato.wiring.make_runtime")
        return ChildSettings()

    @property
    def stash(self) -> Stash | None:
        """Where what leaves a window is kept; opened when it is first asked for.

        One that gave up after a failed sync is opened anew, which looks at what is on the disk.
        """
        with self._lock:
            is_usable = self._stash is not None and self._stash.is_open
            if not is_usable and self._open_stash is not None:
                self._stash = self._open_stash()
            return self._stash

    @property
    def has_stash(self) -> bool:
        """Whether there is one, open or not."""
        return self._stash is not None or self._open_stash is not None

    def list_sessions(self) -> list[str]:
        """The sessions that can be resumed, newest first."""
        return [] if self.folder is None else list(session_names(self.folder))

    async def aclose(self) -> None:
        """Let go of the providers and the stash that were made here; others are their maker's."""
        for provider in self._providers.values():
            await provider.aclose()
        self._providers.clear()
        if self._stash is not None and self._owns_stash:
            self._stash.close()
            self._stash = None
