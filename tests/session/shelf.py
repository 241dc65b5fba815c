"""Sessions beside a stash: what was ever said, what is in the window and what can be restored."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tests.session.operations import COUNTER, Lines, fresh

from jaato.events import Event
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.registry import load_gc_plugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.history import STUB_MARK, Kind, Message, Part
from jaato.history.codec import from_dict, to_dict
from jaato.kept import ANYTHING, Compacted, Entry, Filter, Hit, Record, Verified
from jaato.ports import Stash
from jaato.session.collector import Collector
from jaato.session.emitter import Emitter
from jaato.session.keeping import Keeper
from jaato.session.leaving import WHOLE
from jaato.session.record import Added, Replaced, Switched
from jaato.session.room import Room
from jaato.session.shorten import SHORTENED_MARK
from jaato.session.state import State
from jaato.stash.memory import MemoryStash
from jaato.telemetry.off import OFF
from jaato.testing import sketch
from jaato.tokens import as_text

STRATEGIES: Final = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")
MANUAL: Final = GCTriggerReason.MANUAL
_ARGUMENT: Final = re.compile(r'\[[\d,]+ tokens, left the window: recall\("([\w.-]+)"\)\]')


def gc(name: str = "gc_budget", **options: Any) -> Any:
    """A built-in plug-in that counts words, and asks no model."""
    if name in {"gc_summarize", "gc_hybrid"}:
        options = {"summarizer": "extractive", **options}
    plugin = load_gc_plugin(name, {"notify_on_gc": False, **options})
    plugin.counter = COUNTER  # type: ignore[attr-defined]  # the built-ins have one
    return plugin


class Watched:
    """A stash in memory that is watched, and that refuses what it is told to refuse."""

    def __init__(self, looks: Callable[[Sequence[Record]], None] = lambda _: None) -> None:
        self.inner = MemoryStash()
        self.looks = looks
        self.refusal: Exception | None = None
        self.refuses_after = 0
        """So many puts are taken before the first is refused."""
        self.taken: dict[str, str] = {}
        """Names that belong to somebody else, and what they become here."""
        self.puts: list[list[Record]] = []

    @property
    def is_open(self) -> bool:
        return self.inner.is_open

    def put(self, records: Sequence[Record], handles: Sequence[str | None] = ()) -> list[str]:
        self.looks(records)
        if self.refusal is not None and len(self.puts) >= self.refuses_after:
            raise self.refusal
        self.puts.append(list(records))
        return self.inner.put(records, [self.taken.get(one or "", one) for one in handles])

    def get(self, handle: str) -> Record:
        return self.inner.get(handle)

    def search(self, query: str, where: Filter = ANYTHING, limit: int = 10) -> list[Hit]:
        return self.inner.search(query, where, limit)

    def entries(
        self, where: Filter = ANYTHING, limit: int | None = None, before: str | None = None
    ) -> list[Entry]:
        return self.inner.entries(where, limit, before)

    def remove(self, handles: Iterable[str]) -> int:
        return self.inner.remove(handles)

    def compact(self) -> Compacted:
        return self.inner.compact()

    def verify(self) -> Verified:
        return self.inner.verify()

    def close(self) -> None:
        self.inner.close()

    @property
    def records(self) -> list[Record]:
        """All that is kept, the first one first."""
        return kept_in(self.inner)


class Shelf:
    """A state with messages in it, a collector and a room, and the stash that they keep in."""

    def __init__(
        self,
        plugin: Any = None,
        said: str | Sequence[Message] = "u c1 r1 a u c1 r1 a u c1 r1 a",
        *,
        stash: Stash | None = None,
        config: GCConfig | None = None,
        percent: float = 85.0,
        words: int = 60,
    ) -> None:
        self.state, self.log = fresh()
        self.events: list[Event] = []
        for message in sketch(said, words=words) if isinstance(said, str) else said:
            self.state.add(message)
        self.fill(percent)
        emitter = Emitter("main")
        emitter.listen(self.events.append)
        self.stash = stash
        self.collector = Collector(
            self.state, emitter, OFF, plugin=plugin, config=config, stash=lambda: self.stash
        )
        self.room = Room(self.state, self.collector, lambda: 0)
        if isinstance(plugin, DrivenPlugin):
            plugin.write_stubs(self.keeper.write_stub)

    @property
    def keeper(self) -> Keeper:
        return self.collector.keeper

    def fill(self, percent: float) -> None:
        """Make the window so large that what is there fills it to a percentage."""
        limit = max(int(self.state.window.counted * 100 / percent), 1)
        self.state.commit(Switched(provider="p", model="m", limit=limit))

    def collect(self, reason: GCTriggerReason = MANUAL) -> GCResult:
        result = asyncio.run(self.collector.collect(reason))
        assert result is not None
        return result

    def make_room(self) -> None:
        asyncio.run(self.room.before_call())

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[Part]:
        """The parts of the window that are results."""
        return results_in(self.state.history)


def results_in(history: Sequence[Message]) -> list[Part]:
    """The parts of a history that are results."""
    return [p for message in history for p in message.parts if p.function_response is not None]


def text_of(part: Part) -> str:
    """What the model reads of a result."""
    assert part.function_response is not None
    return as_text(part.function_response.result)


def handle_of(part: Part) -> str:
    """The handle that stands beside what became smaller."""
    for mark in (STUB_MARK, SHORTENED_MARK):
        if isinstance(part.extra.get(mark), str):
            return str(part.extra[mark])
    raise AssertionError(f"no handle: {dict(part.extra)}")


def kept_in(stash: Stash, **where: Any) -> list[Record]:
    """The records of a stash, the first one put first."""
    return [stash.get(entry.handle) for entry in stash.entries(Filter(**where))][::-1]


def whole_of(record: Record) -> Message:
    """The message that a record keeps."""
    return from_dict(record.extra[WHOLE])


def said_in(log: Lines | Iterable[Any]) -> list[Message]:
    """Every message that ever came, notices left out: they say nothing of their own."""
    records = log.records() if isinstance(log, Lines) else log
    said: list[Message] = []
    for record, *_ in records:
        if isinstance(record, Added):
            said.append(record.message)
        elif isinstance(record, Replaced):
            known = {message.message_id for message in said}
            pieces = [one for one in record.pieces if isinstance(one, Message)]
            said += [one for one in pieces if one.message_id not in known]
    return [message for message in said if message.kind is not Kind.NOTICE]


def lost(state: State, stash: Stash, said: Iterable[Message]) -> list[str]:
    """What was said and is neither in the window nor in the stash, by where it was said."""
    there: dict[str, list[str]] = {}
    for message in [*state.history, *map(whole_of, filter(_has_whole, kept_in(stash)))]:
        parts = [_plain(part, stash) for part in message.parts]
        there.setdefault(message.message_id, []).extend(parts)
    return [
        f"{message.message_id}: {_plain(part, stash)[:200]}"
        for message in said
        for part in message.parts
        if _says_something(part) and _plain(part, stash) not in there.get(message.message_id, [])
    ]


def _has_whole(record: Record) -> bool:
    return WHOLE in record.extra


def _says_something(part: Part) -> bool:
    """Whether a part says what is not behind a handle, or nothing."""
    if not part.extra.keys().isdisjoint({STUB_MARK, SHORTENED_MARK}):
        return False
    result = part.function_response
    if result is not None:
        return bool(as_text(result.result) or result.attachments)
    return part.text != "" and part.thought != ""


def _plain(part: Part, stash: Stash) -> str:
    """What a part says, in words; long arguments that left are put back."""
    [said] = to_dict(Message("user", [part]))["parts"]
    said.pop("extra", None)
    call = said.get("call")
    if call is not None:
        said["call"] = {**call, "args": _put_back(call["args"], stash)}
    return repr(_spelled(said))


def _put_back(value: Any, stash: Stash) -> Any:
    if isinstance(value, dict):
        return {key: _put_back(one, stash) for key, one in value.items()}
    if isinstance(value, list):
        return [_put_back(one, stash) for one in value]
    found = _ARGUMENT.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else stash.get(found[1]).text


def _spelled(value: Any) -> Any:
    """Numbers that JSON does not know, as their names: a stash keeps plain JSON."""
    if isinstance(value, dict):
        return {key: _spelled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    is_odd = isinstance(value, float) and value in {float("inf"), -float("inf")}
    return as_text(value) if is_odd else value
