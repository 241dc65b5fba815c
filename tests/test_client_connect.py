"""How a client connects: every printed form, resuming, and what is said of a wrong call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from tests.session.agents import read, worker

from jaato.client import JaatoClient
from jaato.errors import JaatoError, UsageError
from jaato.events import Event, Noticed
from jaato.exchange import Request
from jaato.history import Message
from jaato.model_names import resolved
from jaato.providers.google import GoogleProvider
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.problems import JournalError, NotConnectedError
from jaato.session.settings import LoopSettings, ModelSettings


class Noted(ScriptedProvider):
    """Answers by the number of messages it was sent, and notes what it was asked."""

    def __init__(self, name: str = "scripted", window: int | None = None) -> None:
        super().__init__(self._answer, name=name, window=window)
        self.asked: list[Request] = []

    def _answer(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=f"answer {len(request.messages)}")


ACME = Noted("acme")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        pytest.param(
            ("my-project", "us-central1", "gemini-x"),
            ("google", "gemini-x", {"project": "my-project", "location": "us-central1"}),
            id="project, location and model are Google on Vertex AI",
        ),
        pytest.param(("openai:gpt-5.5",), ("openai", "gpt-5.5", {}), id="one name with a colon"),
        pytest.param(
            ("openai:ft:gpt:1",), ("openai", "ft:gpt:1", {}), id="a model's name may have colons"
        ),
        pytest.param(("scripted",), ("scripted", "worker", {}), id="a provider with one model"),
        pytest.param(("local",), ("local", "smollm2", {}), id="the local provider by its name"),
        pytest.param((), ("local", "smollm2", {}), id="nothing is the local model"),
        pytest.param(
            {"model": "anthropic:claude-x"},
            ("anthropic", "claude-x", {}),
            id="one name with a colon, as the model",
        ),
        pytest.param(
            {"provider": "anthropic", "model": "claude-x"},
            ("anthropic", "claude-x", {}),
            id="provider and model",
        ),
        pytest.param(
            {"provider": "openai", "project": "gpt-5.5"},
            ("openai", "gpt-5.5", {}),
            id="what stands first is the model where there are no projects",
        ),
        pytest.param(
            {"provider": "google", "model": "gemini-x"},
            ("google", "gemini-x", {}),
            id="Google with a key",
        ),
        pytest.param(
            {"provider": "google", "model": "gemini-x", "project": "p"},
            ("google", "gemini-x", {"project": "p"}),
            id="Google in a project, with the default place",
        ),
        pytest.param(
            {"provider": "scripted"}, ("scripted", "worker", {}), id="a provider's one model"
        ),
        pytest.param({"provider": ACME}, ("acme", "default", {}), id="a provider of one's own"),
        pytest.param(
            {"provider": ACME, "model": "big"}, ("acme", "big", {}), id="and one of its models"
        ),
    ],
)
def test_what_the_arguments_mean(arguments: Any, meant: tuple[str, str, dict[str, Any]]) -> None:
    named = arguments if isinstance(arguments, dict) else {}
    positional = () if named else arguments
    keys = ("project", "location", "model")
    given = {**dict(zip(keys, positional, strict=False)), **named}
    assert resolved(*(given.get(key) for key in ("provider", *keys))) == meant


def test_project_location_and_model_make_the_real_provider() -> None:
    with JaatoClient(sessions=None) as client:
        session = client.connect(
            "my-project",
            "us-central1",
            "gemini-x",
            context_limit=1_000_000,  # so that nobody is asked for it
            credentials=Credentials("token"),  # type: ignore[no-untyped-call]  # theirs
        )
        provider = client.runtime.provider("google", session.settings.provider_settings)
        assert isinstance(provider, GoogleProvider)
        assert provider._client.vertexai
        where = provider._client._api_client
        assert (where.project, where.location) == ("my-project", "us-central1")
        assert client.get_context_usage()["context_limit"] == 1_000_000
        assert client.get_context_usage()["model"] == "gemini-x"


def test_what_a_session_is_given_reaches_it() -> None:
    provider = Noted()
    client = JaatoClient(sessions=None)
    session = client.connect(
        provider=provider,
        model="m",
        context_limit=20_000,
        system_instructions={"base": "Be kind.", "client": "Be brief."},
        max_output_tokens=500,
        thinking="low",
        options={"temperature": 0.1},
        max_steps=7,
        max_result_tokens=900,
        session_id="mine",
    )
    assert client.session is session
    assert session.session_id == "mine"
    assert session.settings.loop == LoopSettings(max_steps=7, max_result_tokens=900)
    assert session.settings.model_settings == ModelSettings(
        max_output_tokens=500, thinking="low", options={"temperature": 0.1}
    )
    assert client.send_message("hello") == "answer 1"
    [request] = provider.asked
    assert (request.model, request.max_output_tokens, request.thinking) == ("m", 500, "low")
    assert request.system == "Be kind.\n\nBe brief."
    assert request.options == {"temperature": 0.1}


@pytest.mark.parametrize(
    ("arguments", "fact", "hint"),
    [
        pytest.param(("gemini-x",), "'gemini-x' names no provider", "Vertex", id="a bare model"),
        pytest.param(
            ("my-project", "us-central1"), "names no provider", "Vertex", id="Vertex, but no model"
        ),
        pytest.param(("openai:",), "'openai:' names no provider", "openai:gpt", id="no model"),
        pytest.param(
            (":gpt-5.5",), "':gpt-5.5' names no provider", "openai:gpt", id="only a model"
        ),
        pytest.param(("google",), "which model of 'google'", "model=", id="which of many models"),
        pytest.param({"provider": "google"}, "which model", "model=", id="the same by its name"),
        pytest.param(
            {"provider": "scirpted"}, "'scirpted'", "'scripted'", id="a mistyped provider"
        ),
        pytest.param(
            {"provider": "scirpted", "model": "m"}, "'scirpted'", "'scripted'", id="with a model"
        ),
        pytest.param(("opneai:gpt-5.5",), "'opneai'", "'openai'", id="mistyped before a colon"),
        pytest.param(
            {"provider": "acme", "model": "m"}, "'acme'", "openai, anthropic", id="an unknown one"
        ),
        pytest.param(
            {"provider": "openai:gpt-5.5"},
            "'openai:gpt-5.5'",
            "'openai'",
            id="a colon where the provider alone belongs",
        ),
        pytest.param({"model": ""}, "'' names no provider", "openai:gpt", id="an empty model"),
        pytest.param({"model": 42}, "42", "name of a model", id="a number for a model"),
        pytest.param({"provider": 42}, "42", "instance", id="a number for a provider"),
        pytest.param(
            {"provider": ScriptedProvider}, "ScriptedProvider", "instance", id="a class of them"
        ),
        pytest.param(
            {"provider": ACME, "api_key": "k"},
            "api_key",
            "Noted(…)",
            id="settings for a provider that is made already",
        ),
        pytest.param(
            {"provider": "scripted", "windows": 3}, "windows", "its class", id="a mistyped setting"
        ),
        pytest.param(
            {"provider": "scripted", "context_limit": "8000"}, "'8000'", "leave it out", id="limit"
        ),
        pytest.param(
            {"provider": "scripted", "max_steps": 0}, "max_steps", "above 0", id="no steps"
        ),
        pytest.param(
            {"provider": "scripted", "max_output_tokens": "9"},
            "max_output_tokens",
            "above 0",
            id="tokens in words",
        ),
        pytest.param(
            {"provider": "scripted", "max_result_tokens": -1},
            "max_result_tokens",
            "above 0",
            id="fewer than no tokens",
        ),
        pytest.param(
            {"provider": "scripted", "session_id": "../x"}, "'../x'", "letters", id="a path"
        ),
        pytest.param(
            {"provider": "scripted", "resume": "gone"}, "'gone'", "list_sessions", id="unknown"
        ),
        pytest.param(
            {"provider": "scripted", "resume": "a", "session_id": "b"},
            "session_id",
            "its own name",
            id="a new name for an old session",
        ),
    ],
)
def test_a_wrong_call_says_what_to_do(tmp_path: Path, arguments: Any, fact: str, hint: str) -> None:
    client = JaatoClient(sessions=tmp_path)
    named = arguments if isinstance(arguments, dict) else {}
    with pytest.raises(UsageError) as raised:
        client.connect(*(() if named else arguments), **named)
    assert fact in str(raised.value)
    assert hint in str(raised.value.hint)
    assert not client.is_connected
    assert client.list_sessions() == []


BEFORE_CONNECTING: Mapping[str, Callable[[JaatoClient], Any]] = {
    "session": lambda client: client.session,
    "send_message": lambda client: client.send_message("hello"),
    "continue_turn": lambda client: client.continue_turn(),
    "interrupt": lambda client: client.interrupt(),
    "spawn_subagent": lambda client: client.spawn_subagent("do it"),
    "switch_model": lambda client: client.switch_model("m"),
    "reset_session": lambda client: client.reset_session(),
    "manual_gc": lambda client: client.manual_gc(),
    "preview_gc": lambda client: client.preview_gc(),
    "pin": lambda client: client.pin(0),
    "unpin": lambda client: client.unpin(0),
    "get_gc_history": lambda client: client.get_gc_history(),
    "get_context_usage": lambda client: client.get_context_usage(),
    "get_history": lambda client: client.get_history(),
    "instruction_budget": lambda client: client.instruction_budget,
}


@pytest.mark.parametrize("when", ["before connecting", "after closing"])
@pytest.mark.parametrize("name", BEFORE_CONNECTING)
def test_there_is_no_session(when: str, name: str) -> None:
    client = JaatoClient(sessions=None)
    if when == "after closing":
        client.connect(provider=Noted())
        client.close()
    assert not client.is_connected
    with pytest.raises(NotConnectedError, match=r"connect\(project, location, model\)"):
        BEFORE_CONNECTING[name](client)


def test_a_wrong_call_leaves_the_session_that_is_there() -> None:
    client = JaatoClient(sessions=None)
    session = client.connect(provider=Noted())
    with pytest.raises(UsageError):
        client.connect("gemini-x")
    with pytest.raises(UsageError):
        client.connect(provider="scirpted", model="m")
    assert client.session is session
    assert client.send_message("still there") == "answer 1"


def test_a_provider_that_was_taken_in_has_a_name_like_any_other(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.runtime.adopt(ACME)
    client.connect(provider="acme", session_id="s")
    assert client.get_context_usage()["model"] == "default"
    client.connect(provider="acme", resume="s")
    assert client.send_message("hello") == "answer 1"


def test_a_session_that_could_not_be_opened_leaves_no_log(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.configure_tools([{"name": "recall", "handler": read}])
    with pytest.raises(UsageError, match="two tools are named 'recall'"):
        client.connect(provider=Noted(), session_id="s")
    client.configure_tools([read])
    client.connect(provider=Noted(), session_id="s")
    assert client.list_sessions() == ["s"]


def test_connecting_again_is_another_session_with_the_same_setup() -> None:
    heard: list[Event] = []
    client = JaatoClient(sessions=None)
    client.configure_tools([read])
    client.add_enrichment("clock", lambda _prompt: "it is noon")
    client.on(heard.append)
    first = client.connect(provider=ScriptedProvider(worker(1)), system_instructions="Be kind.")
    client.send_message("read")
    provider = Noted()
    second = client.connect(provider=provider)
    assert second is not first
    assert client.get_history() == []
    heard.clear()
    client.send_message("hello")
    assert heard
    [request] = provider.asked
    assert {tool.name for tool in request.tools} >= {"read", "spawn_subagent"}
    assert "it is noon" in request.messages[0].text
    assert request.system == "", "instructions are a session's own"


def test_the_end_of_a_with_block_closes_the_session(tmp_path: Path) -> None:
    with JaatoClient(sessions=tmp_path) as client:
        client.connect(provider=Noted(), session_id="one")
    assert not client.is_connected
    with JaatoClient(sessions=tmp_path) as other:
        other.connect(provider=Noted(), resume="one")


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_a_session_goes_on_by_its_name(tmp_path: Path) -> None:
    first = JaatoClient(sessions=tmp_path)
    first.connect(
        provider=Noted(), model="big", context_limit=30_000, system_instructions="Be kind."
    )
    name = first.session.session_id
    first.send_message("one")
    first.pin(0)
    before = (first.get_history(), first.get_context_usage(), first.instruction_budget.snapshot())
    first.close()

    provider = Noted()
    client = JaatoClient(sessions=tmp_path)
    client.runtime.adopt(provider)
    client.connect(resume=name)
    assert client.session.session_id == name
    assert client.session.state.pins == (0,)
    after = (client.get_history(), client.get_context_usage(), client.instruction_budget.snapshot())
    assert after == before
    assert client.send_message("two") == "answer 3"
    [request] = provider.asked
    assert (request.model, request.system) == ("big", "Be kind.")
    assert texts(client.get_history()) == ["one", "answer 1", "two", "answer 3"]


@pytest.mark.parametrize(
    ("arguments", "model", "limit"),
    [
        pytest.param({}, "big", 30_000, id="nothing: as it was"),
        pytest.param({"provider": Noted()}, "big", 30_000, id="the provider alone"),
        pytest.param({"provider": "scripted"}, "big", 30_000, id="the provider by its name"),
        pytest.param({"context_limit": 9_000}, "big", 9_000, id="another limit"),
        pytest.param(
            {"provider": Noted(window=5_000), "model": "small"}, "small", 5_000, id="another model"
        ),
        pytest.param({"model": "scripted:small"}, "small", None, id="another model by one name"),
        pytest.param(
            {"provider": Noted("acme", 7_000), "model": "x"}, "x", 7_000, id="another provider"
        ),
    ],
)
def test_what_is_named_on_resuming_comes_in_the_place_of_what_was(
    tmp_path: Path, arguments: dict[str, Any], model: str, limit: int | None
) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.connect(provider=Noted(), model="big", context_limit=30_000, session_id="s")
    client.send_message("one")
    client.connect(resume="s", **arguments)
    usage = client.get_context_usage()
    assert (usage["model"], usage["context_limit"]) == (model, limit)
    assert client.send_message("two") == "answer 3"


def test_another_provider_is_asked_for_one_of_its_models(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.connect(provider=Noted(), model="big", session_id="s")
    client.close()
    with pytest.raises(UsageError, match="which model of 'acme'"):
        client.connect(provider=ACME, resume="s")
    client.connect(resume="s")


def test_sessions_are_listed_newest_first(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path / "below")
    assert client.list_sessions() == []
    for at, name in enumerate(["middle", "oldest", "newest"]):
        client.connect(provider=Noted(), session_id=name)
        os.utime(tmp_path / "below" / f"{name}.jsonl", (0, (2, 1, 3)[at]))
    assert client.list_sessions() == ["newest", "middle", "oldest"]
    assert JaatoClient(sessions=None).list_sessions() == []


@pytest.mark.parametrize(
    ("sessions", "arguments", "kind", "said"),
    [
        pytest.param(True, {"session_id": "s"}, UsageError, "already", id="a name that is taken"),
        pytest.param(True, {"resume": "s"}, JournalError, "open elsewhere", id="open elsewhere"),
        pytest.param(False, {"resume": "s"}, UsageError, "keeps no logs", id="nothing was kept"),
    ],
)
def test_a_session_that_cannot_be_had(
    tmp_path: Path, sessions: bool, arguments: dict[str, Any], kind: type[JaatoError], said: str
) -> None:
    owner = JaatoClient(sessions=tmp_path)
    owner.connect(provider=Noted(), session_id="s")
    client = JaatoClient(sessions=tmp_path if sessions else None)
    with pytest.raises(kind, match=said) as raised:
        client.connect(provider=Noted(), **arguments)
    assert raised.value.hint
    assert owner.send_message("mine") == "answer 1"


def test_a_log_with_a_torn_end_is_resumed_and_told(tmp_path: Path) -> None:
    client = JaatoClient(sessions=tmp_path)
    client.connect(provider=Noted(), session_id="s")
    client.send_message("one")
    client.close()
    with (tmp_path / "s.jsonl").open("ab") as log:
        log.write(b'{"half')
    notices: list[Event] = []
    client.on(notices.append, Noticed)
    client.connect(resume="s")
    assert [event.text for event in notices if isinstance(event, Noticed)] == [
        "the log ended in an unfinished line of 6 bytes: left out"
    ]
    assert texts(client.get_history()) == ["one", "answer 1"]
