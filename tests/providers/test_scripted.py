"""What the scripted provider enforces, counts and breaks."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.provider_contract import answered, checked, collected, raises

from jaato.errors import UsageError
from jaato.exchange import (
    AuthError,
    CallDelta,
    ContextLimitError,
    Finished,
    NetworkError,
    ProviderError,
    RateLimitError,
    RejectedError,
    Request,
    ServerError,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolSchema,
    Usage,
    UsageSeen,
)
from jaato.history import FunctionCall, Media, Message, Part, Role, ToolResult
from jaato.providers.scripted import Fault, FaultKind, Reply, ScriptedProvider
from jaato.providers.scripted_rules import Rules

ALL_RULES: tuple[Rules | None, ...] = ("openai", "anthropic", "google", None)
every_api = pytest.mark.parametrize("rules", ALL_RULES, ids=str)
READ = FunctionCall("call_1", "read", {"path": "a.txt"})
WEATHER = ToolSchema(
    name="weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)


class Characters:
    """A counter for tests: a token per character. It remembers what it was asked."""

    name, estimated = "characters", False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_texts(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return [len(text) for text in texts]


def user(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def model(*parts: Part) -> Message:
    return Message(Role.MODEL, parts)


def result(text: object, call_id: str = "call_1") -> Message:
    return Message(Role.TOOL, [Part(function_response=ToolResult(call_id, "read", text))])


def request(*messages: Message, **fields: object) -> Request:
    return replace(Request(model="gemini-3-pro", messages=messages), **fields)  # type: ignore[arg-type]


def says(text: str = "Good.", **fields: object) -> Callable[[Request], Reply]:
    reply = replace(Reply(text=text), **fields)  # type: ignore[arg-type]
    return lambda _: reply


def finished(provider: ScriptedProvider, asked: Request) -> Finished:
    return asyncio.run(answered(provider, asked))


def refused(provider: ScriptedProvider, asked: Request) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(collected(provider, asked))
    return caught.value


@pytest.mark.parametrize(
    ("rules", "messages", "words"),
    [
        pytest.param(
            "openai",
            (user("Hi"), model(Part(function_call=READ)), user("Well?")),
            "An assistant message with 'tool_calls' must be followed by tool messages",
            id="openai wants every call answered",
        ),
        pytest.param("openai", (), "Invalid 'messages': empty array", id="openai wants messages"),
        pytest.param(
            "anthropic",
            (user("Hi"), model(Part(function_call=READ)), user("Well?")),
            "`tool_use` ids were found without `tool_result` blocks",
            id="anthropic wants every call answered at once",
        ),
        pytest.param("anthropic", (), "messages: at least one message", id="anthropic likewise"),
        pytest.param(
            "google",
            (user("Hi"), model(Part(function_call=READ)), user("Well?")),
            "number of function response parts is equal to the number of function call parts",
            id="google counts responses",
        ),
        pytest.param("google", (), "contents is not specified", id="google wants contents"),
    ],
)
def test_a_breach_is_told_in_the_words_of_the_api(
    rules: Rules, messages: tuple[Message, ...], words: str
) -> None:
    provider = ScriptedProvider(says(), rules=rules)
    error = asyncio.run(raises(provider, request(*messages), RejectedError))
    assert words in str(error)
    assert error.status == 400


def test_without_rules_anything_goes() -> None:
    provider = ScriptedProvider(says(), rules=None)
    odd = request(user("Hi"), model(Part(function_call=READ)), user("Well?"), result("late"))
    assert finished(provider, odd).message.text == "Good."


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("openai", r"maximum context length is 9000 tokens. .*resulted in (\d+) tokens"),
        ("anthropic", r"prompt is too long: (\d+) tokens > 9000 maximum"),
        ("google", r"input token count \((\d+)\) exceeds the maximum .* \(9000\)"),
        (None, r"the request has (\d+) tokens, and the window 9000"),
    ],
    ids=str,
)
def test_a_request_that_does_not_fit_is_told_so(rules: Rules | None, words: str) -> None:
    large = request(user("word " * 9500), user("Yes?"), tools=(WEATHER,), system="Be brief.")
    small = ScriptedProvider(says(), rules=rules, window=9000)
    error = asyncio.run(raises(small, large, ContextLimitError))
    assert error.limit == 9000
    told = re.search(words, str(error))
    assert told
    roomy = ScriptedProvider(says(), rules=rules)
    assert finished(roomy, large).usage.input_tokens == int(told[1]), "usage is what is refused"
    assert asyncio.run(small.context_limit("any")) == 9000


@pytest.mark.parametrize("rules", ["openai", "google", None], ids=str)
def test_a_request_fits_to_the_token(rules: Rules | None) -> None:
    asked = request(user("How much is it?"), tools=(WEATHER,), system="Be brief.")
    tokens = finished(ScriptedProvider(says(), rules=rules), asked).usage.input_tokens
    assert tokens is not None
    finished(ScriptedProvider(says(), rules=rules, window=tokens), asked)
    refusal = refused(ScriptedProvider(says(), rules=rules, window=tokens - 1), asked)
    assert isinstance(refusal, ContextLimitError)


def test_what_anthropic_thought_comes_back_signed_or_not_at_all() -> None:
    provider = ScriptedProvider(says(thought="Hm."), rules="anthropic")
    first = user("Hi")
    answer = finished(provider, request(first)).message
    assert answer.parts[0].thought == "Hm."
    assert answer.parts[0].extra, "a signature to send back"
    again = request(first, answer, user("And?"))
    assert finished(provider, again).message.text == "Good."
    changed = request(user("Hello"), answer, user("And?"))
    error = asyncio.run(raises(provider, changed, RejectedError))
    assert "bound to a different conversation" in str(error)
    without = request(user("Hello"), model(answer.parts[1]), user("And?"))
    assert finished(provider, without).message.text == "Good."


def test_google_signs_the_first_of_parallel_calls() -> None:
    calls = (READ, replace(READ, id="call_2"))
    provider = ScriptedProvider(says(calls=calls), rules="google")
    message = finished(provider, request(user("Hi"), tools=(WEATHER,))).message
    signed = [bool(part.extra) for part in message.parts if part.function_call]
    assert signed == [True, False]


@every_api
def test_usage_counts_what_is_sent_and_what_comes(rules: Rules | None) -> None:
    counter = Characters()
    provider = ScriptedProvider(says("12345", thought="123"), rules=rules, counter=counter)
    bare = finished(provider, request(user("Hi"))).usage
    longer = finished(provider, request(user("Hi there"))).usage
    assert (longer.input_tokens or 0) - (bare.input_tokens or 0) == len(" there")
    assert (bare.output_tokens, bare.thinking_tokens) == (8, 3)
    system = finished(provider, request(user("Hi"), system="x" * 1000)).usage
    assert 1000 <= (system.input_tokens or 0) - (bare.input_tokens or 0) < 1010
    described = replace(WEATHER, description="y" * 1000)
    tools = finished(provider, request(user("Hi"), tools=(described,))).usage
    assert 1000 <= (tools.input_tokens or 0) - (bare.input_tokens or 0) < 1200


@every_api
def test_the_beginning_that_came_before_is_cached(rules: Rules | None) -> None:
    provider = ScriptedProvider(says(), rules=rules)
    history = [user("word " * 50), model(Part(text="Yes. " * 50))]

    def cached(*messages: Message, marks: tuple[int, ...] = ()) -> tuple[int, int]:
        usage = finished(provider, request(*messages, system="Be brief.", marks=marks)).usage
        return usage.cached_tokens or 0, usage.input_tokens or 0

    nothing, before = cached(*history, user("One"), marks=(2,))
    assert nothing == 0
    most, after = cached(*history, user("One"), model(Part(text="1")), user("Two"), marks=(4,))
    assert before - 5 <= most <= before < after
    some, _ = cached(history[0], model(Part(text="No.")), user("One"))
    assert 50 < some < most, "what changed is read anew from there"
    assert cached(*history, user("One"))[0] == before, "one prompt between does not empty the cache"


@every_api
def test_no_beginning_is_counted_twice(rules: Rules | None) -> None:
    counter = Characters()
    provider = ScriptedProvider(says(), rules=rules, counter=counter)
    messages: list[Message] = []
    for number in range(20):
        messages += [user(f"question {number}"), model(Part(text=f"answer {number}"))]
        finished(provider, request(*messages, user(f"now {number}")))
    assert counter.asked.count("question 0") == 1


@pytest.mark.parametrize(
    "media",
    [Media("image/png", b"\x89PNG" * 400), Media("text/plain", b"x" * 1600)],
    ids=["an image", "a text"],
)
@every_api
def test_media_cost_what_media_cost(rules: Rules | None, media: Media) -> None:
    provider = ScriptedProvider(says(), rules=rules, counter=Characters())
    bare = finished(provider, request(user("See"))).usage.input_tokens or 0
    shown = Message(Role.USER, [Part(text="See"), Part(inline_data=media)])
    with_it = finished(provider, request(shown)).usage.input_tokens or 0
    assert 80 < with_it - bare < 1700, "not what its base64 would"


@given(
    text=st.text(max_size=60),
    thought=st.text(max_size=40),
    size=st.integers(1, 20),
    arguments=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3),
)
def test_any_reply_is_streamed_whole(
    text: str, thought: str, size: int, arguments: dict[str, object]
) -> None:
    call = FunctionCall("call_1", "read", arguments)
    for rules in ALL_RULES:
        provider = ScriptedProvider(
            says(text, thought=thought, calls=(call,)), rules=rules, chunk_chars=size
        )
        events = asyncio.run(collected(provider, request(user("Hi"))))
        message = checked(events).message
        assert (message.text, message.function_calls[0].args) == (text, arguments)
        pieces = [e.text for e in events if isinstance(e, TextDelta | ThoughtDelta)]
        assert all(0 < len(piece) <= size for piece in pieces)


def test_usage_is_seen_while_a_long_answer_comes() -> None:
    provider = ScriptedProvider(says("word " * 1000), chunk_chars=5)
    events = asyncio.run(collected(provider, request(user("Hi"))))
    seen = [event.usage.output_tokens or 0 for event in events if isinstance(event, UsageSeen)]
    assert isinstance(events[0], UsageSeen), "the prompt is known from the start"
    assert len(seen) > 20
    assert seen == sorted(seen)
    assert len(set(seen)) > 20


def test_a_call_is_announced_before_its_arguments() -> None:
    events = asyncio.run(collected(ScriptedProvider(says("", calls=(READ,))), request(user("Hi"))))
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, name="read"),
        CallDelta(0, arguments='{"path":"a.txt"}'),
    ]


@pytest.mark.parametrize(
    ("reply", "limit", "text", "stop"),
    [
        pytest.param(Reply(text="12345"), 5, "12345", StopReason.END, id="it fits"),
        pytest.param(Reply(text="12345"), 4, "1234", StopReason.LENGTH, id="it is cut"),
        pytest.param(
            Reply(thought="123", text="12345"), 5, "12", StopReason.LENGTH, id="thoughts go first"
        ),
        pytest.param(
            Reply(text="12", calls=(READ,)), 5, "12", StopReason.LENGTH, id="no half a call"
        ),
        pytest.param(
            Reply(text="x", stop=StopReason.REFUSED), 5, "x", StopReason.REFUSED, id="a given stop"
        ),
    ],
)
@every_api
def test_an_answer_has_no_more_than_it_may(
    rules: Rules | None, reply: Reply, limit: int, text: str, stop: StopReason
) -> None:
    provider = ScriptedProvider(lambda _: reply, rules=rules, counter=Characters())
    answer = finished(provider, request(user("Hi"), max_output_tokens=limit))
    assert (answer.message.text, answer.stop) == (text, stop)
    assert (answer.usage.output_tokens or 0) <= limit


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(kind=FaultKind.RATE_LIMIT, retry_after=2.5), RateLimitError),
        (Fault(kind=FaultKind.SERVER), ServerError),
        (Fault(kind=FaultKind.SERVER, after_events=2), ServerError),
        (Fault(kind=FaultKind.NETWORK), NetworkError),
        (Fault(kind=FaultKind.NETWORK, after_events=4), NetworkError),
        (Fault(kind=FaultKind.NETWORK, after_events=10_000), NetworkError),
        (Fault(kind=FaultKind.AUTH), AuthError),
        (Fault(kind=FaultKind.CONTEXT_LIMIT), ContextLimitError),
        (Fault(kind=FaultKind.CONTEXT_LIMIT, after_events=1), ContextLimitError),
    ],
    ids=lambda one: f"{one.kind} after {one.after_events}" if isinstance(one, Fault) else "",
)
@every_api
def test_faults_come_when_they_are_told_to(
    rules: Rules | None, fault: Fault, kind: type[ProviderError]
) -> None:
    provider = ScriptedProvider(
        says("word " * 20), rules=rules, faults=lambda call: fault if call == 2 else None
    )
    asked = request(user("Hi"))

    async def run() -> tuple[int, ProviderError]:
        whole = await collected(provider, asked)
        checked(whole)
        seen = 0
        with pytest.raises(ProviderError) as caught:  # noqa: PT012 -- the loop is what raises
            async for _ in provider.stream(asked):
                seen += 1
        assert seen == min(fault.after_events, len(whole) - 1)
        checked(await collected(provider, asked))
        return seen, caught.value

    _, error = asyncio.run(run())
    assert type(error) is kind
    assert error.provider == "scripted"
    assert provider.calls == 3
    if isinstance(error, RateLimitError):
        assert error.retry_after == 2.5
        assert error.status == 429
    if isinstance(error, ContextLimitError):
        assert error.limit is not None
        assert str(error.limit) in str(error), "the limit is the one that is told"


def test_a_key_is_looked_at_before_the_request() -> None:
    provider = ScriptedProvider(faults=lambda _: Fault(kind=FaultKind.AUTH))
    assert isinstance(refused(provider, request()), AuthError)


@pytest.mark.parametrize(
    "wrong", [{"rules": "mistral"}, {"chunk_chars": 0}], ids=["rules", "no letters"]
)
def test_what_cannot_be_is_said_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ScriptedProvider(**wrong)  # type: ignore[arg-type]


def test_it_goes_by_the_name_it_is_given() -> None:
    provider = ScriptedProvider(name="fable", faults=lambda _: Fault(kind=FaultKind.SERVER))
    assert provider.name == "fable"
    assert refused(provider, request(user("Hi"))).provider == "fable"


def test_an_empty_answer_is_one() -> None:
    for rules in ALL_RULES:
        answer = finished(ScriptedProvider(lambda _: Reply(), rules=rules), request(user("Hi")))
        assert (answer.message.text, answer.stop) == ("", StopReason.END)
        assert answer.usage.output_tokens == 0
        assert answer.usage != Usage()


def test_it_loads_no_sdk() -> None:
    code = (
        "import sys, jaato.providers.scripted\n"
        "print({'openai', 'anthropic', 'google.genai', 'pydantic', 'llama_cpp'} & {*sys.modules})"
    )
    told = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == "set()"
