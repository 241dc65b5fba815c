"""A counter that remembers: each distinct text is counted once, by the counter inside."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Final

from jaato.ports import TokenCounter

_SHORT_CHARS: Final = 64
_SLICE_CHARS: Final = 1 << 20

Key = str | bytes


class MemoCounter:
    """Counts like `inner`; keeps at most `capacity` counts, by content, oldest use out first."""

    def __init__(self, inner: TokenCounter, *, capacity: int = 8_192) -> None:
        self.name = inner.name
        self.estimated = inner.estimated
        self._inner = inner
        self._capacity = capacity
        self._counts: dict[Key, int] = {}
        self._lock = Lock()

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        keys = [_key(text) for text in texts]
        found: dict[Key, int] = {}
        missing: dict[Key, str] = {}
        with self._lock:
            for key, text in zip(keys, texts, strict=True):
                count = self._counts.pop(key, None)
                if count is not None:
                    found[key] = self._counts[key] = count
                elif key not in found:
                    missing[key] = text
        if missing:
            # Not under the lock: a long text must not keep others from their short ones.
            fresh = dict(zip(missing, self._inner.count_texts(list(missing.values())), strict=True))
            found |= fresh
            with self._lock:
                self._counts |= fresh
                while len(self._counts) > self._capacity:
                    del self._counts[next(iter(self._counts))]
        return [found[key] for key in keys]


def _key(text: str) -> Key:
    if len(text) <= _SHORT_CHARS:
        return text
    digest = blake2b(digest_size=16)
    for start in range(0, len(text), _SLICE_CHARS):
        digest.update(text[start : start + _SLICE_CHARS].encode("utf-8", "surrogatepass"))
    return digest.digest()
