"""A plan in the making: strategies say what goes, the draft keeps the account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from jaato.budget import GCPolicy, InstructionSource
from jaato.gc.ledger import Output
from jaato.gc.marks import create_gc_notification_message, create_summary_message, stubbed
from jaato.gc.options import PLACEHOLDERS
from jaato.gc.plan import Digest, Plan
from jaato.gc.result import GCRemovalItem
from jaato.gc.situation import Situation
from jaato.history import Drop, Edit, Fold, Kind, Message, Notify, Span, Stub, edit_point
from jaato.history.turns import notices, thinking
from jaato.tokens import message_tokens

WORST = 9_999_999
"""Stands for every figure of a notice while its size must be reserved before it is known."""
SMALLEST_STUB_GAIN = 32
"""A stub that frees fewer tokens costs more in lost context and cache than it saves."""


class SummaryRejectedError(Exception):
    """A summary that says nothing, or more than what it replaces."""


class Draft:
    """Collects edits until the goal is reached; `finish` turns them into a plan."""

    def __init__(self, situation: Situation, template: str) -> None:
        self.situation = situation
        self.freed = 0
        self.summary_tokens = 0
        self.dropped: list[int] = []
        self.folded: list[int] = []
        self._template = situation.options.get("notification_template") or template
        self._removals: dict[int, list[GCRemovalItem]] = {}  # by span, so that a drop undoes stubs
        self._cleared: list[GCRemovalItem] = []
        self.turns_left = 0
        self._gone: dict[int, Collection[int]] = {}
        self._stubs: dict[int, Stub] = {}
        self._lines: dict[str, int] = {}
        self._drops: list[tuple[Span, str]] = []
        self._fold: Fold | None = None
        self._notice_tokens = self._reserve() if situation.options.get("notify_on_gc") else 0

    def is_done(self) -> bool:
        """Whether the goal is reached: the tokens, and the turns where they were the trigger."""
        turns = self.situation.turns_to_leave
        return self.has_freed_enough() and (turns is None or self.turns_left >= turns)

    def has_freed_enough(self) -> bool:
        """Whether no more tokens have to go. Only what leaves whole brings the turns down."""
        need = self.situation.tokens_to_free
        if self.situation.turns_to_leave is not None and (need is None or need <= 0):
            return True
        gain = self.freed - self.summary_tokens - self._notice_tokens
        return need is not None and gain >= need

    def leaving(self, index: int, spare: frozenset[GCPolicy]) -> list[int]:
        """What would go with this span and has not gone yet."""
        positions = self.situation.leaving(index, spare)
        gone = self._gone.get(index)
        if not gone:
            return positions
        before = set(gone)
        return [at for at in positions if at not in before]

    def drop(self, index: int, reason: str, spare: frozenset[GCPolicy]) -> bool:
        """Let a span go, but for what policy spares. Whether anything went."""
        runs = self._take(index, spare, reason)
        if not runs:
            return False
        self.dropped.append(index)
        for run in runs:
            self._drops.append((run, reason))
        return True

    def _take(self, index: int, spare: frozenset[GCPolicy], reason: str) -> list[Span]:
        """Account for a span that goes, but for what policy spares; what goes of it."""
        situation = self.situation
        span = situation.spans[index]
        holder = situation.ledger.plain_turn(span)
        if holder is None:
            positions = self.leaving(index, spare)
            if positions:
                self._leave(index, positions, reason)
            return _runs(positions)
        # The budget holds it as one thing: nearly all turns are like that.
        if index in self._gone:
            return []
        if self._stubs:
            self._unstub(index, span)
        item = situation.ledger.whole_item(span, holder, reason)
        self._removals.setdefault(index, []).append(item)
        self.freed += item.tokens_freed
        self._gone[index] = span
        self.turns_left += 1
        return [span]

    def drop_oldest(self, indices: Iterable[int], reason: str) -> None:
        """Let spans go one after the other until the goal is reached."""
        for index in indices:
            if self.is_done():
                return
            self.drop(index, reason, self.situation.spared)

    def _leave(self, index: int, positions: list[int], reason: str) -> None:
        situation = self.situation
        self._unstub(index, positions)
        items = self._items(index, positions, reason)
        self._removals.setdefault(index, []).extend(items)
        self.freed += sum(item.tokens_freed for item in items)
        gone = self._gone[index] = [*self._gone.get(index, ()), *positions]
        span = situation.spans[index]
        if situation.spans.is_turn(index) and len(gone) == len(span):
            self.turns_left += 1

    def _items(self, index: int, positions: list[int], reason: str) -> list[GCRemovalItem]:
        """The account of what leaves of a span that the budget does not hold as one thing."""
        if not positions:
            return []
        situation = self.situation
        return situation.ledger.items(positions, reason, partial(situation.number_of, index))

    def _unstub(self, index: int, positions: Iterable[int]) -> None:
        """What leaves needs no line in its place."""
        for at in positions:
            if at not in self._stubs:
                continue
            message_id = self.situation.history[at].message_id
            kept: list[GCRemovalItem] = []
            for item in self._removals.get(index, []):
                if item.message_ids == [message_id]:
                    self.freed -= item.tokens_freed
                else:
                    kept.append(item)
            self._removals[index] = kept
            del self._stubs[at]

    def stub(self, index: int, output: Output, reason: str) -> bool:
        """Leave a line in place of a message's tool output. Whether it was worth it."""
        situation = self.situation
        message = situation.history[output.at]
        tokens = output.tokens
        if tokens < SMALLEST_STUB_GAIN or output.at in self._stubs:
            return False
        short = stubbed(message, tokens, situation.write_stub)
        if short is None:
            return False
        gain = tokens - self._stub_tokens(short)
        if gain < SMALLEST_STUB_GAIN:
            return False
        ids = [message.message_id]
        item = GCRemovalItem(InstructionSource.CONVERSATION, output.key, gain, reason, ids)
        self._removals.setdefault(index, []).append(item)
        self._stubs[output.at] = Stub(at=output.at, into=short, why=reason)
        self.freed += gain
        return True

    def _stub_tokens(self, short: Message) -> int:
        """What a stub costs. Few lines are distinct, so most are known without a count."""
        counter = self.situation.counter
        result = short.parts[0].function_response
        if result is None or len(short.parts) > 1:
            return message_tokens(counter, short)
        tokens = self._lines.get(result.result)
        if tokens is None:
            tokens = self._lines[result.result] = message_tokens(counter, short)
        else:
            short.remember_tokens(counter.name, tokens)
        return tokens

    def clear(self, item: GCRemovalItem) -> None:
        """Take something out that no history shows."""
        self._cleared.append(item)
        self.freed += item.tokens_freed

    def cleared_below(self, source: InstructionSource, path: str) -> int:
        """What has been taken out already of the entries below one."""
        return sum(
            item.tokens_freed
            for item in self._cleared
            if item.source is source and (item.child_key or "").startswith(f"{path}/")
        )

    def clear_with_messages(self, item: GCRemovalItem) -> bool:
        """Take something out together with messages of its own. Whether they could go.

        Only such go as stand alone and open no turn, and none out of a protected turn.
        """
        situation = self.situation
        wanted = set(item.message_ids)
        places = [
            at for at, message in enumerate(situation.history) if message.message_id in wanted
        ]
        for at in places:
            message = situation.history[at]
            stands_alone = not (message.call_ids or message.result_ids or message.opens_turn)
            if not stands_alone or situation.spans.index_at(at) in situation.protected:
                return False
        self._drops += [(range(at, at + 1), item.reason) for at in places]
        self.clear(item)
        return True

    def fold(self, indices: list[int], digest: Digest, reason: str) -> None:
        """Put one summary in the place of several spans."""
        situation = self.situation
        text = digest.text.strip()
        if not text:
            raise SummaryRejectedError("the summarizer returned nothing")
        summary = create_summary_message(text)
        tokens = message_tokens(situation.counter, summary)
        spans: list[Span] = []
        freed = self.freed
        for index in indices:
            runs = self._take(index, situation.spared, reason)
            if runs:
                self.folded.append(index)
                spans += runs
        if tokens >= self.freed - freed:
            raise SummaryRejectedError(
                f"the summary has {tokens} tokens, what it replaces {self.freed - freed}"
            )
        self.summary_tokens = tokens
        self._fold = Fold(
            at=self._between_turns(spans[0]), spans=tuple(spans), into=summary, why=reason
        )

    def _between_turns(self, first: Span) -> int:
        """Where the folded turns stood, but behind what stays of a turn that leaves in part."""
        index = self.situation.spans.index_at(first.start)
        span = self.situation.spans[index]
        return span.start if len(self._gone[index]) == len(span) else span.stop

    def account(self) -> Counter[str]:
        """How many removals carry each reason."""
        return Counter([item.reason for item in self._listed()])

    def _listed(self) -> list[GCRemovalItem]:
        removals = self._removals.values()
        return [*self._cleared, *[item for items in removals for item in items]]

    def foldable(self, indices: list[int]) -> tuple[tuple[Message, ...], int]:
        """The messages a fold of these spans replaces, and their tokens."""
        situation = self.situation
        positions: list[int] = []
        tokens = 0
        for index in indices:
            own = self.leaving(index, situation.spared)
            positions += own
            holder = situation.ledger.plain_turn(situation.spans[index]) if own else None
            if holder is not None:
                tokens += holder.total_tokens()
            else:
                tokens += sum(item.tokens_freed for item in self._items(index, own, ""))
        # A notice tells of an earlier collection: nothing in it is worth a summary.
        messages = map(situation.history.__getitem__, positions)
        return tuple([one for one in messages if one.kind is not Kind.NOTICE]), tokens

    def finish(self, details: Mapping[str, Any]) -> Plan:
        """The plan, or nothing where the gain is not worth an edit."""
        situation = self.situation
        gain = self.freed - self.summary_tokens
        if gain <= 0:
            return self.nothing("nothing may be removed", details)
        if gain < situation.minimum:
            return self.nothing(f"it would free only {gain} tokens", details)
        edits: list[Edit] = [*_merged(self._drops), *self._stubs.values()]
        removals = self._listed()
        if self._fold is not None:
            edits.append(self._fold)
        after = situation.total - gain
        notification = None
        # Tool schemas and enrichment are no news to the model: it is sent what there is.
        if situation.options.get("notify_on_gc") and edits:
            notification = self._template.format(**self._figures(gain, len(removals)))
            for notice in self._old_notices():
                edits.append(Drop(span=range(notice, notice + 1), why="notice_replaced"))
                items = situation.ledger.items([notice], "notice_replaced")
                removals += items
                after -= sum(item.tokens_freed for item in items)
            message = create_gc_notification_message(notification)
            edits.append(Notify(at=self._notice_at(), message=message))
            after += message_tokens(situation.counter, message)
        if after >= situation.total:
            return self.nothing("the notice would cost more than is freed", details)
        point = 0 if self._changes_the_front else edit_point(edits)
        return Plan(
            edits=tuple(edits),
            removals=tuple(removals),
            tokens_before=situation.total,
            tokens_after=after,
            notification=notification,
            details=details,
            edit_point=point,
            tokens_invalidated=self._invalidated(point, after),
            thoughts_invalidated=self._thoughts_after(point),
        )

    @property
    def turns_kept(self) -> int:
        """How many turns stay, whole or in part."""
        return self.situation.turn_count - self.turns_left

    @property
    def turns_dropped(self) -> int:
        """How many turns were dropped, whole or but for what policy spares."""
        spans = self.situation.spans
        return sum(map(spans.is_turn, set(self.dropped)))

    def _figures(self, gain: int, items: int) -> dict[str, int]:
        truncated = self.turns_dropped
        return {
            "removed": truncated + len(self.folded),
            "kept": self.turns_kept,
            "tokens_freed": gain,
            "freed": gain,
            "truncated": truncated,
            "summarized": len(self.folded),
            "items": items,
        }

    @property
    def _changes_the_front(self) -> bool:
        # Instructions and tool schemas are sent before every message.
        front = {InstructionSource.SYSTEM, InstructionSource.PLUGIN}
        return any(item.source in front for item in self._cleared)

    def nothing(self, because: str, details: Mapping[str, Any]) -> Plan:
        """Doing nothing is an answer, and carries its reason."""
        total = self.situation.total
        return Plan(tokens_before=total, tokens_after=total, because=because, details=details)

    def _has_left(self, at: int) -> bool:
        return at in self._gone.get(self.situation.spans.index_at(at), ())

    def _old_notices(self) -> list[int]:
        return [at for at in notices(self.situation.shapes) if not self._has_left(at)]

    def _notice_at(self) -> int:
        """In front of all that is not LOCKED: the request of the user comes first, always."""
        situation = self.situation
        history = situation.history
        at = 0
        if situation.budget is None:
            return at
        for position, message in enumerate(history):
            if situation.ledger.policy(position) is GCPolicy.LOCKED:
                at = position + 1
            elif message.kind is not Kind.NOTICE:
                break
        # Never between a call and its result.
        while at > 0 and (
            history[at - 1].call_ids or (at < len(history) and history[at].result_ids)
        ):
            at -= 1
        return at

    def _reserve(self) -> int:
        """An upper bound of what the notice will add, so that it cannot miss the goal."""
        text = self._template.format(**dict.fromkeys(PLACEHOLDERS, WORST))
        return message_tokens(self.situation.counter, create_gc_notification_message(text))

    def _invalidated(self, point: int | None, after: int) -> int:
        """What stands behind the edit point and must be sent uncached."""
        if point is None:
            return 0
        situation = self.situation
        unchanged = sum(situation.ledger.tokens(at) for at in range(point))
        front = situation.total - situation.conversation_tokens
        front -= sum(
            item.tokens_freed
            for item in self._cleared
            if item.source is not InstructionSource.CONVERSATION
        )
        if self._changes_the_front:
            return after
        return max(after - front - unchanged, 0)

    def _thoughts_after(self, point: int | None) -> int:
        if point is None:
            return 0
        situation = self.situation
        return sum(
            situation.history[at].thoughts
            for at in thinking(situation.shapes)
            if at >= point and not self._has_left(at)
        )


def _merged(drops: list[tuple[Span, str]]) -> Iterator[Drop]:
    """One edit for neighbours that leave for the same reason."""
    start, stop, waiting = 0, 0, ""
    for span, why in sorted(drops, key=lambda drop: drop[0].start):
        if stop == span.start and waiting == why:
            stop = span.stop
            continue
        if start < stop:
            yield Drop(span=range(start, stop), why=waiting)
        start, stop, waiting = span.start, span.stop, why
    if start < stop:
        yield Drop(span=range(start, stop), why=waiting)


def _runs(positions: list[int]) -> list[Span]:
    runs: list[Span] = []
    if not positions:
        return runs
    start = previous = positions[0]
    for at in positions[1:]:
        if at != previous + 1:
            runs.append(range(start, previous + 1))
            start = at
        previous = at
    runs.append(range(start, previous + 1))
    return runs
