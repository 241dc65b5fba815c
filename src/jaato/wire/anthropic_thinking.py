"""The prefix that a thinking block is bound to: made into signatures, and checked when they return.

The API binds each block to `system`, `tools` and everything in `messages` before it. A signature
of ours states three digests: of that prefix, of the thought itself, and of the signature of the
thinking block that stood before it in the request, if any. So every law of the API can be seen
from the request alone:

- *Appending* changes no prefix. `cache_control` is no part of one, nor is the shape of content
  (a string or one text), nor a text without a word, nor how one speaker's words are divided into
  messages.
- *Dropping a leading run*: no thought is part of a prefix, and the first block of a request may
  name any predecessor. Every later one must name the block that now stands before it. So a block
  left out between two others, or moved, is found at the first block behind it, while the first
  blocks, or all of them, may go.
- *Any other change* shows in the prefix of every block behind it.

Not modelled: which model may read which model's thoughts, and compaction blocks, before which the
API forgets what came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jaato.wire.anthropic_blocks import is_blank, is_thought

FORGED: Final = "messages.{}.content.{}: Invalid `signature` in `thinking` block"
MOVED: Final = (
    FORGED + ". The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)

_FIELD = {"thinking": "signature", "redacted_thinking": "data"}


class ThinkingPrefix:
    """Signs the thoughts of answers, and says which request must not send one back."""

    def __init__(self, signer: str = "jaato") -> None:
        self._signer = signer

    def signed(
        self, body: Mapping[str, Any], content: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The content of an answer to a request, with its thoughts bound to what led to them."""
        prefix, before = _Prefix(body), ""
        for _, _, block in _walk(body.get("messages"), prefix):
            before = _digest(_signature_of(block))
        prefix.speaker("assistant")
        answer = []
        for block in content:
            if not is_thought(block):
                prefix.add(block)
                answer.append(dict(block))
                continue
            signature = self._signature(prefix.digest(), before, block)
            answer.append({**block, _FIELD[block["type"]]: signature})
            before = _digest(signature)
        return answer

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Why a request is refused for the thoughts in it, in the words of the API; None if not."""
        if _drops_what_moved(body):
            return None
        prefix, before = _Prefix(body), None
        for at, index, block in _walk(body.get("messages"), prefix):
            signature = _signature_of(block)
            bound_to, predecessor, *_ = *signature.split("."), "", ""
            if self._signature(bound_to, predecessor, block) != signature:
                return FORGED.format(at, index)
            if bound_to != prefix.digest() or before not in {None, predecessor}:
                return MOVED.format(at, index)
            before = _digest(signature)
        return None

    def _signature(self, prefix: str, predecessor: str, block: Mapping[str, Any]) -> str:
        # Of redacted thoughts the data is the signature: there is no text to bind.
        text = str(block.get("thinking", "")) if block["type"] == "thinking" else ""
        own = _digest(self._signer, prefix, predecessor, block["type"], text)
        return f"{prefix}.{predecessor}.{own}"


class _Prefix:
    """All that stands before a block, as it grows: reading it costs each block once."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._hash = hashlib.sha256()
        self._speaker: Any = None
        system = body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        self._write(["system", [_plain(block) for block in blocks if not _is_void(block)]])
        self._write(["tools", [_plain(tool) for tool in body.get("tools") or []]])

    def speaker(self, role: Any) -> None:
        """Whose words come next; the API puts together what one speaker says in a row."""
        self._speaker = role

    def add(self, block: Any) -> None:
        """A block that is no thought."""
        if isinstance(block, Mapping):
            # Answers say null where requests say nothing.
            block = {key: value for key, value in block.items() if value is not None}
        if not _is_void(block):
            self._write([self._speaker, _plain(block)])

    def digest(self) -> str:
        """What tells this prefix from every other."""
        return self._hash.hexdigest()[:16]

    def _write(self, value: Any) -> None:
        self._hash.update(json.dumps(value, sort_keys=True, default=str).encode())


def _walk(messages: Any, prefix: _Prefix) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Every thinking block and where it is, when the prefix holds all that stands before it."""
    for at, message in enumerate(messages or []):
        prefix.speaker(message.get("role"))
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            if isinstance(block, Mapping) and is_thought(block):
                yield at, index, block
            else:
                prefix.add(block)


def _drops_what_moved(body: Mapping[str, Any]) -> bool:
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, Mapping) else None
    behaviour = binding.get("prefix_mismatch_behavior") if isinstance(binding, Mapping) else None
    return behaviour == "drop_block"


def _signature_of(block: Mapping[str, Any]) -> str:
    return str(block.get(_FIELD[block["type"]], ""))


def _is_void(block: Any) -> bool:
    return isinstance(block, Mapping) and is_blank(block)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if key != "cache_control"}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _digest(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
