"""What can happen to a working set: closed, as values, and as JSON for a journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, assert_never

from jaato.moments import moment
from jaato.segments.codec import (
    VERSION,
    check_version,
    link_from_dict,
    link_to_dict,
    segment_from_dict,
    segment_to_dict,
)
from jaato.segments.config import SegmentConfig, config_from_dict, config_to_dict
from jaato.segments.segment import ContextSegment, Link, SegmentError, count, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What the host has open."""

    file_path: str | None = None
    line: int | None = None
    recent_files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in (self.file_path, *self.recent_files):
            if path is not None:
                name(path, "file_path")
        if self.line is not None:
            count(self.line, "line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Segments came, or say something else now."""

    step: int
    segments: tuple[ContextSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Segments were used; what was retrieved is worth one reference more."""

    step: int
    ids: tuple[str, ...]
    at: datetime
    retrieved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Segments were pinned, or unpinned."""

    step: int
    ids: tuple[str, ...]
    pinned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A segment leads somewhere now, or no longer."""

    step: int
    segment_id: str
    link: Link
    holds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Segments left."""

    step: int
    ids: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """A collection spared these segments; None: all that were left."""

    step: int
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """Another task is the current one, or none is."""

    step: int
    task_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Focused:
    """The host looks elsewhere."""

    step: int
    focus: Focus


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """Other settings hold."""

    step: int
    config: SegmentConfig


Change = Placed | Touched | Pinned | Linked | Removed | Survived | TaskSet | Focused | Configured


def change_to_dict(change: Change) -> dict[str, Any]:
    """One change as a JSON object that carries its version."""
    kind = type(change).__name__.lower()
    return {"version": VERSION, "change": kind, "step": change.step, **_body(change)}


def _body(change: Change) -> dict[str, Any]:  # noqa: PLR0911 -- one return for each kind
    match change:
        case Placed(segments=segments):
            return {"segments": [segment_to_dict(segment) for segment in segments]}
        case Touched(ids=ids, at=at, retrieved=retrieved):
            return {"ids": list(ids), "at": at.isoformat(), "retrieved": retrieved}
        case Pinned(ids=ids, pinned=pinned):
            return {"ids": list(ids), "pinned": pinned}
        case Linked(segment_id=segment_id, link=link, holds=holds):
            return {"segment_id": segment_id, "link": link_to_dict(link), "holds": holds}
        case Removed(ids=ids, why=why):
            return {"ids": list(ids), "why": why}
        case Survived(ids=spared):
            return {"ids": None if spared is None else list(spared)}
        case TaskSet(task_id=task_id):
            return {"task_id": task_id}
        case Focused(focus=focus):
            return {"focus": focus_to_dict(focus)}
        case Configured(config=config):
            return {"config": config_to_dict(config)}
        case _:
            assert_never(change)


def change_from_dict(document: object) -> Change:
    """The change that `change_to_dict` wrote."""
    if not isinstance(document, Mapping):
        raise SegmentError(f"a change is an object, not {document!r:.60}", field="")
    check_version(document)
    read = _READERS.get(str(document.get("change")))
    if read is None:
        raise SegmentError(
            f"{document.get('change')!r:.60} is no change",
            field="change",
            hint=f"one of {', '.join(_READERS)}",
        )
    try:
        return read(document, count(document["step"], "step"))
    except KeyError as error:
        field = str(error.args[0])
        raise SegmentError(f"a change lacks {field}", field=field) from None


def focus_to_dict(focus: Focus) -> dict[str, Any]:
    """What the host has open, as a JSON object."""
    return {
        "file_path": focus.file_path,
        "line": focus.line,
        "recent_files": list(focus.recent_files),
    }


def focus_from_dict(document: Mapping[str, Any]) -> Focus:
    """The focus that `focus_to_dict` wrote."""
    return Focus(
        file_path=document.get("file_path"),
        line=document.get("line"),
        recent_files=tuple(document.get("recent_files") or ()),
    )


def _ids(document: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name(one, "ids") for one in document["ids"])


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], int], Change]]] = {
    "placed": lambda document, step: Placed(
        step=step, segments=tuple(segment_from_dict(one) for one in document["segments"])
    ),
    "touched": lambda document, step: Touched(
        step=step,
        ids=_ids(document),
        at=moment(document["at"]),
        retrieved=bool(document.get("retrieved")),
    ),
    "pinned": lambda document, step: Pinned(
        step=step, ids=_ids(document), pinned=bool(document["pinned"])
    ),
    "linked": lambda document, step: Linked(
        step=step,
        segment_id=name(document["segment_id"], "segment_id"),
        link=link_from_dict(document["link"]),
        holds=bool(document["holds"]),
    ),
    "removed": lambda document, step: Removed(
        step=step, ids=_ids(document), why=str(document.get("why", ""))
    ),
    "survived": lambda document, step: Survived(
        step=step, ids=None if document["ids"] is None else _ids(document)
    ),
    "taskset": lambda document, step: TaskSet(
        step=step,
        task_id=None if document["task_id"] is None else name(document["task_id"], "task_id"),
    ),
    "focused": lambda document, step: Focused(step=step, focus=focus_from_dict(document["focus"])),
    "configured": lambda document, step: Configured(
        step=step, config=config_from_dict(document["config"])
    ),
}
