"""The window of a model as compatible servers tell it: each has a name of its own for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from jaato.history.message import NOTHING
from jaato.wire.foreign import whole_number

Fetch = Callable[[str], Awaitable[object]]
"""Asks for JSON at a path below the API, or at a whole address; None where it was refused."""

_NAMES: Final = (
    "loaded_context_length",  # LM Studio: what it runs with; `max_…` is what it could
    "max_model_len",  # vLLM, SGLang
    "context_window",  # Groq
    "context_length",  # OpenRouter, Together
    "max_context_length",  # Mistral
)


async def window_of(model: str, fetch: Fetch, root: str) -> int | None:
    """The tokens that fit into a model; None where its server does not say. Never a guess.

    `root`: the address that the API stands under, where llama.cpp tells more.
    """
    listed = _listed(model, await fetch("/models"))
    limit = _told(listed)
    if limit is None:
        limit = _told(_mapping(await fetch(f"/models/{quote(model, safe=':@')}")))
    if limit is None and "n_ctx_train" in _mapping(listed.get("meta")):
        # What a model was trained for says nothing of the window that its server was given.
        settings = _mapping(await fetch(f"{root}/props")).get("default_generation_settings")
        limit = _positive(_mapping(settings).get("n_ctx"))
    return limit


def _listed(model: str, document: object) -> Mapping[str, Any]:
    data = _mapping(document).get("data")
    entries = [_mapping(entry) for entry in (data if isinstance(data, list) else ())]
    for entry in entries:
        if entry.get("id") == model:
            return entry
    # llama.cpp answers with its one model whatever name it is called by.
    only = entries[0] if len(entries) == 1 else NOTHING
    return only if only.get("owned_by") == "llamacpp" else NOTHING


def _told(entry: Mapping[str, Any]) -> int | None:
    """The smallest: an entry may tell that of a model, and that of where it runs."""
    return min(_limits_in(entry), default=None)


def _limits_in(entry: Mapping[str, Any]) -> Iterator[int]:
    places = [(entry, name) for name in _NAMES]
    places += [(_mapping(entry.get("top_provider")), "context_length")]
    places += [(_mapping(entry.get("meta")), "n_ctx")]
    for document, name in places:
        limit = _positive(document.get(name))
        if limit is not None:
            yield limit


def _positive(value: object) -> int | None:
    number = whole_number(value)
    return number if number is not None and number > 0 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else NOTHING
