"""Parts of a Gemini content as JSON and back; what a foreign part says beyond a `Part` is kept.

What is kept stands in `extra["google"]`: the fields to lay over what this codec writes by itself,
and under `WITHOUT` the names of those to leave out. Whatever carries it came from the wire, and
goes back exactly as it came.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from jaato.history import FunctionCall, Media, Part, ToolResult
from jaato.wire.foreign import is_opaque, opaque, opaque_in

KEY: Final = "google"
"""Where `extra` holds what only this codec understands."""
WITHOUT: Final = "jaato.without"
"""Key for the names of fields that the foreign JSON did not have."""
BARE: Final = "bare"
"""In place of a response: the result is all of it, and stands in no wrapping of ours."""

# The API reads both spellings of each; we write the first one.
_FIELDS = """
    cachedContent candidateCount codeExecutionResult displayName executableCode fileData fileUri
    functionCall functionDeclarations functionResponse generationConfig googleSearch inlineData
    maxOutputTokens mediaResolution mimeType parametersJsonSchema responseJsonSchema
    responseMimeType responseModalities responseSchema safetySettings stopSequences
    systemInstruction thinkingConfig thoughtSignature toolConfig topK topP videoMetadata
"""
_SPELLINGS = {
    re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _FIELDS.split()
}
_NESTED = ("fileData", "functionCall", "functionResponse", "inlineData")


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that an answer belongs to. `sends_id`: the wire has its id."""

    call_id: str
    name: str
    sends_id: bool
    at: int


