"""What fills one agent's window: its history and its budget, changed together and only here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaato.budget import (
    ConversationTurnType,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    SourceEntry,
    SystemChildType,
    locate,
    track,
)
from jaato.budget.conversation import COUNTERS, ORIGINAL_KEY, entry_of, forget
from jaato.gc.result import GCResult
from jaato.gc.settle import settle
from jaato.history import Message
from jaato.ports import TokenCounter
from jaato.tokens import SAFETY_MARGIN, UsageAnchor, message_tokens

SMALLEST_RESERVE: Final = 1024
LARGEST_RESERVE: Final = 4096
"""Room for an answer, where nobody said how much: an eighth of the window within these."""
MARGIN_BEFORE_REPORT: Final = 1.05
"""What an exact count may miss: the words that a provider writes around messages and schemas."""
FRAME: Final = 4
"""And what it writes around each message and the whole, however short they are."""
MARGIN_AFTER_REPORT: Final = 1.01
UNSEEN_MARGIN: Final = 1.15
"""The same where the provider has reported, and for what came or left since: the report was of
everything together, and what left may have been the part that it counts lower than we do."""

_SYSTEM = InstructionSource.SYSTEM
_PLUGIN = InstructionSource.PLUGIN
_ENRICHMENT = InstructionSource.ENRICHMENT


class Window:
    """History and budget of one agent. `history` is replaced, never edited in place, but to append.

    Every method that changes something takes the time as `at`, so that a log can be replayed.
    """

    def __init__(
        self,
        session_id: str,
        *,
        agent_id: str,
        counter: TokenCounter,
        model: str,
        limit: int | None,
        at: float,
    ) -> None:
        self.counter = counter
        self.model = model
        self.history: list[Message] = []
        self.turns = 0
        self.turn_at: int | None = None
        """Where the last turn begins."""
        self.system: dict[str, str] = {}
        self.enrichment: dict[str, str] = {}
        self.anchor = UsageAnchor(model)
        self._is_reported = False
        self._new: dict[str, int] = {}
        """The messages that came since the provider's last report, and our count of each."""
        self._changed = 0
        """Our count of what else came, and of what left, since then."""
        self.budget = InstructionBudget.create_default(
            session_id, agent_id, "agent", limit, created_at=at
        )

    # What is there

    @property
    def limit(self) -> int | None:
        """The window in tokens; None while it is unknown."""
        return self.budget.context_limit

    @property
    def turn_number(self) -> int:
        """The absolute number of the last turn; 0 before the first."""
        if self.turn_at is None:
            return 0
        located = locate(self.budget, self.history[self.turn_at].message_id)
        return 0 if located is None or located.turn is None else located.turn

    @property
    def counted(self) -> int:
        """Our count of everything that is sent."""
        return self.budget.total_tokens()

    @property
    def tokens(self) -> int:
        """What the provider will see of it."""
        return self.anchor.total(self.counted)

    @property
    def scale(self) -> float:
        """What the provider sees for each token that we count."""
        counted = self.counted
        return self.tokens / counted if counted else 1.0

    @property
    def percent(self) -> float:
        """How full the window is; 0.0 where the limit is unknown."""
        return 100.0 * self.tokens / self.limit if self.limit else 0.0

    def usage(self) -> dict[str, Any]:
        """What a GC plug-in and a person are told of the window."""
        limit, tokens = self.limit, self.tokens
        return {
            "model": self.model,
            "context_limit": limit,
            "total_tokens": self.counted,
            "percent_used": 100.0 * tokens / limit if limit else 0.0,
            "tokens_remaining": max(limit - tokens, 0) if limit else None,
            "turns": self.turns,
            "tokens_per_count": self.scale,
        }

    def reserve(self, wanted: int | None) -> int:
        """The room that is kept for an answer."""
        if wanted is not None:
            return wanted
        if self.limit is None:
            return LARGEST_RESERVE
        eighth = self.limit // 8
        return min(eighth, LARGEST_RESERVE) if eighth > SMALLEST_RESERVE else eighth

    def overflow(self, wanted: int | None) -> int:
        """By how many tokens, in our count, the next request misses the window; 0: it fits."""
        limit = self.limit
        if limit is None:
            return 0
        over = self.most_tokens() + self.reserve(wanted) - limit
        return math.ceil(over / self.scale) if over > 0 else 0

    def room_for_answer(self) -> int | None:
        """The tokens that are left for an answer."""
        return None if self.limit is None else max(self.limit - self.most_tokens(), 1)

    def most_tokens(self) -> int:
        """What the provider may count at most: ours is off by the words that it writes between."""
        tokens = self.tokens
        if not self._is_reported:
            margin = SAFETY_MARGIN if self.counter.estimated else MARGIN_BEFORE_REPORT
            return math.ceil(tokens * margin) + FRAME * (len(self.history) + 1)
        unseen = (sum(self._new.values()) + self._changed) * self.scale
        margin = math.ceil(tokens * MARGIN_AFTER_REPORT + unseen * (UNSEEN_MARGIN - 1))
        return margin + FRAME * (len(self._new) + 1)

    # What changes it

    def add(
        self, message: Message, *, turn_type: ConversationTurnType | None = None, at: float
    ) -> None:
        """Take a message in, at the end."""
        tokens = message_tokens(self.counter, message)
        track(self.budget, message, tokens, turn_type=turn_type, created_at=at)
        self._new[message.message_id] = tokens
        self.history.append(message)
        if message.opens_turn:
            self.turns += 1
            self.turn_at = len(self.history) - 1

    def take_back(self) -> None:
        """Forget the last message, as if it had never come: its turn and number are free again."""
        message = self.history.pop()
        located = locate(self.budget, message.message_id)
        forget(self.budget, [message.message_id])
        self._new.pop(message.message_id, None)
        root = self.budget.get_entry(InstructionSource.CONVERSATION)
        if located is not None and root is not None:
            counters = root.metadata[COUNTERS]
            counters["messages"] -= 1
            if located.path.endswith(f"/{ORIGINAL_KEY}"):
                counters["original"] = False
            if message.opens_turn and located.turn == counters["turns"] - 1:
                counters["turns"] -= 1
        self._find_turns()

    def replace(self, after: Sequence[Message], result: GCResult, *, at: float) -> None:
        """Take what a collection left; the budget follows what really changed."""
        before, counted = self.history, self.counted
        settle(self.budget, result, before, after, self.counter)
        known = {message.message_id for message in before}
        # What was cut before it was ever sent is nothing that a report knew.
        sent = counted - sum(self._new.values())
        self._new = {
            message.message_id: message_tokens(self.counter, message)
            for message in after
            if message.message_id in self._new or message.message_id not in known
        }
        self._changed += abs(sent - (self.counted - sum(self._new.values())))
        for message in after:
            if message.message_id not in known:
                entry = entry_of(self.budget, message.message_id)
                if entry is not None:
                    # The clock of the record, so that a replay gives the same budget.
                    entry.created_at = at
        self.history = list(after)
        self._find_turns()
        self._forget_cleared()

    def set_system(self, texts: Mapping[str, str], *, at: float) -> None:
        """The system instructions, by part; a part that is left out goes."""
        self._fill(_SYSTEM, {key: text for key, text in texts.items() if text}, at=at)
        self.system = {key: text for key, text in texts.items() if text}

    def set_enrichment(self, texts: Mapping[str, str], *, at: float) -> None:
        """What the enrichers of this turn said, in the place of the last turn's."""
        kept = {key: text for key, text in texts.items() if text}
        self._fill(_ENRICHMENT, kept, at=at)
        self.enrichment = kept

    def set_tools(self, tokens: Mapping[str, tuple[int, bool]], *, at: float) -> None:
        """The schemas in the request: their tokens, and whether they are discoverable."""
        entry = self.budget.get_entry(_PLUGIN) or self.budget.set_entry(_PLUGIN, 0, created_at=at)
        counted = self.counted
        for name in [name for name in entry.children if name not in tokens]:
            entry.children.pop(name)
        for name, (count, discoverable) in tokens.items():
            child = entry.children.get(name)
            policy = GCPolicy.EPHEMERAL if discoverable else GCPolicy.LOCKED
            if child is None:
                # Not by `add_child`, which would take a name with a slash for a path.
                entry.children[name] = SourceEntry(_PLUGIN, count, policy, name, created_at=at)
            else:
                child.tokens, child.gc_policy = count, policy
        self._changed += abs(counted - self.counted)

    def tools_in_budget(self) -> dict[str, tuple[int, bool]]:
        """The schemas that the budget holds, as `set_tools` takes them, in the order they came.

        A collection may have cleared some.
        """
        entry = self.budget.get_entry(_PLUGIN)
        return {
            name: (child.tokens, child.gc_policy is not GCPolicy.LOCKED)
            for name, child in (entry.children.items() if entry is not None else ())
        }

    def observe(self, reported: int | None, counted: int, *, thinking: int | None) -> None:
        """Hold our count to what the provider said of a request; thoughts are counted apart."""
        self.anchor.observe(reported, counted)
        if reported is not None:
            self._is_reported = True
            self._new.clear()
            self._changed = 0
        if thinking:
            entry = self.budget.get_entry(InstructionSource.THINKING)
            before = entry.tokens if entry is not None else 0
            self.budget.update_tokens(InstructionSource.THINKING, before + thinking)

    def switch(self, model: str, limit: int | None) -> None:
        """Speak with another model: its limit, its own scale."""
        self.model = model
        self.budget.context_limit = limit
        self.anchor.switch(model)
        self._is_reported = False

    def set_limit(self, limit: int | None) -> None:
        """What was learned about the model's window."""
        self.budget.context_limit = limit

    def _find_turns(self) -> None:
        opening = [at for at, message in enumerate(self.history) if message.opens_turn]
        self.turns = len(opening)
        self.turn_at = opening[-1] if opening else None

    def _fill(self, source: InstructionSource, texts: Mapping[str, str], *, at: float) -> None:
        counts = self.counter.count_texts(list(texts.values()))
        entry = self.budget.get_entry(source) or self.budget.set_entry(source, 0, created_at=at)
        self._changed += entry.total_tokens() + sum(counts)
        entry.tokens = 0
        entry.children.clear()
        policy = GCPolicy.LOCKED if source is _SYSTEM else GCPolicy.EPHEMERAL
        for key, tokens in zip(texts, counts, strict=True):
            entry.children[key] = SourceEntry(source, tokens, policy, created_at=at)

    def _forget_cleared(self) -> None:
        """A collection clears enrichment in the budget: then it is no longer sent either."""
        entry = self.budget.get_entry(_ENRICHMENT)
        held = entry.children if entry is not None else {}
        self.enrichment = {key: text for key, text in self.enrichment.items() if key in held}


BASE = SystemChildType.BASE.value
CLIENT = SystemChildType.CLIENT.value
FRAMEWORK = SystemChildType.FRAMEWORK.value
