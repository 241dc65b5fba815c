"""What a model reads of the JSON of a request, what that costs, and how much of it was cached."""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from jaato.history import Media
from jaato.ports import TokenCounter
from jaato.tokens import as_text
from jaato.tokens.media import media_text, media_tokens
from jaato.tokens.messages import CALL_FRAME, MESSAGE_FRAME, RESULT_FRAME

_PROMPTS_KEPT: Final = 8
"""A session, its subagents and its summaries take turns."""

# What tells the parts of a request apart, and is no part of what a model reads.
_SILENT: Final = frozenset(
    {"id", "tool_call_id", "tool_use_id", "role", "type", "format", "detail", "file_id"}
    | {"signature", "thoughtSignature", "cache_control", "media_type", "mimeType"}
)
_AS_JSON: Final = frozenset({"args", "input", "input_schema", "parameters", "parametersJsonSchema"})
_DATA_URI: Final = "data:"
_BASE64: Final = ";base64,"
_LONGEST_MIME: Final = 200


class PromptCache:
    """Counts prompts, of which it counts no beginning twice; and knows what a provider would."""

    def __init__(self, tokens_of: Callable[[Any], int]) -> None:
        self._tokens_of = tokens_of
        self._kept: deque[tuple[Sequence[Any], list[int]]] = deque(maxlen=_PROMPTS_KEPT)

    def read(self, prompt: Sequence[Any]) -> tuple[int, int]:
        """The tokens of a prompt, and those of its beginning that came before just so."""
        known: list[int] = []
        for units, counts in self._kept:
            common = _common(units, prompt)
            if common > len(known):
                known = counts[:common]
        counts = [*known, *map(self._tokens_of, prompt[len(known) :])]
        self._kept.append((prompt, counts))
        return sum(counts), sum(known)


def wire_tokens(unit: Any, counter: TokenCounter) -> int:
    """The tokens of a message, a system prompt or a list of tools, as JSON."""
    if not unit:
        return 0
    texts: list[str] = []
    other = sum(_read(unit, texts))
    return MESSAGE_FRAME + other + sum(counter.count_texts(texts))


def unmarked(unit: Any) -> Any:
    """The same without cache breakpoints, which move while the prompt stays."""
    match unit:
        case {"cache_control": _, **rest}:
            return unmarked(rest)
        case {"content": list(blocks), **rest}:
            return {**rest, "content": unmarked(blocks)}
        case list():
            return [unmarked(one) for one in unit]
        case _:
            return unit


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def _read(unit: Any, texts: list[str]) -> Iterator[int]:
    """Gathers what is counted as text, and gives the tokens of everything else."""
    match unit:
        case str():
            yield from _read_text(unit, texts)
        case Mapping():
            yield from _read_object(unit, texts)
        case Sequence():
            for one in unit:
                yield from _read(one, texts)
        case int() | float() if not isinstance(unit, bool):
            texts.append(str(unit))
        case _:
            pass


def _read_object(unit: Mapping[str, Any], texts: list[str]) -> Iterator[int]:
    yield _frame_of(unit)
    mime = str(unit.get("media_type") or unit.get("mimeType") or "")
    for key, value in unit.items():
        if key in _AS_JSON and isinstance(value, Mapping):
            texts.append(as_text(value))
        elif key == "data" and isinstance(value, str):
            yield from _read_media(mime, value, texts)
        elif key not in _SILENT:
            yield from _read(value, texts)


def _frame_of(unit: Mapping[str, Any]) -> int:
    if "function" in unit or "functionCall" in unit or unit.get("type") == "tool_use":
        return CALL_FRAME
    if "tool_call_id" in unit or "functionResponse" in unit or unit.get("type") == "tool_result":
        return RESULT_FRAME
    return 0


def _read_text(text: str, texts: list[str]) -> Iterator[int]:
    mime, is_data, _ = text[:_LONGEST_MIME].partition(_BASE64)
    if is_data and mime.startswith(_DATA_URI):
        data = text[len(mime) + len(_BASE64) :]
        yield from _read_media(mime.removeprefix(_DATA_URI), data, texts)
    else:
        texts.append(text)


def _read_media(mime: str, data: str, texts: list[str]) -> Iterator[int]:
    try:
        media = Media(mime, b64decode(data, validate=True))
    except ValueError:
        texts.append(data)
        return
    text = media_text(media)
    if text is None:
        yield media_tokens(media)
    else:
        texts.append(text)
