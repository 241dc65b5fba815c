"""Who writes a summary: a callable of the user's, the session's model, or the built-in extract."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from jaato.errors import JaatoError
from jaato.gc.extract import extract
from jaato.gc.plan import Digest, Summarize
from jaato.gc.transcript import render
from jaato.gc.wording import EXTRACTIVE
from jaato.ports import TokenCounter

Summarizer = Callable[[str], str | Awaitable[str]]
"""What a user gives: the conversation as text in, the summary out, now or later."""

CONVERSATION = "{conversation}"
DEFAULT_PROMPT = """\
Summarize this conversation between a user and an agent so that the agent can go on without it.
Keep, word for word where it matters: what the user asked for and any constraint; what was decided
and why; file paths, identifiers, commands and values that may be needed again; what failed, and
what is left to do. Leave out greetings and whatever was superseded.

{conversation}"""


class SummarizerRequiredError(JaatoError):
    """A strategy needs a summary and nobody can write one."""

    def __init__(self) -> None:
        super().__init__(
            "summarizer required",
            hint="give initialize() a callable as 'summarizer', or the name \"extractive\", "
            "which needs no model",
        )


class SummarizerFailedError(JaatoError):
    """A summarizer raised, or gave no text."""


class Writer:
    """Answers a strategy's request for a summary.

    Without a wish the session's model writes where there is one, and the built-in extract stands
    in where the model fails. A summarizer the user chose is never replaced behind their back.
    """

    def __init__(self, wanted: object, model: Summarizer | None, counter: TokenCounter) -> None:
        self._counter = counter
        self._by = "callable" if callable(wanted) else "model"
        self._summarizer: Summarizer | None = wanted if callable(wanted) else model
        self._extracts = wanted == EXTRACTIVE
        self._falls_back = wanted is None

    def write(self, request: Summarize) -> Digest:
        """The summary, now."""
        if self._extracts:
            return self._extract(request)
        summarizer, prompt = self._asked(request)
        try:
            answer = summarizer(prompt)
            if inspect.isawaitable(answer):
                answer = _wait_for(answer)
            return self._accepted(answer)
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is reported
            return self._stand_in(request, error)

    async def awrite(self, request: Summarize) -> Digest:
        """The summary, without holding the event loop."""
        if self._extracts:
            return await asyncio.to_thread(self._extract, request)
        summarizer, prompt = await asyncio.to_thread(self._asked, request)
        try:
            if inspect.iscoroutinefunction(summarizer):
                answer = await summarizer(prompt)
            else:
                answer = await asyncio.to_thread(_called, summarizer, prompt)
                if inspect.isawaitable(answer):
                    answer = await answer
            return self._accepted(answer)
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is reported
            return self._stand_in(request, error)

    def _extract(self, request: Summarize, note: str | None = None) -> Digest:
        text = extract(request.messages, counter=self._counter, limit=request.limit)
        return Digest(text=text, by=EXTRACTIVE, note=note)

    def _asked(self, request: Summarize) -> tuple[Summarizer, str]:
        """Whom to ask, and the conversation cut to what it can hold."""
        if self._summarizer is None:
            raise SummarizerRequiredError
        template = request.prompt or (DEFAULT_PROMPT if self._by == "model" else CONVERSATION)
        if CONVERSATION not in template:
            template = f"{template}\n\n{CONVERSATION}"
        room = request.window
        if room is not None:
            room = max(room - request.limit - sum(self._counter.count_texts([template])), 0)
        shown = render(request.messages, counter=self._counter, limit=room)
        return self._summarizer, template.replace(CONVERSATION, shown.text)

    def _accepted(self, answer: object) -> Digest:
        if not isinstance(answer, str):
            raise SummarizerFailedError(
                f"the summarizer returned {type(answer).__name__}",
                hint="it takes the conversation as text and returns the summary as text",
            )
        if not answer.strip():
            raise SummarizerFailedError("the summarizer returned nothing")
        return Digest(text=answer, by=self._by)

    def _stand_in(self, request: Summarize, error: Exception) -> Digest:
        if self._falls_back:
            return self._extract(request, note=f"the model failed: {_told(error)}")
        if isinstance(error, JaatoError):
            raise error
        raise SummarizerFailedError(f"the summarizer failed: {_told(error)}") from error


def _called(summarizer: Summarizer, prompt: str) -> str | Awaitable[str]:
    try:
        return summarizer(prompt)
    except StopIteration as error:
        # A future cannot carry it: whoever awaits would wait for ever.
        raise SummarizerFailedError(f"the summarizer failed: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """An error in words, even one whose own words fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- a foreign __str__ may raise anything
        return type(error).__name__


def _wait_for(answer: Awaitable[str]) -> str:
    """The result of an awaitable, for a caller that cannot await."""

    async def wait() -> str:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # The caller's loop is busy running us, so the answer needs a loop of its own.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="jaato-summarizer") as pool:
        return pool.submit(asyncio.run, wait()).result()
