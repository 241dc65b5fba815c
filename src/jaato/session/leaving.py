"""What leaves a window, as records: of messages that go, and of parts that are made smaller.

Reads a session's state, and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from jaato.budget import locate
from jaato.gc.evidence import paths_in
from jaato.gc.wording import worded_media
from jaato.history import RECALLED_MARK, STUB_MARK, Kind, Message, Part, Role
from jaato.history.codec import to_dict
from jaato.kept import Record, is_handle
from jaato.session.shorten import SHORTENED_MARK, result_text
from jaato.session.state import State
from jaato.tokens import as_text, message_tokens

MESSAGE: Final = "message"
SUMMARY: Final = "summary"
RESULT: Final = "result"
"""The types of what a session keeps."""
WHOLE: Final = "whole"
"""Under this key of a record's `extra` is the message as it was."""
LABEL_CHARS: Final = 80

_KEPT_MARKS: Final = frozenset({STUB_MARK, SHORTENED_MARK, RECALLED_MARK})
_Arguments = Mapping[str, Mapping[str, Any]]
"""What calls were given, by their ids."""


class Leaving(NamedTuple):
    """What goes: its record, the handle that its stub names already, and where that stub is."""

    record: Record
    handle: str | None = None
    place: tuple[int, int] | None = None


def leaving(state: State, before: Sequence[Message], after: Sequence[Message]) -> list[Leaving]:
    """What an edit takes away, whoever made it, in the order in which it was said."""
    there = {message.message_id: at for at, message in enumerate(after)}
    found: list[Leaving] = []
    calls: dict[str, Mapping[str, Any]] = {}
    for message in before:
        calls.update((call.id, call.args) for call in message.function_calls)
        at = there.get(message.message_id)
        if at is None:
            record = None if message.kind is Kind.NOTICE else _record(state, message, calls)
            if record is not None:
                found.append(Leaving(record))
        elif after[at] is not message and after[at].parts != message.parts:
            found += _changed(state, message, after[at], at, calls)
    return found


def result_record(state: State, message: Message, at: int) -> Record:
    """The record of one result of a message that has no handle yet."""
    part = message.parts[at]
    result = part.function_response
    assert result is not None
    # A list of what was found is no text that is kept already, whatever it is marked as.
    extra = {key: value for key, value in part.extra.items() if key not in _KEPT_MARKS}
    bare = message.with_parts([replace(part, extra=extra)])
    calls = {result.call_id: _arguments(state.history, message, result.call_id)}
    return _record(state, bare, calls) or _placed(state, Record(text="", type=RESULT))


def argument_record(state: State, message: Message, tool: str, text: str) -> Record:
    """The record of one text that a call in a message was given."""
    files = next((paths_in(c.args) for c in message.function_calls if _holds(c.args, text)), [])
    return _placed(
        state,
        Record(
            text=text,
            type=MESSAGE,
            tool=tool,
            files=tuple(files),
            tags=(message.role.value,),
            message_ids=(message.message_id,),
            tokens=state.counter.count_texts([text])[0],
            label=_label(text, tool, files),
        ),
    )


def handle_of(part: Part) -> str | None:
    """The handle that the full text of a result has already."""
    for mark in (SHORTENED_MARK, RECALLED_MARK):
        known = part.extra.get(mark)
        if isinstance(known, str):
            return known
    return None


def plain(record: Record) -> Record:
    """The record with nothing in it that JSON does not know: that is kept in words."""
    try:
        # No infinities either; as words they read as they did in the window.
        text = json.dumps(dict(record.extra), ensure_ascii=False, default=str)
        extra = json.loads(text, parse_constant=str)
    except (TypeError, ValueError, RecursionError):
        extra = {}
    return replace(record, extra=extra)


