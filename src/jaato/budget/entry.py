"""One node of the budget. Its totals are kept, not counted: own tokens plus the children's sums."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, index
from typing import Any, SupportsIndex, TypeVar, cast

from jaato.budget.children import NOTHING, Children, Node, Sums, less, own_sums
from jaato.budget.policies import GC_POLICY_INDICATORS, GCPolicy, InstructionSource
from jaato.budget.snapshot import SnapshotError, entry_fields, plain
from jaato.errors import UsageError

E = TypeVar("E", InstructionSource, GCPolicy)

# Not written inside the class: type checkers would refuse `entry.tokens = 5` for want of a slot.
_SLOTS = (
    "_children",
    "_condition",
    "_created_at",
    "_gc_policy",
    "_label",
    "_message_ids",
    "_metadata",
    "_source",
    "_tokens",
)

_ELIGIBLE = frozenset({GCPolicy.EPHEMERAL, GCPolicy.PARTIAL})


def _count(value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    number = None
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = index(value)
    if number is None or number < 0:
        raise UsageError(
            f"tokens are a whole number from 0 up, not {value!r}",
            hint="count the text first: jaato.tokens, or estimate_tokens for a rough count",
        )
    return number


def member(kind: type[E], value: object) -> E:
    """The member of InstructionSource or GCPolicy that a value names."""
    try:
        return kind(cast("str", value))
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise UsageError(f"{value!r} is no {kind.__name__}", hint=f"one of {known}") from None


@dataclass(init=False)
class SourceEntry(Node):
    """Tokens of one source, and what is known about them; setting a field keeps every total."""

    __slots__ = _SLOTS

    source: InstructionSource
    tokens: int
    gc_policy: GCPolicy
    label: str | None = None
    children: dict[str, SourceEntry] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: float | None = None
    message_ids: list[str] = field(default_factory=list)

    def __init__(
        self,
        source: InstructionSource | str,
        tokens: int,
        gc_policy: GCPolicy | str,
        label: str | None = None,
        children: Mapping[str, SourceEntry] | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: float | None = None,
        message_ids: Iterable[str] | None = None,
    ) -> None:
        self._source = (
            source if type(source) is InstructionSource else member(InstructionSource, source)
        )
        self._tokens = tokens if type(tokens) is int and tokens >= 0 else _count(tokens)
        self._gc_policy = gc_policy if type(gc_policy) is GCPolicy else member(GCPolicy, gc_policy)
        self._label = label
        self._metadata = metadata
        self._created_at = time.time() if created_at is None else created_at
        self._message_ids = message_ids if type(message_ids) is list else list(message_ids or ())
        self._condition: Callable[[SourceEntry], GCPolicy] | None = None
        self._children: Children[str] | None = None
        self.holder = None
        self.key = ""
        if children:
            self._children = Children(children, owner=self)

    @property
    def sums(self) -> Sums:
        """Its own tokens and all below, by policy. O(1)."""
        own = own_sums(self._gc_policy, self._tokens)
        below = self._children
        if below is None:
            return own
        return (
            own[0] + below.total,
            own[1] + below.locked,
            own[2] + below.preservable,
            own[3] + below.eligible,
            own[4] + below.conditional,
            own[5] + below.guarded,
        )

    @property
    def is_free(self) -> bool:
        """Whether it and all below are EPHEMERAL or PARTIAL: nothing in it must be spared. O(1)."""
        below = self._children
        return self._gc_policy in _ELIGIBLE and (below is None or below.guarded == 0)

    def total_tokens(self) -> int:
        """Its own tokens and its children's. O(1)."""
        return self._tokens + (0 if self._children is None else self._children.total)

    def locked_tokens(self) -> int:
        """The tokens that nothing may remove. O(1) where nothing is CONDITIONAL."""
        sums = self.sums
        return sums[1] + (self.decided({GCPolicy.LOCKED}) if sums[4] else 0)

    def preservable_tokens(self) -> int:
        """The tokens that only pressure may remove. O(1) where nothing is CONDITIONAL."""
        sums = self.sums
        return sums[2] + (self.decided({GCPolicy.PRESERVABLE}) if sums[4] else 0)

    def gc_eligible_tokens(self) -> int:
        """The tokens under EPHEMERAL and PARTIAL; each child decides for itself. O(1) likewise."""
        sums = self.sums
        return sums[3] + (self.decided(_ELIGIBLE) if sums[4] else 0)

    def decided(self, policies: Collection[GCPolicy]) -> int:
        """The tokens of CONDITIONAL entries whose callable says one of these policies, now."""
        found = 0
        waiting = [self]
        while waiting:
            entry = waiting.pop()
            if entry.gc_policy is GCPolicy.CONDITIONAL and entry.effective_gc_policy() in policies:
                found += entry.tokens
            waiting.extend(child for child in entry.below() if child.sums[4])
        return found

    def below(self) -> Collection[SourceEntry]:
        """Its children; unlike `children` it makes no mapping where there are none."""
        return () if self._children is None else self._children.values()

    def is_made_of(self, message_ids: list[str]) -> bool:
        """Whether it is nothing but an entry for each of these messages, in this order."""
        children = self._children
        if children is None or len(children) != len(message_ids):
            return False
        if self._tokens or self._message_ids:
            return False
        leaves = [
            child._message_ids  # noqa: SLF001 -- a property would take longer than all the rest
            for child in children.values()
            if not child._children  # noqa: SLF001 -- likewise
        ]
        try:
            return [one for [one] in leaves] == message_ids
        except ValueError:  # An entry of several messages, or of none.
            return False

    def at_path(self, path: str) -> SourceEntry | None:
        """The entry under a key, or under keys joined by `/`. At each level an exact key wins."""
        if self._children is None:
            return None
        exact = self._children.get(path)
        if exact is not None:
            return exact
        cut = path.find("/")
        while cut >= 0:
            child = self._children.get(path[:cut])
            found = None if child is None else child.at_path(path[cut + 1 :])
            if found is not None:
                return found
            cut = path.find("/", cut + 1)
        return None

    def place(self, path: str) -> tuple[dict[str, SourceEntry], str]:
        """The mapping and the key where a path is, or would be, stored.

        Below the deepest entry that exists; a `/` for which none exists belongs to the key.
        """
        found = self.at_path(path)
        if found is not None and found.holder is not None:
            return found.holder, found.key
        cut = path.rfind("/")
        while cut >= 0:
            parent = self.at_path(path[:cut])
            if parent is not None:
                return parent.children, path[cut + 1 :]
            cut = path.rfind("/", 0, cut)
        return self.children, path

    @property
    def version(self) -> int:
        """Changes with each change of what is stored below, or of whose messages it is."""
        return 0 if self._children is None else self._children.version

    def register_condition(self, decide: Callable[[SourceEntry], GCPolicy] | None) -> None:
        """Let a callable say the policy of this entry while it is CONDITIONAL.

        It is asked whenever a policy or a sum by policy is read, so keep it cheap. Copies of the
        entry share it; snapshots and pickles do not hold it.
        """
        self._condition = decide

    def effective_gc_policy(self) -> GCPolicy:
        """Its policy; for CONDITIONAL what the callable says, EPHEMERAL where it cannot say."""
        if self._gc_policy is not GCPolicy.CONDITIONAL:
            return self._gc_policy
        if self._condition is None:
            return GCPolicy.EPHEMERAL
        try:
            said = GCPolicy(self._condition(self))
        except Exception:  # noqa: BLE001 -- a callback must not take a collection with it
            return GCPolicy.EPHEMERAL
        return GCPolicy.EPHEMERAL if said is GCPolicy.CONDITIONAL else said

    def indicator(self) -> str:
        """The sign of its policy."""
        return GC_POLICY_INDICATORS[self._gc_policy]

    def duplicate(self) -> SourceEntry:
        """An independent deep copy, held by nothing."""
        twin = SourceEntry(
            self._source,
            self._tokens,
            self._gc_policy,
            self._label,
            {child.key: child.duplicate() for child in self.below()},
            copy.deepcopy(self._metadata) if isinstance(self._metadata, dict) else self._metadata,
            self._created_at,
            list(self._message_ids),
        )
        twin.register_condition(self._condition)
        return twin

    def __copy__(self) -> SourceEntry:
        return self.duplicate()

    def __deepcopy__(self, memo: dict[int, Any]) -> SourceEntry:
        memo[id(self)] = twin = self.duplicate()
        return twin

    def __reduce__(self) -> tuple[type[SourceEntry], tuple[Any, ...]]:
        return SourceEntry, (
            self._source,
            self._tokens,
            self._gc_policy,
            self._label,
            {child.key: child for child in self.below()},
            dict(self._metadata or {}),
            self._created_at,
            self._message_ids,
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field, and what is derived from them, in a form that JSON can hold."""
        return {
            "source": self._source.value,
            "tokens": self._tokens,
            "gc_policy": self._gc_policy.value,
            "label": self._label,
            "children": {child.key: child.to_dict() for child in self.below()},
            "metadata": plain(self._metadata or {}),
            "created_at": self._created_at,
            "message_ids": list(self._message_ids),
            "total_tokens": self.total_tokens(),
            "gc_eligible_tokens": self.gc_eligible_tokens(),
            "effective_gc_policy": self.effective_gc_policy().value,
            "indicator": self.indicator(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "") -> SourceEntry:
        """The entry that `to_dict` wrote. Derived values are ignored."""
        fields = entry_fields(data, where)
        fields["children"] = {
            str(key): cls.from_dict(child, where=f"{where}/{key}" if where else str(key))
            for key, child in fields["children"].items()
        }
        try:
            return cls(**fields)
        except UsageError as error:
            if isinstance(error, SnapshotError):
                raise
            raise SnapshotError(error.args[0], where=where, hint=error.hint) from None


def _set_tokens(self: SourceEntry, value: int) -> None:
    before, self._tokens = self._tokens, _count(value)
    if self.holder is not None:
        policy = self._gc_policy
        self.holder.bubble(less(own_sums(policy, self._tokens), own_sums(policy, before)), 0)


def _set_gc_policy(self: SourceEntry, value: GCPolicy) -> None:
    before = self.sums
    self._gc_policy = member(GCPolicy, value)
    if self.holder is not None:
        self.holder.bubble(less(self.sums, before), 0)


def _set_source(self: SourceEntry, value: InstructionSource) -> None:
    self._source = member(InstructionSource, value)


def _get_children(self: SourceEntry) -> Children[str]:
    if self._children is None:
        self._children = Children(owner=self)
    return self._children


def _set_children(self: SourceEntry, value: Mapping[str, SourceEntry]) -> None:
    children = _get_children(self)
    if value is not children:
        self._children = children.successor(value)


def _get_metadata(self: SourceEntry) -> dict[str, Any]:
    # Most entries are made from a shared read-only template: the dict is made when asked for.
    if not isinstance(self._metadata, dict):
        self._metadata = dict(self._metadata or {})
    return self._metadata


def _set_metadata(self: SourceEntry, value: Mapping[str, Any]) -> None:
    self._metadata = value


def _set_message_ids(self: SourceEntry, value: Iterable[str]) -> None:
    self._message_ids = value if type(value) is list else list(value)
    if self._children is not None:
        self._children.version += 1
    if self.holder is not None:
        self.holder.bubble(NOTHING, 1)


# The fields stand above as a dataclass has them, so that `dataclasses.fields` and type checkers
# see them; what watches them can only be put in their place afterwards.
for _name, _descriptor in {
    "source": property(attrgetter("_source"), _set_source),
    "tokens": property(attrgetter("_tokens"), _set_tokens),
    "gc_policy": property(attrgetter("_gc_policy"), _set_gc_policy),
    "label": SourceEntry.__dict__["_label"],
    "children": property(_get_children, _set_children),
    "metadata": property(_get_metadata, _set_metadata),
    "created_at": SourceEntry.__dict__["_created_at"],
    "message_ids": property(attrgetter("_message_ids"), _set_message_ids),
}.items():
    setattr(SourceEntry, _name, _descriptor)
