"""A model file in llama.cpp: its vocabulary, its weights, and an answer token by token.

Everything here blocks, and belongs to one thread at a time; only counting may happen beside it.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from ctypes import c_int32, create_string_buffer
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from jaato.errors import MissingExtraError
from jaato.tokens.pieces import well_formed

log = logging.getLogger(__name__)

BLOCK_TOKENS: Final = 128
"""What is evaluated at once, and so how far a prompt goes on after nobody wants it any more."""

_PENALIZED_TOKENS: Final = 64
_CALLED_FROM_C: Final[list[object]] = []
"""What llama.cpp calls for as long as the process lives."""
# Arguments of C functions, which take no keywords.
_NOTHING_ADDED: Final = False
_MARKERS_ARE_TEXT: Final = False
_DATA_TOO: Final = True
_LONGEST_PIECE: Final = 256


class ModelFailedError(Exception):
    """llama.cpp could not do it this time; what it said is in the log, at debug level."""


class UnusableModelError(ModelFailedError):
    """The model file, or what was asked of it, will never do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen. A temperature of 0 takes the likeliest."""

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int = 0


class Vocabulary:
    """The tokenizer of a model file. Alone it loads in a tenth of a second, without the weights."""

    def __init__(self, path: Path, *, weights: bool = False) -> None:
        self._api = api = llama()
        params = api.llama_model_default_params()
        params.vocab_only = not weights
        # What llama.cpp packs anew for AMX crashes where it was compiled by one of many compilers
        # that drop the set-up of the tiles; and no other packing fits the default model.
        params.use_extra_bufts = False
        self.model = api.llama_model_load_from_file(os.fsencode(path), params)
        if not self.model:
            raise UnusableModelError(
                f"llama.cpp cannot load {path.name}", hint="give the path of a whole GGUF file"
            )
        self._free = weakref.finalize(self, api.llama_model_free, self.model)
        self.pointer = api.llama_model_get_vocab(self.model)

    @property
    def trained_window(self) -> int:
        """The longest context the model was trained on."""
        return int(self._api.llama_model_n_ctx_train(self.model))

    def count(self, text: str) -> int:
        """The tokens of a text, in which the markers of special tokens are text too."""
        data = well_formed(text).encode()
        # Without room for a single token, it says how much room they would need.
        needed = self._api.llama_tokenize(
            self.pointer, data, len(data), None, 0, _NOTHING_ADDED, _MARKERS_ARE_TEXT
        )
        return abs(int(needed))

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The tokens of a text. `special`: what looks like a special token is one."""
        data = well_formed(text).encode()
        room = len(data) + 1
        tokens = (c_int32 * room)()
        size = self._api.llama_tokenize(
            self.pointer, data, len(data), tokens, room, _NOTHING_ADDED, special
        )
        return tokens[:size]

    def bytes_of(self, token: int) -> bytes:
        """The bytes of a token, which may be a part of a character; none for a special one."""
        buffer = create_string_buffer(_LONGEST_PIECE)
        size = self._api.llama_token_to_piece(
            self.pointer, token, buffer, len(buffer), 0, _MARKERS_ARE_TEXT
        )
        return buffer.raw[: max(size, 0)]

    def ends(self, token: int) -> bool:
        """Whether a token ends the answer."""
        return bool(self._api.llama_vocab_is_eog(self.pointer, token))

    def chat_template(self) -> Callable[[list[dict[str, str]]], str] | None:
        """Writes a chat the way the model was trained to read it; None if the file has no way."""
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: PLC0415 -- optional

        template = self._api.llama_model_chat_template(self.model, None)
        if not template:
            return None
        try:
            chat: Any = Jinja2ChatFormatter(
                template.decode(),
                eos_token=self._name_of(self._api.llama_vocab_eos(self.pointer)),
                bos_token=self._name_of(self._api.llama_vocab_bos(self.pointer)),
            )
        except Exception as error:
            # Whatever the parser of templates raises about one that came with the model.
            raise UnusableModelError(
                f"its chat template is broken: {error}", hint="take another file of this model"
            ) from error
        return lambda messages: str(chat(messages=messages).prompt)

    def close(self) -> None:
        """Give the memory back."""
        self._free()

    def _name_of(self, token: int) -> str:
        name = self._api.llama_vocab_get_text(self.pointer, token) if token >= 0 else None
        return name.decode() if name else ""


