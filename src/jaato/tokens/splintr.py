"""Exact counts by splintr, whose wheel holds the vocabularies. Loaded when a counter is built."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from jaato.tokens.golden import TokenizerUnavailableError, golden_of, refuse_unless_golden
from jaato.tokens.pieces import MARKER, batches, well_formed

if TYPE_CHECKING:
    from splintr import AnyTokenizer

# splintr shares a batch between threads that a forked child does not inherit: there, a batch of
# more than one long text would wait for them for ever.
_THREADS_OF = os.getpid()

# splintr remembers the pre-tokens it has seen, by number and not by size: a few thousand runs of
# a megabyte would stay in memory.
_FORGET_AFTER_CHARS = 1 << 24


class SplintrCounter:
    """Counts in `o200k_base` or `cl100k_base`, to the token.

    The markers of special tokens count as the text they are; a lone surrogate counts as U+FFFD.
    The batch call releases the GIL, so that even a single text goes through it.
    """

    estimated: Final = False

    def __init__(
        self, encoding: str = "o200k_base", *, load: Callable[[str], AnyTokenizer] | None = None
    ) -> None:
        golden_of(encoding)
        self.name = encoding
        self._chars_remembered = 0
        try:
            self._tokenizer = (load or _from_wheel)(encoding)
            self._refuse_unless_fit()
        except (ImportError, AttributeError, ValueError, OSError) as error:
            raise TokenizerUnavailableError("splintr", encoding, because=str(error)) from error

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        counts = [0] * len(texts)
        for owners, batch in batches(texts):
            try:
                lengths = self._lengths(batch)
            except UnicodeEncodeError:
                lengths = self._lengths([well_formed(piece) for piece in batch])
            for owner, length in zip(owners, lengths, strict=True):
                counts[owner] += length
            self._chars_remembered += sum(map(len, batch))
            if self._chars_remembered > _FORGET_AFTER_CHARS:
                self._chars_remembered = 0
                self._tokenizer.clear_cache()
        return counts

    def _refuse_unless_fit(self) -> None:
        # A batch matches special tokens, and is kept from it by cutting inside their markers.
        for marker in self._tokenizer.special_tokens():
            if not MARKER.fullmatch(marker):
                raise TokenizerUnavailableError(
                    "splintr", self.name, because=f"the special token {marker!r} cannot be cut"
                )
        refuse_unless_golden(
            "splintr",
            self.name,
            encode=self._tokenizer.encode_ordinary,
            count=self.count_texts,
        )

    def _lengths(self, batch: list[str]) -> list[int]:
        if len(batch) > 1 and os.getpid() != _THREADS_OF:
            return [length for piece in batch for length in self._lengths([piece])]
        _, offsets = self._tokenizer.encode_batch_flat(batch)
        ends = struct.unpack(f"<{len(batch) + 1}Q", offsets)
        return [stop - start for start, stop in pairwise(ends)]


def _from_wheel(encoding: str) -> AnyTokenizer:
    import splintr  # noqa: PLC0415 -- `import jaato` must not load it

    return splintr.Tokenizer.from_pretrained(encoding)
