"""Hypothesis strategies: legal histories, broken ones, and budgets of many policies.

An example is a few byte strings, decoded: drawing costs little, and failures shrink well.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from jaato.budget import InstructionBudget
from jaato.history import Message
from jaato.ports import TokenCounter
from jaato.testing.budgeting import budget_of
from jaato.testing.decode import broken, decoded
from jaato.testing.sketch import sketch_of

_TURN_BYTES = 9
_MANY = 600


class Pictured(list[Message]):
    """A history that is shown as its picture: a failure of hundreds of messages stays readable."""

    def __repr__(self) -> str:
        return f"<history {sketch_of(self)!r}>"


def histories(
    *,
    min_turns: int = 0,
    max_turns: int = 12,
    pending: bool = True,
    collected: bool = True,
    max_messages: int = _MANY,
) -> st.SearchStrategy[list[Message]]:
    """Legal histories: parallel calls, ids that come back, pending calls, media, thoughts.

    Now and then one turn has hundreds of steps. Without `pending` every call is answered, without
    `collected` there are no summaries and no notice of earlier collections.
    """
    return st.builds(
        decoded,
        tape=st.lists(st.binary(max_size=_TURN_BYTES), min_size=min_turns, max_size=max_turns),
        tail=st.integers(0, 255) if pending else st.just(0),
        notice=st.integers(0, 2) if collected else st.just(0),
        collected=st.just(collected),
        max_messages=st.just(max_messages),
    ).map(Pictured)


def broken_histories(*, max_turns: int = 8) -> st.SearchStrategy[list[Message]]:
    """Histories as bad callers bring them: orphans, unanswered calls, repeated ids, no parts."""
    return st.builds(
        broken,
        histories(max_turns=max_turns, max_messages=100),
        st.binary(min_size=2, max_size=8),
    ).map(Pictured)


def budgets(
    history: Sequence[Message], counter: TokenCounter, *, context_limit: int | None = None
) -> st.SearchStrategy[InstructionBudget]:
    """Budgets that agree with a history, with sources and policies of every kind.

    Without `context_limit` the window is drawn too, from half full to overfull.
    """
    return st.builds(
        lambda tape: budget_of(history, counter, context_limit=context_limit, tape=tape),
        st.binary(min_size=1, max_size=16),
    )
