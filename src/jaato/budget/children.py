"""The mapping that holds entries: it keeps their sums, and tells whoever owns it of each change.

So a total is read in O(1), and a change walks up to the root once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

from jaato.budget.policies import GCPolicy
from jaato.errors import UsageError

if TYPE_CHECKING:
    from jaato.budget.entry import SourceEntry

K = TypeVar("K", bound=str)

Sums = tuple[int, int, int, int, int, int]
"""total, locked, preservable, eligible tokens; the number of CONDITIONAL entries, and of guarded
ones: those that are not simply free to go, whatever they weigh."""

NOTHING: Sums = (0, 0, 0, 0, 0, 0)
_MISSING: Any = object()


def own_sums(policy: GCPolicy, tokens: int) -> Sums:
    """What tokens under a policy add to the sums. CONDITIONAL ones are asked for when read."""
    if policy is GCPolicy.EPHEMERAL or policy is GCPolicy.PARTIAL:
        return (tokens, 0, 0, tokens, 0, 0)
    if policy is GCPolicy.LOCKED:
        return (tokens, tokens, 0, 0, 0, 1)
    if policy is GCPolicy.PRESERVABLE:
        return (tokens, 0, tokens, 0, 0, 1)
    return (tokens, 0, 0, 0, 1, 1)


def less(one: Sums, other: Sums) -> Sums:
    """The change from `other` to `one`."""
    return (
        one[0] - other[0],
        one[1] - other[1],
        one[2] - other[2],
        one[3] - other[3],
        one[4] - other[4],
        one[5] - other[5],
    )


class Owner(Protocol):
    """Whoever a mapping of entries belongs to: an entry, or the budget (held by nothing)."""

    @property
    def holder(self) -> Children[Any] | None:
        """The mapping that it is stored in."""
        ...


class Node:
    """What a mapping can hold: it knows where it is stored. The mapping sets both fields."""

    __slots__ = ("holder", "key")

    holder: Children[Any] | None
    key: str


class Children(dict[K, "SourceEntry"], Generic[K]):
    """A dict of entries that keeps their sums and tells whoever owns it.

    An entry has one parent at a time: storing one that is held elsewhere stores an independent
    copy; `pop` it first to move it. `copy()` and `|` give plain dicts.
    """

    __slots__ = (
        "conditional",
        "eligible",
        "guarded",
        "locked",
        "owner",
        "preservable",
        "total",
        "version",
    )

    # `dataclasses.asdict` and `copy` rebuild a dict as `type(it)(pairs)`: they get a plain one.
    def __new__(cls, items: Any = (), *, owner: Owner | None = _MISSING) -> Self:
        """A mapping with an owner; a plain dict where none is named."""
        return super().__new__(cls) if owner is not _MISSING else cast("Self", dict(items))

    def __init__(self, items: Any = (), *, owner: Owner | None = None) -> None:
        super().__init__()
        self.owner = owner
        self.version = 0
        self.total = self.locked = self.preservable = self.eligible = 0
        self.conditional = self.guarded = 0
        self.update(items)

    def __reduce__(self) -> tuple[type[dict[Any, Any]], tuple[dict[K, SourceEntry]]]:
        return dict, (dict(self),)

    @property
    def sums(self) -> Sums:
        """The sums over all entries and what is below them."""
        return (
            self.total,
            self.locked,
            self.preservable,
            self.eligible,
            self.conditional,
            self.guarded,
        )

    def bubble(self, change: Sums, structural: int) -> None:
        """Add a change here and in every mapping above."""
        total, locked, preservable, eligible, conditional, guarded = change
        is_free = not (locked or preservable or conditional or guarded)
        at: Children[Any] | None = self
        while at is not None:
            at.total += total
            at.eligible += eligible
            at.version += structural
            if not is_free:  # Nearly every change is of what is simply free to go.
                at.locked += locked
                at.preservable += preservable
                at.conditional += conditional
                at.guarded += guarded
            owner = at.owner
            at = owner.holder if owner is not None else None

    def checked_key(self, key: object) -> K:
        """The key as it is stored: a plain string."""
        if not isinstance(key, str):
            raise UsageError(f"a child's key is a string, not {key!r}")
        return cast("K", str(key))

    def refuse(self, key: K, entry: object) -> None:  # noqa: ARG002 -- Sources looks at it
        """Raise where storing this would make no tree."""
        if not isinstance(entry, Node):
            raise UsageError(
                f"a budget holds SourceEntry objects, not {type(entry).__name__}",
                hint="SourceEntry(source, tokens, gc_policy)",
            )
        above = self.owner
        while above is not None:
            if above is entry:
                raise UsageError("an entry cannot hold itself", hint="store a copy.deepcopy")
            above = above.holder.owner if above.holder is not None else None

    def __setitem__(self, key: K, entry: SourceEntry) -> None:
        if type(key) is not str:
            key = self.checked_key(key)
        old = self.get(key)
        if old is entry and old is not None:
            return
        self.refuse(key, entry)
        if entry.holder is not None:
            entry = entry.duplicate()
        change = entry.sums
        if old is not None:
            change = less(change, old.sums)
            old.holder = None
        super().__setitem__(key, entry)
        entry.holder, entry.key = self, key
        self.bubble(change, 1)

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Take an entry out and free it to be stored elsewhere."""
        entry = super().pop(key) if default is _MISSING else super().pop(key, None)
        if entry is None:
            return default
        entry.holder = None
        self.bubble(less(NOTHING, entry.sums), 1)
        return entry

    def popitem(self) -> tuple[K, SourceEntry]:
        """Take the last entry out."""
        key, entry = super().popitem()
        entry.holder = None
        self.bubble(less(NOTHING, entry.sums), 1)
        return key, entry

    def discard(self, keys: Collection[K]) -> None:
        """Take many entries out with one walk to the root."""
        total = locked = preservable = eligible = conditional = guarded = 0
        take = super().pop
        for key in keys:
            entry = take(key)
            entry.holder = None
            sums = entry.sums
            total -= sums[0]
            locked -= sums[1]
            preservable -= sums[2]
            eligible -= sums[3]
            conditional -= sums[4]
            guarded -= sums[5]
        self.bubble((total, locked, preservable, eligible, conditional, guarded), 1)

    def clear(self) -> None:
        """Take every entry out."""
        self.discard(list(self))

    def update(self, *items: Any, **named: Any) -> None:
        """Store many entries, one after the other."""
        for key, entry in dict(*items, **named).items():
            self[key] = entry

    def setdefault(self, key: K, default: Any = None) -> SourceEntry:
        """The entry under a key, stored first where there is none. A default is needed then."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]  # dict's overloads
        self.update(other)
        return self

    def successor(self, items: Mapping[Any, Any]) -> Self:
        """What takes this mapping's place when its owner is given other items.

        Entries that stay are moved, not copied; the old mapping keeps the rest, without an owner.
        """
        if isinstance(items, type(self)) and items.owner is None:
            taken = items  # A mapping that was replaced before comes back as it is.
            taken.refuse_below(self.owner)
        else:
            wanted = {self.checked_key(key): entry for key, entry in items.items()}
            for key, entry in wanted.items():
                self.refuse(key, entry)
            taken = type(self)(owner=None)
            for key, entry in wanted.items():
                if entry.holder is self:
                    self.pop(entry.key)
                taken[key] = entry
        owner, self.owner = self.owner, None
        before = self.sums
        taken.owner = owner
        taken.version += self.version + 1
        if owner is not None and owner.holder is not None:
            owner.holder.bubble(less(taken.sums, before), 1)
        return taken

    def refuse_below(self, owner: Owner | None) -> None:
        """Raise where the owner-to-be sits below this mapping."""
        above = owner
        while above is not None and above.holder is not None:
            if above.holder is self:
                raise UsageError("an entry cannot hold itself", hint="store a copy.deepcopy")
            above = above.holder.owner
