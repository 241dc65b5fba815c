"""What a stub shows of the text that left: nothing, its ends, or lines that may be asked for.

A stub stands in the window for as long as its turn does, so it has a small budget, and what is in
it decides whether the model has to call the whole back.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from jaato.gc.atoms import AtomReader
from jaato.gc.evidence import LONGEST_LINE, failure_line
from jaato.gc.fitting import fit
from jaato.gc.wording import scanned, unescaped
from jaato.ports import TokenCounter

STUB_TOKENS = 48
"""The budget of what is shown, beside the line that names it."""
STUB_SHARE = 8
"""And never more than this part of what left."""
GAP = "…"
_LINE_CHARS = 10
"""What a line costs a reader beside its length."""


class StubContent(StrEnum):
    """What is shown."""

    PLAIN = "plain"
    HEAD_TAIL = "head_tail"
    LINES = "lines"


def shown_of(
    text: str, tokens: int, *, content: StubContent, counter: TokenCounter, most: int = STUB_TOKENS
) -> str:
    """What a stub shows of a text of so many tokens; empty where nothing is wanted or fits."""
    limit = min(most, tokens // STUB_SHARE)
    if content is StubContent.PLAIN or limit <= 0 or not text.strip():
        return ""
    compose = _Ends(text) if content is StubContent.HEAD_TAIL else _Lines(text)
    found = fit(compose.within, counter=counter, limit=limit, most=compose.most)
    return "" if found is None else found[1]


class _Ends:
    """Head and tail."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self.most = len(self._text)

    def within(self, room: int) -> str:
        text = self._text
        if room >= len(text):
            return text
        head = (room + 1) // 2
        tail = room - head
        return f"{text[:head].rstrip()} {GAP} {text[len(text) - tail :].lstrip()}".strip()


class _Lines:
    """Whole lines: what went wrong, and those whose identifiers are rarest in the text."""

    def __init__(self, text: str) -> None:
        text = unescaped(scanned(text))
        self._lines = [line.strip() for line in text.split("\n")]
        self.most = sum(len(line) + 1 for line in self._lines)
        reader = AtomReader()
        atoms = [reader.read(line) for line in self._lines]
        common = Counter(atom for line in atoms for atom in line)
        failure = failure_line(text)
        first: dict[str, int] = {}
        for at, line in enumerate(self._lines):
            if line and len(line) <= LONGEST_LINE:
                first.setdefault(line, at)
        worth = {
            at: sum(1 / common[atom] for atom in atoms[at]) / (len(line) + _LINE_CHARS)
            for line, at in first.items()
        }
        # Of equals the earlier one: what a command prints first is what it was asked for.
        self._ranked = sorted(
            (at for at in worth if worth[at] or self._lines[at] == failure),
            key=lambda at: (self._lines[at] != failure, -worth[at], at),
        )

    def within(self, room: int) -> str:
        chosen: list[int] = []
        for at in self._ranked:
            cost = len(self._lines[at]) + 1
            if cost <= room:
                chosen.append(at)
                room -= cost
        return "\n".join(self._lines[at] for at in sorted(chosen))
