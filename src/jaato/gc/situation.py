"""What a strategy decides on: one history, its numbers, and what the settings protect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from jaato.budget import GCPolicy, InstructionBudget
from jaato.budget.conversation import locate
from jaato.gc.config import GCConfig
from jaato.gc.ledger import CONVERSATION, Ledger
from jaato.gc.marks import WriteStub
from jaato.gc.result import GCTriggerReason
from jaato.history import Message, Outline, Role, Span, Violation, is_legal, repaired, shapes_of
from jaato.history.message import MARKED
from jaato.ports import TokenCounter
from jaato.tokens import history_tokens

LARGEST = 10**15
"""No window has as many tokens; a figure beyond it is a mistake, as is NaN."""
KEPT = frozenset({GCPolicy.LOCKED, GCPolicy.PRESERVABLE})
ONLY_LOCKED = frozenset({GCPolicy.LOCKED})


class Situation:
    """Everything that is known when a collection begins. Read only."""

    def __init__(
        self,
        history: Sequence[Message],
        *,
        usage: Mapping[str, Any],
        config: GCConfig,
        options: Mapping[str, Any],
        reason: GCTriggerReason,
        budget: InstructionBudget | None,
        counter: TokenCounter,
        numbers: Mapping[str, int],
        write_stub: WriteStub | None = None,
    ) -> None:
        shapes = shapes_of(history)
        self.repairs: tuple[Violation, ...] = ()
        self.history: Sequence[Message] = history
        if not is_legal(history, shapes):
            self.history, self.repairs = repaired(history)
            shapes = shapes_of(self.history)
        self.shapes = shapes
        self.spans = Outline(shapes)
        self.config = config
        self.options = options
        self.reason = reason
        self.budget = budget
        self.counter = counter
        self.ledger = Ledger(self.history, counter, budget)
        self.limit = _limit(usage, budget)
        self.total = self._total(history, usage)
        self.percent = self._percent(usage)
        self._remembered = numbers
        self.write_stub = write_stub
        self.preserve_recent = config.preserve_recent_turns
        self.turns = self.spans.turns()
        self.turn_count = len(self.turns)
        # The last turn is the one being worked on: without it there is nothing to answer.
        self.recent = frozenset(self.turns[-max(self.preserve_recent, 1) :])
        self.pinned = self._pinned()

    def _pinned(self) -> frozenset[int]:
        pins = set(self.config.pinned_turn_indices)
        if not pins:
            return frozenset()
        return frozenset(at for at in self.turns if self.numbers[at] in pins)

    @cached_property
    def protected(self) -> frozenset[int]:
        """The spans that stay whole: recent and pinned turns."""
        return self.recent | self.pinned

    @cached_property
    def old_turns(self) -> list[int]:
        """The turns that nothing protects, oldest first."""
        protected = self.protected
        return [index for index in self.turns if index not in protected]

    @property
    def old_summaries(self) -> list[int]:
        """The summaries that may go: none, unless there is pressure."""
        if not self.under_pressure:
            return []
        summaries = [at for at in self.spans.summaries() if not self._heads_protected(at)]
        # Without a turn the newest summary is all that is left to answer to.
        return summaries if self.turns else summaries[:-1]

    def _heads_protected(self, summary: int) -> bool:
        """Whether a protected turn has no request of its own but this summary.

        Without it the turn would join the one before, and lose its number and its protection.
        """
        after = summary + 1
        return after in self.protected and not self.history[self.spans[after].start].opens_turn

    @cached_property
    def under_pressure(self) -> bool:
        """Whether what is worth keeping may go too. Never in continuous mode."""
        if self.config.continuous_mode:
            return False
        if self.reason is GCTriggerReason.CONTEXT_LIMIT:
            return True
        return self.percent is not None and self.percent >= (self.config.pressure_percent or 0)

    @cached_property
    def spared(self) -> frozenset[GCPolicy]:
        """The policies that stay behind when their turn leaves."""
        return ONLY_LOCKED if self.under_pressure else KEPT

    @cached_property
    def target_tokens(self) -> int | None:
        """Where to land; None where no limit is known."""
        return None if self.limit is None else int(self.limit * self.config.target_percent / 100)

    @cached_property
    def tokens_to_free(self) -> int | None:
        """How much has to go; None: all that may."""
        target = self.target_tokens
        if target is None:
            return None
        if self.reason is GCTriggerReason.CONTEXT_LIMIT:
            # The provider has said it does not fit, whatever was counted here.
            target = min(target, int(self.total * self.config.target_percent / 100))
        return self.total - target

    @cached_property
    def turns_to_leave(self) -> int | None:
        """How many turns have to go where their number was the trigger, else None."""
        limit = self.config.max_turns
        if self.reason is not GCTriggerReason.TURN_LIMIT or limit is None:
            return None
        # Down to the same share as the window, so that the next turn does not trigger again.
        return self.turn_count - max(int(limit * self.config.target_percent / 100), 1)

    @property
    def is_content(self) -> bool:
        """Whether the goal is reached before anything is done."""
        need, turns = self.tokens_to_free, self.turns_to_leave
        if turns is not None:
            return turns <= 0 and (need is None or need <= 0)
        return need is not None and need <= 0

    @property
    def conversation_tokens(self) -> int:
        """What the messages cost, without system instructions, tools and enrichment."""
        if self.budget is None:
            return history_tokens(self.counter, self.history)
        entry = self.budget.get_entry(CONVERSATION)
        return entry.total_tokens() if entry is not None else 0

    def is_foreign(self, message_id: str) -> bool:
        """Whether the conversation of the budget does not hold this message."""
        return self.budget is None or locate(self.budget, message_id) is None

    def number_of(self, index: int) -> int | None:
        """The absolute number of one turn; None for a summary."""
        return self.numbers[index]

    def remembered(self) -> dict[str, int]:
        """The number of each turn by its first message, where a budget did not say it all.

        Looking up every turn costs more than most collections: a budget that holds the messages
        is asked for the few numbers that matter, when they do.
        """
        if self.budget is not None and "numbers" not in vars(self):
            return {}
        numbers = self.numbers
        return {self._opener(at): turn for at in self.turns if (turn := numbers[at]) is not None}

    @cached_property
    def minimum(self) -> int:
        """A collection that frees less is not worth an edit."""
        if self.limit is None or self.reason in {
            GCTriggerReason.MANUAL,
            GCTriggerReason.CONTEXT_LIMIT,
        }:
            return 0
        return int(self.limit * self.config.min_free_percent / 100)

    def leaving(self, index: int, spare: frozenset[GCPolicy]) -> list[int]:
        """The positions of a span that go when it goes: all but what policy spares.

        With a spared message stays its whole step and the message that opens its turn, so that
        no call loses its result and no answer its question.
        """
        span = self.spans[index]
        if self.budget is None or self.ledger.plain_turn(span) is not None:
            return list(span)
        number = None if self.ledger.located(self._lead(index)) else self.numbers[index]
        kept = [at for at in span if self.ledger.policy(at, number) in spare]
        if not kept:
            return list(span)
        closure = {span.start} if self.history[span.start].opens_turn else set()
        for at in kept:
            closure.update(self._unit(span, at))
        # An old notice alone is nothing to take: a new one replaces it.
        return [at for at in span if at not in closure and not self.shapes[at] & MARKED]

    def _unit(self, span: Span, at: int) -> range:
        """The step around a position, found by walking outwards from it."""
        history = self.history
        first = at
        while first > span.start and history[first].result_ids:
            first -= 1
        last = at + 1
        while last < span.stop and history[last].result_ids:
            last += 1
        return range(first, last)

    def steps_to_spare(self) -> int:
        """The position from which the last `preserve_recent_steps` steps of the history begin."""
        # The last step is the one being worked on: its calls may still wait for answers.
        wanted = max(self.config.preserve_recent_steps, 1)
        for at in range(len(self.history) - 1, -1, -1):
            if wanted <= 0:
                return at + 1
            if self.history[at].role is Role.MODEL:
                wanted -= 1
        return 0

    def _total(self, history: Sequence[Message], usage: Mapping[str, Any]) -> int:
        if self.budget is not None:
            return self.budget.total_tokens()
        # Who reports less than the messages cost has left them out.
        said = number(usage.get("total_tokens")) or 0
        return max(int(said), history_tokens(self.counter, history))

    def _percent(self, usage: Mapping[str, Any]) -> float | None:
        said = number(usage.get("percent_used"))
        if said is None and self.limit:
            return self.total / self.limit * 100
        return said

    @cached_property
    def numbers(self) -> list[int | None]:
        """The absolute number of each turn: the budget's, else what was remembered, else order."""
        numbers: list[int | None] = []
        following = 0
        known = self._remembered
        if not self.turns or self._opener(self.turns[0]) not in known:
            # Another conversation than the one remembered.
            known = {}
        for index in range(len(self.spans)):
            if not self.spans.is_turn(index):
                numbers.append(None)
                continue
            located = self.ledger.located(self._lead(index))
            # A budget knows: what follows a summary may still belong to the turn before it.
            turn = located.turn if located is not None else known.get(self._opener(index))
            numbers.append(following if turn is None else turn)
            following = (following if turn is None else turn) + 1
        return numbers

    def _lead(self, index: int) -> int:
        """The first message of a span that no collection wrote."""
        span = self.spans[index]
        return next((at for at in span if not self.shapes[at] & MARKED), span.start)

    def _opener(self, index: int) -> str:
        return self.history[self._lead(index)].message_id


def number(value: object) -> float | None:
    """A usage figure that can be calculated with, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= LARGEST else None


def _limit(usage: Mapping[str, Any], budget: InstructionBudget | None) -> int | None:
    """The window in tokens as we count them, where the provider is known to count others."""
    limit = budget.context_limit if budget is not None else None
    said = number(limit or usage.get("context_limit"))
    return int(said / (number(usage.get("tokens_per_count")) or 1.0)) if said else None
