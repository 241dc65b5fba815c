"""The rules by which OpenAI refuses a request: status, code and words as its API has them.

They are read off the API's own answers. What they do not cover is accepted: a request that breaks
none of them may still be refused, one that breaks one of them is.
"""

from __future__ import annotations

from jaato.wire.openai_breach import Count, RuleBreach
from jaato.wire.openai_chat_rules import check_chat
from jaato.wire.openai_responses_rules import check_responses

__all__ = ["Count", "RuleBreach", "check_chat", "check_responses"]