class LocalModel:
    """A loaded model with room for one conversation of at most `window` tokens."""

    def __init__(
        self, path: Path, *, window: int | None = None, threads: int | None = None
    ) -> None:
        self._api = api = llama()
        self.vocabulary = Vocabulary(path, weights=True)
        trained = self.vocabulary.trained_window
        if window is not None and window > trained:
            raise UnusableModelError(
                f"{path.name} was trained for {trained} tokens, not {window}",
                hint=f"give a context_limit of at most {trained}, or none",
            )
        self.window = window or trained
        params = api.llama_context_default_params()
        params.n_ctx = self.window
        params.n_batch = params.n_ubatch = BLOCK_TOKENS
        params.n_threads = params.n_threads_batch = threads or _usable_cores()
        params.no_perf = True
        self.template = self.vocabulary.chat_template()
        self._context = api.llama_init_from_model(self.vocabulary.model, params)
        if not self._context:
            raise ModelFailedError(f"no memory for a window of {self.window} tokens")
        self._free = weakref.finalize(self, api.llama_free, self._context)
        self._memory = api.llama_get_memory(self._context)
        self._held: list[int] = []

    def reusable(self, prompt: Sequence[int]) -> int:
        """How many tokens of a prompt need no evaluation, because the one before began so too.

        Whole blocks only, and never those of an answer, which came one by one: so every prompt
        is evaluated in the same pieces, and its answer does not depend on what was asked before.
        """
        pairs = zip(self._held, prompt[:-1], strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return common - common % BLOCK_TOKENS

    def answer(
        self, prompt: Sequence[int], sampling: Sampling, *, stopped: Callable[[], bool]
    ) -> Generator[int]:
        """Tokens until the model ends, or nobody wants more; the caller minds the window."""
        self._forget_after(self.reusable(prompt))
        chain = self._chain(sampling)
        try:
            for start in range(len(self._held), len(prompt), BLOCK_TOKENS):
                if stopped():
                    return
                block = prompt[start : start + BLOCK_TOKENS]
                self._evaluate(block)
                if len(block) == BLOCK_TOKENS:
                    self._held += block
            while not stopped():
                token = int(self._api.llama_sampler_sample(chain, self._context, -1))
                if self.vocabulary.ends(token):
                    return
                yield token
                self._evaluate([token])
        finally:
            self._api.llama_sampler_free(chain)

    def close(self) -> None:
        """Give the memory back."""
        self._free()
        self.vocabulary.close()

    def _forget_after(self, kept: int) -> None:
        if not self._api.llama_memory_seq_rm(self._memory, -1, kept, -1):
            # A recurrent model has one state, and no way back.
            self._api.llama_memory_clear(self._memory, _DATA_TOO)
            kept = 0
        del self._held[kept:]

    def _evaluate(self, tokens: Sequence[int]) -> None:
        # The batch points into the array, and does not keep it.
        array = (c_int32 * len(tokens))(*tokens)
        code = self._api.llama_decode(
            self._context, self._api.llama_batch_get_one(array, len(array))
        )
        if code:
            raise ModelFailedError(f"llama.cpp could not evaluate {len(tokens)} tokens ({code})")

    def _chain(self, sampling: Sampling) -> Any:
        api = self._api
        steps: list[Any] = []
        if sampling.repeat_penalty != 1:
            size = api.llama_vocab_n_tokens(self.vocabulary.pointer)
            steps.append(
                api.llama_sampler_init_penalties(
                    size, _PENALIZED_TOKENS, sampling.repeat_penalty, 0.0, 0.0
                )
            )
        if sampling.temperature <= 0:
            steps.append(api.llama_sampler_init_greedy())
        else:
            steps += (
                api.llama_sampler_init_top_k(sampling.top_k),
                api.llama_sampler_init_top_p(sampling.top_p, 1),
                api.llama_sampler_init_min_p(sampling.min_p, 1),
                api.llama_sampler_init_temp(sampling.temperature),
                api.llama_sampler_init_dist(sampling.seed),
            )
        chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
        for step in steps:
            api.llama_sampler_chain_add(chain, step)
        return chain


def _usable_cores() -> int:
    """The processors that this process may use: more threads than these wait for each other."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@cache
def llama() -> Any:
    """The C functions of llama.cpp, ready, and silent but for our log."""
    try:
        import llama_cpp.llama_cpp as api  # noqa: PLC0415 -- optional, and takes a third of a second
    except ImportError as error:
        raise MissingExtraError("llama-cpp-python", extra="local") from error

    def tell(_level: int, text: bytes, _data: object) -> None:
        log.debug("%s", text.decode(errors="replace").rstrip())

    callback = api.llama_log_callback(tell)
    _CALLED_FROM_C.append(callback)
    api.llama_log_set(callback, None)
    api.llama_backend_init()
    return api
