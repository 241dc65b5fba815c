"""`recall` for the model: a text that was shortened comes back, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaato.exchange import ToolOutput, ToolSchema
from jaato.ports import Stash

PAGE_CHARS: Final = 8_000


class RecallTool:
    """Brings back what a stub or a shortened result names by its handle."""

    discoverable = False
    timeout: float | None = None

    schema = ToolSchema(
        name="recall",
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

    def __init__(self, stash: Stash) -> None:
        self._stash = stash

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """One page of the text, and where the next one begins."""
        handle, offset = arguments.get("handle"), arguments.get("offset", 0)
        if not isinstance(handle, str) or isinstance(offset, bool) or not isinstance(offset, int):
            wrong = "argument 'handle' is a text, 'offset' a whole number"
            return ToolOutput(result=wrong, is_error=True)
        text = self._stash.get(handle.strip())
        if text is None:
            return ToolOutput(result=f"nothing is kept under {handle!r:.80}", is_error=True)
        page = text[max(offset, 0) : max(offset, 0) + PAGE_CHARS]
        if not page:
            return ToolOutput(result=f"the text has only {len(text):,} characters", is_error=True)
        after = max(offset, 0) + len(page)
        if after < len(text):
            page += f"\n[{len(text) - after:,} characters more: offset={after}]"
        return ToolOutput(result=page)
