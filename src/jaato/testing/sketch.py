"""Picture notation: `"u c1 r1 a"` and the messages it stands for, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jaato.errors import UsageError
from jaato.history import (
    STUB_MARK,
    FunctionCall,
    Kind,
    Media,
    Message,
    Part,
    Role,
    ToolResult,
)

LETTERS = "u a m t c r e R E s n"
_ROLES = {
    "u": Role.USER,
    "m": Role.USER,
    "R": Role.USER,
    "E": Role.USER,
    "a": Role.MODEL,
    "t": Role.MODEL,
    "c": Role.MODEL,
    "r": Role.TOOL,
    "e": Role.TOOL,
}
_ROLE_LETTERS = {Role.USER: "u", Role.MODEL: "a", Role.TOOL: "r"}
_KINDS = {"s": Kind.SUMMARY, "n": Kind.NOTICE}
_SEGMENT = re.compile(r"(?P<one>[uamt])\+?|(?P<many>[creRE])(?P<ids>[^+]+)(?:\+|$)")


class SketchError(UsageError):
    """A token that the notation does not know."""

    def __init__(self, token: str, hint: str) -> None:
        super().__init__(f"no message is drawn as {token!r}", hint=hint)
        self.token = token


@dataclass(frozen=True, slots=True)
class Stroke:
    """One part, as drawn: its letter, and the call id where it has one."""

    letter: str
    call_id: str = ""
    is_stub: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One message, as drawn."""

    role: Role
    kind: Kind
    strokes: tuple[Stroke, ...]


def sketch(picture: str, *, words: int = 1, first: int = 0) -> list[Message]:
    """The messages of a picture, one per token; `words` makes every text that long.

    `u` user, `a` model, `m` media, `s` summary, `n` notice; `c1` a call, `c1,2` two in one
    message, `r1` a result, `e1` an error, `R1` and `E1` the same in the user role, `r1~` a stub;
    `t` in front of them a thought; `+` joins what else stands in one message (`c1+r1`, `r1+e2`);
    `_` is the empty call id, and `-u`, `-a`, `-r` are messages without parts.

    Texts are distinct, ids are `m0`, `m1`, … from `first` on.
    """
    return [
        _message(figure, at, words)
        for at, figure in enumerate(map(figure_of, picture.split()), start=first)
    ]


def sketch_of(history: Sequence[Message]) -> str:
    """The picture of a history; drawing it again gives messages of the same shape."""
    return " ".join(map(_token, history))


@lru_cache(maxsize=1024)
def figure_of(token: str) -> Figure:
    """What one token draws."""
    if token in _KINDS:
        return Figure(Role.USER, _KINDS[token], (Stroke("u"),))
    if token.startswith("-"):
        letter = token[1:]
        if letter not in _ROLE_LETTERS.values():
            raise SketchError(token, "messages without parts are -u, -a and -r")
        return Figure(_ROLES[letter], Kind.PLAIN, ())
    if token.endswith("+"):
        raise SketchError(token, "+ joins two parts of one message")
    strokes = tuple(_strokes(token))
    return Figure(_ROLES[strokes[0].letter], Kind.PLAIN, strokes)


def _strokes(token: str) -> Iterator[Stroke]:
    at = 0
    while at < len(token):
        segment = _SEGMENT.match(token, at)
        if segment is None:
            raise SketchError(token, _hint(token[at:]))
        at = segment.end()
        letter = segment["one"]
        if letter:
            yield Stroke(letter)
            continue
        letter = segment["many"]
        for call_id in segment["ids"].split(","):
            is_stub = call_id.endswith("~")
            name = call_id.removesuffix("~")
            if not name:
                raise SketchError(token, "an id is missing; the empty id is written _")
            if is_stub and letter == "c":
                raise SketchError(token, "a result can be a stub, a call cannot")
            yield Stroke(letter, "" if name == "_" else name, is_stub)


def _hint(rest: str) -> str:
    if rest[0] in "creRE":
        return f"{rest[0]} needs the id of its call, as in {rest[0]}1 or {rest[0]}1,2"
    if rest[0] in _KINDS:
        return f"{rest[0]} stands alone"
    return f"the letters are {LETTERS}"


def _message(figure: Figure, at: int, words: int) -> Message:
    parts = [
        _part(stroke, f"{at}.{index}" if index else f"{at}", words)
        for index, stroke in enumerate(figure.strokes)
    ]
    return Message(figure.role, parts, f"m{at}", figure.kind)


def _part(stroke: Stroke, place: str, words: int) -> Part:
    text = " ".join([f"{stroke.letter}{place}", *["word"] * (words - 1)])
    match stroke.letter:
        case "t":
            return Part(thought=text)
        case "m":
            return Part(inline_data=Media("image/png", text.encode()))
        case "c":
            return Part(function_call=FunctionCall(stroke.call_id, "tool", {"input": text}))
        case "r" | "e" | "R" | "E":
            is_error = stroke.letter in "eE"
            if stroke.is_stub:
                stub = ToolResult(stroke.call_id, "tool", "[removed]", is_error=is_error)
                return Part(function_response=stub, extra={STUB_MARK: True})
            return Part(
                function_response=ToolResult(stroke.call_id, "tool", text, is_error=is_error)
            )
        case _:
            return Part(text=text)


def _token(message: Message) -> str:
    if message.kind is Kind.SUMMARY:
        return "s"
    if message.kind is Kind.NOTICE:
        return "n"
    if not message.parts:
        return f"-{_ROLE_LETTERS[message.role]}"
    token = ""
    open_letter = ""  # of the run of ids that the next part may continue
    for part in message.parts:
        letter, call_id = _letter(part, message.role)
        if letter == open_letter:
            token += f",{call_id}"
        else:
            token += "+" if open_letter or (token and not _runs_on(token, letter)) else ""
            token += letter + call_id
            open_letter = letter if call_id else ""
    return token


def _runs_on(token: str, letter: str) -> bool:
    # Thoughts and texts read on without a sign: "tac1", "um". Results never open a model message.
    return letter in "atcum" and token[-1] in "atum"


def _letter(part: Part, role: Role) -> tuple[str, str]:
    """The letter of a part, and its call id as written."""
    if part.function_call is not None:
        return "c", part.function_call.id or "_"
    if part.function_response is not None:
        response = part.function_response
        letter = "e" if response.is_error else "r"
        stub = "~" if STUB_MARK in part.extra else ""
        return letter.upper() if role is Role.USER else letter, (response.call_id or "_") + stub
    if part.thought is not None:
        return "t", ""
    if part.inline_data is not None:
        return "m", ""
    return "a" if role is Role.MODEL else "u", ""
