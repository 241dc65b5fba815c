"""What the engine says about one segment: its score in parts, what to do, and why in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import Final

from jaato.segments.path import Hop
from jaato.segments.roots import RootKind
from jaato.segments.score import Parts
from jaato.segments.segment import SegmentType


class Action(StrEnum):
    """What becomes of a segment. Whatever leaves is stashed before."""

    KEEP = "keep"
    COMPRESS = "compress"
    STASH = "stash"
    DELETE = "delete"


class Standing(StrEnum):
    """What the roots have to do with a segment."""

    ROOT = "root"
    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    UNPROVEN = "unproven"
    """Nobody looked long enough; treated as reachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One segment, judged. The parts sum to the score, unless a root's score is infinite."""

    segment_id: str
    type: SegmentType
    tokens: int
    score: float
    recency: float
    type_worth: float
    references: float
    generation: float
    standing: Standing
    action: Action
    refcount: int
    steps_idle: int
    touched_at: datetime
    root: RootKind | None = None
    path: tuple[Hop, ...] = ()
    """How a root leads to it, where somebody asked."""

    @property
    def parts(self) -> Parts:
        """What each input adds to the score; weights are in."""
        return Parts(self.recency, self.type_worth, self.references, self.generation)

    @property
    def reason(self) -> str:
        """In a sentence, for a person or a model."""
        if self.root is not None:
            return f"stays: {_ROOTS[self.root]}"
        idle = "touched just now" if not self.steps_idle else f"idle for {_some(self.steps_idle)}"
        links = f"{self.refcount} references" if self.refcount != 1 else "1 reference"
        sums = (
            f"recency {self.recency:.2f} + type {self.type_worth:.2f}"
            f" + references {self.references:.2f} + generation {self.generation:.2f}"
        )
        text = (
            f"{_STANDINGS[self.standing]}{_way(self.path)}; a {self.type}, {idle}, {links};"
            f" score {self.score:.2f} = {sums}"
        )
        if self.action is Action.COMPRESS:
            return f"cold but important, and {self.tokens:,} tokens long: shorten it; {text}"
        return text


def _way(path: tuple[Hop, ...]) -> str:
    if not path:
        return ""
    shown = [f"{hop.segment_id} ({hop.by})" for hop in path]
    if len(shown) > _MOST_SHOWN:
        shown[2:-2] = [f"{len(shown) - 4:,} more"]
    return ": " + " > ".join(shown)


def _some(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


_MOST_SHOWN: Final = 5
_STANDINGS: Final = {
    Standing.ROOT: "a root",
    Standing.REACHABLE: "reachable from the roots",
    Standing.UNREACHABLE: "no root leads to it",
    Standing.UNPROVEN: "a root may lead to it",
}
_ROOTS: Final = {
    RootKind.PINNED: "it is pinned",
    RootKind.INVARIANT: "it holds for the whole session (by its tag)",
    RootKind.GOAL: "it states the goal of the current task",
    RootKind.ACTIVE_FILE: "it is of the active file",
    RootKind.HINT: "the caller named it",
    RootKind.RECENT_MESSAGE: "it is one of the last messages",
    RootKind.RECENT_EDIT: "it is one of the last edits",
}
NEVER: Final = inf
