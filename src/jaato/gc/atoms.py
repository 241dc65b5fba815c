"""Atoms: the runs of a text that look like identifiers, and which messages carry them."""

from __future__ import annotations

import re

LONGEST = 200
"""A longer run is data (base64, a minified line), not a name."""

_RUN = re.compile(r"[A-Za-z0-9_./@:#$%+-]{4,}")
_IDENTIFIES = re.compile(
    r"[^_/@]*[_/@]"  # snake_case, a path, an address
    r"|.*[a-z0-9][A-Z]"  # camelCase
    r"|.*[A-Za-z0-9]\.[A-Za-z0-9]"  # a file, a version, a dotted name
    r"|(?=.{5}).*[0-9]"  # an id, a date, an amount
)
_WORDLY = re.compile(r".*[A-Za-z0-9]")


class AtomReader:
    """Finds atoms, and judges each distinct run only once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def read(self, text: str) -> list[str]:
        """The atoms of a text in the order of their first appearance."""
        known = self._known
        found: dict[str, None] = {}
        for run in dict.fromkeys(_RUN.findall(text)):
            atom = known.get(run)
            if atom is None:
                atom = known[run] = _judged(run)
            if atom:
                found[atom] = None
        return list(found)


def _judged(run: str) -> str:
    """The atom in a run: without the stop or colon of its sentence, or nothing."""
    if len(run) > LONGEST:
        return ""
    atom = run.rstrip(".:")
    if len(atom) < 4 or not _WORDLY.match(atom) or not _IDENTIFIES.match(atom):  # noqa: PLR2004 -- the definition
        return ""
    return atom
