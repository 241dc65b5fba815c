"""How `jaato stash` prints records: lines for people, JSON for programs, nothing that acts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jaato.kept import About, Entry, Hit, Record
    from jaato.ports import Stash

# What a terminal would obey, or cannot show: control characters, half characters, and those that
# turn the direction of writing around.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LONGEST_LINE = 160
_HEADINGS = ("handle", "when (UTC)", "what", "turn", "size", "label")


def printable(text: str) -> str:
    """A text that a terminal shows and does not obey."""
    return _UNSAFE.sub(_escaped, text)


def one_line(text: str) -> str:
    """The beginning of a text as one line."""
    return printable(" ".join(text.split())[:_LONGEST_LINE])


def exactly(text: str) -> bytes:
    """A text as a file holds it. Half characters stay what they are."""
    return text.encode("utf-8", "surrogatepass")


def print_exactly(text: str) -> None:
    """A text without a byte more, whatever stdout takes letters for."""
    left = memoryview(exactly(text))
    while left:
        # Without a buffer (`python -u`) a write may do half of it.
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def print_json(value: object) -> None:
    """One JSON document, all of it ASCII."""
    click.echo(json.dumps(value, indent=2))


def print_table(entries: list[Entry]) -> None:
    """One line a record."""
    rows = [_cells(entry) for entry in entries]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for number, row in enumerate([_HEADINGS, *rows]):
        padded = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.secho("  ".join(padded).rstrip(), bold=number == 0)


def print_hit(hit: Hit) -> None:
    """A line that says what was found, and a line of it."""
    click.secho(title(hit.entry.handle, hit.entry.about, hit.entry.chars), bold=True)
    click.echo(f"    {one_line(hit.excerpt)}")


def title(handle: str, about: About, chars: int) -> str:
    """A record in one line."""
    when, what, turn, size, _ = _facts(about, chars)
    told = [handle, what, f"turn {turn}" if turn else "", size, when, *about.files[:1]]
    return one_line(", ".join(filter(None, told)))


def entry_json(entry: Entry) -> dict[str, Any]:
    """A record in a list, as JSON."""
    return {"handle": entry.handle, **_about_json(entry.about), "chars": entry.chars}


def hit_json(hit: Hit) -> dict[str, Any]:
    """A record that was found, as JSON."""
    return {**entry_json(hit.entry), "score": hit.score, "excerpt": hit.excerpt}


def record_json(handle: str, record: Record) -> dict[str, Any]:
    """Everything that is known of a record, as JSON."""
    return {
        "handle": handle,
        **_about_json(record),
        "chars": len(record.text),
        "text": record.text,
        "extra": _plain(record.extra),
    }


def tell_damages(stash: Stash) -> int:
    """Say on stderr what could not be read; how much that is. Only some stashes look as they go."""
    found = len(getattr(stash, "damages", ()))
    if found:
        were = "1 record is" if found == 1 else f"{found:,} records are"
        click.echo(f"{were} damaged: `jaato stash verify` says more", err=True)
    return found


def iso(seconds: float) -> str:
    """A time as filters take it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _about_json(about: About) -> dict[str, Any]:
    return {
        "type": about.type,
        "session": about.session,
        "turn": about.turn,
        "step": about.step,
        "message_ids": list(about.message_ids),
        "tool": about.tool,
        "files": list(about.files),
        "tags": list(about.tags),
        "tokens": about.tokens,
        "created_at": iso(about.created_at),
        "label": about.label,
    }


def _cells(entry: Entry) -> tuple[str, ...]:
    return (entry.handle, *map(one_line, _facts(entry.about, entry.chars)))


def _facts(about: About, chars: int) -> tuple[str, str, str, str, str]:
    when = iso(about.created_at)[:16].replace("T", " ") if about.created_at else ""
    size = f"{chars:,} chars" if about.tokens is None else f"{about.tokens:,} tokens"
    turn = "" if about.turn is None else str(about.turn)
    return when, f"{about.type} {about.tool}".strip(), turn, size, about.label


def _escaped(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}"  # noqa: PLR2004 -- a byte


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
