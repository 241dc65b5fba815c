"""`JaatoSession`: a session for any caller: one that blocks, and one that awaits in any loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from jaato.gc.result import GCResult
from jaato.history import Media
from jaato.session.bridge import BRIDGE, arun, running_loop
from jaato.session.output import OutputCallback
from jaato.session.session import AsyncSession
from jaato.session.subagents import SubagentResult
from jaato.tools.mcp import McpServerTools

T = TypeVar("T")


class JaatoSession(AsyncSession):
    """One agent, whose context always fits. What begins with `a` awaits; its twin blocks.

    Whoever calls, the work is done in the loop that opened the session.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._home = running_loop()

    def _blocking(self, work: Coroutine[Any, Any, T]) -> T:
        return BRIDGE.run(work, self._home)

    # Awaiting

    async def aclose(self) -> None:
        """Let tool servers go and end the log. The provider stays open: it is the runtime's."""
        await arun(super().aclose(), self._home)

    async def asend_message(
        self,
        prompt: str,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
        *,
        attachments: Sequence[Media] = (),
        turn_type: str | None = None,
    ) -> str:
        """Send a prompt, run the turn it opens, and return the model's last text."""
        work = super().asend_message(
            prompt, on_output, on_gc_threshold, attachments=attachments, turn_type=turn_type
        )
        return await arun(work, self._home)

    async def acontinue_turn(
        self,
        on_output: OutputCallback | None = None,
        on_gc_threshold: Callable[[float, float], Any] | None = None,
    ) -> str:
        """Go on where an error, an interruption or a crash ended a turn."""
        return await arun(super().acontinue_turn(on_output, on_gc_threshold), self._home)

    async def amanual_gc(self) -> GCResult | None:
        """Collect now. None where no plug-in is installed."""
        return await arun(super().amanual_gc(), self._home)

    async def aswitch_model(self, model: str, **settings: Any) -> None:
        """Go on with another model; the limit follows it."""
        await arun(super().aswitch_model(model, **settings), self._home)

    async def aadd_tool_server(self, server: McpServerTools) -> None:
        """Offer the tools of an MCP server as well, for as long as the session is open."""
        await arun(super().aadd_tool_server(server), self._home)

    async def aspawn_subagent(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a subagent do a task."""
        return await arun(super().aspawn_subagent(task, profile, inline_config), self._home)

    # Blocking

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
        return self._blocking(
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
        return self._blocking(self.acontinue_turn(on_output, on_gc_threshold))

    def manual_gc(self) -> GCResult | None:
        """Collect now. None where no plug-in is installed."""
        return self._blocking(self.amanual_gc())

    def switch_model(self, model: str, **settings: Any) -> None:
        """Go on with another model; the limit follows it."""
        self._blocking(self.aswitch_model(model, **settings))

    def spawn_subagent(
        self,
        task: str,
        profile: str | None = None,
        inline_config: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Let a subagent do a task."""
        return self._blocking(self.aspawn_subagent(task, profile, inline_config))

    def close(self) -> None:
        """End the log."""
        self._blocking(self.aclose())
