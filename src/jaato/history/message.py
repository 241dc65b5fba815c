"""Messages and their parts: the values a history is made of. No behaviour beyond reading them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jaato.errors import UsageError


class _Nothing(Mapping[str, Any]):
    """An empty mapping that nobody can fill, and of which every copy is the same object."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Mapping[str, Any] = _Nothing()
STUB_MARK = "jaato.stub"
"""Key in `Part.extra` of what a stub left behind: such a part is never stubbed again."""
RECALLED_MARK = "jaato.recalled"
"""Key in `Part.extra` of a result that was called back: the first to go again."""

_ROLE_ALIASES = {"assistant": "model", "function": "tool", "human": "user", "ai": "model"}


class Role(StrEnum):
    """Who speaks. Foreign spellings such as `assistant` are understood."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> Role | None:
        alias = _ROLE_ALIASES.get(value) if isinstance(value, str) else None
        if alias is None:
            known = ", ".join([*cls, *_ROLE_ALIASES])
            raise UsageError(f"{value!r} is no role", hint=f"one of {known}")
        return cls(alias)


# What a message is to its history, as bits of `Message.shape`: a collection reads the shapes of
# all messages at once, as bytes, and looks closer only where it must.
OPENS = 1
"""It begins a span: it opens a turn, or is a summary."""
CALLS = 2
"""It calls tools and waits for their answers."""
ANSWERS = 4
"""It holds results of calls in an earlier message."""
EMPTY = 8
"""It has no parts."""
THINKS = 16
"""It holds thoughts."""
FROM_MODEL = 32
"""The model said it."""
MARKED = 64
"""A collection wrote it: a summary or a notice."""


class Kind(StrEnum):
    """Where a message comes from: the conversation, or a collection."""

    PLAIN = "plain"
    SUMMARY = "summary"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes that are not text: an image, a recording, a document."""

    mime_type: str
    data: bytes
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The model asks for a tool. `id` may repeat within a session, or be empty."""

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to the call `call_id`."""

    call_id: str
    name: str
    result: Any = None
    is_error: bool = False
    attachments: tuple[Media, ...] = ()

    def __post_init__(self) -> None:
        if type(self.attachments) is not tuple:
            object.__setattr__(self, "attachments", tuple(self.attachments or ()))


@dataclass(frozen=True, slots=True)
class Part:
    """Exactly one of text, thought, call, result or media.

    `extra` carries what a provider needs back unchanged (a thought's signature, say).
    """

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    inline_data: Media | None = None
    thought: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        given = (
            (self.text is not None)
            + (self.function_call is not None)
            + (self.function_response is not None)
            + (self.inline_data is not None)
            + (self.thought is not None)
        )
        if given != 1:
            raise UsageError(
                f"a part holds exactly one thing, this one holds {given}",
                hint="give one of text, thought, function_call, function_response, inline_data",
            )
        data: object = self.inline_data
        if data is not None and isinstance(data, Mapping):
            object.__setattr__(self, "inline_data", Media(**data))


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """One message of a history; frozen, so that it is counted once and shared by every copy.

    `opens_turn`, `call_ids` (those that wait for an answer), `result_ids` (those that answer an
    earlier message) and `shape` are derived once: a collection looks at every message, and must
    not look into every part.
    """

    role: Role
    parts: tuple[Part, ...]
    message_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    kind: Kind = Kind.PLAIN
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    opens_turn: bool = field(init=False, compare=False, repr=False)
    call_ids: tuple[str, ...] = field(init=False, compare=False, repr=False)
    result_ids: tuple[str, ...] = field(init=False, compare=False, repr=False)
    shape: int = field(init=False, compare=False, repr=False)
    thoughts: int = field(init=False, compare=False, repr=False)
    _count: tuple[str, int] | None = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        role: Role | str,
        parts: Iterable[Part] = (),
        message_id: str | None = None,
        kind: Kind = Kind.PLAIN,
        extra: Mapping[str, Any] = NOTHING,
    ) -> None:
        parts = tuple(parts)
        calls: list[str] = []
        results: list[str] = []
        thoughts = 0
        for part in parts:
            if not isinstance(part, Part):
                raise UsageError(
                    f"the parts of a message are Part objects, not {type(part).__name__}",
                    hint='write Part(text="..."), or Message.from_text(role, "...")',
                )
            if part.function_call is not None:
                calls.append(part.function_call.id)
            elif part.function_response is not None:
                call_id = part.function_response.call_id
                # A tool that the provider runs answers inside the message that calls it.
                if call_id in calls:
                    calls.remove(call_id)
                else:
                    results.append(call_id)
            elif part.thought is not None:
                thoughts += 1
        role = role if type(role) is Role else Role(role)
        # Results of tools never start a turn, whatever role they arrive in.
        opens_turn = role is Role.USER and kind is Kind.PLAIN and not results
        put = object.__setattr__
        put(self, "role", role)
        put(self, "parts", parts)
        put(self, "message_id", message_id or str(uuid.uuid4()))
        put(self, "kind", kind)
        put(self, "extra", extra)
        put(self, "opens_turn", opens_turn)
        put(self, "call_ids", tuple(calls))
        put(self, "result_ids", tuple(results))
        put(
            self,
            "shape",
            (OPENS if opens_turn or kind is Kind.SUMMARY else 0)
            | (CALLS if calls else 0)
            | (ANSWERS if results else 0)
            | (EMPTY if not parts else 0)
            | (THINKS if thoughts else 0)
            | (FROM_MODEL if role is Role.MODEL else 0)
            | (MARKED if kind is not Kind.PLAIN else 0),
        )
        put(self, "thoughts", thoughts)
        put(self, "_count", None)

    def __hash__(self) -> int:
        return hash(self.message_id)

    @classmethod
    def from_text(cls, role: Role | str, text: str) -> Message:
        """A message of one text part."""
        return cls(role, (Part(text=text),))

    @property
    def text(self) -> str:
        """Everything said in it, without thoughts, calls and results."""
        return "".join(part.text for part in self.parts if part.text is not None)

    @property
    def function_calls(self) -> tuple[FunctionCall, ...]:
        """The calls it makes, in order."""
        return tuple(p.function_call for p in self.parts if p.function_call is not None)

    def with_parts(self, parts: Iterable[Part]) -> Message:
        """The same message, by id, with other parts."""
        return Message(self.role, parts, self.message_id, self.kind, self.extra)

    def with_contents(self, parts: tuple[Part, ...]) -> Message:
        """The same message with other contents of the same kinds, call ids and thoughts.

        For stubs, of which a collection makes thousands: nothing is checked or derived again.
        """
        new = object.__new__(Message)
        put = object.__setattr__
        put(new, "role", self.role)
        put(new, "parts", parts)
        put(new, "message_id", self.message_id)
        put(new, "kind", self.kind)
        put(new, "extra", self.extra)
        put(new, "opens_turn", self.opens_turn)
        put(new, "call_ids", self.call_ids)
        put(new, "result_ids", self.result_ids)
        put(new, "shape", self.shape)
        put(new, "thoughts", self.thoughts)
        put(new, "_count", None)
        return new

    def tokens_by(self, counter: str) -> int | None:
        """The count that the counter of this name has left here, if any."""
        count = self._count
        return count[1] if count is not None and count[0] == counter else None

    def remember_tokens(self, counter: str, tokens: int) -> None:
        """Keep a count with the message, so that it is made once, ever."""
        object.__setattr__(self, "_count", (counter, tokens))
