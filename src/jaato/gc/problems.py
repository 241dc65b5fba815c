"""What is wrong with a setting, as a value, and the error that carries every such value at once."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from jaato.errors import UsageError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one value: where it stands, and what would be right."""

    where: str
    key: str
    value: object
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = ": ".join(_on_one_line(text) for text in (self.where, self.key) if text)
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class ConfigError(UsageError):
    """Settings that cannot be used; `problems` holds every one of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


_LONGEST_NAME: Final = 200


def _on_one_line(text: str) -> str:
    return text if text.isprintable() and len(text) <= _LONGEST_NAME else shown(text)


def shown(value: object) -> str:
    """A value as a message may print it: short, and on one line."""
    try:
        return _SHORT.repr(value).replace("\n", " ")
    except ValueError:  # Python prints no integer of more than 4300 digits
        return "a number of thousands of digits"


def nearest(name: str, known: Collection[str]) -> str:
    """A hint that names the nearest of the known names, or all of them."""
    near = get_close_matches(name[:80], known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
