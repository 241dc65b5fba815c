"""Records as the segments of a context stash in JSON: `{"segments": [...]}`, both ways.

What a segment has no field for travels under `jaato`; what a foreign segment has and a record has
no field for is kept in `extra["segment"]`, and comes out again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import IO, Any, Final

from jaato.errors import UsageError
from jaato.kept import ANYTHING, About, Filter, Record, UnknownHandleError, is_handle, moment
from jaato.ports import Stash
from jaato.stash.line import body_of, checked

TYPES: Final = ("message", "code", "log", "note", "decision", "summary")
OURS: Final = "jaato"
SEGMENT: Final = "segment"
_AT_ONCE: Final = 500
_ABOUT: Final = {field.name: field.default for field in fields(About)}
_LISTS: Final = ("message_ids", "files", "tags")
_UNTOLD: Final[Mapping[str, Any]] = {
    "pinned": False,
    "generation": "young",
    "gc_survival_count": 0,
    "refcount": 0,
    "line_range": None,
    "topic_id": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came in, under which names."""

    records: int
    renamed: Mapping[str, str]
    """Segments that could not keep their id: the id was taken, or cannot be a handle."""


def segments(stash: Stash, where: Filter = ANYTHING) -> Iterator[dict[str, Any]]:
    """Each record as a segment, the first one put first."""
    for entry in reversed(stash.entries(where)):
        try:
            yield segment_of(entry.handle, stash.get(entry.handle))
        except UnknownHandleError:
            continue  # It was removed meanwhile.


def write_segments(stash: Stash, file: IO[str], where: Filter = ANYTHING) -> int:
    """Write the JSON of all segments, one at a time; how many."""
    count = 0
    file.write('{"segments": [')
    for count, segment in enumerate(segments(stash, where), start=1):
        file.write(",\n" if count > 1 else "\n")
        file.write(json.dumps(segment))
    file.write("\n]}\n")
    return count


def import_segments(stash: Stash, document: Any) -> Imported:
    """Take in the segments of a document. Raises `UsageError` before anything is kept."""
    told = document.get("segments") if isinstance(document, Mapping) else None
    if not isinstance(told, Sequence) or isinstance(told, str):
        raise UsageError("there are no segments", hint='a document is {"segments": [...]}')
    read = [_read(number, segment) for number, segment in enumerate(told)]
    renamed = {}
    for some in _groups(read):
        wishes = [segment_id if is_handle(segment_id) else None for segment_id, _ in some]
        handles = stash.put([record for _, record in some], wishes)
        for (segment_id, _), handle in zip(some, handles, strict=True):
            if segment_id not in {"", handle}:
                renamed[segment_id] = handle
    return Imported(records=len(read), renamed=renamed)


def segment_of(handle: str, record: Record) -> dict[str, Any]:
    """A record as a segment."""
    extra = dict(record.extra)
    foreign = extra.get(SEGMENT)
    foreign = dict(foreign) if isinstance(foreign, Mapping) else {}
    created = _iso(record.created_at)
    ours = {
        name: value
        for name, default in _ABOUT.items()
        if (value := getattr(record, name)) != default
    }
    usual = {
        "segment_id": handle,
        "text": record.text,
        "type": record.type if record.type in TYPES else "log" if record.tool else "message",
        "created_at": created,
        "last_touched_at": created,
        **_UNTOLD,
        "file_path": record.files[0] if record.files else None,
        "tags": list(record.tags),
    }
    told = {name: foreign[name] for name in foreign if name not in {"segment_id", "text", OURS}}
    return {**usual, **told, OURS: {**ours, "extra": extra}}


def record_of_segment(segment: Any) -> Record:
    """The record of a segment, ours or foreign. Raises `UsageError`."""
    if not isinstance(segment, Mapping):
        raise UsageError(f"it is {segment!r:.80}", hint="each segment is an object")
    text = segment.get("text")
    if not isinstance(text, str):
        raise UsageError(f"its text is {text!r:.80}", hint="each segment has a text")
    ours = segment.get(OURS)
    if isinstance(ours, Mapping):
        known = {name: ours[name] for name in _ABOUT if name in ours}
        for name in _LISTS:
            if name in known:
                known[name] = _listed(known[name], name)
        extra = ours.get("extra", {})
        if not isinstance(extra, Mapping):
            raise UsageError(f"its extra is {extra!r:.80}", hint="an object")
        return Record(text=text, extra=dict(extra), **known)
    path, tags = segment.get("file_path"), segment.get("tags") or []
    foreign = {name: value for name, value in segment.items() if name != "text"}
    created = segment.get("created_at")
    return Record(
        text=text,
        type=str(segment.get("type") or "message"),
        created_at=0.0 if created is None else moment(created),
        files=(path,) if isinstance(path, str) and path else (),
        tags=_listed(tags, "tags"),
        extra={SEGMENT: foreign},
    )


def _listed(value: object, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"its {name} are {value!r:.80}", hint="a list of texts")
    return tuple(value)


def _read(number: int, segment: Any) -> tuple[str, Record]:
    try:
        record = checked(record_of_segment(segment))
        body_of(record)
        return str(segment.get("segment_id") or ""), record
    except (UsageError, TypeError) as error:
        raise UsageError(
            f"segment {number} cannot be read: {error.args[0]}", hint="nothing was imported"
        ) from error


def _groups(read: Sequence[tuple[str, Record]]) -> Iterable[Sequence[tuple[str, Record]]]:
    return (read[at : at + _AT_ONCE] for at in range(0, len(read), _AT_ONCE))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
