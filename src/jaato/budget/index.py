"""Which entries hold a message: remembered, checked when used, rebuilt after edits by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from jaato.budget.entry import SourceEntry

Holders = SourceEntry | tuple[SourceEntry, ...]
"""Nearly always one: a tuple only where several list the same id."""


class MessageIndex:
    """Message ids of one conversation entry and the entries below it that list them."""

    __slots__ = ("_held", "_root", "_version")

    def __init__(self) -> None:
        self._held: dict[str, Holders] = {}
        self._root: SourceEntry | None = None
        self._version = -1

    def is_current(self, root: SourceEntry) -> bool:
        """Whether nothing was stored or taken out since. Ids appended in place do not show."""
        return self._root is root and self._version == root.version > 0

    def begins_with(self, root: SourceEntry) -> bool:
        """Start with a conversation that holds nothing yet, so that no later search rebuilds it."""
        if root.below() or root.message_ids:
            return False
        self._held = {}
        self._root = root
        return True

    def follow(self, root: SourceEntry) -> None:
        """Declare that the index knows the latest change."""
        self._version = root.version

    def refresh(self, root: SourceEntry) -> None:
        """Look at every entry again, if anything changed."""
        if self.is_current(root):
            return
        self._held = {}
        waiting = [root]
        while waiting:
            entry = waiting.pop()
            self.add(entry)
            # Last in, first out: so that of several holders the first one comes first.
            waiting.extend(reversed(tuple(entry.below())))
        self._root = root
        self._version = root.version

    def add(self, entry: SourceEntry) -> None:
        """Learn the ids of one entry."""
        held = self._held
        for message_id in entry.message_ids:
            known = held.setdefault(message_id, entry)
            if known is not entry:
                older = known if isinstance(known, tuple) else (known,)
                if all(entry is not one for one in older):
                    held[message_id] = (*older, entry)

    def holders(self, message_id: str) -> tuple[SourceEntry, ...]:
        """The entries that list one id."""
        known = self._held.get(message_id, ())
        return known if isinstance(known, tuple) else (known,)

    def take(self, message_id: str) -> tuple[SourceEntry, ...]:
        """Forget one id, and say who held it."""
        known = self._held.pop(message_id, ())
        return known if isinstance(known, tuple) else (known,)

    def container(self, message_id: str) -> SourceEntry | None:
        """What the one entry that holds an id is directly in, if it is in an entry."""
        known = self._held.get(message_id)
        holder = known.holder if isinstance(known, SourceEntry) else None
        return (
            holder.owner if holder is not None and isinstance(holder.owner, SourceEntry) else None
        )

    def take_all(self, message_ids: Sequence[str], entries: Iterable[SourceEntry]) -> bool:
        """Forget ids that these entries hold, one each, unless others hold them as well."""
        held = self._held
        if not all(map(is_, map(held.get, message_ids), entries)):
            return False
        for message_id in message_ids:
            del held[message_id]
        return True

    def drop(self, entry: SourceEntry) -> None:
        """Forget that one entry holds its ids."""
        for message_id in entry.message_ids:
            others = tuple(one for one in self.take(message_id) if one is not entry)
            if others:
                self._held[message_id] = others

    def find(self, root: SourceEntry, message_id: str) -> SourceEntry | None:
        """The entry that holds a message; of several the deepest."""
        found = self._look(root, message_id)
        if found is None and not self.is_current(root):
            self.refresh(root)
            found = self._look(root, message_id)
        return found

    def _look(self, root: SourceEntry, message_id: str) -> SourceEntry | None:
        known = self._held.get(message_id, ())
        deepest, best = -1, None
        for entry in known if isinstance(known, tuple) else (known,):
            if message_id in entry.message_ids:
                depth = depth_below(root, entry)
                if depth > deepest:
                    deepest, best = depth, entry
        return best


def depth_below(root: SourceEntry, entry: SourceEntry) -> int:
    """How many levels an entry lies below another; -1 where it does not."""
    if entry is root:
        return 0
    depth = 0
    holder = entry.holder
    while holder is not None:
        depth += 1
        owner = holder.owner
        if owner is root:
            return depth
        holder = None if owner is None else owner.holder
    return -1
