"""Where texts and identifiers come apart into words. Pure."""

from __future__ import annotations

import re

# Where an identifier in camel case has its seams: `HTTPServer`, `readFile`.
_SEAM = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# The same for ASCII, in a third of the time.
_ASCII_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD = re.compile(r"[^\W\d_]+|\d+")


def words(text: str) -> list[str]:
    """The words of a text or an identifier, in small letters."""
    if text.isascii():
        return [word.lower() for word in _ASCII_WORD.findall(text)]
    return [word.lower() for word in _WORD.findall(_SEAM.sub(" ", text))]
