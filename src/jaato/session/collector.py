"""One collection in a session: the plug-in is asked, its answer checked, and nothing thrashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from jaato.budget import InstructionSource
from jaato.events import BudgetUpdated, Collected
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message, Part
from jaato.kept import StashError
from jaato.ports import Stash, Telemetry
from jaato.session.emitter import Emitter, told
from jaato.session.keeping import Keeper
from jaato.session.plugin_call import RefusedError, asked, breaches, effective_config, reason_in
from jaato.session.state import State
from jaato.tokens import message_tokens

WORTH_PERCENT: Final = 2.0
"""A collection that frees less is not tried again before the window grew by as much."""
_CONVERSATION: Final = InstructionSource.CONVERSATION
_ASKED_FOR: Final = frozenset({GCTriggerReason.MANUAL, GCTriggerReason.CONTEXT_LIMIT})


def _no_stash() -> None:
    """What leaves is in the session's log alone."""


class Collector:
    """Runs collections of one session. Without a plug-in nothing is ever collected."""

    def __init__(
        self,
        state: State,
        emitter: Emitter,
        telemetry: Telemetry,
        *,
        plugin: GCPlugin | None = None,
        config: GCConfig | None = None,
        stash: Callable[[], Stash | None] = _no_stash,
    ) -> None:
        self.state = state
        self.emitter = emitter
        self.telemetry = telemetry
        self.plugin = plugin
        self.config = config or GCConfig()
        self.keeper = Keeper(state, emitter, stash, lambda: self.rules)
        self.binds_thoughts = False
        """Whether the provider refuses thoughts behind an edit."""
        self._fruitless_at: int | None = None
        self._stuck_turns: int | None = None
        """How many turns a collection for their number left, where it took none."""

    def install(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Collect with another plug-in, or with none."""
        self.plugin = plugin
        self.config = config or GCConfig()
        self.forget_failures()

    @property
    def rules(self) -> GCConfig:
        """When to collect: the configuration, with the plug-in's own options over it."""
        return effective_config(self.plugin, self.config)

    @property
    def effective(self) -> GCConfig:
        """The rules with this session's pins."""
        pins = self.state.pins
        return self.rules.overlaid({"pinned_turn_indices": list(pins)}) if pins else self.rules

    @property
    def may_collect(self) -> bool:
        """Whether a collection may run without being asked for."""
        return self.plugin is not None and self.rules.auto_trigger

    def due(self) -> GCTriggerReason | None:
        """Why a collection should run now; None where it should not."""
        if self.plugin is None or not self.may_collect:
            return None
        usage = self.state.window.usage()
        reason = reason_in(self.emitter.guarded(self.plugin.should_collect, usage, self.config))
        if reason is GCTriggerReason.TURN_LIMIT:
            stuck = self._stuck_turns
            return reason if stuck is None or self.state.window.turns > stuck else None
        return None if self.is_fruitless else reason

    @property
    def is_fruitless(self) -> bool:
        """Whether the last collection freed next to nothing, and the window has not grown since."""
        before = self._fruitless_at
        if before is None:
            return False
        limit, counted = self.state.window.limit, self.state.window.counted
        return counted < before + limit * WORTH_PERCENT / 100 if limit else counted <= before

    def forget_failures(self) -> None:
        """Let what was tried in vain be tried again: the window is another one."""
        self._fruitless_at = None
        self._stuck_turns = None

    async def collect(self, reason: GCTriggerReason) -> GCResult | None:
        """Collect now. None without a plug-in; a failure is a result that says so."""
        if self.plugin is None:
            return None
        window = self.state.window
        before, percent = self.state.history, window.percent
        facts = {
            "session_id": self.state.session_id,
            "trigger_reason": reason.value,
            "strategy": self.plugin.name,
            "context_before": window.counted,
            "context_limit": window.limit,
        }
        turns = window.turns
        with self.telemetry.span("collection", **facts) as span:
            after, result = await self._asked(self.plugin, reason)
            changed = result.success and (
                bool(result.removal_list) or len(after) != len(before) or after != before
            )
            if changed:
                after, result = await self._kept(self.plugin, reason, before, after, result)
                changed = result.success
            if changed:
                front = any(item.source is not _CONVERSATION for item in result.removal_list)
                thinking, after = after, list(self._without_thoughts(before, after, front=front))
                freed = self._counted(thinking) - self._counted(after)
                result = replace(result, tokens_after=result.tokens_after - freed)
            # One that failed or found nothing is a part of the session's history too.
            self.state.replace(after, result)
            span.set(
                items_collected=result.items_collected,
                tokens_freed=result.tokens_freed,
                context_after=window.counted,
                success=result.success,
                error=result.error,
                **{name: result.details.get(name) for name in _COSTS},
            )
        self._note(reason, result, changed=changed, fewer_turns=window.turns < turns)
        self.tell(result, percent)
        return result

    def tell(self, result: GCResult, percent_before: float) -> None:
        """Tell listeners of an edit."""
        if self._fruitless_at is not None:
            # Growth is measured from where the window is now: an edit may have emptied it.
            self._fruitless_at = min(self._fruitless_at, self.state.window.counted)
        agent = self.emitter.agent_id
        after = self.state.window.percent
        self.emitter.emit(
            Collected(
                agent_id=agent, result=result, percent_before=percent_before, percent_after=after
            )
        )
        self.tell_budget()

    def tell_budget(self) -> None:
        """Tell whoever listens what fills the window; a snapshot is made for nobody else."""
        if self.emitter.is_heard(BudgetUpdated):
            snapshot = self.state.budget.snapshot()
            self.emitter.emit(BudgetUpdated(agent_id=self.emitter.agent_id, snapshot=snapshot))

    def drop_bound_thoughts(self) -> None:
        """Let replayed thoughts go where what stands in front of them has changed."""
        state = self.state
        if not self.binds_thoughts or not any(one.thoughts for one in state.history):
            return
        before = state.window.counted
        after = [thoughtless(message) for message in state.history]
        freed = self._counted(state.history) - self._counted(after)
        state.replace(
            after,
            GCResult(
                success=True,
                items_collected=0,
                tokens_before=before,
                tokens_after=before - freed,
                plugin_name="thoughts",
                trigger_reason=GCTriggerReason.PRE_MESSAGE,
                details={"because": "what they were bound to has changed", "edit_point": 0},
            ),
        )

    def _counted(self, messages: Sequence[Message]) -> int:
        return sum(message_tokens(self.state.counter, message) for message in messages)

    async def _asked(
        self, plugin: GCPlugin, reason: GCTriggerReason
    ) -> tuple[list[Message], GCResult]:
        """What the plug-in makes of the history, or the history as it is and why."""
        state = self.state
        before, length = state.history, len(state.history)
        try:
            config = self.effective
            usage = state.window.usage()
            after, result = await asked(plugin, (list(before), usage, config, reason, state.budget))
            if not result.success:
                return state.history, result
            if state.history is not before or len(before) != length:
                raise RefusedError(_CHANGED)  # noqa: TRY301 -- told like the rest
            wrong = breaches(
                before,
                after,
                budget=state.budget,
                pinned=frozenset(config.pinned_turn_indices),
                is_running=state.turn_is_open,
            )
            for problem in wrong:
                raise RefusedError(f"its history was refused: {problem}")  # noqa: TRY301 -- likewise
        except Exception as error:  # noqa: BLE001 -- whatever a plug-in raises is a failed collection
            why = str(error) if isinstance(error, RefusedError) else told(error)
            return state.history, self._failed(plugin, reason, why)
        return after, result

    async def _kept(
        self,
        plugin: GCPlugin,
        reason: GCTriggerReason,
        before: list[Message],
        after: list[Message],
        result: GCResult,
    ) -> tuple[list[Message], GCResult]:
        """What a collection takes away is in the stash first, or nothing is taken away."""
        length = len(before)
        try:
            after, result = await self.keeper.collected(before, after, result)
            if self.state.history is not before or len(before) != length:
                return self.state.history, self._failed(plugin, reason, _CHANGED)
        except StashError as error:
            return before, self._failed(plugin, reason, told(error))
        return after, result

    def _failed(self, plugin: GCPlugin, reason: GCTriggerReason, why: str) -> GCResult:
        total = self.state.window.counted
        return GCResult(
            success=False,
            items_collected=0,
            tokens_before=total,
            tokens_after=total,
            plugin_name=plugin.name,
            trigger_reason=reason,
            error=why,
        )

    def _without_thoughts(
        self, before: Sequence[Message], after: Sequence[Message], *, front: bool
    ) -> Sequence[Message]:
        """Thoughts behind an edit are refused by some providers, and so is a gap between them.

        `front`: what is sent before every message has changed as well.
        """
        if not self.binds_thoughts:
            return after
        pairs = zip(before, after, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        if front:
            same = 0
        if not any(message.thoughts for message in after[same:]):
            return after
        return [thoughtless(message) for message in after]

    def _note(
        self, reason: GCTriggerReason, result: GCResult, *, changed: bool, fewer_turns: bool
    ) -> None:
        window = self.state.window
        if reason is GCTriggerReason.TURN_LIMIT:
            # Turns were to go, and how large they were says nothing.
            self._stuck_turns = None if fewer_turns else window.turns
            return
        worth = (window.limit or 0) * WORTH_PERCENT / 100
        is_fruitless = not changed or result.tokens_freed < worth
        if is_fruitless and reason not in _ASKED_FOR:
            self._fruitless_at = window.counted
        elif not is_fruitless:
            self._fruitless_at = None


_CHANGED: Final = "the history has changed since"
_COSTS: Final = ("edit_point", "tokens_invalidated", "thoughts_invalidated")


def thoughtless(message: Message) -> Message:
    """The message without what a provider would have to be given back."""
    if not message.thoughts:
        return message
    rest = [part for part in message.parts if part.thought is None]
    # A history holds no empty message; what says nothing says so.
    return message.with_parts(rest or [Part(text="")])
