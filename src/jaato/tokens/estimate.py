"""Estimated counts: a sum over classes of characters, for where no exact tokenizer is at hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

SAFETY_MARGIN = 1.2
"""What an estimated count is multiplied by before it is said to fit.

Of the texts of 200 tokens and more that the weights were fitted on, 99 % have at most 1.16 times
the tokens that were estimated; the worst kind of text as a whole (Ukrainian) has 1.14 times.
"""

_SLICE_CHARS = 1 << 20

# Each byte of UTF-8 becomes the letter of its class. Letters above ASCII are told by their first
# byte alone, which knows the script; the bytes that continue a character (x) weigh nothing.
_CLASSES = bytes.maketrans(
    bytes(range(256)),
    b"".join(
        letter * size
        for letter, size in (
            (b"c", 9),  # control characters
            (b"t", 1),  # tab
            (b"n", 1),  # line feed
            (b"c", 2),
            (b"r", 1),  # carriage return: part of the line feed that follows
            (b"c", 18),
            (b" ", 1),
            (b".", 15),  # signs
            (b"0", 10),
            (b".", 7),
            (b"A", 26),
            (b".", 6),
            (b"a", 26),
            (b".", 4),
            (b"c", 1),
            (b"x", 64),
            (b"l", 10),  # Latin letters with marks
            (b"g", 6),  # Greek, phonetics, combining marks
            (b"y", 4),  # Cyrillic
            (b"b", 2),
            (b"q", 2),  # Hebrew
            (b"b", 8),  # Arabic and neighbours
            (b"i", 2),  # Indic and South-East Asian scripts
            (b"s", 1),  # symbols, dashes, boxes
            (b"j", 1),  # kana, CJK signs
            (b"h", 6),  # CJK ideographs
            (b"k", 4),  # Hangul
            (b"f", 2),  # private use, full-width forms
            (b"e", 16),  # emoji, rare ideographs
        )
    ),
)

# Tokens per occurrence, least squares of the relative error against o200k_base over recorded agent
# sessions, code, prose in 14 languages, logs, JSON, hex and base64. Two letters are a place where
# one class meets another: words begin there, or identifiers change their case.
_WEIGHTS: Final = (
    (b"a", 0.10),
    (b"A", 0.25),
    (b"0", 0.33),
    (b"n", 1.18),
    (b"t", 0.22),
    (b"c", 1.00),
    (b" a", 0.59),
    (b".a", 1.09),
    (b"na", 1.29),
    (b"0a", 0.79),
    (b"Aa", 0.52),
    (b"aA", 0.98),
    (b"A0", 0.84),
    (b"a0", 0.63),
    (b"0A", 0.89),
    (b" 0", 1.44),
    (b".0", 1.24),
    (b" .", 0.51),
    (b"a.", 0.09),
    (b"..", 0.34),
    (b" A", 0.30),
    (b".A", 0.91),
    (b"nA", 0.51),
    (b"  ", 0.13),
    (b". ", 0.55),
    (b"aaaaaaaaaaaaaaaa", 7.14),  # longer than words are
)
_WEIGHTS_ABOVE_ASCII: Final = (
    (b"l", 0.67),
    (b" l", 0.16),
    (b"g", 0.43),
    (b"y", 0.33),
    (b"b", 0.40),
    (b"q", 0.53),
    (b"i", 0.43),
    (b"s", 0.22),
    (b"j", 0.69),
    (b"h", 0.75),
    (b"k", 0.76),
    (b"f", 1.52),
    (b"e", 2.19),
)


class EstimatingCounter:
    """Guesses what o200k_base counts: a few per cent off for long texts, more for short ones."""

    estimated: Final = True

    def __init__(self) -> None:
        self.name = "estimate"

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One guess per text; any text but the empty one has at least one token."""
        return [math.ceil(_weigh(text)) for text in texts]


def _weigh(text: str) -> float:
    total = 0.0
    for start in range(0, len(text), _SLICE_CHARS):
        part = text[start : start + _SLICE_CHARS]
        kinds = part.encode("utf-8", "surrogatepass").translate(_CLASSES)
        total += sum(kinds.count(kind) * weight for kind, weight in _WEIGHTS)
        if len(kinds) != len(part):
            total += sum(kinds.count(kind) * weight for kind, weight in _WEIGHTS_ABOVE_ASCII)
    return max(total, 0.5) if text else 0.0