def kept(extra: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What an `extra` keeps of foreign JSON; None where the thing is our own."""
    over = extra.get(KEY)
    return over if isinstance(over, Mapping) else None


def spelled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with every field of ours in camelCase; other keys stay."""
    result = {}
    for key, value in fields.items():
        name = _SPELLINGS.get(key, key)
        result[key if name in fields else name] = value
    return result


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """What must be laid over `ours` to get `theirs`."""
    over: dict[str, Any] = {}
    for key, value in theirs.items():
        mine = ours.get(key)
        if key in ours and isinstance(mine, Mapping) and isinstance(value, Mapping):
            if inner := difference(mine, value):
                over[key] = inner
        elif key not in ours or mine != value:
            over[key] = value
    if missing := [key for key in ours if key not in theirs]:
        over[WITHOUT] = missing
    return over


def laid_over(ours: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`ours` with what `difference` found."""
    missing = over.get(WITHOUT, ())
    result = {key: value for key, value in ours.items() if key not in missing}
    for key, value in over.items():
        if key == WITHOUT:
            continue
        mine = result.get(key)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            result[key] = laid_over(mine, value)
        else:
            result[key] = value
    return result


def encode_part(part: Part, *, asked: Asked | None = None) -> dict[str, Any] | None:
    """The JSON of a part. `asked` is the call that a result answers.

    None for what is not sent: empty texts, thoughts that are output, and what only another
    provider understands.
    """
    if part.inline_data is not None and is_opaque(part.inline_data):
        document = opaque_in(KEY, part.inline_data)
        return dict(document) if isinstance(document, Mapping) else None
    over = _overlay(part)
    if over is None:
        sent = part.thought is None and part.text != ""
        return _ours(part, asked, bare=False) if sent else None
    inner, result = over.get("functionResponse"), part.function_response
    bare = False
    if isinstance(inner, Mapping) and inner.get("response") == BARE:
        over = {**over, "functionResponse": {k: v for k, v in inner.items() if k != "response"}}
        # Whoever put a text in place of the result could not know that it needs a wrapping.
        bare = result is not None and isinstance(result.result, Mapping)
    return laid_over(_ours(part, asked, bare=bare), over)


def decode_part(
    wire: Mapping[str, Any], *, asked: Asked | None = None, answer: bool = False
) -> Part:
    """The part in a request, or in an `answer`: there a thought without a signature is output only.

    What is of no kind of ours becomes an opaque medium: counted, and sent back as it is.
    """
    wire = spelled_part(wire)
    part, bare = _part(wire, asked)
    if part.inline_data is not None and is_opaque(part.inline_data):
        return part
    over = difference(_ours(part, asked, bare=bare), wire)
    if bare:
        over["functionResponse"] = {**over.get("functionResponse", {}), "response": BARE}
    if answer:
        keeps = bool(over) and (part.thought is None or "thoughtSignature" in over)
    else:
        # Without a sign of where they come from these would not be sent back.
        keeps = bool(over) or part.thought is not None or part.text == ""
    return replace(part, extra={KEY: over}) if keeps else part


def spelled_part(wire: Mapping[str, Any]) -> dict[str, Any]:
    """A part with the fields of ours, its nested ones too, in camelCase."""
    part = spelled(wire)
    for key in _NESTED:
        if isinstance(part.get(key), Mapping):
            part[key] = spelled(part[key])
    response = part.get("functionResponse")
    if isinstance(response, dict) and isinstance(response.get("parts"), list):
        response["parts"] = [
            spelled_part(one) if isinstance(one, Mapping) else one for one in response["parts"]
        ]
    return part


def encode_media(media: Media) -> dict[str, Any]:
    """A blob: bytes in base64, by type, with a name if there is one."""
    blob = {"mimeType": media.mime_type, "data": base64.b64encode(media.data).decode("ascii")}
    return {**blob, "displayName": media.name} if media.name else blob


def _overlay(part: Part) -> Mapping[str, Any] | None:
    over = kept(part.extra)
    if over is None or part.function_response is None:
        return over
    inner = over.get("functionResponse")
    if not isinstance(inner, Mapping) or not any(key.startswith("jaato.") for key in part.extra):
        return over
    # A mark of ours says that the result was cut or stubbed: nothing brings back what it was.
    stays = {key: value for key, value in inner.items() if key not in ("response", "parts")}
    if WITHOUT in stays:
        stays[WITHOUT] = [key for key in stays[WITHOUT] if key != "response"]
    return {**over, "functionResponse": stays}


def _ours(part: Part, asked: Asked | None, *, bare: bool) -> dict[str, Any]:
    if part.text is not None:
        return {"text": part.text}
    if part.thought is not None:
        return {"text": part.thought, "thought": True}
    if part.inline_data is not None:
        return {"inlineData": encode_media(part.inline_data)}
    if part.function_call is not None:
        call = part.function_call
        named = {"name": call.name, "args": call.args}
        return {"functionCall": {"id": call.id, **named} if call.id else named}
    assert part.function_response is not None
    return {"functionResponse": _response(part.function_response, asked, bare=bare)}


def _response(result: ToolResult, asked: Asked | None, *, bare: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if result.call_id and (asked is None or asked.sends_id):
        wire["id"] = result.call_id
    wire["name"] = result.name or (asked.name if asked is not None else "")
    if bare:
        wire["response"] = result.result
    else:
        wire["response"] = {"error" if result.is_error else "result": result.result}
    if parts := [{"inlineData": encode_media(m)} for m in result.attachments if not is_opaque(m)]:
        wire["parts"] = parts
    return wire


def _part(wire: Mapping[str, Any], asked: Asked | None) -> tuple[Part, bool]:
    call, response = wire.get("functionCall"), wire.get("functionResponse")
    text, thinks = wire.get("text"), wire.get("thought") is True
    if isinstance(call, Mapping):
        args = call.get("args")
        named = FunctionCall(
            _text(call.get("id")), _text(call.get("name")), args if isinstance(args, dict) else {}
        )
        return Part(function_call=named), False
    if isinstance(response, Mapping):
        result, bare = _result(response, asked)
        return Part(function_response=result), bare
    media = _media(wire.get("inlineData"))
    if media is not None:
        return Part(inline_data=media), False
    if isinstance(text, str):
        return Part(thought=text) if thinks else Part(text=text), False
    # A signature may come in a part of its own, behind the thought that it signs.
    if wire.keys() == {"thought", "thoughtSignature"} and thinks:
        return Part(thought=""), False
    return opaque(KEY, wire), False


def _result(wire: Mapping[str, Any], asked: Asked | None) -> tuple[ToolResult, bool]:
    response = wire.get("response")
    value: Any = None
    is_error = bare = False
    if isinstance(response, Mapping):
        is_error = response.keys() == {"error"}
        bare = not is_error and response.keys() != {"result"}
        value = response if bare else next(iter(response.values()))
    parts = wire.get("parts")
    media = [
        found
        for one in (parts if isinstance(parts, list) else ())
        if isinstance(one, Mapping) and (found := _media(one.get("inlineData"))) is not None
    ]
    name = _text(wire.get("name")) or (asked.name if asked is not None else "")
    call_id = asked.call_id if asked is not None else _text(wire.get("id"))
    return ToolResult(call_id, name, value, is_error, tuple(media)), bare


def _media(wire: Any) -> Media | None:
    if not isinstance(wire, Mapping):
        return None
    mime_type, text, name = wire.get("mimeType"), wire.get("data"), wire.get("displayName")
    data = _bytes(text) if isinstance(text, str) else None
    if data is None or not isinstance(mime_type, str):
        return None
    media = Media(mime_type, data, name if isinstance(name, str) and name else None)
    return None if is_opaque(media) else media


def _bytes(text: str) -> bytes | None:
    # Either alphabet, with padding or without: so the API reads it, and so SDKs write it.
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
