"""Making room: when to collect, the ladder beneath that, and the gate in front of every request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from jaato.budget import GCPolicy, InstructionSource, locate
from jaato.budget.conversation import turn_holding
from jaato.events import Noticed, ResultShortened
from jaato.exchange import ContextLimitError
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import STUB_MARK, Message
from jaato.history.message import FROM_MODEL
from jaato.session.arguments import argument_text, has_long_arguments, with_short_arguments
from jaato.session.collector import Collector, thoughtless
from jaato.session.problems import WindowFullError
from jaato.session.recall import RECALL
from jaato.session.record import Switched
from jaato.session.shorten import (
    SHORTENED_MARK,
    SMALLEST_KEPT,
    lowest_cap,
    result_parts,
    result_text,
    shortened_text,
    stub_text,
    with_result,
)
from jaato.session.state import State
from jaato.session.turn import DEFAULT_REFUSALS
from jaato.tokens import message_tokens

LEAST_FREED_PERCENT: Final = 10.0
"""A rung of stubbing frees this much of the window if it can; and after a refusal that our count
does not explain, so much of the request has to go."""
STEPS_KEPT: Final = (8, 4, 2, 1)
"""The last steps that each rung of stubbing leaves alone."""
SMALLEST_GAIN: Final = SMALLEST_KEPT // 2
SHOWN_FILLERS: Final = 5

_KEPT: Final = frozenset({GCPolicy.LOCKED, GCPolicy.PRESERVABLE})


_Stubbing = tuple[Callable[[Message], object], Callable[[Message], Message]]
"""Whether a message has something to leave out, and the message without it."""


class _Result(NamedTuple):
    """A tool result that may be made smaller."""

    at: int
    part: int
    tokens: int
    name: str


class Room:
    """Sees to it that a request fits before it is sent."""

    def __init__(
        self, state: State, collector: Collector, reserve: Callable[[], int | None]
    ) -> None:
        self.state = state
        self.keeper = collector.keeper
        self.collector = collector
        self.reserve = reserve
        """The room that is wanted for an answer."""
        self.threshold_crossed = False
        self._stubs: tuple[_Stubbing, ...] = (
            (result_parts, self._stubbed),
            (has_long_arguments, self._with_short_arguments),
        )

    async def before_prompt(self) -> None:
        """The look before a prompt is taken."""
        if self.collector.rules.check_before_send:
            await self._collect_if_due()

    async def after_turn(self) -> None:
        """The look when a turn is over."""
        if self.threshold_crossed or self.collector.rules.continuous_mode:
            await self._collect_if_due()
        self.threshold_crossed = False

    async def before_call(self, refused: ContextLimitError | None = None, times: int = 0) -> None:
        """Make the next request fit, or raise `WindowFullError`."""
        collector = self.collector
        if refused is not None:
            await self._after_refusal(refused, times)
        elif collector.rules.check_before_send or self.threshold_crossed:
            await self._collect_if_due()
        self.threshold_crossed = False
        # Each attempt may ask a model for a summary; a window that nothing empties asks once.
        may_help = collector.may_collect and not collector.is_fruitless
        if refused is None and may_help and self._overflow():
            await collector.collect(GCTriggerReason.PRE_MESSAGE)
        self._climb(self._overflow)

    def _overflow(self) -> int:
        return self.state.window.overflow(self.reserve())

    async def _collect_if_due(self) -> None:
        reason = self.collector.due()
        if reason is not None:
            await self.collector.collect(reason)

    async def _after_refusal(self, refused: ContextLimitError, times: int) -> None:
        """The provider is believed, whatever was counted here."""
        window = self.state.window
        before = window.counted
        if refused.limit and (window.limit is None or refused.limit < window.limit):
            self._learn(refused.limit)
        if self.collector.may_collect:
            await self.collector.collect(GCTriggerReason.CONTEXT_LIMIT)
        # Our count said that it fits, so it is not asked: each refusal takes a larger part.
        goal = before - int(before * LEAST_FREED_PERCENT / 100 * times)
        try:
            self._climb(lambda: max(window.counted - goal, 0))
        except WindowFullError as error:
            if self._overflow():
                raise
            # It fits by every count: a shorter answer is asked for, a few times. Whoever refuses
            # that as well has something else to say.
            if times >= DEFAULT_REFUSALS:
                raise refused from error

    def _learn(self, limit: int) -> None:
        state = self.state
        text = f"the provider says that the window has {limit:,} tokens"
        state.commit(Switched(provider=state.provider, model=state.window.model, limit=limit))
        emitter = self.collector.emitter
        emitter.emit(Noticed(agent_id=emitter.agent_id, text=text))

    def _climb(self, need: Callable[[], int]) -> None:
        """The ladder: stubs, oldest first, then the largest results shortened, then an error."""
        if not need():
            return
        # A larger edit now is cheaper than one at each step: all behind it is sent uncached.
        least = int((self.state.window.limit or 0) * LEAST_FREED_PERCENT / 100)
        if need() > self._in_stubs():
            # Something will be cut anyway: many small old results need not go before it.
            self._shorten(need())
        for steps in STEPS_KEPT:
            for has_some, shrink in self._stubs:
                if not need():
                    return
                self._stub(max(need(), least), steps, has_some, shrink)
        while need():
            # What leaves makes the count less certain, so that one cut may not be enough.
            before = self.state.window.counted
            self._shorten(need())
            if self.state.window.counted >= before:
                raise self._full()

    def _in_stubs(self) -> int:
        """The tokens, at most, that the rungs of stubbing could free."""
        stop = _last_steps(self.state.history, STEPS_KEPT[-1])
        return sum(
            self._tokens(message)
            for at, message in enumerate(self.state.history[:stop])
            if (result_parts(message) or has_long_arguments(message)) and self._may_shrink(at)
        )

    def _stub(
        self,
        need: int,
        steps: int,
        has_some: Callable[[Message], object],
        shrink: Callable[[Message], Message],
    ) -> None:
        """Leave lines in place of what is old, oldest first, until enough is freed."""
        history = self.state.history
        stop = _last_steps(history, steps)
        gone: dict[int, Message] = {}
        freed = 0
        for at in range(stop):
            if freed >= need:
                break
            message = history[at]
            tokens = self._tokens(message)
            # What is made smaller is kept first, so what cannot gain enough is not even tried.
            if tokens < SMALLEST_GAIN or not has_some(message) or not self._may_shrink(at):
                continue
            short = shrink(message)
            gain = tokens - self._tokens(short)
            if gain >= SMALLEST_GAIN:
                gone[at] = short
                freed += gain
        self._take(gone, "stubbed")

    def _with_short_arguments(self, message: Message) -> Message:
        def line(tool: str, text: str) -> str:
            tokens = self.state.counter.count_texts([text])[0]
            return argument_text(tokens, self.keeper.argument(message, tool, text))

        return with_short_arguments(message, line)

    def _stubbed(self, message: Message) -> Message:
        parts = list(message.parts)
        for at in result_parts(message):
            old = parts[at].function_response
            assert old is not None
            text = result_text(parts[at])
            handle = self.keeper.result(message, at)
            tokens = self.state.counter.count_texts([text])[0]
            line = stub_text(old.name, tokens, handle, is_error=old.is_error)
            parts[at] = with_result(parts[at], line, STUB_MARK, handle)
        return message.with_parts(parts)

    def _shorten(self, need: int) -> None:
        """Cut the largest results to a common size, those that were never sent included."""
        history = self.state.history
        found = list(self._results())
        # What was just called back comes last: it would only be called back again.
        recalled = _last_steps(history, 1)
        others = [one for one in found if one.at < recalled or one.name != RECALL]
        if sum(max(one.tokens - SMALLEST_KEPT, 0) for one in others) >= need:
            found = others
        cap = lowest_cap([one.tokens for one in found], need, SMALLEST_KEPT)
        gone: dict[int, Message] = {}
        events: list[ResultShortened] = []
        for one in found:
            if one.tokens > cap:
                message = gone.get(one.at, history[one.at])
                gone[one.at], event = self._cut(message, one.part, cap)
                events.append(event)
        # Nothing is told before all of it is kept.
        for event in events:
            self.collector.emitter.emit(event)
        self._take(gone, "shortened")

    def shortened(self, message: Message, at: int, limit: int) -> Message:
        """The message with one result cut to so many tokens; the whole is stashed."""
        short, event = self._cut(message, at, limit)
        self.collector.emitter.emit(event)
        return short

    def _cut(self, message: Message, at: int, limit: int) -> tuple[Message, ResultShortened]:
        part = message.parts[at]
        old = part.function_response
        assert old is not None
        text = result_text(part)
        counter = self.state.counter
        handle = self.keeper.result(message, at)
        short = shortened_text(text, counter=counter, limit=limit, handle=handle)
        counts = counter.count_texts([text, short])
        event = ResultShortened(
            agent_id=self.collector.emitter.agent_id,
            call_id=old.call_id,
            name=old.name,
            tokens_before=counts[0],
            tokens_after=counts[1],
            handle=handle,
        )
        parts = list(message.parts)
        parts[at] = with_result(part, short, SHORTENED_MARK, handle)
        return message.with_parts(parts), event

    def _results(self) -> Iterator[_Result]:
        texts: list[str] = []
        places: list[tuple[int, int, str]] = []
        for at, message in enumerate(self.state.history):
            if message.result_ids and self._may_shrink(at):
                for index in result_parts(message):
                    part = message.parts[index]
                    assert part.function_response is not None
                    places.append((at, index, part.function_response.name))
                    texts.append(result_text(part))
        counts = self.state.counter.count_texts(texts)
        for (at, index, name), tokens in zip(places, counts, strict=True):
            yield _Result(at, index, tokens, name)

    def _may_shrink(self, at: int) -> bool:
        """Whether no pin and no policy protects a message."""
        message = self.state.history[at]
        budget = self.state.budget
        located = locate(budget, message.message_id)
        if located is None:
            return True
        if located.turn in self._pinned:
            return False
        holder = turn_holding(budget, message.message_id)
        held = {located.entry.effective_gc_policy()}
        if holder is not None:
            held.add(holder.effective_gc_policy())
        return held.isdisjoint(_KEPT)

    @property
    def _pinned(self) -> frozenset[int]:
        return frozenset(self.collector.effective.pinned_turn_indices)

    def _take(self, gone: dict[int, Message], what: str) -> None:
        if not gone:
            return
        state, collector = self.state, self.collector
        percent, before = state.window.percent, state.window.counted
        after = [gone.get(at, message) for at, message in enumerate(state.history)]
        first = min(gone)
        kept = after
        if collector.binds_thoughts and any(message.thoughts for message in after[first:]):
            kept = [thoughtless(message) for message in after]
        freed = sum(map(self._tokens, state.history)) - sum(map(self._tokens, kept))
        result = GCResult(
            success=True,
            items_collected=len(gone),
            tokens_before=before,
            tokens_after=before - freed,
            plugin_name="ladder",
            trigger_reason=GCTriggerReason.PRE_MESSAGE,
            details={"edit_point": first, "results": what},
        )
        state.replace(kept, result)
        collector.tell(result, percent)

    def _tokens(self, message: Message) -> int:
        return message_tokens(self.state.counter, message)

    def _full(self) -> WindowFullError:
        window = self.state.window
        budget = window.budget
        # What the gate compares with the limit, so that the sentence makes sense.
        needed = window.most_tokens() + window.reserve(self.reserve())
        fillers = [
            (source.value, entry.total_tokens())
            for source, entry in budget.entries.items()
            if source not in {InstructionSource.THINKING, InstructionSource.CONVERSATION}
        ]
        fillers.append(("room for the answer", window.reserve(self.reserve())))
        # Many small messages fill a window too, and none of them is among the largest.
        conversation = budget.get_entry(InstructionSource.CONVERSATION)
        if conversation is not None:
            what = f"all {len(window.history):,} messages together"
            fillers.append((what, conversation.total_tokens()))
        fillers += [
            (f"message {at} ({message.role.value})", self._tokens(message))
            for at, message in enumerate(window.history)
        ]
        fillers.sort(key=lambda filler: -filler[1])
        return WindowFullError(needed, window.limit, fillers[:SHOWN_FILLERS])


def _last_steps(history: Sequence[Message], steps: int) -> int:
    """Where the last so many steps begin."""
    for at in range(len(history) - 1, -1, -1):
        if history[at].shape & FROM_MODEL:
            steps -= 1
            if steps == 0:
                return at
    return 0
