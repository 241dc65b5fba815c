"""What an agent by rule can see: the request, what it did about it, and what it can quote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from jaato.exchange import Request
from jaato.history import STUB_MARK, FunctionCall, Part
from jaato.tokens import as_text

PATH = re.compile(r"[\w@+-][\w@./+-]*\.[A-Za-z]\w{0,5}\b")

_MOST_FACTS: Final = 4
_MOST_SUMMARY_LINES: Final = 12
_LONGEST_QUOTE: Final = 160
_LONGEST_READ: Final = 2000
# The lines that collections and sessions leave where something was.
_GONE = re.compile(r"^\[[^\]\n\"']*\b(?:removed|left out|left the window)\b.*\]$", re.MULTILINE)
_HANDLE = re.compile(r"(?:\brecall\(\s*(?:\w+\s*=\s*)?|\bhandle\s*[=:]?\s*)[\"'`]?([\w.:/-]*\w)")
_WORD = re.compile(r"[^\W_]{3,}")
_WORTH_KEEPING = re.compile(
    r"\d|=|`|\b(?:must|never|always|only|error|failed|decided)\b", re.IGNORECASE
)
_DULL: Final = frozenset(
    {"the", "and", "for", "are", "was", "were", "with", "what", "which", "that", "this", "from"}
    | {"have", "has", "had", "how", "its", "you", "your", "all", "any", "can", "not", "but", "who"}
    | {"why", "does", "did", "say", "tell", "show", "find", "please", "into", "out", "about"}
    | {"file", "files", "step", "steps", "read", "list", "grep", "search", "run", "edit", "then"}
)


@dataclass(frozen=True, slots=True)
class Deed:
    """A call, and what can still be seen of its result."""

    call: FunctionCall
    result: Part | None
    is_of_this_turn: bool

    @property
    def seen(self) -> str:
        """The result as text; nothing where there is none."""
        answer = self.result.function_response if self.result else None
        return as_text(answer.result) if answer else ""

    @property
    def is_whole(self) -> bool:
        """Whether the result is there, and neither stubbed nor cut."""
        if self.result is None or STUB_MARK in self.result.extra:
            return False
        return not _GONE.search(self.seen)

    @property
    def handle(self) -> str | None:
        """By what name the whole result can be called back, if what is left of it says so."""
        found = _HANDLE.search(self.seen)
        return found[1] if found else None


class Sight:
    """The newest request of a conversation, and everything that can be seen beside it."""

    def __init__(self, request: Request) -> None:
        self._messages = messages = request.messages
        self._start = max((at for at, m in enumerate(messages) if m.opens_turn), default=0)
        self.task = messages[self._start].text if messages else ""
        self.words = words_of(self.task)
        self.steps = sum(bool(message.call_ids) for message in messages[self._start :])
        self.deeds = tuple(_deeds(request, self._start))
        self.now = tuple(deed for deed in self.deeds if deed.is_of_this_turn)

    def facts(self) -> list[str]:
        """Lines that share words with the request, with where they stand; else what came last."""
        scored = []
        for age, (source, text) in enumerate(self._sources()):
            for line in dict.fromkeys(text.splitlines()):
                score = len(self.words & words_of(line[:_LONGEST_READ]))
                if score:
                    # What an earlier answer quoted keeps its source.
                    fact = line if line.startswith("- ") else f"- {source}: {_quoted(line)}"
                    scored.append((-score, age, fact))
        scored.sort(key=lambda found: found[:2])
        if not scored:
            newest = (deed for deed in reversed(self.now) if deed.is_whole and deed.seen.strip())
            scored = [
                (0, 0, f"- {_named(deed.call)}: {_quoted(deed.seen.strip().splitlines()[0])}")
                for deed in newest
            ]
        return list(dict.fromkeys(fact for _, _, fact in scored))[:_MOST_FACTS]

    def summary(self) -> str:
        """The lines worth keeping: of the text in the request, or else of the conversation."""
        _, _, body = self.task.partition("\n\n")
        text = body or "\n".join(text for _, text in self._sources())
        lines = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
        kept = [line for line in lines if _WORTH_KEEPING.search(line)] or lines
        return "\n".join(map(_quoted, kept[:_MOST_SUMMARY_LINES])) or "Nothing to summarize."

    def _sources(self) -> Iterator[tuple[str, str]]:
        """All that can be seen but the request itself, newest first, with what it is."""
        for deed in reversed(self.deeds):
            if deed.is_whole:
                yield _named(deed.call), deed.seen
        for message in reversed(self._messages[: self._start]):
            if message.text:
                yield message.role.value, message.text


def words_of(text: str) -> set[str]:
    """The words that say something, in lower case."""
    return {word.lower() for word in _WORD.findall(text)} - _DULL


def _deeds(request: Request, start: int) -> Iterator[Deed]:
    """Every call with its result. Ids may repeat, so a result belongs to the calls just before."""
    pending: dict[str, FunctionCall] = {}
    for at, message in enumerate(request.messages):
        if message.call_ids:
            yield from (Deed(call, None, at > start) for call in pending.values())
            pending = {call.id: call for call in message.function_calls}
        for part in message.parts:
            answer = part.function_response
            call = pending.pop(answer.call_id, None) if answer else None
            if call is not None:
                yield Deed(call, part, at > start)
    yield from (Deed(call, None, is_of_this_turn=True) for call in pending.values())


def _named(call: FunctionCall) -> str:
    return f"{call.name} {next(iter(call.args.values()), '')}".strip()


def _quoted(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]}…"
