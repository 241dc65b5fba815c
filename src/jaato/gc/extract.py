"""The built-in summarizer "extractive": a digest of quotes. No model, and the same every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from jaato.gc.evidence import Evidence, Find, Section
from jaato.gc.fitting import fit
from jaato.gc.wording import said, scanned, shortened
from jaato.history import Message
from jaato.ports import TokenCounter

SHARES = {
    Section.EARLIER: 0.25,
    Section.REQUESTS: 0.20,
    Section.DECISIONS: 0.10,
    Section.ERRORS: 0.07,
    Section.FILES: 0.10,
}
"""How much of the room a section may take; `Details:` has the rest, and what others leave."""
LONGEST_REQUEST_UNSHARED = 200
"""A request up to this length is quoted whole, however many there are."""
TASK_CHARS = 300
"""In a digest so small that the share says nothing, the task has this much, or half."""
ENTRY_CHARS = 3
"""A dash, a space and the end of the line."""
LINE_CHARS = 10
"""What a line costs a reader beside its length; without it, the shortest lines always win."""
_SHORTEST = 12
_WORDS_OF_A_TASK = 3


def extract(messages: Sequence[Message], *, counter: TokenCounter, limit: int) -> str:
    """Quotes of what matters in at most `limit` tokens, and at most half of what was given.

    Empty where nothing worth keeping fits. The same for the same messages, on every machine.
    """
    limit = min(limit, _tokens(messages, counter, enough=2 * limit) // 2)
    if limit <= 0:
        return ""
    digest = _Digest(Evidence.of(messages))
    fitted = fit(digest.text, counter=counter, limit=limit, most=digest.most)
    return fitted[1] if fitted else ""


def _tokens(messages: Sequence[Message], counter: TokenCounter, *, enough: int) -> int:
    """The tokens of what the messages say, counted no further than is needed to judge a limit."""
    total = 0
    batch: list[str] = []
    waiting = 0
    for message in messages:
        texts = [text for part in message.parts if (text := scanned(said(part)))]
        batch += texts
        waiting += sum(map(len, texts))
        if waiting >= 4 * (enough - total):
            total += sum(counter.count_texts(batch))
            if total >= enough:
                return total
            batch, waiting = [], 0
    return total + sum(counter.count_texts(batch))


class _Digest:
    """Everything found, ranked once, so that a digest for any room is one pass."""

    def __init__(self, evidence: Evidence) -> None:
        found = evidence.found
        self._found = found
        self._weights = evidence.weights
        self._details = _ranked(
            found[Section.DETAILS], lambda find: find.value / (len(find.text) + LINE_CHARS)
        )
        self._decisions = _ranked(found[Section.DECISIONS], lambda find: find.value)
        self._errors = _ranked(found[Section.ERRORS], lambda find: find.cue)
        self._files = found[Section.FILES][::-1]
        self._requests = found[Section.REQUESTS]
        size = sum(
            _cost(find.text) + len(find.source) + 3 for finds in found.values() for find in finds
        )
        # Enough for the smallest share to hold all of its section.
        self.most = int((size + sum(map(len, Section)) + len(Section)) / min(SHARES.values()))

    def text(self, room: int) -> str:
        """The digest of at most this many characters."""
        left = room
        chosen: dict[Section, list[Find]] = {}
        for section, choose in (
            (Section.EARLIER, self._quotes),
            (Section.REQUESTS, self._asked),
            (Section.ERRORS, lambda share: _taken(self._errors, share)),
            (Section.FILES, lambda share: _taken(self._files, share)),
            (Section.DECISIONS, lambda share: _taken(self._decisions, share)),
        ):
            share = int(room * SHARES[section])
            if section is Section.REQUESTS:
                share = max(share, min(room // 2, TASK_CHARS))
            chosen[section] = choose(share - len(section) - 1)
            left -= _room_of(section, chosen[section])
        chosen[Section.DETAILS] = self._telling(left - len(Section.DETAILS) - 1, chosen)
        left -= _room_of(Section.DETAILS, chosen[Section.DETAILS])
        # What no other section could use goes to the requests.
        left += _room_of(Section.REQUESTS, chosen[Section.REQUESTS])
        chosen[Section.REQUESTS] = self._asked(left - len(Section.REQUESTS) - 1)
        return _laid_out(chosen)

    def _quotes(self, room: int) -> list[Find]:
        """Each earlier summary, cut to its part of the room."""
        earlier = self._found[Section.EARLIER]
        cap = room // max(len(earlier), 1) - ENTRY_CHARS
        return list(_capped(earlier, cap))

    def _asked(self, room: int) -> list[Find]:
        """The task and then the newest requests; the longer ones cut to one length."""
        requests = self._requests
        if not requests:
            return []
        cap = max(LONGEST_REQUEST_UNSHARED, _level([_cost(find.text) for find in requests], room))
        task = next((find for find in requests if _is_sentence(find.text)), requests[0])
        newest = [find for find in reversed(requests) if find is not task]
        telling = [find for find in newest if _is_sentence(find.text)]
        brief = [find for find in newest if not _is_sentence(find.text)]
        order = _capped([task, *telling, *brief], min(cap, room) - ENTRY_CHARS)
        return _taken(order, room, skip=False)

    def _telling(self, room: int, chosen: dict[Section, list[Find]]) -> list[Find]:
        """The lines that add most, each for what the digest does not say yet."""
        weights = self._weights
        known = {atom for finds in chosen.values() for find in finds for atom in find.atoms}
        known.update(find.text for find in chosen[Section.FILES])
        taken: list[Find] = []
        for find in self._details:
            if room < _SHORTEST:
                break
            cost = _cost(find.text) + len(find.source) + 3
            if cost > room:
                continue
            gain = sum(weights.get(atom, 0.0) for atom in find.atoms if atom not in known)
            if gain * 2 < find.value:
                continue
            taken.append(find)
            known.update(find.atoms)
            room -= cost
        return taken


def _ranked(finds: Iterable[Find], worth: Callable[[Find], float]) -> list[Find]:
    """Best first; of equals, the newest."""
    return sorted(finds, key=lambda find: (worth(find), find.order), reverse=True)


def _cost(text: str) -> int:
    return len(text) + 2 * text.count("\n") + ENTRY_CHARS


def _room_of(section: Section, finds: Sequence[Find]) -> int:
    return sum(_cost(find.text) for find in finds) + len(section) + 1 if finds else 0


def _taken(finds: Iterable[Find], room: int, *, skip: bool = True) -> list[Find]:
    """From the front while there is room; what is too long is skipped, or ends it."""
    taken: list[Find] = []
    for find in finds:
        cost = _cost(find.text)
        if cost <= room:
            taken.append(find)
            room -= cost
        elif not skip or room < _SHORTEST:
            break
    return taken


def _capped(finds: Iterable[Find], cap: int) -> Iterator[Find]:
    """The same, shortened to a length; those of which nothing is left are left out."""
    for find in finds:
        text = shortened(find.text, cap)
        # Each further line is indented by two characters, and a shorter text has other lines.
        room = cap
        while text and (excess := _cost(text) - ENTRY_CHARS - cap) > 0:
            room -= excess
            text = shortened(find.text, room)
        if text:
            atoms = find.atoms if text == find.text else ()
            yield Find(find.at, text, find.source, atoms, order=find.order)


def _is_sentence(text: str) -> bool:
    """Whether it says enough to be the task: `/mode`, `yes` and `go on` do not."""
    return len(text.split(maxsplit=_WORDS_OF_A_TASK)) >= _WORDS_OF_A_TASK


def _level(lengths: Sequence[int], room: int) -> int:
    """The length to which all must come down so that together they fit."""
    for done, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - done)
        if length > share:
            return share
        room -= length
    return max(lengths)


def _laid_out(chosen: dict[Section, list[Find]]) -> str:
    lines: list[str] = []
    for section in Section:
        finds = sorted(chosen.get(section, ()), key=lambda find: find.order)
        if not finds:
            continue
        lines.append(section)
        if section is Section.FILES:
            lines.append("- " + ", ".join(find.text for find in finds))
            continue
        source = ""
        for find in finds:
            label = f"({find.source}) " if find.source not in ("", source) else ""
            source = find.source
            lines.append("- " + label + find.text.replace("\n", "\n  "))
    return "\n".join(lines)
