"""Settings files in, checked values out; nothing here loads a plug-in."""

from jaato.gc.problems import ConfigError, Problem
from jaato.settings.gc_file import DEFAULT_PATH, GCSettings, load_gc_settings
from jaato.settings.problems import MissingFileError
from jaato.settings.profiles import (
    GCProfileConfig,
    SubagentProfile,
    discover_profiles,
    read_profile,
)

__all__ = (
    "DEFAULT_PATH",
    "ConfigError",
    "GCProfileConfig",
    "GCSettings",
    "MissingFileError",
    "Problem",
    "SubagentProfile",
    "discover_profiles",
    "load_gc_settings",
    "read_profile",
)
