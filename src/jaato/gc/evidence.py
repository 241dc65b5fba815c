"""What a conversation holds that a digest may keep: found in one pass, judged, not yet chosen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

from jaato.gc.atoms import AtomReader
from jaato.gc.wording import SUMMARY_OPENS, bare_summary, scanned, unescaped, worded
from jaato.history import Kind, Message, Part, Role, ToolResult

LONGEST_LINE = 200
"""A longer line is quoted in windows that end between its words or fields."""
REFERENCE_CHARS = 500
"""A longer argument is content that is written, not a name that is referred to."""
SENTENCE_CHARS = (20, 300)
FAILURE_CHARS = 400
"""An error stands at the beginning or the end of what a tool says."""

_WINDOW = re.compile(
    r".{40,160}[,;.}\]](?=[\s\"{\[]|$)"  # the end of a field or a sentence
    r"|.{1,120}\s|.{1,240}\s|.{1,240}"
)
_MARKUP = re.compile(r"^(?:\s*(?:[-*#>]+|\d+\.)\s)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FAILURE = re.compile(
    r"^[^\w\n]{0,3}(?:[\w.]*(?:Error|Exception|error|ERROR)(?:\[\w+\])?\"?(?::(?!\s*null)|$)"
    r"|fatal: |FAILED |panic: )"
    r"|command not found|No such file or directory|Permission denied",
    re.MULTILINE,
)
_PATH_KEY = re.compile(r"(?:^|_)(?:path|file|filename|filepath|file_name)$", re.IGNORECASE)
_PATH = re.compile(r"[\w.~/+-]*/[\w.+-]*\.[A-Za-z]\w{0,7}$")

CUES: tuple[tuple[float, re.Pattern[str]], ...] = (
    (
        3.0,
        re.compile(
            r"\b(?:decided|decision|conclu\w+|root cause|turns out|the (?:problem|issue|bug|cause)"
            r" (?:is|was)|therefore|confirmed|instead of|must not|won't work|works because)\b",
            re.IGNORECASE,
        ),
    ),
    (
        2.0,
        re.compile(
            r"\b(?:fixed|done|completed|successfully|implemented|changed|cancell?ed|booked|updated"
            r"|found that|because|so that)\b",
            re.IGNORECASE,
        ),
    ),
    (
        1.0,
        re.compile(
            r"\b(?:I'll|I will|I'm going to|let's|let me|we (?:should|need to|will|can)|next|plan"
            r"|first|finally)\b",
            re.IGNORECASE,
        ),
    ),
)
"""How a sentence announces that something was concluded (3), done (2) or planned (1)."""


_OPEN = "[no call succeeded since]"
_SOLVED = "[a later call succeeded]"


class Section(StrEnum):
    """The headings of a digest, in their order."""

    EARLIER = "Earlier summary:"
    REQUESTS = "Requests:"
    DECISIONS = "Decisions:"
    DETAILS = "Details:"
    ERRORS = "Errors:"
    FILES = "Files:"


@dataclass(slots=True)
class Find:
    """Something worth quoting: where it stands, and what it is worth."""

    at: int
    text: str
    source: str = ""
    atoms: tuple[str, ...] = ()
    cue: float = 0.0
    value: float = 0.0
    order: int = 0


@dataclass(slots=True)
class _Failure:
    at: int
    tool: str
    line: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything found, in conversation order within each section."""

    found: dict[Section, list[Find]]
    weights: dict[str, float]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Evidence:
        """Read the messages once. Linear in their length."""
        reading = _Reading(len(messages))
        for at, message in enumerate(messages):
            reading.message(at, message)
        return reading.evidence()


