"""What a message costs: everything of it that goes over the wire, counted once, ever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jaato.history import Media, Message
from jaato.ports import TokenCounter
from jaato.tokens.media import media_text, media_tokens

MESSAGE_FRAME = 4
"""Who speaks, and where a message begins and ends."""

CALL_FRAME = 8
"""What a provider writes around the name and the arguments of a call."""

RESULT_FRAME = 8
"""What a provider writes around a result, the id or name of its call included."""

LONG_CHARS = 200_000
"""From here on counting takes about a millisecond, and leaves the event loop."""


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """The tokens of one message."""
    name = counter.name
    tokens = message.tokens_by(name)
    if tokens is None:
        bill = _Bill(message)
        tokens = bill.tokens + sum(counter.count_texts(bill.texts))
        message.remember_tokens(name, tokens)
    return tokens


def history_tokens(counter: TokenCounter, messages: Sequence[Message]) -> int:
    """The tokens of all messages."""
    return sum(count_messages(counter, messages))


def count_messages(counter: TokenCounter, messages: Sequence[Message]) -> list[int]:
    """The tokens of each message; what has not been counted yet is counted in one batch."""
    name = counter.name
    known = [message.tokens_by(name) for message in messages]
    bills = _bills(messages, known)
    if bills:
        _settle(name, bills, counter.count_texts(_texts_of(bills)))
    return _filled(known, bills)


async def acount_messages(counter: TokenCounter, messages: Sequence[Message]) -> list[int]:
    """The same, off the event loop where there is much to count."""
    name = counter.name
    known = [message.tokens_by(name) for message in messages]
    bills = _bills(messages, known)
    texts = _texts_of(bills)
    if sum(map(len, texts)) >= LONG_CHARS:
        import asyncio  # noqa: PLC0415 -- whoever awaits this has loaded it; `import jaato` has not

        _settle(name, bills, await asyncio.to_thread(counter.count_texts, texts))
    elif bills:
        _settle(name, bills, counter.count_texts(texts))
    return _filled(known, bills)


def as_text(value: Any) -> str:
    """What the model reads of arguments or a result: a string as it is, else compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return _spelled(value)


class _Bill:
    """The texts of one message, and its tokens: at first those that need no counting."""

    __slots__ = ("message", "texts", "tokens")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.texts: list[str] = []
        self.tokens = MESSAGE_FRAME
        for part in message.parts:
            if part.text is not None:
                self.texts.append(part.text)
            elif part.thought is not None:
                self.texts.append(part.thought)
            elif part.function_call is not None:
                self.tokens += CALL_FRAME
                self.texts += (part.function_call.name, as_text(part.function_call.args))
            elif part.function_response is not None:
                self.tokens += RESULT_FRAME
                self.texts.append(as_text(part.function_response.result))
                for attachment in part.function_response.attachments:
                    self._add_media(attachment)
            elif part.inline_data is not None:
                self._add_media(part.inline_data)

    def _add_media(self, media: Media) -> None:
        text = media_text(media)
        if text is None:
            self.tokens += media_tokens(media)
        else:
            self.texts.append(text)


def _bills(messages: Sequence[Message], known: list[int | None]) -> list[_Bill]:
    if None not in known:
        return []
    return [_Bill(message) for message, n in zip(messages, known, strict=True) if n is None]


def _texts_of(bills: Sequence[_Bill]) -> list[str]:
    return [text for bill in bills for text in bill.texts]


def _settle(name: str, bills: Sequence[_Bill], counts: Sequence[int]) -> None:
    rest = iter(counts)
    for bill in bills:
        bill.tokens += sum(next(rest) for _ in bill.texts)
        bill.message.remember_tokens(name, bill.tokens)


def _filled(known: list[int | None], bills: Sequence[_Bill]) -> list[int]:
    fresh = iter(bills)
    return [next(fresh).tokens if tokens is None else tokens for tokens in known]


def _spelled(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return object.__repr__(value)
