"""Requests to Gemini as JSON (the body of `:streamGenerateContent`) and back. Pure.

`decode(encode(request))` is the request, if it is in a session's normal form (a tool message per
step holds all results, no two messages of the model stand together, ids of calls are unique in
their message or all empty) and but for what the wire cannot carry:

- ids and kinds of messages, so also which are summaries; `marks`, since Gemini caches by itself;
- the model, which stands in the address, and is given to `decode`;
- thoughts without a signature, empty texts, messages that hold nothing else, and what only
  another provider understands;
- ids that were given to calls here, because the API had given none;
- attachments that a model does not take inside a response (all before Gemini 3; later all but
  images, PDFs and plain text): they follow in a content of the user.

`encode(decode(body))` is the body, if that names every field in camelCase (the API reads
`snake_case` too): what is not understood is kept in `extra["google"]`, at every level. A content
that we would write in another way has at least an empty entry there, and is left as it is.

Calls without ids are paired with their results by name and place. A body may still hold what JSON
cannot (lone surrogates, infinities, what tools returned): `sendable` is for the edge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from jaato.errors import UsageError
from jaato.exchange import Request
from jaato.wire.foreign import readable, whole_number
from jaato.wire.google_messages import decode_messages, encode_messages
from jaato.wire.google_parts import KEY, difference, kept, laid_over, spelled
from jaato.wire.google_stream import AnswerBuilder, decode_answer
from jaato.wire.google_tools import decode_tools, encode_tools

__all__ = [
    "KEY",
    "AnswerBuilder",
    "decode",
    "decode_answer",
    "decode_messages",
    "encode",
    "encode_messages",
    "sendable",
]

_SYSTEM: Final = "jaato.system"
"""Key for a system instruction that is more than one text."""
_TOOLS: Final = "jaato.tools"
"""Key for tools that are more than one list of declarations."""
_OF_BODY: Final = frozenset(
    {
        "cachedContent",
        "labels",
        "modelArmorConfig",
        "safetySettings",
        "serviceTier",
        "store",
        "toolConfig",
    }
)
"""Options that stand beside `generationConfig`; all others stand in it."""
_READ: Final = ("contents", "systemInstruction", "tools")
_UNDERSCORE = re.compile(r"_([a-z0-9])")


def encode(request: Request) -> dict[str, Any]:
    """The body of a request.

    Options are named as in the SDK's or the API's `GenerateContentConfig`; `tools` among them are
    those that Google runs.
    """
    over = dict(kept(request.extra) or {})
    system, grouped = over.pop(_SYSTEM, None), over.pop(_TOOLS, None)
    body: dict[str, Any] = {"contents": encode_messages(request.messages, request.model)}
    if system is not None and _system_text(system) == request.system:
        body["systemInstruction"] = system
    elif request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    config: dict[str, Any] = {}
    if request.max_output_tokens is not None:
        config["maxOutputTokens"] = request.max_output_tokens
    if request.thinking is not None:
        config["thinkingConfig"] = _thinking(request.thinking)
    tools = encode_tools(request.tools, grouped)
    _put_options(request.options, body, config, tools)
    if tools or grouped is not None:
        body["tools"] = tools
    if config:
        body["generationConfig"] = config
    return laid_over(body, over)


def decode(body: Mapping[str, Any], *, model: str = "") -> Request:
    """The request in a body. `model` is what the address says."""
    theirs = spelled(body)
    contents = theirs.get("contents")
    if contents is not None and not isinstance(contents, list):
        raise UsageError("`contents` is a list", hint="as in `GenerateContentRequest`")
    own: dict[str, Any] = {}
    system = theirs.get("systemInstruction")
    text = _system_text(system)
    if isinstance(system, Mapping) and (not text or system != {"parts": [{"text": text}]}):
        own[_SYSTEM] = system
    tools, grouped = decode_tools(theirs.get("tools"))
    if grouped is not None:
        own[_TOOLS] = grouped
    config = theirs.get("generationConfig")
    limit, thinking, options = _read_config(config if isinstance(config, Mapping) else {})
    if isinstance(config, Mapping):
        theirs["generationConfig"] = spelled(config)
    options |= {name: theirs[name] for name in theirs if name in _OF_BODY}
    request = Request(
        model=model,
        messages=tuple(decode_messages(contents or ())),
        system=text,
        tools=tools,
        max_output_tokens=limit,
        thinking=thinking,
        options=options,
        extra={KEY: own} if own else {},
    )
    # What was read is in the request and may change there, so it is not kept a second time.
    ours = encode(request)
    read = [name for name in _READ if isinstance(theirs.get(name), (list, dict))]
    own |= difference(_but(ours, read), _but(theirs, read))
    return replace(request, extra={KEY: own}) if own else request


def sendable(value: Any) -> Any:
    """The same as JSON that every reader takes.

    Halves of surrogate pairs become U+FFFD, numbers that are none their names, and what JSON does
    not know its text.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {readable(str(key)): sendable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [sendable(one) for one in value]
    return readable(str(value))


def _put_options(
    options: Mapping[str, Any], body: dict[str, Any], config: dict[str, Any], tools: list[Any]
) -> None:
    for option, value in options.items():
        name = _UNDERSCORE.sub(lambda found: found[1].upper(), option)
        if name == "tools":
            tools += value
        elif name == "generationConfig":
            config.update(value)
        elif name in _OF_BODY:
            body[name] = value
        else:
            config[name] = value


def _thinking(thinking: int | str) -> dict[str, Any]:
    if isinstance(thinking, str):
        return {"includeThoughts": True, "thinkingLevel": thinking.upper()}
    # Asked to show thoughts that are switched off, the API refuses the request.
    return (
        {"thinkingBudget": 0}
        if thinking == 0
        else {
            "includeThoughts": True,
            "thinkingBudget": thinking,
        }
    )


def _read_config(
    config: Mapping[str, Any],
) -> tuple[int | None, int | str | None, dict[str, Any]]:
    """The limit of the output, the thinking, and the options that `encode` puts back there."""
    options = {
        name: value
        for name, value in spelled(config).items()
        if name not in _OF_BODY
        and name not in ("generationConfig", "tools")
        and not _UNDERSCORE.search(name)
    }
    limit = whole_number(options.get("maxOutputTokens"))
    if limit is not None:
        del options["maxOutputTokens"]
    asked = options.get("thinkingConfig")
    if isinstance(asked, Mapping):
        budget, level = whole_number(asked.get("thinkingBudget")), asked.get("thinkingLevel")
        thinking = budget if budget is not None else level
        if isinstance(thinking, (int, str)):
            thinking = thinking.lower() if isinstance(thinking, str) else thinking
            if _thinking(thinking) == asked:
                del options["thinkingConfig"]
                return limit, thinking, options
    return limit, None, options


def _system_text(system: Any) -> str:
    parts = system.get("parts") if isinstance(system, Mapping) else None
    texts = (
        (p.get("text") for p in parts if isinstance(p, Mapping)) if isinstance(parts, list) else ()
    )
    return "\n".join(text for text in texts if isinstance(text, str))


def _but(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
