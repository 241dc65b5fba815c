"""Requests of the Anthropic Messages API (`POST /v1/messages`), both ways. Pure.

What the wire cannot carry, so that `decode(encode(request))` differs from `request` in it:

- ids and kinds of messages, and what other codecs or stubs left in `extra`;
- thoughts without this codec's `extra`, thoughts at the end of a message, texts without a word,
  and messages left empty by that (one of the user's becomes `(empty)`);
- the order of results and other parts in one message, results of one step in several messages,
  and results that lie inside the message that calls;
- ids of calls that the API would refuse: characters it does not know, empty ones, repeated ones;
- results that are no text (they come back as their JSON; without a word, as None), the name of a
  tool in a result whose call is gone, names of images, media that the API does not take;
- a system prompt without a word, white space at the end of an answer that is to be continued;
- `max_output_tokens=None`, which becomes a number; `marks`, `cache` and `cache_ttl`, which become
  `cache_control` in the `extra` of what carries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jaato.exchange import Request, ToolSchema
from jaato.history import Message
from jaato.wire.anthropic_blocks import KEY, extra_of, kept
from jaato.wire.anthropic_cache import put_breakpoints
from jaato.wire.anthropic_messages import WireError, incoming, outgoing
from jaato.wire.anthropic_stream import AnswerBuilder, decode_answer

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "KEY",
    "AnswerBuilder",
    "WireError",
    "decode",
    "decode_answer",
    "decode_messages",
    "encode",
    "encode_messages",
]

DEFAULT_MAX_TOKENS: Final = 8192
"""The longest answer where the request names no limit: the API demands one."""
_OURS = frozenset({"cache", "cache_ttl"})
_OPTIONS = (
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "mcp_servers",
    "metadata",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "temperature",
    "tool_choice",
    "top_k",
    "top_p",
)
_MODES = frozenset({"adaptive", "disabled", "between_tools"})


def encode(request: Request) -> dict[str, Any]:
    """The body of a request. It is refused nowhere that a legal history leaves a choice."""
    sent = outgoing(request.messages)
    body = {
        **kept(request.extra),
        **{key: value for key, value in request.options.items() if key not in _OURS},
        "model": request.model,
    }
    _put_system(body, request)
    _put_tools(body, request)
    _put_thinking(body, request)
    _put_max_tokens(body, request)
    if request.options.get("cache") is not False:
        put_breakpoints(body, sent, request.marks, request.options.get("cache_ttl"))
    body["messages"] = [one.document() for one in sent]
    return body


def decode(body: Mapping[str, Any]) -> Request:
    """The request that foreign JSON stands for; encoded again, it is the same JSON.

    It keeps the `cache_control` that it came with, and gets no other.
    """
    if not isinstance(body.get("messages"), list):
        raise WireError("a request without a list of messages", hint="POST /v1/messages")
    taken = {"model", "messages", "system", "tools", "max_tokens", "thinking", *_OPTIONS}
    own = {key: value for key, value in body.items() if key not in taken}
    options = {"cache": False, **{key: body[key] for key in _OPTIONS if key in body}}
    thinking = _read_thinking(body, own, options)
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool):
        own["max_tokens"], limit = limit, None
    return Request(
        model=str(body.get("model", "")),
        messages=decode_messages(body["messages"]),
        system=_read_system(body, own),
        tools=_read_tools(body, own),
        max_output_tokens=limit,
        thinking=thinking,
        options=options,
        extra=extra_of(own),
    )


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as the API accepts them, without breakpoints."""
    return [one.document() for one in outgoing(messages)]


def decode_messages(documents: Iterable[Any]) -> tuple[Message, ...]:
    """The messages that foreign JSON stands for."""
    return incoming(documents)


def _put_max_tokens(body: dict[str, Any], request: Request) -> None:
    if request.max_output_tokens is not None:
        body["max_tokens"] = request.max_output_tokens
    elif "max_tokens" not in body:
        # Thinking counts as output, and the API wants room for more than that.
        budget = request.thinking if isinstance(request.thinking, int) else 0
        body["max_tokens"] = DEFAULT_MAX_TOKENS + budget
    elif body["max_tokens"] is None:
        del body["max_tokens"]  # It came without one, as requests to count tokens do.


