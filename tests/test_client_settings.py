"""What `connect` is told reaches whom it is meant for; what cannot be used is said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import read, worker
from tests.test_client import connected

from jaato.client import JaatoClient
from jaato.errors import UsageError
from jaato.model_names import provider_in, resolved
from jaato.providers.scripted import ScriptedProvider
from jaato.tools.mcp import McpServerTools


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        pytest.param(
            {"model": "openai:x", "project": "mine"},
            ("openai", "x", {"project": "mine"}),
            id="a project beside a model",
        ),
        pytest.param({"project": "openai:x"}, ("openai", "x", {}), id="a model in its place"),
        pytest.param(
            {"model": "google:g", "location": "eu"},
            ("google", "g", {"location": "eu"}),
            id="a place beside a model",
        ),
    ],
)
def test_a_project_is_not_lost(named: dict[str, str], meant: tuple[str, str, Any]) -> None:
    keys = ("provider", "project", "location", "model")
    assert resolved(*(named.get(key) for key in keys)) == meant


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("anthropic:claude-x", ("anthropic", "claude-x")),
        ("llama3:8b", (None, "llama3:8b")),
        ("openai:", (None, "openai:")),
        ("gpt-5.5", (None, "gpt-5.5")),
    ],
)
def test_a_model_may_name_its_provider_when_switching(
    model: str, meant: tuple[str | None, str]
) -> None:
    assert provider_in(model) == meant


def test_switching_to_another_provider_by_one_name() -> None:
    client = connected(worker(0))
    client.switch_model("scripted:worker", provider_settings={"window": 9_000})
    usage = client.get_context_usage()
    assert (usage["model"], usage["context_limit"]) == ("worker", 9_000)


def test_the_settings_of_the_loop_reach_the_session() -> None:
    with JaatoClient(sessions=None) as client:
        client.configure_tools([read])
        session = client.connect(
            provider=ScriptedProvider(worker(0)),
            tool_seconds=3.5,
            parallel_calls=2,
            subagents=False,
        )
        loop = session.settings.loop
        assert (loop.tool_seconds, loop.parallel_calls) == (3.5, 2)
        assert "spawn_subagent" not in session.catalogue.names


def test_the_model_is_told_which_profiles_there_are(tmp_path: Path) -> None:
    profile = {"name": "finder", "description": "finds sources"}
    (tmp_path / "finder.json").write_text(json.dumps(profile), encoding="utf-8")
    with JaatoClient(sessions=None, profiles=tmp_path) as client:
        client.configure_tools([read])
        session = client.connect(provider=ScriptedProvider(worker(0)))
        [schema] = [one for one in session.catalogue.offered() if one.name == "spawn_subagent"]
        told = schema.parameters["properties"]["profile"]["description"]
        assert "finder: finds sources" in told


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        pytest.param({"options": 3}, "options are 3", id="options"),
        pytest.param({"system_instructions": 3}, "not 3", id="instructions"),
        pytest.param({"context_limit": 0}, "not 0", id="a window"),
        pytest.param({"parallel_calls": 0}, "parallel_calls is 0", id="no calls at all"),
    ],
)
def test_nonsense_leaves_the_session_that_is_there(wrong: dict[str, Any], fact: str) -> None:
    client = connected(worker(0))
    before = client.session
    with pytest.raises(UsageError, match=fact):
        client.connect(provider=ScriptedProvider(worker(0)), **wrong)
    assert client.session is before
    assert client.send_message("hello") == "done after 0 steps"


def test_a_server_that_cannot_be_reached_leaves_no_half_open_session() -> None:
    client = JaatoClient(sessions=None)
    client.configure_tools([McpServerTools(command="/nonexistent/server")])
    with pytest.raises(Exception, match=r"nonexistent|server|No such"):
        client.connect(provider=ScriptedProvider(worker(0)))
    assert not client.is_connected
