"""What must stay, and what the host says about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jaato.segments.changes import Focus
from jaato.segments.config import SegmentConfig
from jaato.segments.segment import ContextSegment


class RootKind(StrEnum):
    """Why a segment must stay; the first that fits is told."""

    PINNED = "pinned"
    INVARIANT = "invariant"
    GOAL = "goal"
    ACTIVE_FILE = "active file"
    HINT = "hint"
    RECENT_MESSAGE = "recent message"
    RECENT_EDIT = "recent edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a host says for one question: more roots, another task, another focus."""

    segment_ids: tuple[str, ...] = ()
    task_id: str | None = None
    focus: Focus | None = None


NO_HINTS = Hints()


def held_as(
    segment: ContextSegment, *, task_id: str | None, focus: Focus, config: SegmentConfig
) -> RootKind | None:
    """Why a segment is a root whatever else there is; None if it is not."""
    if segment.pinned:
        return RootKind.PINNED
    tags = segment.tags
    if tags:
        if any(tag in config.invariant_tags for tag in tags):
            return RootKind.INVARIANT
        if (
            task_id is not None
            and segment.task_id == task_id
            and any(tag in config.goal_tags for tag in tags)
        ):
            return RootKind.GOAL
    if segment.file_path is not None and segment.file_path == focus.file_path:
        if focus.line is None or segment.line_range is None:
            return RootKind.ACTIVE_FILE
        first, last = segment.line_range
        if first - config.active_lines <= focus.line <= last + config.active_lines:
            return RootKind.ACTIVE_FILE
    return None


def hints_from(descriptors: Mapping[str, Any]) -> Hints:
    """What `context_descriptors` say about roots; what they say in another shape is passed over.

    Read are `current_file` (path, current_line), `recent_files`, `task_info` (task_id, segment_ids)
    and `active_segment_ids`. Summaries of what a host holds are news, not roots.
    """
    file, task = _object(descriptors.get("current_file")), _object(descriptors.get("task_info"))
    line = file.get("current_line", file.get("line"))
    recent = [
        one if isinstance(one, str) else _object(one).get("path")
        for one in _list(descriptors.get("recent_files"))
    ]
    path, files = _text(file.get("path")), tuple(_texts(recent))
    focus = None
    if path is not None or files:
        known = type(line) is int and line >= 0
        focus = Focus(file_path=path, line=line if known else None, recent_files=files)
    named = [*_list(task.get("segment_ids")), *_list(descriptors.get("active_segment_ids"))]
    return Hints(
        segment_ids=tuple(dict.fromkeys(_texts(named))),
        task_id=_text(task.get("task_id")),
        focus=focus,
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(values: Iterable[object]) -> Iterable[str]:
    return (text for value in values if (text := _text(value)) is not None)
