"""The `scripted` provider: a function answers, under the rules of a real API. No network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from jaato.errors import UsageError
from jaato.exchange import (
    CallDelta,
    ContextLimitError,
    Finished,
    ProviderError,
    RejectedError,
    Request,
    StopReason,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    Usage,
    UsageSeen,
)
from jaato.gc.fitting import fit
from jaato.ports import TokenCounter
from jaato.providers.scripted_faults import Fault, FaultKind, failure
from jaato.providers.scripted_prompt import PromptCache
from jaato.providers.scripted_rules import Refusal, Rules, dialect_of
from jaato.providers.scripted_worker import Reply, worker
from jaato.tokens import MemoCounter, as_text, default_counter
from jaato.tokens.messages import CALL_FRAME

__all__ = ["Fault", "FaultKind", "Reply", "ScriptedProvider", "worker"]

_PIECES_BETWEEN_USAGE: Final = 32


class ScriptedProvider:
    """Calls a function in place of a model; without one, an agent that works by rule.

    `rules`: the API whose requests it takes, and in whose words it refuses all others. Usage is
    what `counter` counts in what goes over the wire. `faults`: what happens to each call, by its
    number from 1.
    """

    def __init__(
        self,
        script: Callable[[Request], Reply] | None = None,
        *,
        rules: Rules | None = "openai",
        window: int | None = None,
        counter: TokenCounter | None = None,
        chunk_chars: int = 16,
        name: str = "scripted",
        faults: Callable[[int], Fault | None] | None = None,
    ) -> None:
        if chunk_chars < 1:
            raise UsageError(f"chunk_chars is {chunk_chars}", hint="pieces have a letter at least")
        self.name = name
        self.calls = 0
        self._script = script or worker
        self._rules = rules
        self._window = window
        self._counter = default_counter() if counter is None else MemoCounter(counter)
        self._dialect = dialect_of(rules, self._counter)
        self._chunk_chars = chunk_chars
        self._faults = faults
        self._cache = PromptCache(self._dialect.tokens_of)

    @property
    def binds_thoughts(self) -> bool:
        """Whether it refuses a thought once what stands in front of it has changed."""
        return self._rules == "anthropic"

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer in pieces, or the error that the API would give."""
        self.calls += 1
        fault = self._faults(self.calls) if self._faults else None
        if fault is not None and fault.after_events <= 0:
            raise self._failure(fault, request)
        for given, event in enumerate(self._events(request)):
            if fault is not None and (given == fault.after_events or isinstance(event, Finished)):
                raise self._failure(fault, request)
            # A stream that never waits could be neither cancelled nor watched.
            await asyncio.sleep(0)
            yield event

    async def context_limit(self, model: str) -> int | None:
        """The window it was given, whatever the model."""
        del model
        return self._window

    async def aclose(self) -> None:
        """Nothing is open."""

    def _events(self, request: Request) -> Iterator[StreamEvent]:
        body = self._encoded(request)
        prompt = self._dialect.prompt(body)
        tokens, cached = self._cache.read(prompt)
        refusal = self._dialect.refusal(body, request.model, self._window, tokens)
        if refusal is not None:
            raise self._refused(refusal, self._window)
        answer = self._counted(self._script(request))
        if request.max_output_tokens is not None:
            answer = self._cut(answer, request.max_output_tokens)
        usage = Usage(input_tokens=tokens, output_tokens=0, cached_tokens=cached)
        yield UsageSeen(usage)
        for event, output_tokens in answer.pieces(self._chunk_chars):
            yield event
            if output_tokens is not None:
                usage = replace(usage, output_tokens=output_tokens)
                yield UsageSeen(usage)
        usage = replace(
            usage,
            output_tokens=answer.tokens,
            thinking_tokens=answer.thought_tokens,
        )
        yield UsageSeen(usage)
        yield Finished(self._dialect.answer(body, answer.reply), usage, answer.stop)

    def _encoded(self, request: Request) -> Any:
        try:
            return self._dialect.encode(request)
        except UsageError as error:
            raise RejectedError(str(error), provider=self.name) from error

    def _counted(self, reply: Reply) -> _Answer:
        calls = [text for call in reply.calls for text in (call.name, as_text(call.args))]
        thought, text, *rest = self._counter.count_texts([reply.thought, reply.text, *calls])
        return _Answer(reply, thought, text, sum(rest) + CALL_FRAME * len(reply.calls))

    def _cut(self, answer: _Answer, limit: int) -> _Answer:
        """The answer as far as it has room: thoughts come first, calls last, and whole."""
        if answer.tokens <= limit:
            return answer
        reply = answer.reply
        thought = self._fitting(reply.thought, limit)
        text = self._fitting(reply.text, max(limit - answer.thought_tokens, 0))
        return self._counted(Reply(thought=thought, text=text, stop=StopReason.LENGTH))

    def _fitting(self, text: str, limit: int) -> str:
        found = fit(lambda room: text[:room], counter=self._counter, limit=limit, most=len(text))
        return found[1] if found else ""

    def _refused(self, refusal: Refusal, window: int | None) -> ProviderError:
        kind = ContextLimitError if refusal.overflows else RejectedError
        error = kind(refusal.message, provider=self.name, status=refusal.status, code=refusal.code)
        if isinstance(error, ContextLimitError):
            error.limit = window
        return error

    def _failure(self, fault: Fault, request: Request) -> ProviderError:
        if fault.kind is not FaultKind.CONTEXT_LIMIT:
            return failure(fault, self._rules, self.name)
        body = self._encoded(request)
        tokens, _ = self._cache.read(self._dialect.prompt(body))
        window = tokens - 1 if fault.window is None else fault.window
        claimed = max(tokens, window + 1)
        refusal = self._dialect.refusal(
            # Doubled, since what is written around the messages is not scaled.
            body,
            request.model,
            window,
            claimed,
            scale=2 * claimed / max(tokens, 1),
        )
        assert refusal is not None, "more tokens than the window holds"
        return self._refused(refusal, window)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A reply, and what it costs."""

    reply: Reply
    thought_tokens: int
    text_tokens: int
    call_tokens: int

    @property
    def tokens(self) -> int:
        return self.thought_tokens + self.text_tokens + self.call_tokens

    @property
    def stop(self) -> StopReason:
        usual = StopReason.TOOL_CALLS if self.reply.calls else StopReason.END
        return self.reply.stop or usual

    def pieces(self, size: int) -> Iterator[tuple[StreamEvent, int | None]]:
        """What is streamed, now and then with the tokens so far."""
        said = 0
        for kind, whole, tokens in (
            (ThoughtDelta, self.reply.thought, self.thought_tokens),
            (TextDelta, self.reply.text, self.text_tokens),
        ):
            for number, piece in enumerate(_pieces(whole, size), 1):
                told = number % _PIECES_BETWEEN_USAGE == 0
                share = min(number * size / len(whole), 1)
                yield kind(piece), said + int(tokens * share) if told else None
            said += tokens
        for index, call in enumerate(self.reply.calls):
            yield CallDelta(index, name=call.name), None
            for piece in _pieces(as_text(call.args), size):
                yield CallDelta(index, arguments=piece), None


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
