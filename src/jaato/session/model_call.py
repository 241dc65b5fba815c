"""One call of the model: the request built, the stream watched, the answer handed over whole."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from jaato.events import (
    ModelCallEnded,
    ModelCallStarted,
    TextStreamed,
    ThoughtStreamed,
    ThresholdCrossed,
)
from jaato.exchange import (
    CallDelta,
    Finished,
    NetworkError,
    ProviderError,
    Request,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolSchema,
    UsageSeen,
)
from jaato.history import Message, Part, Role
from jaato.ports import Provider, Span, Telemetry
from jaato.session.emitter import Emitter
from jaato.session.monitor import StreamMonitor
from jaato.session.record import Reported
from jaato.session.sent import marks_in, sent_messages
from jaato.session.settings import ModelSettings
from jaato.session.state import State

LARGEST_ANSWER: Final = 8192
"""Where less room than this is left, the provider is told how much it is."""


class ModelCall:
    """Calls the model of one session."""

    def __init__(
        self,
        state: State,
        emitter: Emitter,
        telemetry: Telemetry,
        provider: Provider,
        settings: ModelSettings,
    ) -> None:
        self.state = state
        self.emitter = emitter
        self.telemetry = telemetry
        self.provider = provider
        self.settings = settings
        self.refusals = 0
        """How often in a row the provider said that it does not fit: each halves the answer."""

    async def run(
        self, tools: tuple[ToolSchema, ...], *, attempt: int, threshold: float | None
    ) -> tuple[Finished, bool]:
        """The answer, and whether the threshold was crossed. The history is not changed."""
        window = self.state.window
        request = self.request(tools)
        counted = window.counted
        monitor = StreamMonitor(threshold, window.limit, window.tokens)
        self.emitter.emit(
            ModelCallStarted(
                agent_id=self.emitter.agent_id,
                model=request.model,
                attempt=attempt,
                tokens=window.tokens,
            )
        )
        facts = {
            "session_id": self.state.session_id,
            "provider": self.provider.name,
            "model": request.model,
            "attempt": attempt,
            "max_output_tokens": request.max_output_tokens,
            "request_tokens": window.tokens,
            "context_limit": window.limit,
            # By reference: recorded only where whoever watches asked for content.
            "system": request.system,
            "messages": request.messages,
            "tools": request.tools,
        }
        with self.telemetry.span("model_call", **facts) as span:
            try:
                finished = await self._streamed(request, monitor, span)
            except ProviderError as error:
                span.fail(error)
                self._ended(request.model, None, f"{type(error).__name__}: {error}")
                raise
            usage = finished.usage
            self._look(monitor, reported=usage.total_tokens)
            span.set(
                answer=finished.message,
                finish_reason=finished.stop.value,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                thinking_tokens=usage.thinking_tokens,
            )
        self.state.commit(
            Reported(reported=usage.input_tokens, counted=counted, thinking=usage.thinking_tokens)
        )
        self._ended(request.model, finished, None)
        return finished, monitor.crossed

    def reserve(self) -> int | None:
        """The room that is wanted for an answer; None: what is usual.

        Thoughts are a part of the answer: what they may take comes on top of what is usual.
        """
        wanted, thinking = self.settings.max_output_tokens, self._thinking
        return self.state.window.reserve(None) + thinking if wanted is None and thinking else wanted

    @property
    def _thinking(self) -> int:
        thinking = self.settings.thinking
        return thinking if isinstance(thinking, int) else 0

    def request(self, tools: tuple[ToolSchema, ...]) -> Request:
        """Everything that goes over the wire now."""
        window, settings = self.state.window, self.settings
        wanted, room = settings.max_output_tokens, window.room_for_answer()
        most = LARGEST_ANSWER + self._thinking if wanted is None else wanted
        if room is not None and (room < most or self.refusals):
            # Providers refuse an answer that ends before its thoughts may.
            wanted = max(min(room, most) >> self.refusals, self._thinking + 1)
        return Request(
            model=window.model,
            messages=sent_messages(window),
            system="\n\n".join(window.system.values()),
            tools=tools,
            max_output_tokens=wanted,
            marks=marks_in(window),
            thinking=settings.thinking,
            options=settings.options,
        )

    async def _streamed(self, request: Request, monitor: StreamMonitor, span: Span) -> Finished:
        began = time.perf_counter()
        is_first = True
        finished: Finished | None = None
        # A stream is closed even if a listener's turn is cancelled: the provider stops then too.
        async with aclosing(_closable(self.provider, request)) as stream:
            async for event in stream:
                if is_first and not isinstance(event, UsageSeen):
                    is_first = False
                    span.set(first_token_seconds=time.perf_counter() - began)
                if isinstance(event, Finished):
                    finished = event
                else:
                    self._seen(event, monitor)
        if finished is None:
            raise NetworkError(
                "the stream ended before the answer did", provider=self.provider.name
            )
        return finished

    def _seen(self, event: StreamEvent, monitor: StreamMonitor) -> None:
        agent = self.emitter.agent_id
        match event:
            case TextDelta(text=text):
                self.emitter.emit(TextStreamed(agent_id=agent, text=text))
                self._look(monitor, text)
            case ThoughtDelta(text=text):
                self.emitter.emit(ThoughtStreamed(agent_id=agent, text=text))
                self._look(monitor, text)
            case CallDelta(arguments=text):
                self._look(monitor, text)
            case UsageSeen(usage=usage):
                self._look(monitor, reported=usage.total_tokens)
            case Finished():
                pass

    def _look(self, monitor: StreamMonitor, text: str = "", *, reported: int | None = None) -> None:
        crossed = monitor.streamed(text) if text else monitor.reported(reported)
        if crossed and monitor.threshold is not None:
            self.emitter.emit(
                ThresholdCrossed(
                    agent_id=self.emitter.agent_id,
                    percent_used=monitor.percent,
                    threshold=monitor.threshold,
                )
            )

    def _ended(self, model: str, finished: Finished | None, error: str | None) -> None:
        self.emitter.emit(
            ModelCallEnded(
                agent_id=self.emitter.agent_id,
                model=model,
                usage=None if finished is None else finished.usage,
                stop=None if finished is None else finished.stop,
                error=error,
            )
        )


async def asked(provider: Provider, model: str, prompt: str, limit: int | None) -> str:
    """What a model answers to one text, without tools and without a conversation."""
    request = Request(
        model=model, messages=(Message.from_text(Role.USER, prompt),), max_output_tokens=limit
    )
    async with aclosing(_closable(provider, request)) as stream:
        async for event in stream:
            if isinstance(event, Finished):
                return event.message.text
    raise NetworkError("the stream ended before the answer did", provider=provider.name)


def replayable(message: Message) -> Message:
    """The answer as it is kept: a thought that is never replayed is output only."""
    if not message.thoughts:
        return message
    kept = [part for part in message.parts if part.thought is None or part.extra]
    if len(kept) == len(message.parts):
        return message
    # A history holds no empty message; what says nothing says so.
    return message.with_parts(kept or [Part(text="")])


async def _closable(provider: Provider, request: Request) -> AsyncGenerator[StreamEvent, None]:
    stream = provider.stream(request)
    try:
        async for event in stream:
            yield event
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
