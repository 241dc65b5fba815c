"""The words in which a model is told what was wrong with a call."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

_LONGEST_VALUE = 60
_LONGEST_NAME = 80
_MOST_PROBLEMS = 6


class ArgumentsError(Exception):
    """The arguments of a call cannot be used; the text is for the model."""

    def __init__(self, problems: Sequence[str]) -> None:
        told = list(problems[:_MOST_PROBLEMS])
        if len(problems) > len(told):
            told.append(f"and {len(problems) - len(told)} more")
        super().__init__("; ".join(told))


def missing(path: str) -> str:
    """That an argument was left out."""
    return f"argument {path!r}: field required"


def unknown(names: Iterable[str], known: Collection[str]) -> list[str]:
    """That each of these names is no argument, and which one was probably meant."""
    problems = []
    for name in names:
        near = nearest(name, known)
        if near is not None:
            hint = f", did you mean {near!r}?"
        elif known:
            hint = f"; there are {', '.join(known)}"
        else:
            hint = "; there are none"
        problems.append(f"unknown argument {shown(name)}{hint}")
    return problems


def nearest(name: object, known: Collection[str]) -> str | None:
    """The known name that is most like this one, if any is."""
    if not isinstance(name, str):
        return None
    # `filePath`, `file-path` and `file_path` are one name to a model.
    plain = {_plain(one): one for one in reversed(list(known))}
    near = get_close_matches(_plain(name[:_LONGEST_NAME]), plain, n=1)
    return plain[near[0]] if near else None


def shown(value: object) -> str:
    """A value as it may stand in a sentence: short, and on one line."""
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr)
    except Exception:  # noqa: BLE001 -- a foreign __repr__ may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
