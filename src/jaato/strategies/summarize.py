"""`gc_summarize`: everything old becomes one summary, where it stood."""

from __future__ import annotations

from typing import Any

from jaato.gc.draft import Draft
from jaato.gc.drive import DrivenPlugin
from jaato.gc.folding import drop_summaries, folded
from jaato.gc.plan import Planning
from jaato.gc.situation import Situation
from jaato.gc.truncation import NOTHING_NEEDED

NOTIFICATION = (
    "{summarized} earlier turns of this conversation were replaced by a summary, which freed "
    "{tokens_freed} tokens; {kept} turns remain."
)


class SummarizeGCPlugin(DrivenPlugin):
    """Compresses old turns into a summary. Asks the summarizer once per collection."""

    name = "gc_summarize"

    def plan(self, situation: Situation) -> Planning:
        """Fold every unprotected turn."""
        draft = Draft(situation, NOTIFICATION)
        if situation.is_content:
            return draft.nothing(NOTHING_NEEDED, self._details(draft))
        digest = yield from folded(draft, situation.old_turns, "summarized")
        drop_summaries(draft)
        return draft.finish({**self._details(draft), **digest})

    @staticmethod
    def _details(draft: Draft) -> dict[str, Any]:
        return {
            "turns_before": draft.situation.turn_count,
            "turns_after": draft.turns_kept,
            "preserve_count": len(draft.situation.protected),
            "turns_summarized": len(draft.folded),
        }


def create_plugin() -> SummarizeGCPlugin:
    """A new, uninitialised plug-in."""
    return SummarizeGCPlugin()
