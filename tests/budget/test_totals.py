"""Every total that is kept equals the one counted anew, whatever changed and however."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jaato.budget import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato.budget.conversation import forget, locate, shrink, track
from jaato.errors import UsageError
from jaato.history import Kind, Message, Part, Role

keys = st.sampled_from(["a", "b", "a/b", "turn_0", "turn_1", "m2"])
tokens = st.integers(0, 1000)
policies = st.sampled_from(GCPolicy)
sources = st.sampled_from(InstructionSource)
picks = st.integers(0, 10**6)


def counted(entry: SourceEntry) -> dict[str, int]:
    """What the totals of an entry are, by definition."""
    found = {"total": entry.tokens, "locked": 0, "preservable": 0, "eligible": 0}
    match entry.effective_gc_policy():
        case GCPolicy.LOCKED:
            found["locked"] = entry.tokens
        case GCPolicy.PRESERVABLE:
            found["preservable"] = entry.tokens
        case GCPolicy.PARTIAL | GCPolicy.EPHEMERAL:
            found["eligible"] = entry.tokens
        case GCPolicy.CONDITIONAL:
            raise AssertionError
    for child in entry.children.values():
        for name, number in counted(child).items():
            found[name] += number
    return found


def kept(one: SourceEntry | InstructionBudget) -> dict[str, int]:
    """What an entry or budget says its totals are."""
    return {
        "total": one.total_tokens(),
        "locked": one.locked_tokens(),
        "preservable": one.preservable_tokens(),
        "eligible": one.gc_eligible_tokens(),
    }


def walk(entries: Iterable[SourceEntry]) -> list[SourceEntry]:
    """Every entry of some trees."""
    return [each for entry in entries for each in (entry, *walk(entry.children.values()))]


class Totals(RuleBasedStateMachine):
    """A budget, and entries that were taken out of it or never were in."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = InstructionBudget.create_default("s", context_limit=1000)
        self.loose: list[SourceEntry] = []

    def pick(self, at: int) -> SourceEntry:
        known = walk([*self.budget.entries.values(), *self.loose])
        return known[at % len(known)] if known else self.make(1, GCPolicy.LOCKED)

    def make(self, number: int, policy: GCPolicy) -> SourceEntry:
        entry = SourceEntry(InstructionSource.CONVERSATION, number, policy, created_at=0.0)
        self.loose = [*self.loose[-3:], entry]
        return entry

    @rule(number=tokens, policy=policies)
    def build(self, number: int, policy: GCPolicy) -> None:
        self.make(number, policy)

    @rule(at=picks, number=tokens)
    def set_tokens(self, at: int, number: int) -> None:
        self.pick(at).tokens = number

    @rule(at=picks, policy=policies)
    def set_policy(self, at: int, policy: GCPolicy) -> None:
        self.pick(at).gc_policy = policy

    @rule(at=picks, policy=policies)
    def set_condition(self, at: int, policy: GCPolicy) -> None:
        self.pick(at).register_condition(lambda _: policy)

    @rule(at=picks, other=picks, key=keys, how=st.sampled_from(["set", "update", "or", "default"]))
    def store(self, at: int, other: int, key: str, how: str) -> None:
        parent, child = self.pick(at), self.pick(other)
        if len(walk([child])) > 30:
            return
        try:
            match how:
                case "set":
                    parent.children[key] = child
                case "update":
                    parent.children.update({key: child}, z=child)
                case "or":
                    parent.children |= {key: child}
                case _:
                    parent.children.setdefault(key, child)
        except UsageError:
            assert any(parent is below for below in walk([child]))

    @rule(at=picks, key=keys, how=st.sampled_from(["del", "pop", "popitem", "clear"]))
    def take(self, at: int, key: str, how: str) -> None:
        children = self.pick(at).children
        match how:
            case "del" if key in children:
                del children[key]
            case "pop":
                out = children.pop(key, None)
                self.loose += [out] if out is not None else []
            case "popitem" if children:
                self.loose.append(children.popitem()[1])
            case "clear":
                children.clear()
            case _:
                pass

    @rule(at=picks, other=picks, drop=keys)
    def replace_children(self, at: int, other: int, drop: str) -> None:
        entry, foreign = self.pick(at), self.pick(other)
        if len(walk([foreign])) > 30:
            return
        wanted: dict[str, Any] = {k: v for k, v in entry.children.items() if k != drop}
        try:
            entry.children = wanted | {"b": foreign}
        except UsageError:
            assert any(entry is below for below in walk([foreign]))

    @rule(at=picks)
    def swap_children_out_and_in(self, at: int) -> None:
        entry = self.pick(at)
        saved = entry.children
        entry.children = {}
        assert entry.total_tokens() == entry.tokens
        entry.children = saved

    @rule(at=picks, source=sources, how=st.sampled_from(["set", "replace", "del", "update"]))
    def change_source(self, at: int, source: InstructionSource, how: str) -> None:
        entry = self.pick(at)
        if len(walk([entry])) > 30:
            return
        if entry.holder is not self.budget.entries:
            entry.source = source
        source = entry.source
        match how:
            case "set":
                self.budget.entries[source] = entry
            case "replace":
                self.budget.entries = {**self.budget.entries, source: entry}
            case "update":
                self.budget.entries |= {source: entry}
            case _:
                self.budget.entries.pop(source, None)

    @rule(source=sources, key=keys, number=tokens, policy=st.none() | policies)
    def api_add(
        self, source: InstructionSource, key: str, number: int, policy: GCPolicy | None
    ) -> None:
        self.budget.add_child(source, key, number, policy)
        assert self.budget.get_child(source, key) is not None

    @rule(source=sources, key=keys)
    def api_remove(self, source: InstructionSource, key: str) -> None:
        there = self.budget.get_child(source, key) is not None
        assert self.budget.remove_child(source, key) is there

    @rule(source=sources, number=tokens)
    def api_update(self, source: InstructionSource, number: int) -> None:
        self.budget.update_tokens(source, number)

    @rule(source=sources, number=tokens)
    def api_set(self, source: InstructionSource, number: int) -> None:
        self.budget.set_entry(source, number)

    @rule(
        number=tokens,
        role=st.sampled_from([Role.USER, Role.MODEL]),
        kind=st.sampled_from([Kind.PLAIN, Kind.PLAIN, Kind.SUMMARY, Kind.NOTICE]),
        name=st.sampled_from("pqrstu"),
    )
    def api_track(self, number: int, role: Role, kind: Kind, name: str) -> None:
        before = self.budget.entries.get(InstructionSource.CONVERSATION)
        entry = track(self.budget, Message(role, (Part(text="x"),), name, kind), number)
        located = locate(self.budget, name)
        assert located is not None
        assert name in located.entry.message_ids
        assert entry in walk(self.budget.entries.values())
        assert before is None or before is self.budget.entries[InstructionSource.CONVERSATION]

    @rule(names=st.sets(st.sampled_from("pqrstu")), known=st.booleans())
    def api_forget(self, names: set[str], known: bool) -> None:
        before = self.budget.total_tokens()
        freed = forget(self.budget, dict.fromkeys(names, 5) if known else names)
        assert freed == before - self.budget.total_tokens()
        assert [locate(self.budget, name) for name in names] == [None] * len(names)

    @rule(name=st.sampled_from("pqrstu"), number=tokens)
    def api_shrink(self, name: str, number: int) -> None:
        before = self.budget.total_tokens()
        assert shrink(self.budget, name, number) == before - self.budget.total_tokens()

    @rule()
    def write_and_read(self) -> None:
        again = InstructionBudget.from_dict(self.budget.to_dict())
        assert again == self.budget
        self.budget.restore_conversation_from_snapshot(self.budget.get_conversation_snapshot())
        assert again.entries == self.budget.entries or (
            InstructionSource.CONVERSATION not in again.entries
        )

    @invariant()
    def totals_agree(self) -> None:
        for entry in walk([*self.budget.entries.values(), *self.loose]):
            assert kept(entry) == counted(entry)
        window = [
            counted(entry)
            for source, entry in self.budget.entries.items()
            if source is not InstructionSource.THINKING
        ]
        assert kept(self.budget) == {
            name: sum(each[name] for each in window) for name in kept(self.budget)
        }
        assert self.budget.total_tokens_all() == sum(
            counted(entry)["total"] for entry in self.budget.entries.values()
        )
        assert self.budget.utilization_percent() == self.budget.total_tokens() / 10

    @invariant()
    def each_entry_knows_its_place(self) -> None:
        for parent in walk([*self.budget.entries.values(), *self.loose]):
            for key, child in parent.children.items():
                assert child.holder is parent.children
                assert child.key == key


Totals.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTotals = Totals.TestCase
