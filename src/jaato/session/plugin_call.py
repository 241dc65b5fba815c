"""Asks a GC plug-in, whoever wrote it: what it answers is checked before it changes anything."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, locate
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.problems import ConfigError
from jaato.gc.protocol import GCPlugin
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.history import Message, violations

Question = tuple[list[Message], dict[str, Any], GCConfig, GCTriggerReason, InstructionBudget]
"""What `collect` is given, in its order."""


class RefusedError(Exception):
    """What a plug-in answered cannot be taken."""


def effective_config(plugin: GCPlugin | None, config: GCConfig) -> GCConfig:
    """The configuration with the plug-in's own options over it, as the plug-in will read it."""
    if isinstance(plugin, DrivenPlugin):
        # What is wrong with it the plug-in itself will tell, in its result.
        with suppress(ConfigError):
            return plugin._effective(config)  # noqa: SLF001 -- its reading is the one that counts
    return config


def reason_in(answer: object) -> GCTriggerReason | None:
    """Why a plug-in wants to collect, by what its `should_collect` gave; None: it does not."""
    wants: object = answer
    why: Any = None
    if isinstance(answer, tuple | list):
        wants, why = (*answer, None, None)[:2]
    if not isinstance(wants, bool | int) or not wants:
        return None
    try:
        return GCTriggerReason(why)
    except ValueError:
        return GCTriggerReason.THRESHOLD


async def asked(plugin: GCPlugin, question: Question) -> tuple[list[Message], GCResult]:
    """What a plug-in makes of a history. Raises whatever it raises, and `RefusedError`."""
    if isinstance(plugin, DrivenPlugin):
        return await plugin.acollect(*question)
    # It may change what it is given, and go on with it after an interruption.
    foreign = (*question[:-1], copy.deepcopy(question[-1]))
    collect = getattr(plugin, "acollect", None) or plugin.collect
    if inspect.iscoroutinefunction(collect):
        answer = await _called(collect, foreign)
    else:
        # It may call a model, and must not hold up the loop.
        answer = await asyncio.to_thread(_called, collect, foreign)
        if inspect.isawaitable(answer):
            answer = await answer
    if not isinstance(answer, tuple | list) or len(answer) != 2:  # noqa: PLR2004 -- a pair
        raise RefusedError(f"collect() gave {type(answer).__name__}, not (history, GCResult)")
    return _messages(answer[0]), _plain(answer[1], plugin, question[3])


def _called(collect: Any, question: Sequence[Any]) -> Any:
    """The call as the plug-in declares it: before there were budgets, `collect` took none."""
    try:
        inspect.signature(collect).bind(*question)
    except ValueError:
        pass  # Something built in, which does not say what it takes.
    except TypeError:
        names = inspect.signature(collect).parameters
        if "budget" in names:
            return collect(*question[:-1], budget=question[-1])
        return collect(*question[:-1])
    return collect(*question)


def _messages(history: object) -> list[Message]:
    if isinstance(history, str | bytes) or not isinstance(history, Sequence):
        raise RefusedError(f"the history it gave is a {type(history).__name__}, not a list")
    for at, message in enumerate(history):
        if not isinstance(message, Message):
            raise RefusedError(f"item {at} of its history is a {type(message).__name__}")
    return list(history)


def _plain(result: object, plugin: GCPlugin, reason: GCTriggerReason) -> GCResult:
    """The result with nothing in it that listeners, the budget or a log could stumble over."""
    if not isinstance(result, GCResult):
        raise RefusedError(f"collect() gave {type(result).__name__}, not a GCResult")
    for name in ("tokens_before", "tokens_after", "items_collected"):
        value: object = getattr(result, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise RefusedError(f"{name} of its result is {value!r:.80}, not a whole number")
    removals: Any = result.removal_list
    if not isinstance(removals, list | tuple) or not all(map(_is_removal, removals)):
        raise RefusedError("removal_list of its result is not a list of GCRemovalItem")
    told: object = result.trigger_reason
    return replace(
        result,
        success=bool(result.success),
        plugin_name=str(result.plugin_name or plugin.name),
        trigger_reason=told if isinstance(told, GCTriggerReason) else reason,
        notification=None if result.notification is None else str(result.notification),
        details=_keyed_by_text(result.details),
        error=None if result.error is None else str(result.error),
        removal_list=list(removals),
    )


def _is_removal(item: object) -> bool:
    kinds: tuple[tuple[str, Any], ...] = (
        ("source", InstructionSource),
        ("child_key", str | None),
        ("tokens_freed", int),
        ("message_ids", list | tuple),
    )
    return isinstance(item, GCRemovalItem) and all(
        isinstance(getattr(item, name), kind) for name, kind in kinds
    )


def _keyed_by_text(details: object) -> dict[str, Any]:
    """Details as a log will give them back; what JSON does not know is told in words."""
    if not isinstance(details, Mapping):
        return {}
    plain: dict[str, Any] = {}
    for key, value in details.items():
        try:
            plain[str(key)] = json.loads(json.dumps(value, default=str))
        except (TypeError, ValueError, RecursionError):
            plain[str(key)] = str(value)
    return plain


def breaches(
    before: Sequence[Message],
    after: Sequence[Message],
    *,
    budget: InstructionBudget,
    pinned: Collection[int],
    is_running: bool,
) -> Iterator[str]:
    """What in a session must not be done to a history, whoever does it.

    `is_running`: the last turn waits for the model, so that what it must answer has to stay.
    """
    if before and not after:
        yield "nothing is left"
        return
    there = {message.message_id: message for message in after}
    opened = max((at for at, message in enumerate(before) if message.opens_turn), default=-1)
    for at, message in enumerate(before):
        left = there.get(message.message_id)
        if left is message or left == message:
            continue
        what = "left" if left is None else "was changed"
        if left is None and is_running and at in {opened, len(before) - 1}:
            yield f"message {message.message_id} of the running turn left"
        located = locate(budget, message.message_id)
        if located is None:
            continue
        if located.entry.effective_gc_policy() is GCPolicy.LOCKED:
            yield f"message {message.message_id} is LOCKED and {what}"
        elif located.turn in pinned:
            yield f"message {message.message_id} of the pinned turn {located.turn} {what}"
    if after and after[0].result_ids:
        yield "it starts with the result of a tool"
    pending = before[-1].message_id if before and before[-1].call_ids else None
    wrong = [one for one in violations(after) if one.message_id != pending]
    if wrong and len(wrong) > len(violations(before)):
        yield str(wrong[0])
