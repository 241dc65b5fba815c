"""Exact counts by tiktoken, where it is installed and its vocabulary lies on this disk already."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jaato.tokens.golden import TokenizerUnavailableError, golden_of, refuse_unless_golden
from jaato.tokens.pieces import batches

if TYPE_CHECKING:
    import tiktoken

# tiktoken's regex engine has a bounded stack, which a million spaces overflow.
_UNBROKEN_CHARS = 900_000


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    url: str
    sha256: str
    pattern: str


_SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"

_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        rf"{_BEFORE}{_UPPER}*{_LOWER}+{_SUFFIX}|{_BEFORE}{_UPPER}+{_LOWER}*{_SUFFIX}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": _Vocabulary(
        "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        rf"'(?i:[sdmt]|ll|ve|re)|{_BEFORE}\p{{L}}+|\p{{N}}{{1,3}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}


def cached_vocabulary(encoding: str) -> Path:
    """Where tiktoken keeps what it has downloaded. Nothing is looked up or fetched."""
    golden_of(encoding)
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    url = _VOCABULARIES[encoding].url
    key = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    if folder:
        return Path(folder) / key
    import tempfile  # noqa: PLC0415 -- seldom needed, and slow to load

    return Path(tempfile.gettempdir()) / "data-gym-cache" / key


class TiktokenCounter:
    """Counts in `o200k_base` or `cl100k_base` without the network.

    Special tokens are unknown to it, so their markers are text; a lone surrogate counts as
    U+FFFD. A run longer than 900 000 characters without a safe cut is counted in parts.
    """

    estimated: Final = False

    def __init__(self, encoding: str = "o200k_base") -> None:
        self.name = encoding
        self._encoding = _load(encoding, cached_vocabulary(encoding))
        refuse_unless_golden(
            "tiktoken", encoding, encode=self._encoding.encode_ordinary, count=self.count_texts
        )

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        counts = [0] * len(texts)
        for owners, batch in batches(texts, unbroken=_UNBROKEN_CHARS):
            for owner, piece in zip(owners, batch, strict=True):
                counts[owner] += len(self._encoding.encode_ordinary(piece))
        return counts


def _load(encoding: str, file: Path) -> tiktoken.Encoding:
    # Built by hand: tiktoken's own loader downloads whatever it does not find or does not trust.
    vocabulary = _VOCABULARIES[encoding]
    try:
        import tiktoken  # noqa: PLC0415 -- an optional package, and `import jaato` loads none

        content = file.read_bytes()
    except (ImportError, OSError) as error:
        raise TokenizerUnavailableError("tiktoken", encoding, because=str(error)) from error
    if hashlib.sha256(content).hexdigest() != vocabulary.sha256:
        raise TokenizerUnavailableError(
            "tiktoken", encoding, because=f"{file} is not the vocabulary"
        )
    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in content.splitlines() if line)
    }
    return tiktoken.Encoding(
        encoding, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={}
    )
