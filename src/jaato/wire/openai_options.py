"""The parameters that OpenAI documents for a request, and how much thinking is in its words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_BOTH = frozenset(
    {
        "metadata",
        "moderation",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "tool_choice",
        "top_logprobs",
        "top_p",
        "user",
    }
)
CHAT_OPTIONS = _BOTH | {
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "modalities",
    "n",
    "prediction",
    "presence_penalty",
    "response_format",
    "seed",
    "stop",
    "verbosity",
    "web_search_options",
}
"""What `Request.options` may hold for Chat Completions; the rest is noted in `extra`."""

RESPONSES_OPTIONS = _BOTH | {
    "background",
    "context_management",
    "conversation",
    "include",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "text",
    "truncation",
}
"""What `Request.options` may hold for Responses; the rest is noted in `extra`."""

_EFFORTS = ((0, "none"), (2_048, "low"), (8_192, "medium"))
_MOST = "high"


def effort(thinking: int | str) -> str:
    """A budget in tokens as the nearest effort; an effort as it is."""
    if isinstance(thinking, str):
        return thinking
    return next((name for most, name in _EFFORTS if thinking <= most), _MOST)


def shared_out(
    body: Mapping[str, Any], known: Collection[str], options: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that are options, and those that nobody here understands."""
    rest = {key: value for key, value in body.items() if key not in known}
    return (
        {key: value for key, value in rest.items() if key in options},
        {key: value for key, value in rest.items() if key not in options},
    )
