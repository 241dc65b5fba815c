"""`gc_truncate`: the oldest turns leave, whole, until the target is reached."""

from __future__ import annotations

from jaato.gc.draft import Draft
from jaato.gc.drive import DrivenPlugin
from jaato.gc.plan import Plan
from jaato.gc.situation import Situation
from jaato.gc.truncation import truncated

NOTIFICATION = (
    "{removed} earlier turns were removed from this conversation to free {tokens_freed} tokens; "
    "{kept} turns remain."
)


class TruncateGCPlugin(DrivenPlugin):
    """Removes the oldest turns entirely."""

    name = "gc_truncate"

    def plan(self, situation: Situation) -> Plan:
        """Drop turns, oldest first."""
        return truncated(Draft(situation, NOTIFICATION))


def create_plugin() -> TruncateGCPlugin:
    """A new, uninitialised plug-in."""
    return TruncateGCPlugin()
