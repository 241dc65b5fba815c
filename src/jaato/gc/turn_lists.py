"""Turns as lists, and what they cost: the plain functions that plug-in authors know by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jaato.history import Message, repaired, span_starts
from jaato.tokens import default_counter, history_tokens, message_tokens

log = logging.getLogger(__name__)


@dataclass
class Turn:
    """A user message and everything until the next one."""

    index: int
    messages: list[Message] = field(default_factory=list)
    estimated_tokens: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it holds no message."""
        return not self.messages


def split_into_turns(history: Sequence[Message]) -> list[Turn]:
    """The history as turns, in order. A summary is a turn of its own here."""
    cuts = [*span_starts(history), len(history)]
    turns = []
    for index, (start, stop) in enumerate(pairwise(cuts)):
        messages = list(history[start:stop])
        turns.append(Turn(index, messages, estimate_history_tokens(messages)))
    return turns


def flatten_turns(turns: Iterable[Turn]) -> list[Message]:
    """The messages of turns, in order."""
    return [message for turn in turns for message in turn.messages]


def estimate_message_tokens(message: Message) -> int:
    """What a message costs by the default counter, which is exact where it can be."""
    return message_tokens(default_counter(), message)


def estimate_turn_tokens(turn: Turn) -> int:
    """What a turn costs."""
    return estimate_history_tokens(turn.messages)


def estimate_history_tokens(history: Sequence[Message]) -> int:
    """What a history costs."""
    return history_tokens(default_counter(), history)


def get_preserved_indices(total: int, recent: int, pinned: Iterable[int] | None = None) -> set[int]:
    """The indices of the recent and the pinned turns, of those that exist."""
    last = range(max(total - max(recent, 0), 0), total)
    return {*last, *(index for index in pinned or () if 0 <= index < total)}


def ensure_tool_call_integrity(
    history: Sequence[Message], trace_fn: Callable[[str], object] | None = None
) -> list[Message]:
    """The history without orphan results and unanswered calls; pending calls at its end stay."""
    mended, wrong = repaired(history)
    if trace_fn is not None:
        try:
            for violation in wrong:
                trace_fn(str(violation))
        except Exception:
            log.exception("trace_fn raised; the history is mended all the same")
    return mended
