"""The plain text a summarizer is shown: every message, cut evenly and visibly where it must fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from jaato.gc.fitting import CHARS_PER_TOKEN, fit
from jaato.gc.wording import bare_summary, shortened, worded, worded_media
from jaato.history import Kind, Message, Part, Role
from jaato.ports import TokenCounter

THOUGHT_CHARS = 400
"""A thought tells why, and its first and last words tell most of it."""
NAME_CHARS = 80
CHARS_WORTH_COUNTING = 32
"""Per token of the limit: material longer than this is cut without being counted first."""
ALWAYS_COUNTED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What is shown of some messages, and whether that is all of them."""

    text: str
    was_cut: bool
    messages_shown: int
    messages_total: int
    counter: TokenCounter = field(repr=False, compare=False)
    counted: int | None = field(default=None, repr=False, compare=False)

    @property
    def tokens(self) -> int:
        """Counted when first asked for."""
        if self.counted is None:
            object.__setattr__(self, "counted", self.counter.count_texts([self.text])[0])
        return self.counted or 0


class _Rank(IntEnum):
    """What is shortened first, and down to which length."""

    RESULT = 0
    SPEECH = 1
    REQUEST = 2


_FLOOR_CHARS = {_Rank.RESULT: 200, _Rank.SPEECH: 200, _Rank.REQUEST: 2_000}
_LAST_RESORT_CHARS = 200
_NOTE_CHARS = 120
_GAP_CHARS = 40


class _Passage(NamedTuple):
    """One labelled text of a message."""

    rank: _Rank
    label: str
    body: str

    def shown(self, cap: int) -> str:
        body = shortened(self.body, cap)
        return f"{self.label}\n{body}" if body else self.label

    def room(self, cap: int) -> int:
        return len(self.label) + min(len(self.body), cap) + 2


@dataclass(frozen=True, slots=True)
class _Cut:
    """How much of what is shown: a length per rank, and the messages that are left out."""

    caps: tuple[int, int, int]
    gone: frozenset[int] = frozenset()


def render(
    messages: Sequence[Message], *, counter: TokenCounter, limit: int | None = None
) -> Transcript:
    """All the messages as text, never more than `limit` tokens of it.

    Counts nothing where there is no limit. A limit too small for any message gives one line that
    says so, and one too small for that line an empty text.
    """
    total = len(messages)
    whole = partial(
        Transcript, was_cut=False, messages_shown=total, messages_total=total, counter=counter
    )
    if not messages:
        return whole(text="")
    if limit is not None and limit <= 0:
        return replace(whole(text=""), was_cut=True, messages_shown=0)
    text = _joined(messages)
    if limit is None:
        return whole(text=text)
    ratio = CHARS_PER_TOKEN
    if len(text) <= max(limit * CHARS_WORTH_COUNTING, ALWAYS_COUNTED):
        tokens = counter.count_texts([text])[0]
        if tokens <= limit:
            return whole(text=text, counted=tokens)
        ratio = len(text) / tokens
    passages = list(map(_passages, messages))
    scale = _Scale(passages)
    room, text = fit(
        lambda room: _cut_text(passages, scale.cut(room)),
        counter=counter,
        limit=limit,
        most=scale.chars,
        chars_per_token=ratio,
    ) or (0, "")
    cut = scale.cut(room)
    shown = total - len(cut.gone) if text else 0
    return replace(whole(text=text), was_cut=not scale.is_whole(cut), messages_shown=shown)


def chunks(messages: Sequence[Message], *, counter: TokenCounter, limit: int) -> list[Transcript]:
    """The messages as consecutive transcripts within the limit each, split between messages.

    A message that alone is too long is the only one cut. Each message is in exactly one chunk.
    """
    if not messages:
        return []
    if limit <= 0:
        return [render(messages, counter=counter, limit=limit)]
    longest = max(limit * CHARS_WORTH_COUNTING, ALWAYS_COUNTED)
    texts = [_joined([message])[:longest] for message in messages]
    done: list[Transcript] = []
    start, used = 0, 0
    for at, tokens in enumerate(counter.count_texts(texts)):
        # One more for the empty line between two messages.
        if at > start and used + tokens + 1 > limit:
            done.extend(_within(messages[start:at], counter, limit))
            start, used = at, 0
        used += tokens + 1
    done.extend(_within(messages[start:], counter, limit))
    return done


def _within(messages: Sequence[Message], counter: TokenCounter, limit: int) -> list[Transcript]:
    """One transcript, or two halves where texts count more together than apart."""
    whole = render(messages, counter=counter, limit=limit)
    if not whole.was_cut or len(messages) == 1:
        return [whole]
    half = len(messages) // 2
    return [
        *_within(messages[:half], counter, limit),
        *_within(messages[half:], counter, limit),
    ]


def _passages(message: Message) -> list[_Passage]:
    if not message.parts:
        return [_Passage(_Rank.SPEECH, f"[{message.role}, empty]", "")]
    own: list[_Passage] = []
    for part in message.parts:
        own.append(_passage(message, part))
        if part.function_response is not None:
            attached = map(worded_media, part.function_response.attachments)
            own += [_Passage(_Rank.RESULT, f"[media: {words}]", "") for words in attached]
    return own


