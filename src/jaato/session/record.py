"""Every change of a session as a value that a log can hold, and as a line of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from jaato.budget import ConversationTurnType, InstructionSource
from jaato.errors import UsageError
from jaato.gc.result import GCRemovalItem, GCResult, GCTriggerReason
from jaato.history import Message
from jaato.history.codec import from_dict, to_dict

VERSION: Final = 1

Piece = tuple[int, int] | Message
"""A range of the history before that stays, or a message that came."""


class RecordError(UsageError):
    """A line that this jaato cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session begins."""

    session_id: str
    agent_id: str
    provider: str
    model: str
    limit: int | None
    counter: str
    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A message came."""

    message: Message
    tokens: int
    turn_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """The last prompt was taken back, because the window had no room for it."""

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A collection, or another edit: what stayed, and what came in between."""

    pieces: tuple[Piece, ...]
    result: GCResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSet:
    """The system instructions changed."""

    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enriched:
    """The enrichers of a turn spoke."""

    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsSet:
    """The schemas in the request changed: tokens, and whether discoverable."""

    tokens: Mapping[str, tuple[int, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A provider said what a request took."""

    reported: int | None
    counted: int
    thinking: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """Another model, or another limit."""

    provider: str
    model: str
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The turns that are pinned, all of them."""

    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stashed:
    """A full text whose place was taken by a shorter one."""

    handle: str
    text: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnClosed:
    """A turn is over."""

    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Everything said is forgotten; instructions and tools stay."""

    why: str = ""


Record = (
    Opened
    | Added
    | TakenBack
    | Replaced
    | SystemSet
    | Enriched
    | ToolsSet
    | Reported
    | Switched
    | Pinned
    | Stashed
    | TurnClosed
    | Reset
)

_KINDS: Final[dict[str, type[Any]]] = {
    "session": Opened,
    "message": Added,
    "taken_back": TakenBack,
    "collection": Replaced,
    "system": SystemSet,
    "enrichment": Enriched,
    "tools": ToolsSet,
    "usage": Reported,
    "model": Switched,
    "pins": Pinned,
    "stash": Stashed,
    "turn": TurnClosed,
    "reset": Reset,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_NEWER: Final = "a newer jaato may have written it"


def pieces_between(before: Sequence[Message], after: Sequence[Message]) -> tuple[Piece, ...]:
    """What makes `after` out of `before`: ranges that stayed, by identity, and what came."""
    place = {id(message): at for at, message in enumerate(before)}
    pieces: list[Piece] = []
    for message in after:
        at = place.get(id(message))
        last = pieces[-1] if pieces else None
        if at is None:
            pieces.append(message)
        elif isinstance(last, tuple) and last[1] == at:
            pieces[-1] = (last[0], at + 1)
        else:
            pieces.append((at, at + 1))
    return tuple(pieces)


def joined(before: Sequence[Message], pieces: Sequence[Piece]) -> list[Message]:
    """The history that these pieces make."""
    after: list[Message] = []
    for piece in pieces:
        if isinstance(piece, Message):
            after.append(piece)
        else:
            after += before[piece[0] : piece[1]]
    return after


def record_to_dict(record: Record, at: float) -> dict[str, Any]:
    """One line of a log."""
    document: dict[str, Any] = {"type": _NAMES[type(record)], "at": at}
    match record:
        case Opened():
            document |= {"version": VERSION, **asdict(record)}
        case Added(message=message, tokens=tokens, turn_type=turn_type):
            document |= {"tokens": tokens, "message": to_dict(message)}
            if turn_type is not None:
                document["turn_type"] = turn_type
        case Replaced(pieces=pieces, result=result):
            document["pieces"] = [
                to_dict(piece) if isinstance(piece, Message) else list(piece) for piece in pieces
            ]
            document["result"] = result_to_dict(result)
        case _:
            document |= {name: getattr(record, name) for name in record.__slots__}
    return document


def record_from_dict(document: Mapping[str, Any]) -> tuple[Record, float]:
    """The record in a line, and when it was written. Raises KeyError, TypeError or ValueError."""
    kind = _KINDS.get(document["type"])
    if kind is None:
        raise RecordError(f"there is no record {document['type']!r:.80}", hint=_NEWER)
    at = float(document["at"])
    if kind is Opened:
        if document["version"] != VERSION:
            raise RecordError(
                f"a log of version {document['version']!r:.80}, and this jaato reads {VERSION}",
                hint=_NEWER,
            )
        names = Opened.__slots__
        return Opened(**{name: document[name] for name in names if name in document}), at
    if kind is Added:
        message = from_dict(document["message"])
        return Added(
            message=message, tokens=document["tokens"], turn_type=document.get("turn_type")
        ), at
    if kind is Replaced:
        pieces = tuple(_pieces(document["pieces"]))
        return Replaced(pieces=pieces, result=result_from_dict(document["result"])), at
    values = {name: document[name] for name in kind.__slots__ if name in document}
    if kind is ToolsSet:
        values["tokens"] = {
            name: (int(count), bool(discoverable))
            for name, (count, discoverable) in values["tokens"].items()
        }
    elif kind is Pinned:
        values["turns"] = tuple(values["turns"])
    return kind(**values), at


def _pieces(documents: Sequence[Any]) -> Iterator[Piece]:
    for document in documents:
        if isinstance(document, Mapping):
            yield from_dict(document)
        else:
            start, stop = document
            yield int(start), int(stop)


def result_to_dict(result: GCResult) -> dict[str, Any]:
    """A collection's outcome as JSON."""
    return {
        **{name: getattr(result, name) for name in _RESULT_FIELDS},
        "removal_list": [asdict(item) for item in result.removal_list],
    }


def result_from_dict(document: Mapping[str, Any]) -> GCResult:
    """The outcome that `result_to_dict` wrote."""
    values = {name: document[name] for name in _RESULT_FIELDS}
    values["trigger_reason"] = GCTriggerReason(values["trigger_reason"])
    return GCResult(
        **values,
        removal_list=[
            GCRemovalItem(**{**item, "source": InstructionSource(item["source"])})
            for item in document["removal_list"]
        ],
    )


_RESULT_FIELDS: Final = (
    "success",
    "items_collected",
    "tokens_before",
    "tokens_after",
    "plugin_name",
    "trigger_reason",
    "notification",
    "details",
    "error",
)


def turn_type_of(record: Added) -> ConversationTurnType | None:
    """The type that a message was given."""
    return None if record.turn_type is None else ConversationTurnType(record.turn_type)
