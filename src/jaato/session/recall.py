"""`recall` for the model: a text that was shortened comes back, page by page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jaato.exchange import ToolOutput, ToolSchema
from jaato.gc.fitting import fit
from jaato.ports import Stash, TokenCounter

RECALL: Final = "recall"
PAGE_CHARS: Final = 8_000
_SHORTEST_PAGE: Final = 32


class RecallTool:
    """Brings back what a stub or a shortened result names by its handle."""

    discoverable = False
    timeout: float | None = None

    schema = ToolSchema(
        name=RECALL,
        description="Bring back the full text of a tool result that left the window or was "
        "shortened, by the handle that stands in its place.",
        parameters={
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "For example r17."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The character to begin with, for a further page.",
                },
            },
            "required": ["handle"],
            "additionalProperties": False,
        },
    )

    def __init__(self, stash: Stash, counter: TokenCounter, largest: Callable[[], int]) -> None:
        self._stash = stash
        self._counter = counter
        self._largest = largest
        """The tokens of a result that is not shortened at once."""

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """One page of the text, and where the next one begins."""
        handle, offset = arguments.get("handle"), arguments.get("offset", 0)
        if not isinstance(handle, str) or isinstance(offset, bool) or not isinstance(offset, int):
            wrong = "argument 'handle' is a text, 'offset' a whole number"
            return ToolOutput(result=wrong, is_error=True)
        text = self._stash.get(handle.strip())
        if text is None:
            return ToolOutput(result=f"nothing is kept under {handle!r:.80}", is_error=True)
        begin = max(offset, 0)
        if begin >= len(text):
            return ToolOutput(result=f"the text has only {len(text):,} characters", is_error=True)
        return ToolOutput(result=self._page(text, begin))

    def _page(self, text: str, begin: int) -> str:
        def compose(room: int) -> str:
            end = begin + max(room, _SHORTEST_PAGE)
            left = len(text) - end
            more = f"\n[{left:,} characters more: offset={end}]" if left > 0 else ""
            return text[begin:end] + more

        most = min(PAGE_CHARS, len(text) - begin)
        found = fit(compose, counter=self._counter, limit=self._largest(), most=most)
        return compose(0) if found is None else found[1]
