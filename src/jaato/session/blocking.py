"""`JaatoSession`: a session for callers that do not await; each name blocks until it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaato.gc.result import GCResult
from jaato.history import Media
from jaato.session.bridge import BRIDGE
from jaato.session.output import OutputCallback
from jaato.session.session import AsyncSession
from jaato.session.subagents import SubagentResult


class JaatoSession(AsyncSession):
    """One agent, whose context always fits. What begins with `a` awaits; its twin blocks."""

    def send_message(
        self,
        prompt: str,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
        *,
        attachments: Sequence[Media] = (),
        turn_type: str | None = None,
    ) -> str:
        """Send a prompt, run the turn it opens, and return the model's last text."""
        return BRIDGE.run(
            self.asend_message(
                prompt, on_output, on_gc_threshold, attachments=attachments, turn_type=turn_type
            )
        )

    def continue_turn(
        self,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
    ) -> str:
        """Go on where an error, an interruption or a crash ended a turn."""
        return BRIDGE.run(self.acontinue_turn(on_output, on_gc_threshold))

    def manual_gc(self) -> GCResult | None:
        """Collect now. None where no plug-in is installed."""
        return BRIDGE.run(self.amanual_gc())

    def switch_model(self, model: str, **settings: Any) -> None:
        """Go on with another model; the limit follows it."""
        BRIDGE.run(self.aswitch_model(model, **settings))

    def spawn_subagent(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a subagent do a task."""
        return BRIDGE.run(self.aspawn_subagent(task, profile, inline_config))

    def close(self) -> None:
        """End the log."""
        BRIDGE.run(self.aclose())
