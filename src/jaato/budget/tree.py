"""The budget of one agent's window: its sources, and what they add up to against the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from jaato.budget.children import Children
from jaato.budget.entry import SourceEntry, member
from jaato.budget.index import MessageIndex
from jaato.budget.policies import (
    DEFAULT_SOURCE_POLICIES,
    GCPolicy,
    InstructionSource,
    default_child_policy,
)
from jaato.budget.snapshot import SNAPSHOT_VERSION, SnapshotError, check_version
from jaato.errors import UsageError


class Sources(Children[InstructionSource]):
    """The entries of a budget: one per source, and the key says which."""

    __slots__ = ()

    def checked_key(self, key: object) -> InstructionSource:
        """The source that a key names."""
        return key if type(key) is InstructionSource else member(InstructionSource, key)

    def refuse(self, key: InstructionSource, entry: object) -> None:
        """Raise where this is no entry of that source."""
        super().refuse(key, entry)
        if isinstance(entry, SourceEntry) and entry.source is not key:
            raise UsageError(
                f"an entry of {entry.source.value} cannot stand for {key.value}",
                hint=f"SourceEntry(InstructionSource.{key.name}, …)",
            )

    def __setitem__(self, key: InstructionSource, entry: SourceEntry) -> None:
        super().__setitem__(self.checked_key(key), entry)


@dataclass(init=False)
class InstructionBudget:
    """What fills one agent's window. Every total is kept up to date: reading it costs O(1).

    THINKING is output only: it is in `total_tokens_all`, and in no other total. While
    `context_limit` is None the limit is unknown: percentages are 0.0 and `available_tokens` is
    None, so that nobody calculates with a guess.
    """

    session_id: str
    agent_id: str = "main"
    agent_type: str | None = None
    entries: dict[InstructionSource, SourceEntry] = field(default_factory=dict)
    context_limit: int | None = None

    def __init__(
        self,
        session_id: str,
        agent_id: str = "main",
        agent_type: str | None = None,
        entries: Mapping[InstructionSource, SourceEntry] | None = None,
        context_limit: int | None = None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.agent_type = agent_type
        self._context_limit: int | None = None
        self.context_limit = context_limit
        self.index = MessageIndex()
        """Where `jaato.budget.conversation` remembers which entry holds a message."""
        self._entries = Sources(entries or (), owner=self)

    @property
    def holder(self) -> None:
        """Nothing holds a budget: here a change has arrived."""
        return

    @classmethod
    def create_default(
        cls,
        session_id: str,
        agent_id: str = "main",
        agent_type: str | None = None,
        context_limit: int | None = None,
        *,
        created_at: float | None = None,
    ) -> InstructionBudget:
        """A budget with all five sources, empty, under their default policies."""
        budget = cls(session_id, agent_id, agent_type, None, context_limit)
        for source in InstructionSource:
            budget.set_entry(source, 0, created_at=created_at)
        return budget

    def set_entry(
        self,
        source: InstructionSource,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        created_at: float | None = None,
        message_ids: Iterable[str] = (),
    ) -> SourceEntry:
        """A new entry for a source, in the place of the old one and its children."""
        source = member(InstructionSource, source)
        entry = SourceEntry(
            source,
            tokens,
            gc_policy or DEFAULT_SOURCE_POLICIES[source],
            label,
            metadata=dict(metadata or {}),
            created_at=created_at,
            message_ids=list(message_ids),
        )
        self._entries[source] = entry
        return entry

    def get_entry(self, source: InstructionSource) -> SourceEntry | None:
        """The entry of a source."""
        return self._entries.get(source)

    def update_tokens(self, source: InstructionSource, tokens: int) -> SourceEntry:
        """Set a source's own tokens; its children stay. A missing source is made."""
        entry = self._entries.get(source)
        if entry is None:
            return self.set_entry(source, tokens)
        entry.tokens = tokens
        return entry

    def get_child(self, source: InstructionSource, child_key: str | None) -> SourceEntry | None:
        """The entry below a source under a key or path (`turn_3`, `turn_3/m7`)."""
        entry = self._entries.get(source)
        return None if entry is None or child_key is None else entry.at_path(child_key)

    def add_child(
        self,
        source: InstructionSource,
        child_key: str,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: float | None = None,
        message_ids: Iterable[str] | None = None,
    ) -> SourceEntry:
        """A new entry below a source, in the place of one that has its key or path.

        Without a policy it gets the default of its known key (`base`, `core`, `original_request`,
        `gc_summary_1`, …), else that of its source. A missing source is made.
        """
        source = member(InstructionSource, source)
        parent = self._entries.get(source) or self.set_entry(source, 0)
        children, key = parent.place(child_key)
        entry = SourceEntry(
            source,
            tokens,
            gc_policy or default_child_policy(source, key),
            label,
            metadata=dict(metadata or {}),
            created_at=created_at,
            message_ids=list(message_ids or ()),
        )
        children[key] = entry
        return entry

    def remove_child(self, source: InstructionSource, child_key: str | None) -> bool:
        """Take out the entry under a key or path. False where there is none."""
        entry = self.get_child(source, child_key)
        if entry is None or entry.holder is None:
            return False
        del entry.holder[entry.key]
        return True

    def total_tokens(self) -> int:
        """The tokens in the window: everything but THINKING."""
        thinking = self._entries.get(InstructionSource.THINKING)
        return self._entries.total - (0 if thinking is None else thinking.total_tokens())

    def total_tokens_all(self) -> int:
        """The tokens of every source, THINKING included."""
        return self._entries.total

    def gc_eligible_tokens(self) -> int:
        """The tokens that a collection may remove without pressure."""
        return self._sum(SourceEntry.gc_eligible_tokens)

    def locked_tokens(self) -> int:
        """The tokens that no collection may remove."""
        return self._sum(SourceEntry.locked_tokens)

    def preservable_tokens(self) -> int:
        """The tokens that a collection may remove under pressure only."""
        return self._sum(SourceEntry.preservable_tokens)

    def _sum(self, read: Callable[[SourceEntry], int]) -> int:
        return sum(
            read(entry)
            for source, entry in self._entries.items()
            if source is not InstructionSource.THINKING
        )

    def utilization_percent(self) -> float:
        """How full the window is; may pass 100. 0.0 where the limit is unknown."""
        limit = self._context_limit
        return 100.0 * self.total_tokens() / limit if limit else 0.0

    def available_tokens(self) -> int | None:
        """The tokens that still fit, never below 0. None where the limit is unknown."""
        limit = self._context_limit
        return max(0, limit - self.total_tokens()) if limit else None

    def gc_headroom_percent(self) -> float:
        """The part of the window that `gc_eligible_tokens` take. 0.0 where the limit is unknown."""
        limit = self._context_limit
        return 100.0 * self.gc_eligible_tokens() / limit if limit else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Everything that `from_dict` needs, in a form that JSON can hold."""
        return {
            "version": SNAPSHOT_VERSION,
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "agent_type": self.agent_type,
            "context_limit": self._context_limit,
            "entries": {str(source): entry.to_dict() for source, entry in self._entries.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InstructionBudget:
        """The budget that `to_dict` or `snapshot` wrote."""
        data = check_version(data)
        entries = data.get("entries") or {}
        if "session_id" not in data or not isinstance(entries, Mapping):
            raise SnapshotError("a budget has a session_id, and a mapping of entries")
        return cls(
            data["session_id"],
            data.get("agent_id", "main"),
            data.get("agent_type"),
            {
                member(InstructionSource, source): SourceEntry.from_dict(entry, where=str(source))
                for source, entry in entries.items()
            },
            data.get("context_limit"),
        )

    def snapshot(self) -> dict[str, Any]:
        """The whole panel at this moment: `to_dict`, and every total. Later changes leave it be."""
        return {
            **self.to_dict(),
            "total_tokens": self.total_tokens(),
            "total_tokens_all": self.total_tokens_all(),
            "utilization_percent": self.utilization_percent(),
            "available_tokens": self.available_tokens(),
            "gc_eligible_tokens": self.gc_eligible_tokens(),
            "locked_tokens": self.locked_tokens(),
            "preservable_tokens": self.preservable_tokens(),
            "gc_headroom_percent": self.gc_headroom_percent(),
        }

    def get_conversation_snapshot(self) -> dict[str, Any]:
        """CONVERSATION alone, for `restore_conversation_from_snapshot`."""
        entry = self._entries.get(InstructionSource.CONVERSATION) or SourceEntry(
            InstructionSource.CONVERSATION, 0, GCPolicy.PARTIAL
        )
        return {"version": SNAPSHOT_VERSION, **entry.to_dict()}

    def restore_conversation_from_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        """Replace CONVERSATION by a snapshot of it, or by that in a snapshot of a whole budget.

        Ids, times and policies come back as they were. A snapshot that cannot be read raises
        and changes nothing.
        """
        data = check_version(snapshot)
        written: Any = data
        if "entries" in data:
            entries = data["entries"]
            written = entries.get("conversation") if isinstance(entries, Mapping) else entries
        entry = SourceEntry.from_dict(written, where="conversation")
        if entry.source is not InstructionSource.CONVERSATION:
            raise SnapshotError(f"a snapshot of {entry.source.value} is no conversation")
        self._entries[InstructionSource.CONVERSATION] = entry

    def __reduce__(self) -> tuple[type[InstructionBudget], tuple[Any, ...]]:
        return InstructionBudget, (
            self.session_id,
            self.agent_id,
            self.agent_type,
            dict(self._entries),
            self._context_limit,
        )


def _set_entries(self: InstructionBudget, value: Mapping[InstructionSource, SourceEntry]) -> None:
    if value is not self._entries:
        self._entries = self._entries.successor(value)


def _set_context_limit(self: InstructionBudget, value: int | None) -> None:
    if value is not None and (type(value) is not int or value <= 0):
        raise UsageError(
            f"a context limit is a whole number above 0, not {value!r}",
            hint="None while it is unknown",
        )
    self._context_limit = value


# As in SourceEntry: the fields above are what a dataclass shows, these are what watches them.
for _name, _descriptor in {
    "entries": property(attrgetter("_entries"), _set_entries),
    "context_limit": property(attrgetter("_context_limit"), _set_context_limit),
}.items():
    setattr(InstructionBudget, _name, _descriptor)
