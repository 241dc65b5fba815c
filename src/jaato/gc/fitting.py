"""Making a text fit a number of tokens: the search for the room, in characters, that fills it.

Only what may be shown is ever counted, so the cost follows the limit and not the material.
"""

from __future__ import annotations

from collections.abc import Callable

from jaato.ports import TokenCounter

ROUNDS = 12
"""How often a text is composed and counted; four are the rule, the rest is for odd counters."""
CHARS_PER_TOKEN = 4.0
FULL_ENOUGH = 0.98
AIM = 0.99


def fit(
    compose: Callable[[int], str],
    *,
    counter: TokenCounter,
    limit: int,
    most: int,
    chars_per_token: float = CHARS_PER_TOKEN,
) -> tuple[int, str] | None:
    """The fullest `compose(room)` of at most `limit` tokens, with its room in characters.

    `most` is the room that holds everything. None where not even `compose(0)` fits.
    """
    low, high = -1, most + 1
    best: tuple[int, str] | None = None
    room = min(most, int(limit * chars_per_token * AIM))
    for _ in range(ROUNDS):
        text = compose(room)
        tokens = counter.count_texts([text])[0]
        if tokens <= limit:
            best, low = (room, text), room
            if tokens >= limit * FULL_ENOUGH:
                break
        else:
            high = room
        if high - low <= 1:
            break
        aim = int(room * limit * AIM / tokens) if tokens else high
        room = aim if low < aim < high else (low + high) // 2
    if best is None:
        text = compose(0)
        if counter.count_texts([text])[0] <= limit:
            best = (0, text)
    return best
