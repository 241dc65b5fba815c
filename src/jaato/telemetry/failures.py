"""Errors as attributes: what kind it was, always; what it said, only where content is wanted."""

from __future__ import annotations

import re
import traceback
from typing import Final

from jaato.exchange import ProviderError
from jaato.telemetry.attributes import Attribute, clean_text
from jaato.telemetry.conventions import (
    ERROR_CODE,
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    EXCEPTION_TYPE,
    OTHER_ERROR,
    RESPONSE_STATUS,
)

_FRAMES: Final = 64
_LONGEST_STACK: Final = 16_384
_CODE: Final = re.compile(r"[\w.-]{1,64}")
_NAME: Final = re.compile(r"((?:\w+\.)*[A-Z]\w*(?:Error|Exception)|timeout)(?::|$)")
_CANCELLED: Final = re.compile(
    r"((?:\w+\.)*(?:CancelledError|KeyboardInterrupt|GeneratorExit)|cancelled|interrupted)(?::|$)"
)


def type_of(error: BaseException) -> str:
    """The name of its class, with the module where that is not Python's own."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def type_named(text: str) -> str:
    """The kind of error that a sentence such as `ServerError: …` begins with, or `_OTHER`.

    Anything else it says is no name: names are few, and sentences may quote a prompt.
    """
    found = _NAME.match(text[:256])
    return found[1] if found else OTHER_ERROR


def is_cancellation(error: object) -> bool:
    """Whether somebody stopped it, which is no error: by the exception, or a text that names it."""
    if isinstance(error, BaseException):
        return not isinstance(error, Exception)
    return isinstance(error, str) and _CANCELLED.match(error[:256]) is not None


def message_of(error: BaseException) -> str:
    """What it says; its class where saying it fails."""
    try:
        return clean_text(str(error))
    except Exception:  # noqa: BLE001 -- an exception's `__str__` is foreign code
        return type_of(error)


def provider_facts(error: BaseException) -> dict[str, Attribute]:
    """Status and code, of an error that a provider answered with."""
    facts: dict[str, Attribute] = {}
    if isinstance(error, ProviderError):
        if type(error.status) is int:
            facts[RESPONSE_STATUS] = error.status
        # A code is a word of few; what is longer is a message in the wrong place.
        if isinstance(error.code, str) and _CODE.fullmatch(error.code):
            facts[ERROR_CODE] = error.code
    return facts


def exception_facts(error: BaseException, *, with_message: bool) -> dict[str, Attribute]:
    """The attributes of an `exception` event.

    Without the message a stack is the list of places: a source line may hold a prompt too.
    """
    facts: dict[str, Attribute] = {EXCEPTION_TYPE: type_of(error)}
    if with_message:
        facts[EXCEPTION_MESSAGE] = message_of(error)
        stack = "".join(traceback.format_exception(error, limit=-_FRAMES))
    else:
        places = traceback.StackSummary.extract(
            traceback.walk_tb(error.__traceback__), limit=-_FRAMES, lookup_lines=False
        )
        stack = "".join(f'File "{at.filename}", line {at.lineno}, in {at.name}\n' for at in places)
    if stack:
        facts[EXCEPTION_STACKTRACE] = clean_text(stack, _LONGEST_STACK)
    return facts