def _put_system(body: dict[str, Any], request: Request) -> None:
    blocks = body.get("system")
    if _system_text(blocks) == request.system:
        return
    body.pop("system", None)
    if request.system.strip():
        body["system"] = request.system


def _read_system(body: Mapping[str, Any], own: dict[str, Any]) -> str:
    if "system" not in body:
        return ""
    system = body["system"]
    text = _system_text(system)
    if not isinstance(system, str) or not system.strip():
        own["system"] = system
    return text


def _system_text(system: Any) -> str:
    """The text of a system prompt, in whatever shape it came."""
    if isinstance(system, str):
        return system
    blocks = system if isinstance(system, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return "\n\n".join([text for text in texts if isinstance(text, str)])


def _put_tools(body: dict[str, Any], request: Request) -> None:
    if request.tools:
        body["tools"] = [_tool(schema) for schema in request.tools]


def _tool(schema: ToolSchema) -> Any:
    own = kept(schema.extra)
    if "tool" in own:
        return own["tool"]
    described = {"description": schema.description} if schema.description else {}
    parameters = dict(schema.parameters)
    return {**own, "name": schema.name, **described, "input_schema": parameters}


def _read_tools(body: Mapping[str, Any], own: dict[str, Any]) -> tuple[ToolSchema, ...]:
    tools = body.get("tools")
    if isinstance(tools, list) and tools:
        return tuple(map(_read_tool, tools))
    if "tools" in body:
        own["tools"] = tools
    return ()


def _read_tool(tool: Any) -> ToolSchema:
    if isinstance(tool, Mapping):
        name, described = tool.get("name"), tool.get("description", "")
        name, described = [one if isinstance(one, str) else "" for one in (name, described)]
        parameters = tool.get("input_schema")
        if isinstance(parameters, Mapping):
            hidden = {"name", "input_schema", *(["description"] if described else [])}
            own = {key: value for key, value in tool.items() if key not in hidden}
            schema = ToolSchema(
                name=name, description=described, parameters=parameters, extra=extra_of(own)
            )
            if _tool(schema) == tool:
                return schema
        return ToolSchema(name=name, description=described, extra={KEY: {"tool": tool}})
    return ToolSchema(name="", extra={KEY: {"tool": tool}})


def _put_thinking(body: dict[str, Any], request: Request) -> None:
    thinking = request.thinking
    if thinking is None:
        return
    came = body.get("thinking")
    base = came if isinstance(came, Mapping) else {}
    if isinstance(thinking, int):
        body["thinking"] = {**base, "type": "enabled", "budget_tokens": thinking}
    elif thinking in _MODES:
        body["thinking"] = {**base, "type": thinking}
    else:
        body["thinking"] = {**base, "type": "adaptive"}
        config = body.get("output_config")
        body["output_config"] = {
            **(config if isinstance(config, Mapping) else {}),
            "effort": thinking,
        }


def _read_thinking(
    body: Mapping[str, Any], own: dict[str, Any], options: dict[str, Any]
) -> int | str | None:
    if "thinking" not in body:
        return None
    came = body["thinking"]
    rest = dict(came) if isinstance(came, Mapping) else {}
    mode, budget = rest.pop("type", None), rest.pop("budget_tokens", None)
    thinking: int | str | None = None
    if mode == "enabled" and isinstance(budget, int):
        thinking = budget
    elif isinstance(mode, str) and mode in _MODES and "budget_tokens" not in came:
        thinking = mode
    if thinking is None:
        own["thinking"] = came
    elif rest:
        own["thinking"] = rest
    config = options.get("output_config")
    if thinking == "adaptive" and isinstance(config, Mapping):
        effort = config.get("effort")
        if isinstance(effort, str) and effort not in _MODES:
            thinking = effort
            options["output_config"] = {k: v for k, v in config.items() if k != "effort"}
            if not options["output_config"]:
                del options["output_config"]
    return thinking
