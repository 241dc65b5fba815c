"""`recall` for the model: what left its window comes back, by handle, words, file or turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jaato.exchange import ToolOutput, ToolSchema
from jaato.gc.fitting import fit
from jaato.history import Media
from jaato.history.codec import from_dict
from jaato.kept import Entry, Filter, Hit, Record, StashError
from jaato.ports import Stash, TokenCounter
from jaato.session.keeping import Keeper
from jaato.session.leaving import WHOLE

RECALL: Final = "recall"
PAGE_CHARS: Final = 8_000
MOST_FOUND: Final = 8
MOST_LISTED: Final = 400
_SHORTEST_PAGE: Final = 32
_SHOWN_CHARS: Final = 160

_BY_HANDLE: Final[dict[str, Any]] = {
    "handle": {"type": "string", "description": 'What stands in recall("…").'},
    "offset": {
        "type": "integer",
        "minimum": 0,
        "description": "The character to begin with, for a further page.",
    },
}
_BY_SEARCH: Final[dict[str, Any]] = {
    "query": {"type": "string", "description": "Words, names or a line that it contained."},
    "file": {"type": "string", "description": "The path of a file that it was about."},
    "turn": {
        "type": "integer",
        "minimum": 0,
        "description": "The turn of the conversation that it was in, from 0.",
    },
}


class RecallTool:
    """Brings back what a stub names by its handle, and finds what nothing names any more."""

    discoverable = False
    timeout: float | None = None

    def __init__(
        self,
        keeper: Keeper,
        counter: TokenCounter,
        largest: Callable[[], int],
        *,
        session_id: str,
        can_search: bool,
    ) -> None:
        self._keeper = keeper
        self._counter = counter
        self._largest = largest
        """The tokens of a result that is not shortened at once."""
        self._session_id = session_id
        self.schema = _schema(can_search=can_search)

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """One page of a text and where the next one begins, or what was found."""
        wrong = _wrong(arguments)
        if wrong is not None:
            return ToolOutput(result=wrong, is_error=True)
        try:
            return await asyncio.to_thread(self._called, arguments)
        except StashError as error:
            return ToolOutput(result=str(error), is_error=True)

    def _called(self, arguments: Mapping[str, Any]) -> ToolOutput:
        offset = max(arguments.get("offset") or 0, 0)
        # What is not wanted some models leave blank.
        handle, query, file = (
            (arguments.get(key) or "").strip() for key in ("handle", "query", "file")
        )
        if handle:
            return self._by_handle(handle, offset)
        stash = self._keeper.stash
        if stash is None:
            return ToolOutput(result="give the handle that stands in its place", is_error=True)
        where = Filter(session=self._session_id, file=file or None, turn=arguments.get("turn"))
        if not query and where == Filter(session=self._session_id):
            wrong = "one of 'handle', 'query', 'file' and 'turn' is needed"
            return ToolOutput(result=wrong, is_error=True)
        return self._found(stash, query, where, offset)

    def _by_handle(self, handle: str, offset: int) -> ToolOutput:
        found = self._keeper.found(handle)
        if found is None:
            return ToolOutput(result=f"nothing is kept under {handle!r:.80}", is_error=True)
        text, record = found
        attachments = () if offset or record is None else attachments_of(record)
        return self._page(text, offset, attachments)

    def _found(self, stash: Stash, query: str, where: Filter, offset: int) -> ToolOutput:
        if query:
            found: Sequence[Hit | Entry] = stash.search(query, where, MOST_FOUND)
        else:
            # The last one first: of a file that is the newest reading.
            found = stash.entries(where, MOST_LISTED)
        if not found:
            return ToolOutput(result="nothing of that kind has left the window", is_error=True)
        if len(found) == 1:
            entry = found[0].entry if isinstance(found[0], Hit) else found[0]
            return self._by_handle(entry.handle, offset)
        lines = [_line(one) for one in found]
        return self._page("\n".join(lines), offset)

    def _page(self, text: str, begin: int, attachments: tuple[Media, ...] = ()) -> ToolOutput:
        if begin and begin >= len(text):
            return ToolOutput(result=f"the text has only {len(text):,} characters", is_error=True)

        def compose(room: int) -> str:
            end = begin + max(room, _SHORTEST_PAGE)
            left = len(text) - end
            more = f"\n[{left:,} characters more: offset={end}]" if left > 0 else ""
            return text[begin:end] + more

        most = min(PAGE_CHARS, len(text) - begin)
        found = fit(compose, counter=self._counter, limit=self._largest(), most=most)
        page = compose(0) if found is None else found[1]
        return ToolOutput(result=page, attachments=attachments)


def attachments_of(record: Record) -> tuple[Media, ...]:
    """The pictures and files that went with what a record keeps."""
    whole = record.extra.get(WHOLE)
    if not isinstance(whole, Mapping):
        return ()
    try:
        message = from_dict(whole)
    except (ValueError, KeyError, TypeError):
        return ()
    found: list[Media] = []
    for part in message.parts:
        if part.inline_data is not None:
            found.append(part.inline_data)
        elif part.function_response is not None:
            found += part.function_response.attachments
    return tuple(found)


def _line(found: Hit | Entry) -> str:
    """One line of a list: the handle, what it is, and a glimpse of it."""
    if isinstance(found, Hit):
        entry, shown = found.entry, found.excerpt
    else:
        entry, shown = found, found.about.label
    about = entry.about
    what = [about.type, about.tool, *about.files[:1]]
    if about.turn is not None:
        what.append(f"turn {about.turn}")
    if about.tokens is not None:
        what.append(f"{about.tokens:,} tokens")
    glimpse = " ".join(shown.split())[:_SHOWN_CHARS]
    return f'recall("{entry.handle}"): {", ".join(filter(None, what))}: {glimpse}'


def _schema(*, can_search: bool) -> ToolSchema:
    description = (
        "Bring back the full text of what left the window or was shortened, by the handle that "
        "stands in its place"
    )
    properties = dict(_BY_HANDLE)
    if can_search:
        description += ", or find it by words, by file or by turn"
        properties |= _BY_SEARCH
    return ToolSchema(
        name=RECALL,
        description=f"{description}.",
        parameters={
            "type": "object",
            "properties": properties,
            "required": [] if can_search else ["handle"],
            "additionalProperties": False,
        },
    )


def _wrong(arguments: Mapping[str, Any]) -> str | None:
    for key in ("handle", "query", "file"):
        if not isinstance(arguments.get(key), str | None):
            return f"argument {key!r} is a text"
    for key in ("offset", "turn"):
        value = arguments.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            return f"argument {key!r} is a whole number"
    return None
