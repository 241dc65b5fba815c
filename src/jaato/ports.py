"""What the inside asks of the outside: one protocol per port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts. Implementations live in `jaato.tokens`."""

    @property
    def name(self) -> str:
        """Tells counts of different vocabularies apart; kept beside every cached count."""
        ...

    @property
    def estimated(self) -> bool:
        """Whether counts may be off, so that "fits" needs a margin."""
        ...

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text. Never raises on any `str`; long input does not hold the GIL."""
        ...
