"""What is in a stash, in columns: where each record stands, and which ones a filter means.

A row is a record's place in the order in which records were put; it never changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from jaato.kept import About, Fate, Filter

_NO_TURN: Final = -(2**62)
Value = TypeVar("Value", bound=Hashable)


class Interned(Generic[Value]):
    """Values that repeat, each kept once and known by a number."""

    def __init__(self, values: Iterable[Value] = ()) -> None:
        self.values: list[Value] = list(values)
        self._numbers = {value: number for number, value in enumerate(self.values)}

    def number(self, value: Value) -> int:
        """The number of a value, now known if it was not."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def matching(self, is_meant: Callable[[Value], bool]) -> frozenset[int]:
        """The numbers of the values that are meant."""
        return frozenset(number for number, one in enumerate(self.values) if is_meant(one))


class Catalogue:
    """Some two hundred bytes a record, texts not included."""

    def __init__(self) -> None:
        self.handles: list[str] = []
        self.places: array[int] = array("Q")
        self.lengths: array[int] = array("Q")
        self.created: array[float] = array("d")
        self.turns: array[int] = array("q")
        self.sessions: Interned[str] = Interned()
        self.types: Interned[str] = Interned()
        self.tools: Interned[str] = Interned()
        self.files: Interned[tuple[str, ...]] = Interned()
        self.tags: Interned[tuple[str, ...]] = Interned()
        self.columns: dict[str, array[int]] = {
            name: array("I") for name in ("session", "type", "tool", "files", "tags")
        }
        self.fates: dict[str, Fate] = {}
        """Handles that have no record any more, or never had a whole one."""
        self.buried: set[int] = set()
        """Rows without a record."""
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        """How many rows there are, with those whose record is gone."""
        return len(self.handles)

    @property
    def alive(self) -> int:
        """How many records there are."""
        return len(self._rows)

    def add(self, handle: str, about: About, place: int, length: int) -> None:
        """Take a record in, as the last row."""
        head = {"created_at": about.created_at, "session": about.session, "type": about.type}
        more = {"turn": about.turn, "tool": about.tool, "files": about.files, "tags": about.tags}
        self.add_head(handle, {**head, **more}, place, length)

    def add_head(self, handle: str, head: Mapping[str, Any], place: int, length: int) -> None:
        """Take in the record whose line begins with this head."""
        self.fates.pop(handle, None)
        self._rows[handle] = len(self.handles)
        self.handles.append(handle)
        self.places.append(place)
        self.lengths.append(length)
        self.created.append(head["created_at"])
        turn = head.get("turn")
        self.turns.append(_NO_TURN if turn is None else turn)
        columns, get = self.columns, head.get
        columns["session"].append(self.sessions.number(get("session", "")))
        columns["type"].append(self.types.number(head["type"]))
        columns["tool"].append(self.tools.number(get("tool", "")))
        columns["files"].append(self.files.number(tuple(get("files", ()))))
        columns["tags"].append(self.tags.number(tuple(get("tags", ()))))

    def bury(self, handle: str, fate: Fate) -> None:
        """A handle has no record any more."""
        self.fates[handle] = fate
        row = self._rows.pop(handle, None)
        if row is not None:
            self.buried.add(row)

    def row(self, handle: str) -> int | None:
        """The row of a handle that has a record."""
        return self._rows.get(handle)

    def is_taken(self, handle: str) -> bool:
        """Whether a handle has, or had, a meaning."""
        return handle in self._rows or handle in self.fates

    def is_free_for(self, handle: str) -> bool:
        """Whether a record that stands in the log has this handle: a whole one undoes damage."""
        return handle not in self._rows and self.fates.get(handle) != "removed"

    def index_rows(self) -> None:
        """Find rows by handle again, after the columns were loaded."""
        self._rows = {
            handle: row for row, handle in enumerate(self.handles) if row not in self.buried
        }

    def rows(self, where: Filter, before: int | None = None) -> Iterable[int]:
        """The rows of the records that are meant, the last one put first."""
        rows: Iterable[int] = range(len(self) - 1 if before is None else before - 1, -1, -1)
        for column, numbers in self._wanted(where):
            if not numbers:
                return ()
            if len(numbers) == 1:
                (number,) = numbers
                rows = [row for row in rows if column[row] == number]
            else:
                rows = [row for row in rows if column[row] in numbers]
        begin, end = where.period
        if (where.since, where.until) != (None, None):
            created = self.created
            rows = [row for row in rows if begin <= created[row] < end]
        if self.buried:
            return (row for row in rows if row not in self.buried)
        return rows

    def _wanted(self, where: Filter) -> Iterable[tuple[array[int], frozenset[int]]]:
        columns = self.columns
        if where.session is not None:
            yield columns["session"], self.sessions.matching(where.session.__eq__)
        if where.turn is not None:
            yield self.turns, frozenset((where.turn,))
        if where.type is not None:
            yield columns["type"], self.types.matching(where.type.__eq__)
        if where.tool is not None:
            yield columns["tool"], self.tools.matching(where.tool.__eq__)
        if where.file is not None:
            path = where.file
            yield columns["files"], self.files.matching(lambda files: _is_meant(path, files))
        if where.tags:
            asked = set(where.tags)
            yield columns["tags"], self.tags.matching(asked.issubset)


def _is_meant(path: str, files: Iterable[str]) -> bool:
    """A path, the end of one, or a folder that it is in."""
    path = path.removeprefix("./")
    if path.endswith("/"):
        inside = "/" + path.lstrip("/")
        return any(inside in "/" + file for file in files)
    return any(file == path or file.endswith("/" + path.lstrip("/")) for file in files)
