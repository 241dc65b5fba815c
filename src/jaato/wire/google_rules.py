"""The rules by which the Gemini API refuses a request, in its own words. Pure, on wire JSON.

Where the API says nothing definite this is the stricter side: a request that passes here is one
that it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature that the API documents for calls that its models did not make."""

_SIGNED_GENERATION: Final = 3
"""The first models that check the signatures of calls, and that take media in responses."""
_ROLES: Final = ("user", "model", "function", "tool", "", None)
_NOT_DATA: Final = frozenset(
    {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
)
_LATEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest$")
_NUMBER = re.compile(r"gemini-(?:[a-z]+-)?(\d+)")


@dataclass(frozen=True, slots=True)
class RuleBreach:
    """Why a request is refused: the HTTP status, the status by name, and the message."""

    status: int
    reason: str
    message: str

    def as_json(self) -> dict[str, Any]:
        """The body of the answer that refuses."""
        return {
            "error": {"code": self.status, "message": self.message, "status": self.reason},
        }


def check(
    body: Mapping[str, Any],
    window: int | None = None,
    count: int | Callable[[Mapping[str, Any]], int] | None = None,
    *,
    model: str = "",
) -> RuleBreach | None:
    """The first rule that a request breaks.

    `count`: its tokens, or what counts them; more than `window` do not fit. Rules that hold for
    some models only are those of `model`.
    """
    rules = (_shape, _declarations, _turns, lambda b: _of_model(b, model))
    for rule in rules:
        message = next(rule(body), None)
        if message is not None:
            return RuleBreach(400, "INVALID_ARGUMENT", message)
    if window is not None and count is not None:
        tokens = count(body) if callable(count) else count
        if tokens > window:
            return RuleBreach(400, "INVALID_ARGUMENT", too_long(tokens, window))
    return None


def too_long(tokens: int, window: int) -> str:
    """What the API says of a request that does not fit."""
    return (
        f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
    )


def generation(model: str) -> int | None:
    """Which Gemini a model is, as far as its name says; aliases of the latest count as 3."""
    name = model.rsplit("/", 1)[-1]
    if _LATEST.match(name):
        return _SIGNED_GENERATION
    found = _NUMBER.match(name)
    return int(found[1]) if found else None


def checks_signatures(model: str) -> bool:
    """Whether a model refuses calls of the current turn that lost their signature."""
    number = generation(model)
    return number is not None and number >= _SIGNED_GENERATION and "image" not in model


def unsigned_calls(contents: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Calls of the current turn that lack a signature: positions of content and part.

    The turn begins with the last content of the user that is not only responses of functions; in
    each step only the first of parallel calls has a signature.
    """
    starts = [at for at, content in enumerate(contents) if _opens_turn(content)]
    found = []
    for at in range(starts[-1] + 1 if starts else 0, len(contents)):
        calls = _positions(contents[at], "functionCall")
        if calls and not contents[at]["parts"][calls[0]].get("thoughtSignature"):
            found.append((at, calls[0]))
    return found


def signed(body: dict[str, Any], model: str) -> dict[str, Any]:
    """The body with the documented stand-in where `model` wants a signature and there is none.

    So it is with calls that another model made: the session changed models within a turn.
    """
    contents = body.get("contents")
    if not checks_signatures(model) or not isinstance(contents, list):
        return body
    unsigned = dict(unsigned_calls(contents))
    if not unsigned:
        return body
    mended = list(contents)
    for at, part_at in unsigned.items():
        parts = list(contents[at]["parts"])
        parts[part_at] = {**parts[part_at], "thoughtSignature": SKIP_SIGNATURE}
        mended[at] = {**contents[at], "parts": parts}
    return {**body, "contents": mended}


def _shape(body: Mapping[str, Any]) -> Iterator[str]:
    contents = body.get("contents")
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified\n"
        return
    for at, content in enumerate(contents):
        where = f"GenerateContentRequest.contents[{at}]"
        if content.get("role") not in _ROLES:
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield f"* {where}.parts: contents.parts must not be empty.\n"
            return
        for part_at, part in enumerate(content["parts"]):
            yield from _part(part, f"{where}.parts[{part_at}]")


def _part(part: Mapping[str, Any], where: str) -> Iterator[str]:
    signs = bool(part.get("thoughtSignature"))
    if part.get("text") == "" and not signs:
        yield (
            "Unable to submit request because it has an empty text parameter. Add a value to the "
            "parameter and try again."
        )
    if not part.keys() - _NOT_DATA and not signs:
        yield f"* {where}.data: required oneof field 'data' must have one initialized field\n"
    for key, field, inner in (
        ("functionCall", "function_call", "args"),
        ("functionResponse", "function_response", "response"),
    ):
        holds = part.get(key)
        if holds is None:
            continue
        if not holds.get("name"):
            yield f"* {where}.{field}.name: Name cannot be empty.\n"
        if not isinstance(holds.get(inner, {}), dict):
            place = f"{where.removeprefix('GenerateContentRequest.')}.{field}.{inner}"
            struct = "type.googleapis.com/google.protobuf.Struct"
            yield f"Invalid value at '{place}' ({struct}), \"{holds[inner]}\""


def _declarations(body: Mapping[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    for tool in body.get("tools") or ():
        for declaration in tool.get("functionDeclarations") or ():
            name = declaration.get("name", "")
            if name in seen:
                yield f"Duplicate function declaration found: {name}"
            seen.add(name)


def _turns(body: Mapping[str, Any]) -> Iterator[str]:
    contents = body["contents"]
    asked = 0
    for at, content in enumerate(contents):
        calls = len(_positions(content, "functionCall"))
        responses = len(_positions(content, "functionResponse"))
        if responses and not asked:
            yield (
                "Please ensure that function response turn comes immediately after a function call "
                "turn."
            )
        if asked != responses:
            yield _UNEQUAL
        if calls and (at == 0 or contents[at - 1].get("role") == "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        asked = calls
    if asked:
        yield _UNEQUAL


_UNEQUAL: Final = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def _of_model(body: Mapping[str, Any], model: str) -> Iterator[str]:
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if thinking.get("thinkingBudget") == 0 and thinking.get("includeThoughts"):
        yield (
            "Unable to submit request because Thinking_config.include_thoughts is only enabled "
            "when thinking is enabled."
        )
    number = generation(model)
    if number is not None and number < _SIGNED_GENERATION:
        for content in body["contents"]:
            if any((p.get("functionResponse") or {}).get("parts") for p in content["parts"]):
                yield (
                    "Unable to submit request because `function_response.parts` is not supported "
                    "for this model."
                )
    if checks_signatures(model):
        for at, part_at in unsigned_calls(body["contents"]):
            name = body["contents"][at]["parts"][part_at]["functionCall"].get("name")
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                f"degraded model performance. Additional data, function call `default_api:{name}` "
                f", position {at + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )


def _opens_turn(content: Mapping[str, Any]) -> bool:
    return content.get("role") != "model" and any(
        "functionResponse" not in part for part in content["parts"]
    )


def _positions(content: Mapping[str, Any], key: str) -> list[int]:
    return [at for at, part in enumerate(content["parts"]) if part.get(key) is not None]
