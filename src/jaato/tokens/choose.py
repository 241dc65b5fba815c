"""Which counter for which model, and whether a count fits. The only place that tries tokenizers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

from jaato.ports import TokenCounter
from jaato.tokens.estimate import SAFETY_MARGIN, EstimatingCounter
from jaato.tokens.golden import TokenizerUnavailableError
from jaato.tokens.memo import MemoCounter
from jaato.tokens.splintr import SplintrCounter
from jaato.tokens.tiktoken_local import TiktokenCounter

log = logging.getLogger(__name__)

_CL100K = re.compile(
    r"(?:^|[/:.])(?:gpt-4(?![\w.])|gpt-3|text-embedding-|davinci-002|babbage-002)", re.ASCII
)
# Their tokenizers are not published, or not ours to ship; o200k_base is the nearest that we have.
_FOREIGN = re.compile(
    r"(?:^|[^a-z])(claude|anthropic|gemini|gemma|google|llama|mi[sx]tral|ministral|magistral"
    r"|codestral|devstral|pixtral|qwen|qwq|deepseek|grok|xai|command|cohere|nova|kimi|moonshot|glm"
    r"|minimax|phi|smollm|jamba)"
)


def default_counter(model: str | None = None) -> TokenCounter:
    """The best counter at hand for a model: exact where its vocabulary is known, else estimated.

    An unknown model counts as one of OpenAI's present ones. Built once per vocabulary.
    """
    name = (model or "").strip().lower()
    foreign = _FOREIGN.findall(name)
    if foreign:
        # Who serves a model is named before it.
        return _borrowed(foreign[-1])
    return _counter("cl100k_base" if _CL100K.search(name) else "o200k_base")


def fits(counter: TokenCounter, tokens: int, limit: int) -> bool:
    """Whether a count stays within a limit, with a margin where the count may be off."""
    return tokens * (SAFETY_MARGIN if counter.estimated else 1) <= limit


def first_available(candidates: Iterable[Callable[[], TokenCounter]]) -> TokenCounter:
    """The first counter that can be built; what it was preferred to is logged with its reason."""
    for candidate in candidates:
        try:
            return candidate()
        except TokenizerUnavailableError as error:
            log.info("%s", error)
    return EstimatingCounter()


class BorrowedCounter:
    """The counts of another family's vocabulary: estimates, under a name of their own."""

    estimated: Final = True

    def __init__(self, inner: TokenCounter, *, family: str) -> None:
        self.name = f"{inner.name} for {family}"
        self._inner = inner

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        return self._inner.count_texts(texts)


@cache
def _counter(encoding: str) -> TokenCounter:
    return MemoCounter(
        first_available((lambda: SplintrCounter(encoding), lambda: TiktokenCounter(encoding)))
    )


@cache
def _borrowed(family: str) -> TokenCounter:
    return BorrowedCounter(_counter("o200k_base"), family=family)
