"""Folding as a decision: how large a summary may be, and what it reports."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from jaato.gc.draft import Draft
from jaato.gc.marks import create_summary_message
from jaato.gc.plan import Digest, Summarize
from jaato.gc.wording import EXTRACTIVE
from jaato.tokens import message_tokens

SHARE_OF_MATERIAL = 4
"""A summary may take a quarter of what it replaces: beyond that it saves too little to pay."""
SHARE_OF_WINDOW = 20
"""Nor more than a twentieth of the window: summaries pile up, and each is read at every step."""
LARGEST_WITHOUT_WINDOW = 4_000


def folded(
    draft: Draft, indices: list[int], reason: str
) -> Generator[Summarize, Digest, dict[str, Any]]:
    """Ask for a summary of these spans and fold them into it. Returns what to report.

    Material smaller than the frame of a summary stays as it is.
    """
    situation = draft.situation
    messages, tokens = draft.foldable(indices)
    frame = message_tokens(situation.counter, create_summary_message(""))
    room = tokens - frame - 1
    if room <= 0:
        return {}
    most = situation.limit // SHARE_OF_WINDOW if situation.limit else LARGEST_WITHOUT_WINDOW
    digest = yield Summarize(
        messages=messages,
        tokens=tokens,
        limit=min(max(tokens // SHARE_OF_MATERIAL, 1), max(most, 1), room),
        window=situation.limit,
        prompt=situation.options.get("summarize_prompt"),
    )
    if digest.by == EXTRACTIVE and not digest.text:
        # Nothing worth a line fits into so little room. That is an answer, not a failure.
        return {}
    draft.fold(indices, digest, reason)
    report: dict[str, Any] = {"summary_tokens": draft.summary_tokens, "summarizer": digest.by}
    return report if digest.note is None else {**report, "summarizer_note": digest.note}


def drop_summaries(draft: Draft) -> None:
    """Under pressure let older summaries go, but never the newest: it bridges what was folded."""
    situation = draft.situation
    summaries = [at for at in situation.old_summaries if draft.leaving(at, situation.spared)]
    if not draft.folded:
        del summaries[-1:]
    draft.drop_oldest(summaries, "preservable_under_pressure")
