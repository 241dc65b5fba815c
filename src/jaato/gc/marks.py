"""What a collection writes into a history: summaries, notices, and the line a stub leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from jaato.gc.wording import SUMMARY_CLOSES, SUMMARY_OPENS
from jaato.history import STUB_MARK, Kind, Message, Part, Role, ToolResult


def create_summary_message(summary: str) -> Message:
    """A summary, delimited so that the model knows it for one."""
    text = f"{SUMMARY_OPENS}\n{summary}\n{SUMMARY_CLOSES}"
    return Message(Role.USER, (Part(text=text),), kind=Kind.SUMMARY)


def create_gc_notification_message(text: str) -> Message:
    """A notice to the model that something left its window."""
    return Message(Role.USER, (Part(text=f"[System: {text}]"),), kind=Kind.NOTICE)


WriteStub = Callable[[Message, int, int], tuple[str, object]]
"""Given a message, the position of a result in it and its tokens: what stands in its place, and
what is noted beside it under `STUB_MARK`."""


def stubbed(message: Message, tokens: int, write: WriteStub | None = None) -> Message | None:
    """The message with a line in place of each tool result; None if it has none left to shorten.

    The line names the tool and a rounded size: few distinct lines mean few counts, and nothing
    more is promised, since without a stash nothing can be called back. Who has one writes another.
    """
    old = message.parts
    if write is not None:
        return _written(message, tokens, write)
    if len(old) == 1:  # Nearly always, and a collection may make thousands.
        short = _stub(old[0], _rounded(tokens))
        return None if short is old[0] else message.with_contents((short,))
    results = sum(part.function_response is not None for part in old)
    if not results:
        return None
    share = _rounded(tokens // results)
    parts = tuple([_stub(part, share) for part in old])
    if all(new is before for new, before in zip(parts, old, strict=True)):
        return None
    return message.with_contents(parts)


def _written(message: Message, tokens: int, write: WriteStub) -> Message | None:
    parts = list(message.parts)
    places = [
        at
        for at, part in enumerate(parts)
        if part.function_response is not None and STUB_MARK not in part.extra
    ]
    for at in places:
        result = parts[at].function_response
        assert result is not None
        text, mark = write(message, at, tokens // len(places))
        short = ToolResult(result.call_id, result.name, text, result.is_error)
        parts[at] = Part(function_response=short, extra={**parts[at].extra, STUB_MARK: mark})
    return message.with_contents(tuple(parts)) if places else None


def _stub(part: Part, tokens: int) -> Part:
    result, extra = part.function_response, part.extra
    if result is None or (extra and STUB_MARK in extra):
        return part
    line = _line(result.name, bool(result.is_error), tokens)
    short = ToolResult(result.call_id, result.name, line, result.is_error)
    marked = {**extra, STUB_MARK: True} if extra else {STUB_MARK: True}
    return Part(function_response=short, extra=marked)


@lru_cache(maxsize=4096)
def _line(name: str, is_error: bool, tokens: int) -> str:  # noqa: FBT001 -- the key of a cache
    what = f"{name} error" if is_error else f"{name} result"
    return f"[{what} removed to free context: about {tokens:,} tokens]"


@lru_cache(maxsize=4096)
def _rounded(tokens: int) -> int:
    scale = int(f"1{'0' * max(len(str(tokens)) - 2, 0)}")
    return tokens // scale * scale
