"""A token counter whose answers can be worked out by eye."""

from __future__ import annotations

from collections.abc import Sequence


class WordCounter:
    """One token per word, at least one per text. Exact, instant, the same everywhere."""

    name = "words"
    estimated = False

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        return [max(1, len(text.split())) for text in texts]