def _changed(state: State, old: Message, new: Message, at: int, calls: _Arguments) -> list[Leaving]:
    """What a message does not say any more; each result for itself, since a stub may name it."""
    is_aligned = len(old.parts) == len(new.parts)
    found: list[Leaving] = []
    others: list[Part] = []
    for index, was in enumerate(old.parts):
        if was == new.parts[index] if is_aligned else was in new.parts:
            continue
        if was.function_response is None:
            others.append(was)
            continue
        record = _record(state, old.with_parts([was]), calls)
        if record is None:
            continue
        handle = _named_in(new.parts[index]) if is_aligned else None
        place = None if handle is None else (at, index)
        found.append(Leaving(record, handle, place))
    rest = _record(state, old.with_parts(others), calls) if others else None
    return found if rest is None else [Leaving(rest), *found]


def _named_in(stub: Part) -> str | None:
    """The handle that a stub names. What strangers note beside theirs is their own."""
    mark = stub.extra.get(STUB_MARK)
    if stub.function_response is None or not isinstance(mark, str) or not is_handle(mark):
        return None
    return mark if f'"{mark}"' in result_text(stub) else None


def _record(state: State, message: Message, calls: _Arguments) -> Record | None:
    """What is kept of a message; None where all of it is kept already, or it says nothing."""
    texts: list[str] = []
    tool, files = "", []
    for part in message.parts:
        said, name, args = _read(part, calls)
        texts.append(said)
        tool = tool or name
        files += paths_in(args)
    text = "\n".join(filter(None, texts))
    if not text:
        return None
    kind = SUMMARY if message.kind is Kind.SUMMARY else MESSAGE
    return _placed(
        state,
        Record(
            text=text,
            type=RESULT if message.role is Role.TOOL else kind,
            tool=tool,
            files=tuple(dict.fromkeys(files)),
            tags=(message.role.value,),
            message_ids=(message.message_id,),
            tokens=message_tokens(state.counter, message),
            label=_label(text, tool, files),
            extra={WHOLE: to_dict(message)},
        ),
    )


def _placed(state: State, record: Record) -> Record:
    """The record with what the session knows of it."""
    located = locate(state.budget, record.message_ids[0]) if record.message_ids else None
    turn = state.window.turn_number if located is None else located.turn
    made = None if located is None else located.entry.created_at
    return replace(
        record,
        session=state.session_id,
        turn=turn,
        created_at=state.clock() if made is None else made,
    )


def _arguments(history: Sequence[Message], message: Message, call_id: str) -> Mapping[str, Any]:
    """What the call of a result was given: the last one of this id that stands before it."""
    places = range(len(history) - 1, -1, -1)
    # A message that is being made is not there yet: it comes behind all others.
    own = (at for at in places if history[at].message_id == message.message_id)
    for at in range(next(own, len(history) - 1), -1, -1):
        for call in reversed(history[at].function_calls):
            if call.id == call_id:
                return call.args
    return {}


def _holds(value: object, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(one, text) for one in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(one, text) for one in value)
    return value == text


def _read(part: Part, calls: _Arguments) -> tuple[str, str, Mapping[str, Any]]:
    """What a part says that is not kept yet, whose it is, and what that was called with."""
    result, call = part.function_response, part.function_call
    if result is not None:
        args = calls.get(result.call_id, {})
        if not part.extra.keys().isdisjoint(_KEPT_MARKS):
            return "", result.name, args
        # Who has only a picture to show says what it is.
        shown = map(worded_media, result.attachments)
        return as_text(result.result) or "\n".join(shown), result.name, args
    if call is not None:
        return f"{call.name}({as_text(call.args)})", call.name, call.args
    if part.inline_data is not None:
        return worded_media(part.inline_data), "", {}
    return part.text or part.thought or "", "", {}


def _label(text: str, tool: str, files: Sequence[str]) -> str:
    """One line for people."""
    first = next((line.strip() for line in text.split("\n") if line.strip()), "")
    named = " ".join([tool, *files[:1]]).strip()
    return f"{named}: {first}"[:LABEL_CHARS] if named else first[:LABEL_CHARS]
