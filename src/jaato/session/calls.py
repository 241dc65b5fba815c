"""The tool calls of one step: side by side, in time, and every error an answer to the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from jaato.events import Noticed, ToolEnded, ToolStarted
from jaato.exchange import ToolOutput
from jaato.history import RECALLED_MARK, FunctionCall, Message, Part, Role, ToolResult
from jaato.kept import StashError
from jaato.ports import Telemetry
from jaato.session.emitter import Emitter, told
from jaato.session.recall import RECALL
from jaato.session.room import Room
from jaato.session.settings import LoopSettings
from jaato.session.shorten import result_parts, result_text
from jaato.session.state import State
from jaato.tokens import as_text
from jaato.tokens.messages import LONG_CHARS
from jaato.tools.catalogue import Catalogue
from jaato.tools.context import ToolContext, calling

INTERRUPTED = "interrupted before it was done; it may have had its effect"


class Calls:
    """Runs calls, and makes one message of their results."""

    def __init__(
        self,
        state: State,
        emitter: Emitter,
        telemetry: Telemetry,
        catalogue: Catalogue,
        settings: LoopSettings,
    ) -> None:
        self.state = state
        self.emitter = emitter
        self.telemetry = telemetry
        self.catalogue = catalogue
        self.settings = settings

    async def run(self, calls: Sequence[FunctionCall], outputs: dict[int, ToolOutput]) -> None:
        """Run all calls; `outputs` fills as they end, so that an interruption loses none."""
        slots = asyncio.Semaphore(max(self.settings.parallel_calls, 1))

        async def one(at: int, call: FunctionCall) -> None:
            async with slots:
                outputs[at] = await self._call(call)

        async with asyncio.TaskGroup() as group:
            for at, call in enumerate(calls):
                group.create_task(one(at, call))

    def message(
        self, calls: Sequence[FunctionCall], outputs: dict[int, ToolOutput], room: Room
    ) -> Message:
        """The results in the order of their calls; too large ones are shortened first."""
        interrupted = ToolOutput(result=INTERRUPTED, is_error=True)
        parts = []
        for at, call in enumerate(calls):
            output = outputs.get(at, interrupted)
            result = ToolResult(
                call.id, call.name, output.result, output.is_error, output.attachments
            )
            extra = {}
            if call.name == RECALL and not output.is_error:
                # It is kept already, and the first to go again.
                extra[RECALLED_MARK] = (call.args.get("handle") or "").strip() or True
            parts.append(Part(function_response=result, extra=extra))
        message = Message(Role.TOOL, parts)
        largest = self.settings.largest_result(self.state.window.limit)
        for at in result_parts(message):
            text = result_text(message.parts[at])
            if self.state.counter.count_texts([text])[0] > largest:
                try:
                    message = room.shortened(message, at, largest)
                except StashError as error:
                    # Whole it may still fit; where it does not, the gate says what is wrong.
                    why = f"a large result is not shortened: {told(error)}"
                    self.emitter.emit(Noticed(agent_id=self.emitter.agent_id, text=why))
        return message

    async def _call(self, call: FunctionCall) -> ToolOutput:
        agent, began = self.emitter.agent_id, time.perf_counter()
        self.emitter.emit(
            ToolStarted(agent_id=agent, call_id=call.id, name=call.name, arguments=call.args)
        )
        facts = {
            "session_id": self.state.session_id,
            "name": call.name,
            "call_id": call.id,
            "arguments": call.args,
        }
        context = ToolContext(
            session_id=self.state.session_id,
            agent_id=agent,
            call_id=call.id,
            turn=self.state.window.turn_number,
        )
        with self.telemetry.span("tool_call", **facts) as span, calling(context):
            output = await self.catalogue.call(
                call.name, call.args, timeout=self.settings.tool_seconds
            )
            tokens = await self._counted(as_text(output.result))
            span.set(is_error=output.is_error, result_tokens=tokens, result=output.result)
        self.emitter.emit(
            ToolEnded(
                agent_id=agent,
                call_id=call.id,
                name=call.name,
                is_error=output.is_error,
                tokens=tokens,
                seconds=time.perf_counter() - began,
            )
        )
        return output

    async def _counted(self, text: str) -> int:
        """The tokens of a result, counted once, since the counter remembers; long ones apart."""
        count = self.state.counter.count_texts
        if len(text) < LONG_CHARS:
            return count([text])[0]
        return (await asyncio.to_thread(count, [text]))[0]
