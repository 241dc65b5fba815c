"""The state of one session: each change is written down, then applied, here and nowhere else."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, Protocol, assert_never

from jaato.budget import InstructionBudget, InstructionSource
from jaato.errors import UsageError
from jaato.gc.result import GCResult
from jaato.history import Message
from jaato.ports import TokenCounter
from jaato.session.problems import JournalError
from jaato.session.record import (
    Added,
    Enriched,
    Opened,
    Pinned,
    Record,
    Replaced,
    Reported,
    Reset,
    Stashed,
    Switched,
    SystemSet,
    TakenBack,
    ToolsSet,
    TurnClosed,
    joined,
    pieces_between,
    turn_type_of,
)
from jaato.session.window import Window
from jaato.tokens import message_tokens

Clock = Callable[[], float]
REMEMBERED_RESULTS: Final = 1_000
LARGEST_MEMORY_CHARS: Final = 64_000_000
"""How much stashed text a session without a log keeps."""
_PLUGIN = InstructionSource.PLUGIN


class Log(Protocol):
    """Where records are written before they count."""

    def append(self, record: Record, at: float) -> int:
        """Write a record; where it stands. Raises where that fails: then nothing has happened."""
        ...

    def take_back(self, where: int) -> None:
        """Cut off what was written from there on."""
        ...

    def text_at(self, where: int) -> str | None:
        """The text that was stashed in the record that stands there."""
        ...


class State:
    """Everything that resuming must bring back."""

    def __init__(
        self, opened: Opened, counter: TokenCounter, *, at: float, clock: Clock = time.time
    ) -> None:
        self.opened = opened
        self.counter = counter
        self.clock = clock
        self.provider = opened.provider
        self.pins: tuple[int, ...] = ()
        self.results: deque[GCResult] = deque(maxlen=REMEMBERED_RESULTS)
        self.turn_is_open = False
        self._kept: dict[str, int | str] = {}
        self._handles: dict[bytes, str] = {}
        self._stashed = 0
        self._kept_chars = 0
        self._log: Log | None = None
        # Pins and instructions may be set by another thread than the one that runs the turn.
        self._lock = threading.RLock()
        self.window = self._new_window(at)

    @classmethod
    def replayed(
        cls,
        records: Iterable[tuple[Record, float, int]],
        counter: TokenCounter,
        *,
        clock: Clock = time.time,
    ) -> State:
        """The state that a log leads to. Stop early for an earlier one."""
        stream = iter(records)
        opened, at, _ = next(stream, (None, 0.0, 0))
        if not isinstance(opened, Opened):
            raise UsageError("a session's log begins with the session", hint="is it a whole log?")
        state = cls(opened, counter, at=at, clock=clock)
        for number, (record, written_at, where) in enumerate(stream, start=2):
            try:
                state.apply(record, written_at, where)
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise JournalError(
                    f"line {number} of the log of session {opened.session_id!r} makes no sense "
                    f"there: {error}",
                    hint="the file was changed by something else; earlier lines are whole",
                ) from error
        return state

    def write_to(self, log: Log | None) -> None:
        """Write every change from now on."""
        self._log = log

    @property
    def session_id(self) -> str:
        """The session's name."""
        return self.opened.session_id

    @property
    def history(self) -> list[Message]:
        """The messages that the model will see."""
        return self.window.history

    @property
    def budget(self) -> InstructionBudget:
        """What fills the window."""
        return self.window.budget

    def commit(self, record: Record) -> None:
        """Write a change down, then make it."""
        with self._lock:
            at, log = self.clock(), self._log
            if log is None:
                self.apply(record, at)
                return
            where = log.append(record, at)
            try:
                self.apply(record, at, where)
            except Exception:
                # A line that cannot be applied would make the whole log unreadable.
                log.take_back(where)
                raise

    def add(self, message: Message, turn_type: str | None = None) -> None:
        """Take a message in."""
        tokens = message_tokens(self.counter, message)
        self.commit(Added(message=message, tokens=tokens, turn_type=turn_type))

    def replace(self, after: Sequence[Message], result: GCResult) -> None:
        """Take what an edit left."""
        self.commit(Replaced(pieces=pieces_between(self.history, after), result=result))

    def apply(self, record: Record, at: float, where: int | None = None) -> None:  # noqa: C901, PLR0912 -- a closed set, a line or two each
        """Make a change that is written down (in the log, at `where`)."""
        window = self.window
        match record:
            case Opened():
                raise UsageError("a session is opened once", hint="is the log two logs in one?")
            case Added(message=message, tokens=tokens):
                if self.opened.counter == self.counter.name:
                    message.remember_tokens(self.counter.name, tokens)
                window.add(message, turn_type=turn_type_of(record), at=at)
                self.turn_is_open = True
            case TakenBack():
                window.take_back()
                self.turn_is_open = False
            case Replaced(pieces=pieces, result=result):
                window.replace(joined(self.history, pieces), result, at=at)
                self.results.append(result)
            case SystemSet(texts=texts):
                window.set_system(texts, at=at)
            case Enriched(texts=texts):
                window.set_enrichment(texts, at=at)
            case ToolsSet(tokens=schemas):
                window.set_tools(schemas, at=at)
            case Reported(reported=reported, counted=counted, thinking=thinking):
                window.observe(reported, counted, thinking=thinking)
            case Switched(provider=provider, model=model, limit=limit):
                self.provider = provider
                if model == window.model:
                    window.set_limit(limit)
                else:
                    window.switch(model, limit)
            case Pinned(turns=turns):
                self.pins = turns
            case Stashed(handle=handle, text=text):
                self._handles[_digest(text)] = handle
                self._keep(handle, text if where is None else where)
            case TurnClosed():
                self.turn_is_open = False
            case Reset():
                self._reset(at)
            case _:
                assert_never(record)

    def put(self, text: str, *, label: str = "") -> str:
        """Keep the full text of what will be shortened; the handle brings it back."""
        digest = _digest(text)
        with self._lock:
            known = self._handles.get(digest)
            if known is not None and known in self._kept:
                return known
            # Short, since it stands in the window for as long as the stub does.
            handle = f"r{self._stashed + 1}"
            self.commit(Stashed(handle=handle, text=text, label=label))
        return handle

    def get(self, handle: str) -> str | None:
        """The text behind a handle; None where there is none."""
        kept = self._kept.get(handle)
        if isinstance(kept, int):
            return None if self._log is None else self._log.text_at(kept)
        return kept

    def _keep(self, handle: str, kept: int | str) -> None:
        """With a log its place is enough; without one the oldest texts go, so memory is bounded."""
        self._kept[handle] = kept
        self._stashed += 1
        if isinstance(kept, str):
            self._kept_chars += len(kept)
        while self._kept_chars > LARGEST_MEMORY_CHARS and len(self._kept) > 1:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._kept_chars -= len(oldest) if isinstance(oldest, str) else 0

    def _new_window(self, at: float) -> Window:
        opened = self.opened
        return Window(
            opened.session_id,
            agent_id=opened.agent_id,
            counter=self.counter,
            model=opened.model,
            limit=opened.limit,
            at=at,
        )

    def _reset(self, at: float) -> None:
        old, new = self.window, self._new_window(at)
        new.switch(old.model, old.limit)
        new.set_system(old.system, at=at)
        new.set_tools(old.tools_in_budget(), at=at)
        self.window = new
        self.pins = ()
        self.results.clear()
        self.turn_is_open = False
        # Handles are numbered on: one of a forgotten conversation never means a new text.
        self._kept.clear()
        self._handles.clear()
        self._kept_chars = 0


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
