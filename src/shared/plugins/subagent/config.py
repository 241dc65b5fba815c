"""Subagent profiles, under the name that their users import."""

from jaato.settings.profiles import (
    GCProfileConfig,
    SubagentProfile,
    discover_profiles,
)

__all__ = [
    "GCProfileConfig",
    "SubagentProfile",
    "discover_profiles",
]
