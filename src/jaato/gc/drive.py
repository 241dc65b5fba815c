"""Drives decisions: answers what a planning strategy asks for, applies the plan, reports.

One synchronous and one asynchronous driver, over the same generator. `DrivenPlugin` is the seed's
plug-in contract on top of a `plan` method: everything built in goes through it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

from jaato.budget import InstructionBudget
from jaato.errors import JaatoError
from jaato.gc.config import GCConfig
from jaato.gc.draft import SummaryRejectedError
from jaato.gc.marks import WriteStub
from jaato.gc.options import ConfigError, check_options
from jaato.gc.plan import Digest, Plan, Planning, Summarize
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.gc.settle import settle
from jaato.gc.situation import Situation, number
from jaato.gc.summarizers import Summarizer, Writer
from jaato.gc.wording import EXTRACTIVE
from jaato.history import Message, applied
from jaato.ports import TokenCounter
from jaato.tokens import acount_messages, default_counter, history_tokens

REMEMBERED_TURNS = 20_000
Collected = tuple[list[Message], GCResult]


class DrivenPlugin(ABC):
    """A GC plug-in whose only decision is `plan`.

    It remembers the turn numbers that a history does not show, by the ids of their messages; they
    are lost with the instance, unlike those that a budget keeps.
    """

    name = "gc_unnamed"
    follows_continuous_mode = False

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._counter: TokenCounter | None = None
        self._model: Summarizer | None = None
        self._numbers: dict[str, int] = {}
        self._write_stub: WriteStub | None = None

    @abstractmethod
    def plan(self, situation: Situation) -> Plan | Planning:
        """Decide: a plan, or a generator that asks for what it needs and then returns one."""

    # The plug-in contract

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Take options; every problem is told at once."""
        options = dict(config or {})
        problems = check_options(self.name, options)
        if problems:
            raise ConfigError(problems)
        self._options = options
        self._numbers = {}

    def shutdown(self) -> None:
        """Forget the conversation."""
        self._numbers = {}

    def should_collect(
        self, context_usage: Mapping[str, Any], config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Whether the threshold, or in continuous mode the target, or the turn limit is passed."""
        config = self._effective(config)
        # Fields can be assigned, and a comparison with nonsense would raise nonsense.
        figures = (config.threshold_percent, config.target_percent, config.max_turns or 0)
        if None in map(number, figures):
            raise ConfigError(config.problems())
        if not config.auto_trigger:
            return False, None
        percent = _percent_used(context_usage)
        if percent is not None:
            if self.follows_continuous_mode and config.continuous_mode:
                if percent > config.target_percent:
                    return True, GCTriggerReason.THRESHOLD
            elif percent >= config.threshold_percent:
                return True, GCTriggerReason.THRESHOLD
        turns = number(context_usage.get("turns"))
        if config.max_turns is not None and turns is not None and turns > config.max_turns:
            return True, GCTriggerReason.TURN_LIMIT
        return False, None

    def collect(
        self,
        history: Sequence[Message],
        context_usage: Mapping[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Collected:
        """Plan and apply. `history` and `budget` stay as they are; see `jaato.gc.settle`."""
        situation = self._situation(history, context_usage, config, reason, budget)
        if isinstance(situation, GCResult):
            return list(history), situation
        try:
            plan = self.plan(situation)
            if not isinstance(plan, Plan):
                plan = answered(plan, self._writer(situation).write)
        except _CLEAN_FAILURES as error:
            return list(history), self._failed(situation, error)
        return self._apply(history, situation, plan)

    async def acollect(
        self,
        history: Sequence[Message],
        context_usage: Mapping[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Collected:
        """The same, awaiting a summarizer that takes its time; long texts are counted elsewhere."""
        if budget is None:
            await acount_messages(self.counter, history)
        situation = self._situation(history, context_usage, config, reason, budget)
        if isinstance(situation, GCResult):
            return list(history), situation
        try:
            plan = self.plan(situation)
            if not isinstance(plan, Plan):
                plan = await aanswered(plan, self._writer(situation).awrite)
        except _CLEAN_FAILURES as error:
            return list(history), self._failed(situation, error)
        return self._apply(history, situation, plan)

    # Beyond the contract

    def preview(
        self,
        history: Sequence[Message],
        context_usage: Mapping[str, Any],
        config: GCConfig,
        reason: GCTriggerReason = GCTriggerReason.MANUAL,
        budget: InstructionBudget | None = None,
    ) -> Plan:
        """What a collection would do now. Calls no model: an extract stands in for a summary."""
        situation = self._situation(history, context_usage, config, reason, budget)
        if isinstance(situation, GCResult):
            return Plan(because=situation.error or "", details=situation.details)
        try:
            plan = self.plan(situation)
            if not isinstance(plan, Plan):
                plan = answered(plan, Writer(EXTRACTIVE, None, self.counter).write)
        except _CLEAN_FAILURES as error:
            total = situation.total
            return Plan(tokens_before=total, tokens_after=total, because=str(error))
        return plan

    @property
    def counter(self) -> TokenCounter:
        """What counts where no budget does."""
        if self._counter is None:
            self._counter = default_counter()
        return self._counter

    @counter.setter
    def counter(self, counter: TokenCounter) -> None:
        self._counter = counter

    def has_summarizer(self, situation: Situation) -> bool:
        """Whether anybody can write a summary."""
        wanted = situation.options.get("summarizer")
        return self._model is not None or (wanted is not None and wanted != "model")

    def twin(self) -> Self:
        """Another instance with the same options, which remembers no conversation."""
        other = type(self)()
        other.initialize(self._options)
        other._counter = self._counter  # noqa: SLF001 -- of the same class
        return other

    def offer_model(self, summarizer: Summarizer | None) -> None:
        """Let a session's own model write summaries where no other summarizer was configured."""
        self._model = summarizer

    def write_stubs(self, write: WriteStub | None) -> None:
        """Let whoever keeps what leaves write the lines that stubs leave behind."""
        self._write_stub = write

    def _effective(self, config: GCConfig) -> GCConfig:
        """The configuration with the plug-in's own options over it."""
        if config.plugin_config:
            # The plug-in's own options were checked when it was initialised; these were not.
            problems = check_options(self.name, config.plugin_config, where="plugin_config")
            if problems:
                raise ConfigError(problems)
            config = config.overlaid(config.plugin_config)
        return config.overlaid(self._options)

    def _situation(
        self,
        history: Sequence[Message],
        usage: Mapping[str, Any],
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None,
    ) -> Situation | GCResult:
        try:
            effective = self._effective(config)
            problems = effective.problems()
        except ConfigError as error:
            problems = error.problems
        if problems:
            total = history_tokens(self.counter, history)
            return GCResult(
                success=False,
                items_collected=0,
                tokens_before=total,
                tokens_after=total,
                plugin_name=self.name,
                trigger_reason=reason,
                error=str(ConfigError(problems)),
            )
        return Situation(
            history,
            usage=usage,
            config=effective,
            options={**config.plugin_config, **self._options},
            reason=reason,
            budget=budget,
            counter=self.counter,
            numbers=self._numbers,
            write_stub=self._write_stub,
        )

    def _remember(self, numbers: dict[str, int]) -> None:
        """Several conversations may share an instance; the oldest are forgotten first."""
        for message_id in numbers:
            self._numbers.pop(message_id, None)
        self._numbers.update(numbers)
        for message_id in list(self._numbers)[: max(len(self._numbers) - REMEMBERED_TURNS, 0)]:
            del self._numbers[message_id]

    def _writer(self, situation: Situation) -> Writer:
        return Writer(situation.options.get("summarizer"), self._model, situation.counter)

    def _apply(self, history: Sequence[Message], situation: Situation, plan: Plan) -> Collected:
        # Broken data is mended only where the history changes anyway.
        changed = bool(plan.edits)
        after = applied(situation.history if changed else history, plan.edits)
        result = GCResult(
            success=True,
            items_collected=len(plan.removals),
            tokens_before=plan.tokens_before,
            tokens_after=plan.tokens_after,
            plugin_name=self.name,
            trigger_reason=situation.reason,
            notification=plan.notification,
            details={**plan.details, **_cost(plan)},
            removal_list=list(plan.removals),
        )
        if situation.repairs:
            key = "repairs" if changed else "violations"
            result.details[key] = [str(violation) for violation in situation.repairs]
        if not plan.is_nothing and (situation.repairs or not situation.ledger.is_exact):
            result.tokens_after = _recounted(history, after, situation, result)
        if not plan.is_nothing:
            self._remember(situation.remembered())
        return after, result

    def _failed(self, situation: Situation, error: Exception) -> GCResult:
        return GCResult(
            success=False,
            items_collected=0,
            tokens_before=situation.total,
            tokens_after=situation.total,
            plugin_name=self.name,
            trigger_reason=situation.reason,
            error=str(error),
        )


_CLEAN_FAILURES = (JaatoError, SummaryRejectedError)


def _recounted(
    before: Sequence[Message], after: Sequence[Message], situation: Situation, result: GCResult
) -> int:
    """What is left, the long and exact way: for broken histories and hand-made budgets."""
    if situation.budget is None:
        lost = history_tokens(situation.counter, before) - history_tokens(situation.counter, after)
        return result.tokens_before - lost
    trial = copy.deepcopy(situation.budget)
    settle(trial, result, before, after, situation.counter)
    return trial.total_tokens()


def _cost(plan: Plan) -> dict[str, Any]:
    """What the edit costs a prompt cache, or why there is none."""
    if plan.is_nothing:
        return {"because": plan.because}
    return {
        "edit_point": plan.edit_point,
        "tokens_invalidated": plan.tokens_invalidated,
        "thoughts_invalidated": plan.thoughts_invalidated,
    }


def _percent_used(usage: Mapping[str, Any]) -> float | None:
    percent = number(usage.get("percent_used"))
    if percent is not None:
        return percent
    total, limit = number(usage.get("total_tokens")), number(usage.get("context_limit"))
    return total / limit * 100 if total is not None and limit else None


def answered(planning: Planning, answer: Callable[[Summarize], Digest]) -> Plan:
    """The plan of a strategy whose questions are answered at once."""
    try:
        request = next(planning)
        while True:
            request = planning.send(answer(request))
    except StopIteration as stop:
        plan: Plan = stop.value
        return plan


async def aanswered(planning: Planning, answer: Callable[[Summarize], Awaitable[Digest]]) -> Plan:
    """The plan of a strategy whose questions take their time."""
    try:
        request = next(planning)
        while True:
            request = planning.send(await answer(request))
    except StopIteration as stop:
        plan: Plan = stop.value
        return plan