class _Reading:
    """The state of one pass."""

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._atoms = AtomReader()
        self._found: dict[Section, list[Find]] = {section: [] for section in Section}
        self._details: dict[str, Find] = {}
        self._sentences: dict[str, Find] = {}
        self._requests: dict[str, Find] = {}
        self._files: dict[str, Find] = {}
        self._failures: dict[tuple[str, str], _Failure] = {}
        self._succeeded: dict[str, int] = {}
        self._carriers: Counter[str] = Counter()
        self._references: Counter[str] = Counter()
        self._last: dict[str, int] = {}

    def message(self, at: int, message: Message) -> None:
        carried: set[str] = set()
        referred: set[str] = set()
        for part in message.parts:
            carried.update(self._part(at, message, part, referred))
        self._carriers.update(carried)
        self._references.update(referred)
        for atom in carried:
            self._last[atom] = at

    def evidence(self) -> Evidence:
        weights = {atom: self._weight(atom) for atom in self._carriers}
        for kept in (self._details, self._sentences, self._requests):
            for find in kept.values():
                find.value = sum(weights.get(atom, 0.0) for atom in find.atoms)
                find.value += find.cue * self._recency(find.at)
        found = self._found
        found[Section.REQUESTS].extend(self._requests.values())
        found[Section.DECISIONS].extend(self._sentences.values())
        found[Section.DETAILS].extend(self._details.values())
        found[Section.ERRORS].extend(self._stated(failure) for failure in self._failures.values())
        found[Section.FILES].extend(self._files.values())
        for finds in found.values():
            for order, find in enumerate(finds):
                find.order = order
        return Evidence(found, weights)

    def _recency(self, at: int) -> float:
        return float(2.0 ** (-4.0 * (1.0 - (at + 1) / self._total)))

    def _weight(self, atom: str) -> float:
        """What calls referred to is referred to again; of the rest, the rare one is the id."""
        references = self._references[atom]
        worth = 4.0 + min(references, 4) if references else 1.0
        return worth / sqrt(self._carriers[atom]) * self._recency(self._last[atom])

    def _part(self, at: int, message: Message, part: Part, referred: set[str]) -> Iterator[str]:
        if part.text is not None:
            text = unescaped(scanned(part.text))
            if message.kind is Kind.SUMMARY or text.startswith(SUMMARY_OPENS):
                yield from self._earlier(at, bare_summary(text))
            elif message.kind is Kind.NOTICE:
                return
            elif message.role is Role.USER:
                self._requests.pop(text, None)
                find = Find(at, text.strip(), atoms=tuple(self._atoms.read(text)))
                if find.text:
                    self._requests[text] = find
                yield from self._lines(at, text, "user")
            else:
                self._said(at, text)
                yield from self._lines(at, text, "model")
        elif part.thought is not None:
            self._said(at, scanned(part.thought))
        elif part.function_call is not None:
            yield from self._call(at, part.function_call.name, part.function_call.args, referred)
        elif part.function_response is not None:
            yield from self._result(at, part.function_response)

    def _lines(self, at: int, text: str, source: str) -> Iterator[str]:
        for line in _quotable(text):
            atoms = self._atoms.read(line)
            if atoms:
                # The last place counts: what is said again is still true.
                self._details.pop(line, None)
                self._details[line] = Find(at, line, source, tuple(atoms))
                yield from atoms

    def _call(
        self, at: int, name: str, args: Mapping[str, Any], referred: set[str]
    ) -> Iterator[str]:
        for key, value in args.items():
            text = scanned(worded(value))
            if len(text) <= REFERENCE_CHARS:
                atoms = self._atoms.read(text)
                referred.update(atoms)
                for atom in atoms:
                    if _PATH.match(atom) and "\n" not in text:
                        self._file(at, atom)
            if _PATH_KEY.search(str(key)) and 0 < len(text) <= LONGEST_LINE:
                self._file(at, text)
        text = scanned(worded(args))
        if len(text) <= LONGEST_LINE:
            text = text.replace("\n", ", ")
        yield from self._lines(at, text, name)

    def _file(self, at: int, path: str) -> None:
        self._files.pop(path, None)
        self._files[path] = Find(at, path)

    def _result(self, at: int, result: ToolResult) -> Iterator[str]:
        text = unescaped(scanned(worded(result.result)))
        line = failure_line(text)
        if result.is_error or line:
            self._failed(at, result.name, line or _first_line(text) or "(no message)")
        else:
            self._succeeded[result.name] = at
        yield from self._lines(at, text, result.name)

    def _failed(self, at: int, tool: str, line: str) -> None:
        known = self._failures.pop((tool, line), None)
        self._failures[tool, line] = _Failure(at, tool, line, known.times + 1 if known else 1)

    def _stated(self, failure: _Failure) -> Find:
        """How it ended goes with the error: what has been solved is no open problem."""
        is_open = self._succeeded.get(failure.tool, -1) <= failure.at
        times = f" ({failure.times} times)" if failure.times > 1 else ""
        state = _OPEN if is_open else _SOLVED
        return Find(
            failure.at, f"{failure.tool}: {failure.line}{times} {state}", cue=float(is_open)
        )

    def _said(self, at: int, text: str) -> None:
        for sentence in _SENTENCE_END.split(text):
            words = _MARKUP.sub("", sentence).strip()
            if not SENTENCE_CHARS[0] <= len(words) <= SENTENCE_CHARS[1] or words[0] in "{[\"'":
                continue
            cue = next((weight for weight, cues in CUES if cues.search(words)), 0.0)
            if cue:
                self._sentences.pop(words, None)
                self._sentences[words] = Find(
                    at, words, atoms=tuple(self._atoms.read(words)), cue=cue
                )

    def _earlier(self, at: int, text: str) -> Iterator[str]:
        """An earlier digest is taken apart again, so that digests never nest; others are quoted."""
        entries = parsed(text)
        if entries is None:
            self._found[Section.EARLIER].append(Find(at, text))
            yield from self._atoms.read(text)
            return
        for section, entry in entries:
            atoms = tuple(self._atoms.read(entry))
            find = Find(at, entry, atoms=atoms, cue=1.0)
            match section:
                case Section.DETAILS:
                    self._details[entry] = find
                case Section.DECISIONS:
                    self._sentences[entry] = find
                case Section.REQUESTS:
                    self._requests[entry] = find
                case Section.ERRORS if entry.endswith(_OPEN):
                    tool, _, line = entry.removesuffix(_OPEN).partition(": ")
                    self._failed(at, tool, line.strip())
                case Section.FILES:
                    for path in entry.split(", "):
                        self._file(at, path)
                case _:
                    self._found[section].append(find)
            yield from atoms


