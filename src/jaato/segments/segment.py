"""A segment: one piece of context as a value, with the links that it owns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, get_args

from jaato.errors import UsageError
from jaato.moments import moment

SegmentType = Literal["message", "code", "log", "note", "decision", "summary"]
Generation = Literal["young", "old"]

SEGMENT_TYPES: Final[tuple[SegmentType, ...]] = get_args(SegmentType)
GENERATIONS: Final[tuple[Generation, ...]] = get_args(Generation)
LONGEST_NAME: Final = 1_000
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
DEFAULT_PROJECT: Final = "default"


class SegmentError(UsageError):
    """A value that no segment can have; `field` names it."""

    def __init__(self, fact: str, *, field: str, hint: str | None = None) -> None:
        super().__init__(fact, hint=hint)
        self.field = field


class LinkKind(StrEnum):
    """How a segment leads to another."""

    REFERENCE = "reference"
    DERIVED_FROM = "derived_from"
    REPLY_TO = "reply_to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a segment leads; the target may not be there, or not yet."""

    to: str
    kind: LinkKind = LinkKind.REFERENCE

    def __post_init__(self) -> None:
        name(self.to, "links")
        if type(self.kind) is not LinkKind:
            try:
                object.__setattr__(self, "kind", LinkKind(self.kind))
            except ValueError:
                hint = f"one of {', '.join(LinkKind)}"
                raise SegmentError(
                    f"{self.kind!r:.60} is no kind of link", field="links", hint=hint
                ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSegment:
    """One piece of context. Lists become tuples, and times become UTC; a naive time is read as UTC.

    Ids are opaque: any printable text, compared and never used as a path.
    """

    segment_id: str
    text: str
    type: SegmentType

    created_at: datetime
    last_touched_at: datetime

    pinned: bool = False
    generation: Generation = "young"
    gc_survival_count: int = 0

    refcount: int = 0

    file_path: str | None = None
    line_range: tuple[int, int] | None = None
    tags: tuple[str, ...] = ()
    topic_id: str | None = None

    project: str = DEFAULT_PROJECT
    task_id: str | None = None
    tokens: int = 0
    links: tuple[Link, ...] = ()
    created_step: int | None = None
    """The working set's step when it was added; None until then."""
    last_touched_step: int | None = None

    def __post_init__(self) -> None:
        name(self.segment_id, "segment_id")
        name(self.project, "project")
        if type(self.text) is not str:
            raise SegmentError(f"text is a string, not {self.text!r:.60}", field="text")
        one_of(self.type, SEGMENT_TYPES, "type")
        one_of(self.generation, GENERATIONS, "generation")
        if type(self.pinned) is not bool:
            raise SegmentError(f"pinned is true or false, not {self.pinned!r:.60}", field="pinned")
        count(self.gc_survival_count, "gc_survival_count")
        count(self.refcount, "refcount")
        count(self.tokens, "tokens")
        self._check_optional()
        set_field = object.__setattr__
        set_field(self, "created_at", moment(self.created_at))
        set_field(self, "last_touched_at", moment(self.last_touched_at))

    def _check_optional(self) -> None:
        # Most of a hundred thousand segments lack most of it: what is absent costs one comparison.
        if self.file_path is not None:
            name(self.file_path, "file_path")
        if self.topic_id is not None:
            name(self.topic_id, "topic_id")
        if self.task_id is not None:
            name(self.task_id, "task_id")
        if self.created_step is not None:
            count(self.created_step, "created_step")
        if self.last_touched_step is not None:
            count(self.last_touched_step, "last_touched_step")
        if self.tags != ():
            object.__setattr__(self, "tags", _tags(self.tags))
        if self.links != ():
            object.__setattr__(self, "links", _links(self.links))
        if self.line_range is not None:
            object.__setattr__(self, "line_range", _lines(self.line_range))


def name(value: object, field: str) -> str:
    """The same text, if it can name something: not empty, printable, not endless."""
    if type(value) is not str or not value:
        raise SegmentError(f"{field} is a text that is not empty, not {value!r:.60}", field=field)
    if len(value) > LONGEST_NAME:
        raise SegmentError(
            f"{field} has {len(value):,} characters", field=field, hint=f"at most {LONGEST_NAME:,}"
        )
    if not value.isprintable() and _UNPRINTABLE.search(value):
        raise SegmentError(
            f"{field} {value!r:.60} holds characters that cannot be printed",
            field=field,
            hint="leave out line breaks, control characters and lone surrogates",
        )
    return value


def count(value: object, field: str) -> int:
    """The same number, if it is a whole one from 0."""
    if type(value) is not int or value < 0:
        raise SegmentError(f"{field} is a whole number from 0, not {value!r:.60}", field=field)
    return value


def one_of(value: object, known: tuple[str, ...], field: str) -> None:
    """Refuse what is none of the known words."""
    if value not in known:
        raise SegmentError(
            f"{value!r:.60} is no {field}", field=field, hint=f"one of {', '.join(known)}"
        )


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise SegmentError(f"tags are a list of texts, not {tags!r:.60}", field="tags")
    return tuple(dict.fromkeys(name(tag, "tags") for tag in tags))


def _links(links: Iterable[Link]) -> tuple[Link, ...]:
    kept = tuple(dict.fromkeys(links))
    if not all(isinstance(link, Link) for link in kept):
        raise SegmentError("links are Link values", field="links", hint="Link(to='segment id')")
    return kept


_ENDS: Final = 2


def _lines(lines: Iterable[int]) -> tuple[int, int]:
    ends = tuple(lines) if isinstance(lines, list | tuple) else ()
    if len(ends) != _ENDS or ends != tuple(sorted(count(end, "line_range") for end in ends)):
        raise SegmentError(
            f"line_range {lines!r:.60} is no range",
            field="line_range",
            hint="first and last line, the smaller one first",
        )
    return ends[0], ends[1]
