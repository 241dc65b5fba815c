"""What the tests of files share."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

from jaato.kept import (
    Record,
)
from jaato.stash.files import FileStash

LOG = "stash.jsonl"


def filled(folder: Path, count: int = 5) -> list[str]:
    """A closed stash with so many records; their handles."""
    stash = FileStash(folder)
    handles = stash.put([Record(text=f"text number {at}", turn=at) for at in range(count)])
    stash.close()
    return handles


def change(path: Path, edit: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit(path.read_bytes()))


def quarantined(folder: Path) -> list[bytes]:
    lines = (folder / "quarantine.jsonl").read_text(encoding="utf-8").split("\n")
    return [base64.b64decode(json.loads(line)["raw"]) for line in lines if line]
