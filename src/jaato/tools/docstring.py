"""What a docstring says of a function and its parameters: Google, NumPy and Sphinx styles."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaato.errors import MissingExtraError


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """The description without its sections, and a line per parameter."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def doc_of(function: Callable[..., Any]) -> Doc:
    """The docstring of a callable, taken apart."""
    text = text_of(function)
    if not text:
        return Doc()
    try:
        import docstring_parser  # noqa: PLC0415 -- an optional package
    except ImportError as error:
        raise MissingExtraError("docstring_parser", extra="tools") from error
    parsed = docstring_parser.parse(text)
    return Doc(
        description=(parsed.description or "").strip(),
        parameters={
            name.strip().lstrip("*"): " ".join(one.description.split())
            for one in parsed.params
            if one.description
            # NumPy style: `width, height : int`
            for name in one.arg_name.split(",")
        },
    )


def text_of(function: Callable[..., Any]) -> str:
    """The docstring of a callable, cleaned; empty where it has none of its own."""
    if isinstance(function, functools.partial):
        return text_of(function.func)
    if not inspect.isroutine(function) and not inspect.isclass(function):
        # What a class says of itself is about all of it; its `__call__` knows this call.
        call = type(function).__call__
        return inspect.getdoc(call) or inspect.getdoc(type(function)) or ""
    return inspect.getdoc(function) or ""


def first_paragraph(text: str) -> str:
    """All up to the first empty line, as one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())
