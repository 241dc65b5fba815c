"""Cutting texts into pieces that can be counted apart, without changing the count. No tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

PIECE_CHARS = 1 << 18
"""What a long text is cut into: small enough to share between cores, large enough to be cheap."""

UNBROKEN_CHARS = 1 << 21
"""A run without any safe cut is counted whole up to here.

A tokenizer needs about 64 bytes of memory per character of such a run, so a longer one (a hundred
megabytes of one letter) is cut all the same; each such cut may move the count by a token or two.
"""

BATCH_CHARS = 1 << 22
"""What is handed over in one call: the strings are copied while the GIL is held."""

# No pre-token of o200k_base or cl100k_base spans these places, and none looks past them, so the
# counts of the two sides add up. A letter or digit is never in one pre-token with a symbol that
# follows it, except the apostrophe of a contraction; digits and letters never share one; and no
# pre-token holds a space after something else. The letters are listed by range, because a
# tokenizer and this Python may disagree about letters that Unicode added lately.
_LETTERS = (
    r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u0410-\u044f"
    r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3"
)
_SAFE_CUT = re.compile(
    rf"[0-9{_LETTERS}](?=[\s!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{{|}}~\u3001\u3002\uff0c\uff1a\uff1b])"
    r"|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|\S(?=\x20)"
)

# The marker of a special token, cut in two: after `<|` and before a letter there is always an
# end of a pre-token, since `<` never stands before the letters of a word that `|` could join.
_INSIDE_MARKER = re.compile(r"(?<=<\|)(?=[a-z])|(?<=<\|/)(?=[a-z])")
MARKER = re.compile(r"<\|/?[a-z][a-z0-9_]*\|>")
"""The special tokens that cutting inside the marker turns into ordinary text."""


def pieces(text: str, *, unbroken: int = UNBROKEN_CHARS) -> Iterator[str]:
    """The text, cut so that the counts of the pieces add up to the count of the whole."""
    if len(text) <= PIECE_CHARS:
        yield from _without_markers(text)
        return
    start, size = 0, len(text)
    while size - start > PIECE_CHARS:
        found = _SAFE_CUT.search(text, start + PIECE_CHARS - 1, start + unbroken)
        stop = found.end() if found else min(start + unbroken, size)
        yield from _without_markers(text[start:stop])
        start = stop
    if start < size:
        yield from _without_markers(text[start:])


def batches(
    texts: Sequence[str], *, unbroken: int = UNBROKEN_CHARS
) -> Iterator[tuple[list[int], list[str]]]:
    """Pieces of all texts, in calls of bounded size, each beside the index of its text."""
    owners: list[int] = []
    batch: list[str] = []
    chars = 0
    for index, text in enumerate(texts):
        for piece in pieces(text, unbroken=unbroken):
            owners.append(index)
            batch.append(piece)
            chars += len(piece)
            if chars >= BATCH_CHARS:
                yield owners, batch
                owners, batch, chars = [], [], 0
    if batch:
        yield owners, batch


def well_formed(text: str) -> str:
    """The text as UTF-8 can carry it: a surrogate pair joined, a lone surrogate as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_markers(piece: str) -> Sequence[str]:
    return _INSIDE_MARKER.split(piece) if "<|" in piece else (piece,)
