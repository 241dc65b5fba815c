"""The one place that turns names and settings into objects."""

from __future__ import annotations

import logging
from pathlib import Path

from jaato.errors import JaatoError
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.settings import DEFAULT_PATH, MissingFileError, load_gc_settings

log = logging.getLogger(__name__)


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
