"""What a refusal of OpenAI says, and the breaches that both of its APIs can see."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Count = Callable[[Sequence[str]], list[int]]
"""Counts the tokens of texts."""

MOST_TOOLS = 128
MESSAGE_FRAME = 3
"""Tokens around each message, and in front of the answer."""
MEDIA_TOKENS = 85
"""The least that an image costs; what one really costs depends on the model."""

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBreach:
    """Why a request is refused, in the provider's words."""

    status: int = 400
    code: str | None = None
    type: str = "invalid_request_error"
    message: str
    param: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The body of the refusal."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}


def missing(param: str) -> RuleBreach:
    """A field that must be there is not."""
    return RuleBreach(
        message=f"Missing required parameter: '{param}'.",
        code="missing_required_parameter",
        param=param,
    )


def empty_array(param: str) -> RuleBreach:
    """An array that must hold something does not."""
    return RuleBreach(
        message=f"Invalid '{param}': empty array. Expected an array with minimum length 1, "
        "but got an empty array instead.",
        code="empty_array",
        param=param,
    )


def id_breach(call_id: object, longest: int, param: str) -> RuleBreach | None:
    """What is wrong with the id of a call, if anything is."""
    if not isinstance(call_id, str):
        return missing(param)
    if not call_id:
        return RuleBreach(
            message=f"Invalid '{param}': empty string. Expected a string with minimum length 1, "
            "but got an empty string instead.",
            code="empty_string",
            param=param,
        )
    if len(call_id) > longest:
        return RuleBreach(
            message=f"Invalid '{param}': string too long. Expected a string with maximum length "
            f"{longest}, but got a string with length {len(call_id)} instead.",
            code="string_above_max_length",
            param=param,
        )
    return None


def name_breach(name: object, param: str) -> RuleBreach | None:
    """What is wrong with the name of a tool, if anything is."""
    if not isinstance(name, str):
        return missing(param)
    if _NAME.fullmatch(name):
        return None
    return RuleBreach(
        message=f"Invalid '{param}': string does not match pattern. Expected a string that "
        "matches the pattern '^[a-zA-Z0-9_-]+$'.",
        code="invalid_value",
        param=param,
    )


def tools_breach(body: Mapping[str, Any], inside: str | None) -> RuleBreach | None:
    """What is wrong with the tools, whose fields stand `inside` another, if anything is."""
    tools = body.get("tools")
    if tools is None:
        return None
    if not tools and inside:
        return empty_array("tools")
    if len(tools) > MOST_TOOLS:
        return RuleBreach(
            message=f"Invalid 'tools': array too long. Expected an array with maximum length "
            f"{MOST_TOOLS}, but got an array with length {len(tools)} instead.",
            code="array_above_max_length",
            param="tools",
        )
    for number, tool in enumerate(tools):
        if tool.get("type") != "function":
            continue
        at = f"tools[{number}].{inside}" if inside else f"tools[{number}]"
        breach = name_breach((tool.get(inside) if inside else tool).get("name"), f"{at}.name")
        if breach is not None:
            return breach
    return None
