"""An answer of the local model while it grows: bytes in, events out, a message at the end."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Final

from jaato.exchange import (
    CallDelta,
    Finished,
    Request,
    StopReason,
    StreamEvent,
    TextDelta,
    Usage,
)
from jaato.history import FunctionCall, Message, Part, Role
from jaato.providers.local_prompt import CallFinder
from jaato.tokens import as_text

_NUMBERED: Final = re.compile("call_([0-9]{1,9})")


class Answer:
    """An answer that grows: its bytes as events, and at the end its message.

    It is over where the model goes on after its calls: it would make up their results.
    """

    def __init__(self, request: Request) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._finder = CallFinder(after_number=_last_number(request)) if request.tools else None
        self._text = ""
        self._calls: list[FunctionCall] = []
        self.is_over = False

    def take(self, data: bytes, *, final: bool = False) -> Iterator[StreamEvent]:
        """What became certain by these bytes."""
        for part in self._found(self._decoder.decode(data, final=final), final=final):
            if isinstance(part, FunctionCall):
                index = len(self._calls)
                self._calls.append(part)
                yield CallDelta(index, name=part.name)
                yield CallDelta(index, arguments=as_text(part.args))
            elif self._calls:
                self.is_over = self.is_over or not part.isspace()
            else:
                self._text += part
                yield TextDelta(part)

    def finished(self, usage: Usage, *, cut: bool) -> Finished:
        """The end of the stream. `cut`: the model had more to say."""
        parts = [Part(text=self._text)] if self._text else []
        parts += (Part(function_call=call) for call in self._calls)
        stop = StopReason.TOOL_CALLS if self._calls else StopReason.END
        # A history holds no empty message; what says nothing says so.
        message = Message(Role.MODEL, parts or [Part(text="")])
        return Finished(message, usage, StopReason.LENGTH if cut else stop)

    def _found(self, text: str, *, final: bool) -> Iterator[str | FunctionCall]:
        if self._finder is None:
            return iter((text,) if text else ())
        return self._finder.finish(text) if final else self._finder.feed(text)


def _last_number(request: Request) -> int:
    """The highest number of a call that is in the request: some before it may be collected."""
    found = (
        _NUMBERED.fullmatch(call.id)
        for message in request.messages
        for call in message.function_calls
    )
    return max((int(match[1]) for match in found if match), default=0)
