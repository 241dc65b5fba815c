"""One collection in a session: the plug-in is asked, its answer checked, and nothing thrashes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from jaato.budget import GCPolicy, InstructionSource, locate
from jaato.events import BudgetUpdated, Collected
from jaato.gc.config import GCConfig
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import Message, violations
from jaato.ports import Telemetry
from jaato.session.emitter import Emitter
from jaato.session.state import State
from jaato.tokens import message_tokens

WORTH_PERCENT: Final = 2.0
"""A collection that frees less is not tried again before the window grew by as much."""
_CONVERSATION: Final = InstructionSource.CONVERSATION
_ASKED_FOR: Final = frozenset({GCTriggerReason.MANUAL, GCTriggerReason.CONTEXT_LIMIT})


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
    ) -> None:
        self.state = state
        self.emitter = emitter
        self.telemetry = telemetry
        self.plugin = plugin
        self.config = config or GCConfig()
        self.binds_thoughts = False
        """Whether the provider refuses thoughts behind an edit."""
        self._fruitless_at: int | None = None

    def install(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Collect with another plug-in, or with none."""
        self.plugin = plugin
        self.config = config or GCConfig()
        self._fruitless_at = None

    @property
    def effective(self) -> GCConfig:
        """The configuration with this session's pins."""
        pins = self.state.pins
        if not pins:
            return self.config
        both = sorted({*self.config.pinned_turn_indices, *pins})
        return replace(self.config, pinned_turn_indices=both)

    @property
    def may_collect(self) -> bool:
        """Whether a collection may run without being asked for."""
        return self.plugin is not None and self.config.auto_trigger

    def due(self) -> GCTriggerReason | None:
        """Why a collection should run now; None where it should not."""
        if self.plugin is None:
            return None
        usage = self.state.window.usage()
        answer = self.emitter.guarded(self.plugin.should_collect, usage, self.config)
        if not isinstance(answer, tuple) or not answer[0]:
            return None
        if self.is_fruitless:
            return None
        return answer[1] or GCTriggerReason.THRESHOLD

    @property
    def is_fruitless(self) -> bool:
        """Whether the last collection freed next to nothing, and the window has not grown since."""
        limit, before = self.state.window.limit, self._fruitless_at
        if before is None or not limit:
            return before is not None and self.state.window.counted <= before
        return self.state.window.counted < before + limit * WORTH_PERCENT / 100

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
        with self.telemetry.span("collection", **facts) as span:
            after, result = await self._asked(self.plugin, reason)
            if result.success:
                result = self._checked(before, after, result)
            changed = result.success and (
                bool(result.removal_list) or len(after) != len(before) or after != before
            )
            if changed:
                front = any(item.source is not _CONVERSATION for item in result.removal_list)
                self.state.replace(self._without_thoughts(before, after, front=front), result)
            span.set(
                items_collected=result.items_collected,
                tokens_freed=result.tokens_freed,
                context_after=window.counted,
                success=result.success,
                error=result.error,
                **{name: result.details.get(name) for name in _COSTS},
            )
        self._note(reason, result, changed=changed)
        self.tell(result, percent)
        return result

    def tell(self, result: GCResult, percent_before: float) -> None:
        """Tell listeners of an edit."""
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
        freed = sum(message_tokens(state.counter, one) for one in state.history)
        freed -= sum(message_tokens(state.counter, one) for one in after)
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

    async def _asked(
        self, plugin: GCPlugin, reason: GCTriggerReason
    ) -> tuple[list[Message], GCResult]:
        state = self.state
        usage, config = state.window.usage(), self.effective
        arguments = (list(state.history), usage, config, reason, state.budget)
        try:
            if hasattr(plugin, "acollect"):
                after, result = await plugin.acollect(*arguments)
            else:
                # Somebody else's may call a model, and must not hold up the loop.
                after, result = await asyncio.to_thread(_collect, plugin, arguments)
            if not isinstance(result, GCResult):
                raise TypeError(f"collect() gave {type(result).__name__}, not a GCResult")  # noqa: TRY301 -- told like all else it may do wrong
            return list(after), result
        except Exception as error:  # noqa: BLE001 -- whatever a plug-in raises is a failed collection
            return state.history, self._failed(plugin, reason, f"{type(error).__name__}: {error}")

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

    def _checked(
        self, before: Sequence[Message], after: Sequence[Message], result: GCResult
    ) -> GCResult:
        """The result, or a failure where a plug-in broke what must hold in a session."""
        assert self.plugin is not None
        problem = self._problem(before, after)
        return (
            result
            if problem is None
            else self._failed(
                self.plugin, result.trigger_reason, f"its history was refused: {problem}"
            )
        )

    def _problem(self, before: Sequence[Message], after: Sequence[Message]) -> str | None:
        if before and not after:
            return "nothing is left"
        there = {message.message_id for message in after}
        for message in before:
            if message.message_id in there:
                continue
            located = locate(self.state.budget, message.message_id)
            if located is not None and located.entry.effective_gc_policy() is GCPolicy.LOCKED:
                return f"message {message.message_id} is LOCKED and left"
        broken = violations(after)
        pending = before[-1].message_id if before and before[-1].call_ids else None
        wrong = [one for one in broken if one.message_id != pending]
        if wrong and len(wrong) > len(violations(before)):
            return str(wrong[0])
        return None

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

    def _note(self, reason: GCTriggerReason, result: GCResult, *, changed: bool) -> None:
        window = self.state.window
        worth = (window.limit or 0) * WORTH_PERCENT / 100
        is_fruitless = not changed or result.tokens_freed < worth
        if is_fruitless and reason not in _ASKED_FOR:
            self._fruitless_at = window.counted
        elif not is_fruitless:
            self._fruitless_at = None


_COSTS: Final = ("edit_point", "tokens_invalidated", "thoughts_invalidated")


def _collect(
    plugin: GCPlugin, arguments: tuple[list[Message], Mapping[str, Any], GCConfig, Any, Any]
) -> tuple[list[Message], GCResult]:
    history, usage, config, reason, budget = arguments
    return plugin.collect(history, dict(usage), config, reason, budget)


def thoughtless(message: Message) -> Message:
    """The message without what a provider would have to be given back."""
    if not message.thoughts:
        return message
    rest = [part for part in message.parts if part.thought is None]
    # A message of thoughts alone has nothing to replay, but a history holds no empty message.
    return message.with_parts(rest) if rest else message
