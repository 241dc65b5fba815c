"""Counting tokens: exact offline counters, an estimator, and the provider's usage as an anchor.

No tokenizer is loaded before a counter is built.
"""

from jaato.tokens.anchor import UsageAnchor
from jaato.tokens.choose import BorrowedCounter, default_counter, fits
from jaato.tokens.estimate import SAFETY_MARGIN, EstimatingCounter
from jaato.tokens.golden import TokenizerUnavailableError
from jaato.tokens.memo import MemoCounter
from jaato.tokens.messages import (
    acount_messages,
    as_text,
    count_messages,
    history_tokens,
    message_tokens,
)
from jaato.tokens.splintr import SplintrCounter
from jaato.tokens.tiktoken_local import TiktokenCounter

__all__ = [
    "SAFETY_MARGIN",
    "BorrowedCounter",
    "EstimatingCounter",
    "MemoCounter",
    "SplintrCounter",
    "TiktokenCounter",
    "TokenizerUnavailableError",
    "UsageAnchor",
    "acount_messages",
    "as_text",
    "count_messages",
    "default_counter",
    "fits",
    "history_tokens",
    "message_tokens",
]
