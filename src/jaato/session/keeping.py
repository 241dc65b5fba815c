"""Nothing leaves a window before it is kept: in the stash, or without one in the session's log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from jaato.errors import UsageError
from jaato.events import Noticed
from jaato.gc.config import GCConfig
from jaato.gc.result import GCResult
from jaato.gc.stub_lines import StubContent, shown_of
from jaato.history import RECALLED_MARK, STUB_MARK, Message
from jaato.kept import Record, StashError, StashWriteError, UnknownHandleError
from jaato.ports import Stash
from jaato.session.emitter import Emitter, told
from jaato.session.leaving import (
    Leaving,
    argument_record,
    handle_of,
    leaving,
    plain,
    result_record,
)
from jaato.session.shorten import result_text, stub_text, with_result
from jaato.session.state import State
from jaato.tokens import message_tokens

REQUIRED: Final = "required"
OFF: Final = "off"


class Keeper:
    """Keeps what leaves one session's window, and gives it back.

    `rules` say whether it must be kept in the stash (`required`), should be (`best_effort`), or is
    left to the session's log (`off`).
    """

    def __init__(
        self,
        state: State,
        emitter: Emitter,
        stash: Callable[[], Stash | None],
        rules: Callable[[], GCConfig],
    ) -> None:
        self._state = state
        self._emitter = emitter
        self._open = stash
        self._rules = rules

    # Giving back

    def get(self, handle: str) -> str | None:
        """The text behind a handle; None where there is none. Raises `StashError`."""
        found = self.found(handle)
        return None if found is None else found[0]

    def found(self, handle: str) -> tuple[str, Record | None] | None:
        """The text behind a handle, and its record where the stash has it."""
        # The log is this session's own; a name in the stash may come from anywhere.
        text = self._state.get(handle)
        if text is not None:
            return text, None
        stash = self.stash
        if stash is None:
            return None
        try:
            record = stash.get(handle)
        except UnknownHandleError:
            return None
        return record.text, record

    @property
    def stash(self) -> Stash | None:
        """The stash; None where there is none. Raises `StashError` where it cannot be opened."""
        try:
            return self._open()
        except StashError:
            raise
        except Exception as error:
            raise StashError(
                f"the stash cannot be opened: {told(error)}", hint="nothing was kept, or lost"
            ) from error

    # Keeping a result, or an argument, that is made shorter

    def result(self, message: Message, at: int) -> str:
        """Keep one result of a message; its handle."""
        part = message.parts[at]
        result = part.function_response
        assert result is not None
        known = handle_of(part)
        if known is not None:
            return known
        return self._kept(result_record(self._state, message, at))

    def argument(self, message: Message, tool: str, text: str) -> str:
        """Keep what a call in a message was given; its handle."""
        return self._kept(argument_record(self._state, message, tool, text))

    def _kept(self, record: Record) -> str:
        try:
            stash = self._wanted
            if stash is not None:
                return _put(stash, [record])[0]
        except StashError as error:
            self._bear(error)
        return self._state.put(record.text, label=record.tool)

    @property
    def _wanted(self) -> Stash | None:
        return None if self._rules().stash == OFF else self.stash

    def _bear(self, error: StashError) -> None:
        """Go on without the stash, if that is allowed."""
        if self._rules().stash == REQUIRED:
            raise error
        text = f"what leaves the window is not in the stash: {told(error)}"
        self._emitter.emit(Noticed(agent_id=self._emitter.agent_id, text=text))

    # Keeping what a collection removes

    def write_stub(self, message: Message, at: int, tokens: int) -> tuple[str, object]:
        """What a strategy leaves in the place of a result: decided before anything is kept."""
        part = message.parts[at]
        result = part.function_response
        assert result is not None
        handle, text = handle_of(part), result_text(part)
        if not text and not result.attachments:
            return text, True
        if handle is None and RECALLED_MARK in part.extra:
            # A list of what there is: whoever needs it asks again.
            return f"[{result.name} result, {tokens:,} tokens, removed]", True
        handle = handle or self._handle_for(message, at)
        line = stub_text(result.name, tokens, handle, is_error=result.is_error)
        shown = shown_of(
            text,
            tokens,
            content=StubContent(self._rules().stub_content),
            counter=self._state.counter,
        )
        return (f"{line}\n{shown}" if shown else line), handle

    async def collected(
        self, before: Sequence[Message], after: list[Message], result: GCResult
    ) -> tuple[list[Message], GCResult]:
        """Keep what a collection takes away; the history with the handles that it has now.

        Raises `StashError` where it cannot be kept and must be: then nothing may be taken away.
        """
        gone = leaving(self._state, before, after)
        if not gone:
            return after, result
        try:
            stash = self._wanted
            if stash is not None:
                records = [one.record for one in gone]
                wishes = [one.handle for one in gone]
                handles = await asyncio.to_thread(_put, stash, records, wishes)
                return self._named(after, result, gone, handles)
        except StashError as error:
            self._bear(error)
        # A message that leaves is in the log anyway; a stub needs a handle for its text.
        stubs = [one for one in gone if one.place is not None]
        handles = [self._state.put(one.record.text, label=one.record.tool) for one in stubs]
        return self._named(after, result, stubs, handles)

    def _named(
        self,
        after: list[Message],
        result: GCResult,
        gone: Sequence[Leaving],
        handles: Sequence[str],
    ) -> tuple[list[Message], GCResult]:
        """The history with the handles that records really have: nearly always those planned."""
        grown = 0
        for one, handle in zip(gone, handles, strict=True):
            if one.place is None or one.handle == handle:
                continue
            at, index = one.place
            message = after[at]
            parts = list(message.parts)
            stub = parts[index]
            text = result_text(stub).replace(f'"{one.handle}"', f'"{handle}"', 1)
            parts[index] = with_result(stub, text, STUB_MARK, handle)
            after[at] = message.with_parts(parts)
            grown += message_tokens(self._state.counter, after[at])
            grown -= message_tokens(self._state.counter, message)
        return after, replace(result, tokens_after=result.tokens_after + grown) if grown else result

    def _handle_for(self, message: Message, at: int) -> str:
        """A name that is short, since it stands in the window, and that nobody guesses."""
        made_of = f"{self._state.session_id} {message.message_id} {at}"
        return f"k{blake2b(made_of.encode(), digest_size=4).hexdigest()}"


def _put(stash: Stash, records: Sequence[Record], wishes: Sequence[str | None] = ()) -> list[str]:
    """Keep records. Whatever stops that, in a stranger's hook or stash too, is `StashError`."""
    try:
        try:
            return stash.put(records, wishes)
        except UsageError:
            return stash.put([plain(record) for record in records], wishes)
    except StashError:
        raise
    except Exception as error:
        raise StashWriteError(
            f"the stash took nothing: {told(error)}", hint="what was kept before is whole"
        ) from error
