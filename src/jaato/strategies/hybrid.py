"""`gc_hybrid`: generations. Recent turns stay, the ones before are folded, older ones leave."""

from __future__ import annotations

from typing import Any

from jaato.gc.draft import Draft
from jaato.gc.drive import DrivenPlugin
from jaato.gc.folding import drop_summaries, folded
from jaato.gc.options import DEFAULT_MIDDLE_TURNS
from jaato.gc.plan import Planning
from jaato.gc.situation import Situation
from jaato.gc.truncation import NOTHING_NEEDED

NOTIFICATION = (
    "{truncated} of the oldest turns were removed and {summarized} later ones replaced by a "
    "summary, which freed {tokens_freed} tokens; {kept} turns remain."
)


class HybridGCPlugin(DrivenPlugin):
    """Folds the middle, truncates what is older; only truncates where nobody can summarize."""

    name = "gc_hybrid"

    def plan(self, situation: Situation) -> Planning:
        """Fold the turns before the recent ones, then drop older ones up to the goal."""
        draft = Draft(situation, NOTIFICATION)
        if situation.is_content:
            return draft.nothing(NOTHING_NEEDED, self._details(draft))
        middle = self._middle(situation)
        digest: dict[str, Any] = {}
        if self.has_summarizer(situation) and middle:
            digest = yield from folded(draft, situation.old_turns[-middle:], "middle_summarized")
        folded_already = set(draft.folded)
        ancient = [index for index in situation.old_turns if index not in folded_already]
        draft.drop_oldest(ancient, "ancient_truncated")
        drop_summaries(draft)
        return draft.finish({**self._details(draft), **digest})

    @staticmethod
    def _middle(situation: Situation) -> int:
        wanted = situation.options.get("summarize_middle_turns")
        return DEFAULT_MIDDLE_TURNS if wanted is None else int(wanted)

    def _details(self, draft: Draft) -> dict[str, Any]:
        situation = draft.situation
        return {
            "turns_before": situation.turn_count,
            "turns_after": draft.turns_kept,
            "turns_truncated": draft.turns_dropped,
            "turns_summarized": len(draft.folded),
            "preserve_recent": situation.preserve_recent,
            "summarize_middle": self._middle(situation),
            "had_summarizer": self.has_summarizer(situation),
        }


def create_plugin() -> HybridGCPlugin:
    """A new, uninitialised plug-in."""
    return HybridGCPlugin()