def _passage(message: Message, part: Part) -> _Passage:
    if part.function_call is not None:
        call = part.function_call
        return _Passage(_Rank.SPEECH, f"[call {call.name[:NAME_CHARS]}]", worded(call.args))
    if part.function_response is not None:
        result = part.function_response
        origin = "error from" if result.is_error else "result of"
        label = f"[{origin} {result.name[:NAME_CHARS]}]"
        return _Passage(_Rank.RESULT, label, worded(result.result))
    is_request = message.role is Role.USER and message.kind is Kind.PLAIN
    rank = _Rank.REQUEST if is_request else _Rank.SPEECH
    if part.text is not None:
        if message.kind is Kind.SUMMARY:
            return _Passage(rank, "[earlier summary]", bare_summary(part.text))
        return _Passage(rank, f"[{message.role}]", part.text)
    if part.inline_data is not None:
        return _Passage(rank, f"[media: {worded_media(part.inline_data)}]", "")
    return _Passage(_Rank.SPEECH, "[thought]", shortened(part.thought or "", THOUGHT_CHARS))


def _joined(messages: Sequence[Message]) -> str:
    # Passages are not kept here: those of a long session are work for Python's garbage collector.
    return "\n\n".join(
        [
            f"{label}\n{body}" if body else label
            for message in messages
            for _, label, body in _passages(message)
        ]
    )


def _cut_text(passages: Sequence[Sequence[_Passage]], cut: _Cut) -> str:
    lines: list[str] = []
    gap = shortened_count = 0
    for at, own in enumerate(passages):
        if at in cut.gone:
            gap += 1
            continue
        if gap:
            lines.append(_gap(gap))
            gap = 0
        for passage in own:
            cap = cut.caps[passage.rank]
            shortened_count += len(passage.body) > cap
            lines.append(passage.shown(cap))
    if gap == len(passages):
        return f"[no room for any of {gap:,} messages]"
    if gap:
        lines.append(_gap(gap))
    if not (shortened_count or cut.gone):
        return "\n\n".join(lines)
    note = (
        f"[cut to fit: {shortened_count:,} texts shortened, {len(cut.gone):,} of "
        f"{len(passages):,} messages left out; each gap is marked]"
    )
    return "\n\n".join([note, *lines])


def _gap(count: int) -> str:
    return f"[… {count:,} messages left out …]"


class _Scale:
    """Knows the lengths of all passages, so that a cut for any room is arithmetic."""

    def __init__(self, passages: Sequence[Sequence[_Passage]]) -> None:
        self._passages = passages
        self._everything = frozenset(range(len(passages)))
        self._lengths = {
            rank: sorted(len(p.body) for own in passages for p in own if p.rank == rank)
            for rank in _Rank
        }
        self._sums = {rank: [0, *accumulate(lengths)] for rank, lengths in self._lengths.items()}
        self._labels = sum(len(p.label) + 3 for own in passages for p in own)
        self.chars = _NOTE_CHARS + self._labels + sum(sums[-1] for sums in self._sums.values())
        self._requests = {
            at for at, own in enumerate(passages) if any(p.rank is _Rank.REQUEST for p in own)
        }

    def cut(self, room: int) -> _Cut:
        """The mildest cut that takes at most this many characters, or the harshest there is."""
        room -= _NOTE_CHARS
        caps = [self._longest(rank) for rank in _Rank]
        for rank in _Rank:
            others = sum(self._total(other, caps[other]) for other in _Rank if other != rank)
            caps[rank] = self._cap(rank, room - self._labels - others, _FLOOR_CHARS[rank])
            if self._labels + others + self._total(rank, caps[rank]) <= room:
                return _Cut((caps[0], caps[1], caps[2]))
        kept = self._ends((caps[0], caps[1], caps[2]), room, always=self._requests)
        if kept is None:
            caps[_Rank.REQUEST] = _LAST_RESORT_CHARS
            kept = self._ends((caps[0], caps[1], caps[2]), room, always=self._requests)
        if kept is None:
            kept = self._ends((caps[0], caps[1], caps[2]), room, always=set())
        return _Cut((caps[0], caps[1], caps[2]), self._everything - (kept or set()))

    def is_whole(self, cut: _Cut) -> bool:
        """Whether nothing is missing after all."""
        return not cut.gone and all(cut.caps[rank] >= self._longest(rank) for rank in _Rank)

    def _longest(self, rank: _Rank) -> int:
        return self._lengths[rank][-1] if self._lengths[rank] else 0

    def _total(self, rank: _Rank, cap: int) -> int:
        lengths = self._lengths[rank]
        whole = bisect_right(lengths, cap)
        return self._sums[rank][whole] + cap * (len(lengths) - whole)

    def _cap(self, rank: _Rank, room: int, floor: int) -> int:
        """The length to which all texts of a rank must come down together."""
        low, high = floor, max(floor, self._longest(rank))
        while low < high:
            middle = (low + high + 1) // 2
            if self._total(rank, middle) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _ends(self, caps: tuple[int, int, int], room: int, *, always: set[int]) -> set[int] | None:
        """The messages that stay when the middle goes; None where `always` has no room."""
        sizes = [sum(p.room(caps[p.rank]) for p in own) for own in self._passages]
        room -= sum(sizes[at] + _GAP_CHARS for at in always) + _GAP_CHARS
        if room < 0:
            return None
        kept = set(always)
        rest = [at for at in range(len(sizes)) if at not in always]
        spent = [0, 0]
        ends = [0, len(rest) - 1]
        while ends[0] <= ends[1]:
            side = 0 if spent[0] <= spent[1] else 1
            at = rest[ends[side]]
            if sum(spent) + sizes[at] > room:
                break
            kept.add(at)
            spent[side] += sizes[at]
            ends[side] += 1 if side == 0 else -1
        return kept
