"""Reading one settings file: strict JSON in, an object and everything wrong with it out."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.errors import UsageError
from jaato.gc.problems import ConfigError, Problem, shown


class MissingFileError(UsageError):
    """There is no settings file at the path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is no file {str(path)!r}", hint="docs/configuration.md has one to start from"
        )
        self.path = path

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[Path]]:
        return type(self), (self.path,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's object, and what is wrong with its text."""

    where: str
    values: dict[str, Any]
    problems: tuple[Problem, ...] = ()


def read_document(path: Path) -> Document:
    """The JSON object in a file. Raises where there is none that could be looked at further."""
    where = str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(path) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError([Problem(where, "", None, f"cannot be read: {reason}")]) from error
    return parse_document(raw, where=where)


def parse_document(raw: bytes, *, where: str) -> Document:
    """The JSON object in a text, likewise."""
    found: list[Problem] = []
    if raw.startswith(codecs.BOM_UTF8):
        raw = raw.removeprefix(codecs.BOM_UTF8)
        hint = "save it as UTF-8 without one"
        found.append(Problem(where, "", None, "it begins with a byte order mark", hint))

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                message = f"written twice, as {shown(values[key])} and as {shown(value)}"
                found.append(Problem(where, key, value, message, "keep one"))
            values[key] = value
        return values

    try:
        values = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 (byte {error.start})"
        raise ConfigError([*found, Problem(where, "", None, message)]) from error
    except json.JSONDecodeError as error:
        message = f"it is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ConfigError([*found, Problem(where, "", None, message)]) from error
    except RecursionError as error:
        message = "it is nested too deeply"
        raise ConfigError([*found, Problem(where, "", None, message)]) from error
    except ValueError as error:  # an integer of more than 4300 digits
        message = f"it holds a number that cannot be read: {error}"
        raise ConfigError([*found, Problem(where, "", None, message)]) from error
    if not isinstance(values, dict):
        message = f"it holds {shown(values)}, not an object"
        raise ConfigError([*found, Problem(where, "", values, message)])
    found += _not_finite(values, where)
    return Document(where=where, values=values, problems=tuple(found))


def _not_finite(document: dict[str, Any], where: str) -> Iterator[Problem]:
    """NaN and Infinity, which Python's reader lets through; each becomes an absent value."""
    stack: list[tuple[str, Any]] = [("", document)]
    while stack:
        path, node = stack.pop()
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            here = f"{path}.{key}" if path else str(key)
            if isinstance(value, dict | list):
                stack.append((here, value))
            elif isinstance(value, float) and not math.isfinite(value):
                node[key] = None
                yield Problem(where, here, value, f"{value} is no number that JSON knows")
