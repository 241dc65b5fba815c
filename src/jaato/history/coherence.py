"""What makes a history legal: finding breaches, and mending data that arrives broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress

from jaato.history.message import ANSWERS, CALLS, EMPTY, Message
from jaato.history.turns import has, mask, shapes_of, span_starts

_EMPTY = mask(EMPTY)
_CALLS = mask(CALLS)
_ANSWERS = mask(ANSWERS)


class Breach(StrEnum):
    """What can be wrong with a history."""

    ORPHAN_RESULT = "orphan_result"
    UNANSWERED_CALL = "unanswered_call"
    EMPTY_MESSAGE = "empty_message"
    DUPLICATE_ID = "duplicate_id"


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach, where it is, and the part it concerns (None: the whole message)."""

    breach: Breach
    at: int
    message_id: str
    part: int | None = None

    def __str__(self) -> str:
        where = f"message {self.at} ({self.message_id})"
        return f"{self.breach.value} in {where}" + (
            "" if self.part is None else f", part {self.part}"
        )


def cut_points(history: Sequence[Message]) -> tuple[int, ...]:
    """Every position at which the history may be cut: between turns, and at its end."""
    return (*span_starts(history), len(history)) if history else (0,)


def is_legal(history: Sequence[Message], shapes: bytes | None = None) -> bool:
    """Whether there is no breach: the fast answer, which looks at ids and shapes only."""
    shapes = shapes_of(history) if shapes is None else shapes
    if has(shapes, _EMPTY) or len({message.message_id for message in history}) != len(history):
        return False
    return _are_answered_at_once(history, shapes) or _are_answered(history)


def _are_answered_at_once(history: Sequence[Message], shapes: bytes) -> bool:
    """Whether each message with calls is followed by one with their results, in order.

    Nearly every history is like that, and it is seen without a look at each message.
    """
    calling = shapes.translate(_CALLS)[:-1]  # A call that trails the history is pending.
    answering = shapes.translate(_ANSWERS)
    if answering != b"\0" + calling:
        return False
    awaited = [message.call_ids for message in compress(history, calling)]
    return awaited == [message.result_ids for message in compress(history, answering)]


def _are_answered(history: Sequence[Message]) -> bool:
    awaited: tuple[str, ...] = ()
    for message in history:
        if message.result_ids == awaited:
            awaited = message.call_ids
            continue
        # Answers in another order, or in several messages.
        waiting = _waiting(awaited, message.result_ids)
        if waiting is None or (waiting and message.call_ids):
            return False
        awaited = waiting or message.call_ids
    return True


def _waiting(awaited: tuple[str, ...], answers: tuple[str, ...]) -> tuple[str, ...] | None:
    """The calls that still wait after some answers; None where the two do not go together."""
    left = list(awaited)
    for call_id in answers:
        if call_id not in left:
            return None
        left.remove(call_id)
    return tuple(left) if answers else None


def violations(history: Sequence[Message]) -> tuple[Violation, ...]:
    """Every breach, in order. Calls that trail the history are pending, not unanswered."""
    if is_legal(history):
        return ()
    found = [*_unsound_messages(history), *_broken_pairs(history)]
    return tuple(sorted(found, key=lambda violation: violation.at))


def _unsound_messages(history: Sequence[Message]) -> Iterator[Violation]:
    seen: set[str] = set()
    for at, message in enumerate(history):
        if message.message_id in seen:
            yield Violation(Breach.DUPLICATE_ID, at, message.message_id)
        seen.add(message.message_id)
        if not message.parts:
            yield Violation(Breach.EMPTY_MESSAGE, at, message.message_id)


@dataclass(frozen=True, slots=True)
class _Call:
    call_id: str
    at: int
    part: int


def _broken_pairs(history: Sequence[Message]) -> Iterator[Violation]:
    awaited: list[_Call] = []
    for at, message in enumerate(history):
        own: list[_Call] = []
        for index, part in enumerate(message.parts):
            if part.function_call is not None:
                own.append(_Call(part.function_call.id, at, index))
            elif part.function_response is not None:
                call_id = part.function_response.call_id
                # A tool that the provider runs answers inside the message that calls it.
                match = next((call for call in (*own, *awaited) if call.call_id == call_id), None)
                if match is None:
                    yield Violation(Breach.ORPHAN_RESULT, at, message.message_id, index)
                elif match in own:
                    own.remove(match)
                else:
                    awaited.remove(match)
        if own or not message.result_ids:
            for call in awaited:
                calling = history[call.at].message_id
                yield Violation(Breach.UNANSWERED_CALL, call.at, calling, call.part)
            awaited = own


def repaired(history: Sequence[Message]) -> tuple[list[Message], tuple[Violation, ...]]:
    """A legal history with as little taken away as can be, and what was mended, by position.

    An orphan result or an unanswered call leaves its message; a message left empty leaves the
    history; a repeated message id gets a fresh one unless it repeats the message itself.
    """
    mended, origins = list(history), list(range(len(history)))
    told: list[Violation] = []
    while wrong := violations(mended):
        # One message can be wrong in several parts, and a later round can uncover more.
        known = {(one.breach, one.at) for one in told}
        found = [replace(one, at=origins[one.at]) for one in wrong]
        told += [one for one in found if (one.breach, one.at) not in known]
        # An empty or repeated message between a call and its result makes both look broken.
        kept = list(_mended(mended, [one for one in wrong if one.part is None] or wrong))
        mended = [message for _, message in kept]
        origins = [origins[at] for at, _ in kept]
    return mended, tuple(sorted(told, key=lambda violation: violation.at))


def _mended(
    history: Sequence[Message], wrong: Sequence[Violation]
) -> Iterator[tuple[int, Message]]:
    """What stays, with its position: each breach removes or renames something."""
    drop_parts: dict[int, set[int]] = {}
    renamed: set[int] = set()
    gone: set[int] = set()
    first = {message.message_id: message for message in reversed(history)}
    for violation in wrong:
        at = violation.at
        if violation.part is not None:
            drop_parts.setdefault(at, set()).add(violation.part)
        elif violation.breach is Breach.EMPTY_MESSAGE or _same(history[at], first):
            gone.add(at)
        else:
            renamed.add(at)
    for at, message in enumerate(history):
        if at in gone:
            continue
        if at in renamed:
            yield at, Message(message.role, message.parts, None, message.kind, message.extra)
        elif at in drop_parts:
            left = [part for index, part in enumerate(message.parts) if index not in drop_parts[at]]
            if left:
                yield at, message.with_parts(left)
        else:
            yield at, message


def _same(message: Message, first: Mapping[str, Message]) -> bool:
    """Whether a message repeats the first one of its id. Not every foreign value can tell."""
    other = first[message.message_id]
    try:
        return other is message or other == message
    except Exception:  # noqa: BLE001 -- arrays, say, refuse to be compared
        return False
