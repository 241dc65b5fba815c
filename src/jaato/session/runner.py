"""The loop of one agent: asks `turn` what is next, awaits it, and tells what came of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from difflib import get_close_matches

from jaato.budget import ConversationTurnType
from jaato.errors import UsageError
from jaato.events import Noticed, TurnEnded, TurnStarted
from jaato.exchange import ContextLimitError, ProviderError, ToolOutput, ToolSchema
from jaato.history import FunctionCall, Media, Message, Part, Role
from jaato.kept import StashError
from jaato.ports import Telemetry
from jaato.session.calls import Calls
from jaato.session.collector import Collector
from jaato.session.emitter import Emitter, told
from jaato.session.model_call import ModelCall, replayable
from jaato.session.problems import WindowFullError
from jaato.session.record import Enriched, TakenBack, ToolsSet, TurnClosed
from jaato.session.room import Room
from jaato.session.settings import Enricher, LoopSettings
from jaato.session.state import State
from jaato.session.turn import CallModel, End, MakeRoom, RunTools, Turn
from jaato.tokens import acount_messages
from jaato.tools.catalogue import Catalogue


class Runner:
    """Runs turns, one at a time."""

    def __init__(
        self,
        state: State,
        emitter: Emitter,
        *,
        collector: Collector,
        room: Room,
        model: ModelCall,
        calls: Calls,
        catalogue: Catalogue,
        settings: LoopSettings,
        telemetry: Telemetry,
    ) -> None:
        self.state = state
        self.emitter = emitter
        self.telemetry = telemetry
        self.collector = collector
        self.room = room
        self.model = model
        self.calls = calls
        self.catalogue = catalogue
        self.settings = settings
        self.enrichers: dict[str, Enricher] = {}
        self._told: tuple[ToolSchema, ...] | None = None
        """The schemas that the budget was last told of."""
        self._limitless: str | None = None
        """The model of whose unknown window was told."""

    async def send(
        self, prompt: str, *, attachments: Sequence[Media] = (), turn_type: str | None = None
    ) -> str:
        """Take a prompt, and run the turn it opens. The last answer's text."""
        message = _prompted(prompt, attachments)
        kind = None if turn_type is None else _turn_type(turn_type)
        await acount_messages(self.state.counter, [message])
        try:
            await self._enrich(prompt)
            await self.room.before_prompt()
        except asyncio.CancelledError:
            # Interrupted before it began: `go_on` shall have something to go on with.
            self._take(message, kind)
            raise
        self._take(message, kind)
        self._tell_of_limit()
        return await self._run(Turn(max_steps=self.settings.max_steps), prompt, is_new=True)

    def _tell_of_limit(self) -> None:
        """Say once that a percentage of an unknown window triggers nothing."""
        window = self.state.window
        if window.limit is None and self.collector.may_collect and self._limitless != window.model:
            self._limitless = window.model
            text = f"the window of {window.model!r} is not known, so that nothing is collected "
            text += "before the provider refuses a request: context_limit=… makes it known"
            self.emitter.emit(Noticed(agent_id=self.emitter.agent_id, text=text))

    def _take(self, message: Message, turn_type: str | None) -> None:
        self.close_open_calls()
        self.state.add(message, turn_type)

    async def go_on(self) -> str:
        """Run on from where the history stopped: after an error, an interruption or a crash."""
        self.close_open_calls()
        history = self.state.history
        if not history or (history[-1].role is Role.MODEL and not history[-1].call_ids):
            return history[-1].text if history else ""
        return await self._run(Turn(max_steps=self.settings.max_steps), "", is_new=False)

    def close_open_calls(self) -> None:
        """Answer calls whose results were never recorded: they are not made a second time."""
        history = self.state.history
        if not history or not history[-1].call_ids:
            return
        calls = [call for call in history[-1].function_calls if call.id in history[-1].call_ids]
        self.state.add(self.calls.message(calls, {}, self.room))
        text = f"{len(calls)} tool calls were interrupted and are not repeated"
        self.emitter.emit(Noticed(agent_id=self.emitter.agent_id, text=text))

    async def _run(self, turn: Turn, prompt: str, *, is_new: bool) -> str:
        self.emitter.emit(TurnStarted(agent_id=self.emitter.agent_id, prompt=prompt))
        failed: str | None = "the turn was interrupted"
        with self.telemetry.span("turn", prompt=prompt, **self._facts()) as span:
            try:
                end = await self._ended(turn)
                failed = None if end.error is None else told(end.error)
                if is_new and isinstance(end.error, WindowFullError) and not turn.steps:
                    # A prompt that never fits would keep every later one out as well.
                    self.state.commit(TakenBack(why=failed or ""))
                    end.error.prompt_was_taken = False
            except Exception as error:
                failed = told(error)
                raise
            finally:
                span.set(steps=turn.steps, error=failed)
                self._close(turn, failed)
            if end.error is not None:
                raise end.error
            span.set(text=end.text)
            return end.text

    async def _ended(self, turn: Turn) -> End:
        while not isinstance(turn.action, End):
            await self._act(turn)
        end = turn.action
        if end.error is None:
            await self.room.after_turn()
        return end

    def _close(self, turn: Turn, failed: str | None) -> None:
        text = turn.action.text if isinstance(turn.action, End) else ""
        agent = self.emitter.agent_id
        try:
            self.state.commit(TurnClosed(error=failed))
        finally:
            # Whoever was told of its beginning waits for the end, log or no log.
            self.emitter.emit(TurnEnded(agent_id=agent, text=text, steps=turn.steps, error=failed))
            self.collector.tell_budget()

    def _facts(self) -> dict[str, object]:
        state = self.state
        return {
            "session_id": state.session_id,
            "agent_id": self.emitter.agent_id,
            "turn": state.window.turn_number,
            "provider": state.provider,
            "model": state.window.model,
        }

    async def _act(self, turn: Turn) -> None:
        match turn.action:
            case MakeRoom(refused=refused, times=times):
                await self._make_room(turn, refused, times)
            case CallModel(attempt=attempt):
                await self._call_model(turn, attempt)
            case RunTools(calls=calls):
                await self._run_tools(calls)
                turn.tools_ran()
            case End():
                pass

    async def _make_room(self, turn: Turn, refused: ContextLimitError | None, times: int) -> None:
        self.follow_tools()
        self.model.refusals = times
        try:
            await self.room.before_call(refused, times)
        except (WindowFullError, ContextLimitError, StashError) as error:
            turn.stopped(error)
        else:
            self.follow_tools()
            turn.room_made()

    async def _call_model(self, turn: Turn, attempt: int) -> None:
        threshold = self.collector.rules.threshold_percent if self.collector.may_collect else None
        try:
            finished, crossed = await self.model.run(
                self.catalogue.offered(), attempt=attempt, threshold=threshold
            )
        except ProviderError as error:
            turn.failed(error)
            return
        message = replayable(finished.message)
        await acount_messages(self.state.counter, [message])
        self.state.add(message)
        self.room.threshold_crossed = crossed
        turn.answered(message, finished.stop)

    async def _run_tools(self, calls: Sequence[FunctionCall]) -> None:
        outputs: dict[int, ToolOutput] = {}
        try:
            await self.calls.run(calls, outputs)
        finally:
            # Also where the turn is interrupted: what ran has run, and the calls must be answered.
            self.state.add(self.calls.message(calls, outputs, self.room))

    def follow_tools(self) -> None:
        """Make catalogue and budget agree: collections unload schemas, `find_tools` loads."""
        state, catalogue, before = self.state, self.catalogue, self._told
        held = state.window.tools_in_budget()
        if before is not None:
            gone = {schema.name for schema in before} - held.keys()
            catalogue.unload(name for name in catalogue.loaded if name in gone)
        elif held:
            # A resumed session: what its log does not hold was unloaded before, and the rest came
            # in this order, on which a cached prefix and bound thoughts depend.
            catalogue.unload(catalogue.loaded)
            catalogue.load(held)
        offered = self._told = catalogue.offered()
        if offered == before and held.keys() == {schema.name for schema in offered}:
            return
        tokens = catalogue.schema_tokens(state.counter)
        discoverable = frozenset(catalogue.discoverable)
        entries = {
            schema.name: (tokens[schema.name], schema.name in discoverable) for schema in offered
        }
        if entries != held:
            self._change_front(ToolsSet(tokens=entries))
        elif before is not None:
            # Other words or another order, for as many tokens.
            self.collector.drop_bound_thoughts()

    async def _enrich(self, prompt: str) -> None:
        """Ask the enrichers; one that raises is reported and says nothing."""
        texts: dict[str, str] = {}
        for key, enricher in self.enrichers.items():
            text = await self._enriched(enricher, prompt)
            if text:
                texts[key] = f"<{key}>\n{text}\n</{key}>"
        if texts != self.state.window.enrichment:
            self._change_front(Enriched(texts=texts))
        elif texts:
            # The same words, but in front of another prompt: the last turn's is sent without them.
            self.collector.drop_bound_thoughts()

    async def _enriched(self, enricher: Enricher, prompt: str) -> str:
        try:
            if inspect.iscoroutinefunction(enricher):
                said = await enricher(prompt)
            else:
                said = await asyncio.to_thread(enricher, prompt)
                if inspect.isawaitable(said):
                    said = await said
        except Exception as error:  # noqa: BLE001 -- whatever it raises must not take the turn along
            self.emitter.report(enricher, error)
            return ""
        return said if isinstance(said, str) else ""

    def _change_front(self, record: ToolsSet | Enriched) -> None:
        """Change what is sent before the messages; thoughts that were bound to it go along."""
        self.state.commit(record)
        self.collector.drop_bound_thoughts()


def _prompted(prompt: str, attachments: Sequence[Media]) -> Message:
    if not isinstance(prompt, str):
        raise UsageError(
            f"a prompt is text, not {type(prompt).__name__}", hint="media go into attachments=[…]"
        )
    texts = [Part(text=prompt)] if prompt.strip() or not attachments else []
    if texts and not prompt.strip():
        # Some providers refuse it, and every later request that holds it.
        raise UsageError("the prompt is empty", hint="continue_turn() goes on without one")
    return Message(Role.USER, [*texts, *(Part(inline_data=media) for media in attachments)])


def _turn_type(name: str) -> str:
    try:
        return ConversationTurnType(name).value
    except ValueError:
        near = get_close_matches(str(name), list(ConversationTurnType), n=1)
        raise UsageError(
            f"no turn type {name!r:.80}",
            hint=f"did you mean {near[0]!s}?" if near else ", ".join(ConversationTurnType),
        ) from None
