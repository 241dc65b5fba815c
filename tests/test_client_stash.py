"""Where a client keeps what leaves its windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import gc, read, worker

from jaato.client import JaatoClient
from jaato.providers.scripted import ScriptedProvider
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash
from jaato.wiring import STASH_FOLDER


def talk(turns: int, **more: Any) -> JaatoClient:
    """A client that has talked for so many turns, in a small window."""
    client = JaatoClient(**more)
    client.configure_tools([read])
    provider = ScriptedProvider(worker(4, calls=2, lines=60), rules="openai", window=12_000)
    client.connect(provider=provider, context_limit=12_000)
    client.set_gc_plugin(gc(preserve_recent_turns=1))
    for at in range(turns):
        client.send_message(f"read {at}")
    return client


def found(client: JaatoClient) -> list[Any]:
    assert client.session is not None
    return client.session.search_stash("compute")


def test_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    client = talk(6, sessions=tmp_path / "sessions", stash=folder)
    hits = found(client)
    assert hits
    client.close()
    stash = FileStash(folder)
    assert [stash.get(hit.entry.handle).text for hit in hits]
    assert stash.verify().is_sound
    stash.close()


def test_a_stash_of_the_callers() -> None:
    stash = MemoryStash()
    client = talk(6, sessions=None, stash=stash)
    assert found(client)
    assert stash.entries()
    client.close()


def test_none() -> None:
    client = talk(6, sessions=None, stash=None)
    assert found(client) == []
    tools = {schema.name: schema for schema in client.session.catalogue.offered()}
    assert set(tools["recall"].parameters["properties"]) == {"handle", "offset"}
    client.close()


def test_without_logs_it_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    client = talk(6, sessions=None)
    assert found(client)
    assert not (tmp_path / ".jaato").exists()
    client.close()


@pytest.mark.parametrize(("turns", "is_there"), [(1, False), (6, True)])
def test_the_default_folder_is_made_when_something_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int, is_there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    client = talk(turns)
    client.close()
    assert (tmp_path / STASH_FOLDER / "stash.jsonl").exists() is is_there
    assert (tmp_path / STASH_FOLDER).exists() is is_there