def parsed(text: str) -> list[tuple[Section, str]] | None:
    """The entries of a digest; None for a text that is none."""
    entries: list[tuple[Section, list[str]]] = []
    section: Section | None = None
    for line in text.split("\n"):
        if line in _HEADINGS:
            section = Section(line)
        elif section is not None and line.startswith("- "):
            entries.append((section, [line[2:]]))
        elif entries and line.startswith("  "):
            entries[-1][1].append(line[2:])
        elif line:
            return None
    return [(section, "\n".join(lines)) for section, lines in entries] if entries else None


_HEADINGS = frozenset(section.value for section in Section)


def _quotable(text: str) -> Iterator[str]:
    """Whole lines, and long ones in windows."""
    for raw in text.split("\n"):
        line = raw.strip()
        if len(line) <= LONGEST_LINE:
            yield line
        else:
            for window in _WINDOW.findall(line):
                yield window.strip()


def paths_in(args: Mapping[str, Any]) -> list[str]:
    """The files that a call names: arguments that are called a path, or look like one."""
    return [
        value
        for key, value in args.items()
        if isinstance(value, str)
        and 0 < len(value) <= LONGEST_LINE
        and "\n" not in value
        and (_PATH_KEY.search(str(key)) or _PATH.fullmatch(value))
    ]


def failure_line(text: str) -> str:
    """The last line at either end of a result that says what went wrong.

    Only the ends: a file that is read may speak of errors without being one.
    """
    for end in (text[-FAILURE_CHARS:], text[:FAILURE_CHARS]):
        matches = list(_FAILURE.finditer(end))
        if matches:
            return _first_line(end[end.rfind("\n", 0, matches[-1].end()) + 1 :])
    return ""


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:LONGEST_LINE].strip()
