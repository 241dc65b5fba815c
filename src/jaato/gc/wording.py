"""How the parts of a message read as plain text, and how a text is visibly shortened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jaato.history import Media, Part

EXTRACTIVE = "extractive"
"""The name of the built-in summarizer."""
SUMMARY_OPENS = "[Context Summary - Previous conversation compressed]"
SUMMARY_CLOSES = "[End Context Summary]"

LONGEST_SCANNED = 200_000
"""Of a longer text a digest looks at head and tail: it quotes little of it anyway."""


def worded(value: Any) -> str:
    """Arguments or a result: a text as it is, a mapping as `key: value` lines, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is dict or isinstance(value, Mapping):  # A dict says so at once.
        return "\n".join([f"{_foreign(key)}: {_inline(item)}" for key, item in value.items()])
    return _inline(value)


def worded_media(media: Media) -> str:
    """One line that says what the bytes are."""
    named = f" {media.name:.80}" if media.name else ""
    return f"{media.mime_type:.80}{named}, {len(media.data):,} bytes"


def bare_summary(text: str) -> str:
    """A summary without the lines that delimit it in a history."""
    text = text.strip().removeprefix(SUMMARY_OPENS)
    return text.removesuffix(SUMMARY_CLOSES).strip()


def shortened(text: str, room: int) -> str:
    """Head and tail of a text in at most `room` characters, with a line that says what is missing.

    Empty where the line itself has no room.
    """
    if len(text) <= room:
        return text
    missing = f"\n[… {len(text):,} characters left out …]\n"
    half = (room - len(missing)) // 2
    if half <= 0:
        missing = missing.strip()
        return missing if len(missing) <= room else ""
    head, tail = text[:half], text[-half:]
    # A whole line reads better than half of one, where that costs little.
    head = head[: head.rfind("\n", half * 3 // 4) if "\n" in head[half * 3 // 4 :] else half]
    at = tail.find("\n", 0, half // 4) + 1
    tail = tail[at:]
    gone = len(text) - len(head) - len(tail)
    return f"{head}\n[… {gone:,} characters left out …]\n{tail}"


def scanned(text: str) -> str:
    """As much of a text as a digest reads."""
    return shortened(text, LONGEST_SCANNED)


def unescaped(text: str) -> str:
    """An object that was serialised into a text, in its own lines again; other texts unchanged."""
    if not text.startswith("{") or "\\n" not in text:
        return text
    try:
        return worded(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_foreign)
    # Odd keys, cycles, endless nesting, and whatever a foreign __str__ raises.
    except Exception:  # noqa: BLE001 -- a summary never fails for one value
        return f"<{type(value).__name__}>"


def _foreign(value: object) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value):,} bytes>"
    try:
        return str(value)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"


def said(part: Part) -> str:
    """Everything a part says in words; nothing for media."""
    if part.function_call is not None:
        return f"{part.function_call.name}\n{worded(part.function_call.args)}"
    if part.function_response is not None:
        return worded(part.function_response.result)
    return part.text or part.thought or ""
