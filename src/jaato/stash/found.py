"""A search and a list over a catalogue: what all stashes answer in the same way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from jaato.errors import UsageError
from jaato.kept import (
    ANYTHING,
    DamagedRecordError,
    Entry,
    Filter,
    Hit,
    Record,
    UnknownHandleError,
)
from jaato.stash.catalogue import Catalogue
from jaato.stash.excerpt import excerpt
from jaato.stash.line import about_of_record
from jaato.stash.parts import Part
from jaato.stash.rank import best_rows


def wanted_rows(
    catalogue: Catalogue, where: Filter, limit: int | None, before: str | None
) -> list[int]:
    """The rows of a list, the last one put first."""
    start = None
    if before is not None:
        start = catalogue.row(before)
        if start is None:
            raise UnknownHandleError(before, catalogue.fates.get(before))
    checked_limit(limit)
    return list(islice(catalogue.rows(where, start), limit))


def found_rows(
    query: str, catalogue: Catalogue, parts: Sequence[Part], where: Filter, limit: int
) -> tuple[list[tuple[int, float]], frozenset[str]]:
    """The rows of the hits with their scores, and the terms that were looked for.

    Without a word in the query, what was put last is found.
    """
    checked_limit(limit)
    if not any(char.isalnum() for char in query):
        return [(row, 0.0) for row in islice(catalogue.rows(where), limit)], frozenset()
    return best_rows(
        query,
        parts,
        meant=None if where == ANYTHING else set(catalogue.rows(where)),
        gone=catalogue.buried,
        total=catalogue.alive,
        limit=limit,
    )


def hits_of(
    found: Sequence[tuple[int, float]],
    terms: frozenset[str],
    catalogue: Catalogue,
    get: Callable[[str], Record],
) -> list[Hit]:
    """Rows that were found, with what they say. One that went meanwhile is no hit.

    Nor is a damaged one; but where there is no other, its error is the answer.
    """
    hits = []
    damaged: DamagedRecordError | None = None
    for row, score in found:
        handle = catalogue.handles[row]
        try:
            record = get(handle)
        except UnknownHandleError:
            continue
        except DamagedRecordError as error:
            damaged = error
            continue
        hits.append(
            Hit(
                entry=entry_of(handle, record),
                score=score,
                excerpt=excerpt(record.text, terms),
            )
        )
    if damaged is not None and not hits:
        raise damaged
    return hits


def entry_of(handle: str, record: Record) -> Entry:
    """A record in a list."""
    return Entry(handle=handle, about=about_of_record(record), chars=len(record.text))


def checked_limit(limit: int | None) -> None:
    """A limit is a number of records."""
    if limit is not None and limit < 1:
        raise UsageError(f"a limit of {limit}", hint="one record at least")
