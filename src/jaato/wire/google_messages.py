"""Messages as the contents of a Gemini request and back, in the order that the API accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from jaato.errors import UsageError
from jaato.history import Media, Message, Part, Role
from jaato.wire.foreign import is_opaque
from jaato.wire.google_parts import (
    KEY,
    Asked,
    decode_part,
    difference,
    encode_media,
    encode_part,
    kept,
    laid_over,
    spelled,
    spelled_part,
)
from jaato.wire.google_rules import generation

_HINT: Final = "contents are objects of a role and a list of parts, which are objects"
_TOOL_ROLES: Final = ("function", "tool")
_MEDIA_GENERATION: Final = 3
"""The first models that take media inside a response; to the others it is shown afterwards."""
_MEDIA_IN_RESPONSES: Final = frozenset(
    {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
)


def encode_messages(messages: Iterable[Message], model: str = "") -> list[dict[str, Any]]:
    """The contents of a request; for models before Gemini 3, say which `model` it is."""
    writer = _Writer(model)
    for message in messages:
        writer.write(message)
    return writer.finished()


def decode_messages(contents: Iterable[Any]) -> list[Message]:
    """The messages that contents hold; results of tools are in messages of their own role."""
    reader = _Reader()
    return [reader.read(content) for content in contents]


class _Calls:
    """The calls that wait for their results."""

    def __init__(self) -> None:
        self._open: list[Asked] = []
        self._count = 0

    def forget(self) -> None:
        """A new step begins."""
        self._open.clear()

    def ask(self, call_id: str, name: str, *, sends_id: bool) -> None:
        self._open.append(Asked(call_id, name, sends_id, self._count))
        self._count += 1

    def answer(self, call_id: str, name: str) -> Asked | None:
        """The call of a result of ours: the first one of its id, best of its name too."""
        return self._take(
            lambda one: (one.call_id, one.name) == (call_id, name),
            lambda one: one.call_id == call_id,
        )

    def answer_on_wire(self, call_id: str, name: str) -> Asked | None:
        """The call of a foreign result, which may lack the id: then by name and place."""
        return self._take(
            lambda one: bool(call_id) and (one.call_id, one.name) == (call_id, name),
            lambda one: bool(call_id) and one.call_id == call_id,
            lambda one: one.name == name and not (call_id and one.call_id),
        )

    def _take(self, *tests: Any) -> Asked | None:
        for test in tests:
            for at, one in enumerate(self._open):
                if test(one):
                    return self._open.pop(at)
        return None


class _Writer:
    """Joins what the API wants in one content: all of a step's calls, and all of its results.

    A message that came from the wire is a content of its own, as it was. A tool that another
    provider ran inside its message becomes a call and a response, each in its turn.
    """

    def __init__(self, model: str) -> None:
        number = generation(model)
        self._nests_media = number is None or number >= _MEDIA_GENERATION
        self._contents: list[dict[str, Any]] = []
        self._calls = _Calls()
        self._after_model = False
        self._kind = ""  # of the last content, if more may join it
        self._order: list[int | None] = []  # of its responses: the place of a call without id
        self._beside: list[dict[str, Any]] = []

    def write(self, message: Message) -> None:
        """Append what a message says, if anything of it is sent."""
        from_model = message.role is Role.MODEL
        if from_model and not self._after_model:
            self._calls.forget()
        self._after_model = from_model
        over = kept(message.extra)
        if over is not None:
            self._close()
            parts = [wire for part in message.parts if (wire := self._encoded(part)[0]) is not None]
            self._contents.append(laid_over(_content(message.role, parts), over))
        elif from_model:
            for is_result, run in groupby(message.parts, _is_result):
                self._add("results" if is_result else "model", run)
        else:
            self._add("results" if any(map(_is_result, message.parts)) else "user", message.parts)

    def finished(self) -> list[dict[str, Any]]:
        """All contents."""
        self._close()
        return self._contents

    def _add(self, kind: str, parts: Iterable[Part]) -> None:
        beside: list[dict[str, Any]] = []
        encoded = [self._encoded(self._nested(part, beside)) for part in parts]
        sent = [(wire, place) for wire, place in encoded if wire is not None]
        if not sent:
            return
        if kind == "user" or kind != self._kind:
            self._close()
            self._contents.append(_content(Role.MODEL if kind == "model" else Role.USER, []))
            self._kind = kind
        self._contents[-1]["parts"] += [wire for wire, _ in sent]
        self._order += [place for _, place in sent]
        self._beside += beside

    def _encoded(self, part: Part) -> tuple[dict[str, Any] | None, int | None]:
        """The JSON of a part and, for a result that is found by its place alone, that place."""
        call, result = part.function_call, part.function_response
        if result is not None:
            asked = self._calls.answer(result.call_id, result.name)
            by_place = asked is not None and not asked.sends_id
            return encode_part(part, asked=asked), asked.at if asked and by_place else None
        wire = encode_part(part)
        if call is not None and wire is not None:
            sends_id = "id" in wire["functionCall"]
            self._calls.ask(call.id, call.name, sends_id=sends_id)
        return wire, None

    def _nested(self, part: Part, beside: list[dict[str, Any]]) -> Part:
        """The part with the media that may stand in a response; what may not goes to `beside`."""
        result = part.function_response
        if result is None or all(map(self._is_nested, result.attachments)):
            return part
        stays = tuple(media for media in result.attachments if self._is_nested(media))
        goes = [media for media in result.attachments if not self._is_nested(media)]
        beside.append({"text": f"Attached to the result of {result.name}:"})
        beside += [{"inlineData": encode_media(media)} for media in goes]
        return replace(part, function_response=replace(result, attachments=stays))

    def _is_nested(self, media: Media) -> bool:
        # What is opaque is not sent at all.
        return is_opaque(media) or (self._nests_media and media.mime_type in _MEDIA_IN_RESPONSES)

    def _close(self) -> None:
        if self._kind == "results":
            parts = self._contents[-1]["parts"]
            places = [at for at, place in enumerate(self._order) if place is not None]
            ranked = sorted(places, key=lambda at: self._order[at] or 0)
            for at, wire in zip(places, [parts[at] for at in ranked], strict=True):
                parts[at] = wire
            # Beside the responses they would be taken for one too many of them.
            if self._beside:
                self._contents.append(_content(Role.USER, self._beside))
        self._kind, self._order, self._beside = "", [], []


class _Reader:
    """Contents one after another; what the writer would not write by itself is marked."""

    def __init__(self) -> None:
        self._calls = _Calls()
        self._kind = ""

    def read(self, content: Any) -> Message:
        """The message that a content is."""
        if not isinstance(content, Mapping):
            raise UsageError(f"a content is an object, not {_kind_of(content)}", hint=_HINT)
        fields = spelled(content)
        wires = _parts(fields.get("parts"))
        has_results = any(isinstance(wire.get("functionResponse"), Mapping) for wire in wires)
        from_model = fields.get("role") == "model"
        if from_model and self._kind != "model":
            self._calls.forget()
        parts: list[Part] = []
        places: list[int] = []
        for wire in wires:
            part, place = self._decoded(wire)
            parts.append(part)
            places += [] if place is None else [place]
        if from_model:
            role, kind = Role.MODEL, "model"
        elif has_results or fields.get("role") in _TOOL_ROLES:
            role, kind = Role.TOOL, "results" if has_results else "user"
        else:
            role, kind = Role.USER, "user"
        if fields.get("parts") is not None:
            fields["parts"] = wires
        over = difference(_content(role, wires), fields)
        joins = kind != "user" and kind == self._kind
        splits = from_model and has_results
        sorts = places != sorted(places)
        self._kind = kind
        if over or not parts or joins or splits or sorts or not all(map(_stays_nested, parts)):
            return Message(role, parts, extra={KEY: over})
        return Message(role, parts)

    def _decoded(self, wire: Mapping[str, Any]) -> tuple[Part, int | None]:
        """A part and, for a response that is found by its place alone, that place."""
        response = wire.get("functionResponse")
        if isinstance(response, Mapping):
            call_id, name = response.get("id"), response.get("name")
            asked = self._calls.answer_on_wire(_text(call_id), _text(name))
            by_place = asked is not None and not asked.sends_id
            return decode_part(wire, asked=asked), asked.at if asked and by_place else None
        part = decode_part(wire)
        if part.function_call is not None:
            call = part.function_call
            self._calls.ask(call.id, call.name, sends_id="id" in wire["functionCall"])
        return part, None


def _content(role: Role, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "model" if role is Role.MODEL else "user", "parts": parts}


def _parts(wires: Any) -> list[dict[str, Any]]:
    if wires is None:
        return []
    if not isinstance(wires, list):
        raise UsageError(f"`parts` is a list, not {_kind_of(wires)}", hint=_HINT)
    for wire in wires:
        if not isinstance(wire, Mapping):
            raise UsageError(f"a part is an object, not {_kind_of(wire)}", hint=_HINT)
    return [spelled_part(wire) for wire in wires]


def _is_result(part: Part) -> bool:
    return part.function_response is not None


def _stays_nested(part: Part) -> bool:
    result = part.function_response
    return result is None or all(m.mime_type in _MEDIA_IN_RESPONSES for m in result.attachments)


def _kind_of(value: Any) -> str:
    return f"a {type(value).__name__}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
