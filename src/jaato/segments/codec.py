"""Segments as JSON objects: versioned, lossless, defaults left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jaato.segments.segment import DEFAULT_PROJECT, ContextSegment, Link, LinkKind, SegmentError

VERSION: Final = 1

_REQUIRED: Final = ("segment_id", "text", "type", "created_at")
_PLAIN: Final[Mapping[str, Any]] = {
    "pinned": False,
    "generation": "young",
    "gc_survival_count": 0,
    "refcount": 0,
    "file_path": None,
    "topic_id": None,
    "project": DEFAULT_PROJECT,
    "task_id": None,
    "tokens": 0,
    "created_step": None,
    "last_touched_step": None,
}


def segment_to_dict(segment: ContextSegment) -> dict[str, Any]:
    """One segment as a JSON object that carries its version."""
    document: dict[str, Any] = {
        "version": VERSION,
        "segment_id": segment.segment_id,
        "text": segment.text,
        "type": segment.type,
        "created_at": segment.created_at.isoformat(),
        "last_touched_at": segment.last_touched_at.isoformat(),
    }
    for field, default in _PLAIN.items():
        value = getattr(segment, field)
        if value != default:
            document[field] = value
    if segment.line_range is not None:
        document["line_range"] = list(segment.line_range)
    if segment.tags:
        document["tags"] = list(segment.tags)
    if segment.links:
        document["links"] = [link_to_dict(link) for link in segment.links]
    return document


def segment_from_dict(document: object) -> ContextSegment:
    """The segment that `segment_to_dict` wrote, or that somebody wrote by hand.

    Without a version it is read as the current one; without `last_touched_at` it was never touched.
    """
    if not isinstance(document, Mapping):
        raise SegmentError(f"a segment is an object, not {document!r:.60}", field="")
    check_version(document)
    if missing := [field for field in _REQUIRED if field not in document]:
        raise SegmentError(f"a segment lacks {', '.join(missing)}", field=missing[0])
    given = {field: document[field] for field in _PLAIN if field in document}
    touched = document.get("last_touched_at")
    return ContextSegment(
        segment_id=document["segment_id"],
        text=document["text"],
        type=document["type"],
        created_at=document["created_at"],
        last_touched_at=document["created_at"] if touched is None else touched,
        line_range=document.get("line_range"),
        tags=document.get("tags") or (),
        links=tuple(map(link_from_dict, _links(document.get("links")))),
        **given,
    )


def link_to_dict(link: Link) -> dict[str, str]:
    """One link as a JSON object."""
    return {"to": link.to, "kind": link.kind.value}


def link_from_dict(document: object) -> Link:
    """The link that `link_to_dict` wrote; a bare id is a reference."""
    if isinstance(document, str):
        return Link(to=document)
    if not isinstance(document, Mapping) or "to" not in document:
        raise SegmentError(
            f"{document!r:.60} is no link", field="links", hint="an id, or {'to': id, 'kind': …}"
        )
    return Link(to=document["to"], kind=document.get("kind", LinkKind.REFERENCE))


def check_version(document: Mapping[str, Any]) -> None:
    """Refuse what a newer jaato wrote."""
    version = document.get("version", VERSION)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise SegmentError(
            f"version {version!r:.60} is unknown",
            field="version",
            hint=f"this jaato reads versions 1 to {VERSION}; a newer one may have written it",
        )


def _links(links: object) -> Iterable[object]:
    if links is None:
        return ()
    if not isinstance(links, list | tuple):
        raise SegmentError(f"links are a list, not {links!r:.60}", field="links")
    return links
