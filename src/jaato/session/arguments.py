"""Long arguments of old calls become a line each: what was written to a file need not stay. Pure.

An agent that writes files in one long turn fills its window with what it wrote, and no result of
a tool is large enough to make up for it. The call stays, with its name and its short arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jaato.history import FunctionCall, Message, Part

LONGEST_ARGUMENT: Final = 256
"""Characters. A shorter one is a path or a name, and the line would be as long."""


def argument_text(tokens: int, handle: str) -> str:
    """The line that a long argument leaves behind."""
    return f'[{tokens:,} tokens, left the window: recall("{handle}")]'


def has_long_arguments(message: Message) -> bool:
    """Whether a call in it has something to leave out."""
    return any(_is_long(call.args) for call in message.function_calls)


def with_short_arguments(message: Message, line: Callable[[str, str], str]) -> Message:
    """The message with `line(tool, text)` in the place of each long text in its calls."""
    parts = list(message.parts)
    for at, part in enumerate(parts):
        call = part.function_call
        if call is not None and _is_long(call.args):
            args = _shortened(call.args, call.name, line)
            parts[at] = Part(function_call=FunctionCall(call.id, call.name, args), extra=part.extra)
    return message.with_parts(parts)


def _is_long(value: object) -> bool:
    if isinstance(value, str):
        return len(value) > LONGEST_ARGUMENT
    if isinstance(value, Mapping):
        return any(map(_is_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_long, value))


def _shortened(value: Any, name: str, line: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return line(name, value) if _is_long(value) else value
    if isinstance(value, Mapping):
        return {key: _shortened(one, name, line) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(one, name, line) for one in value]
    return value
