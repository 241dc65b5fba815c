"""The stash on a real server: the contract, others on it, and a server that dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.stash.redis_server import Server, skip_without_server
from tests.stash.stash_contract import CHECKS, Check, found, put
from tests.stash.test_model import QUICK, StashMachine

from jaato.errors import UsageError
from jaato.kept import (
    DamagedRecordError,
    Record,
    StashError,
    StashFormatError,
    StashFullError,
    StashUnavailableError,
)
from jaato.ports import Stash

skip_without_server()

from jaato.stash.valkey import ValkeyStash  # noqa: E402 -- after the skip

NAMES = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as server:
        yield server


@pytest.fixture
def stash(server: Server) -> Iterator[ValkeyStash]:
    stash = ValkeyStash(server.url, name=f"test-{next(NAMES)}")
    yield stash
    stash.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(stash: ValkeyStash, check: Check) -> None:
    check(stash)


def test_any_sequence_of_what_can_be_asked(server: Server) -> None:
    class ServerMachine(StashMachine):
        """Two clients of one stash, each of which may come anew."""

        def opened(self) -> list[Stash]:
            self.name = f"model-{next(NAMES)}"
            return [ValkeyStash(server.url, name=self.name) for _ in range(2)]

    case: Any = ServerMachine.TestCase
    case.settings = QUICK
    case().runTest()


def test_it_says_how_durable_it_is(stash: ValkeyStash, server: Server) -> None:
    assert stash.verify().durability == "durable on return"
    stash._client.config_set("appendfsync", "everysec")
    try:
        assert "a second" in stash.verify().durability
    finally:
        stash._client.config_set("appendfsync", "always")


def test_several_write_at_once(server: Server) -> None:
    name = f"test-{next(NAMES)}"
    clients = [ValkeyStash(server.url, name=name) for _ in range(4)]
    handles: list[list[str]] = [[] for _ in clients]

    def work(at: int) -> None:
        for number in range(15):
            same, wish = Record(text=f"same {number}"), Record(text=f"of {at}: {number}")
            handles[at] += clients[at].put([same, wish], [None, f"wish-{number}"])
            if number == 7:
                clients[at].compact()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(mine[::2]) for mine in handles}) == 1
    for at, mine in enumerate(handles):
        for number, handle in enumerate(mine[1::2]):
            assert clients[0].get(handle).text == f"of {at}: {number}"
    for client in clients:
        assert len(client.entries()) == 15 + 60
        assert len(client.search("same", limit=100)) == 15


def test_a_server_that_is_killed_has_every_acknowledged_record(own_server: Server) -> None:
    server = own_server
    stash, kept = ValkeyStash(server.url), dict[str, str]()
    for round_number in range(4):
        killer = threading.Timer(0.05 + 0.03 * round_number, server.kill)
        killer.start()
        with pytest.raises(StashUnavailableError) as caught:
            put_for_ever(stash, f"round {round_number}", kept)
        assert "make it again" in str(caught.value)
        killer.join()
        server.start()
        assert {handle: stash.get(handle).text for handle in kept} == kept
        listed = [entry.handle for entry in stash.entries()]
        assert set(kept) <= set(listed)
        assert len(listed) == len(set(listed))
        newest = [*kept.values()][-1]
        assert newest in found(stash, newest)
    other = ValkeyStash(server.url)
    assert [entry.handle for entry in other.entries()] == [one.handle for one in stash.entries()]
    assert other.verify().is_sound
    other.close()
    stash.close()


def put_for_ever(stash: Stash, title: str, kept: dict[str, str]) -> None:
    for number in count():
        texts = [f"{title} number {number} of {at}" for at in range(3)]
        kept.update(zip(put(stash, *texts), texts, strict=True))


def test_a_damaged_record_is_an_error(stash: ValkeyStash) -> None:
    one, other = put(stash, "one sphinx", "another sphinx")
    keys = stash._keys
    line = stash._client.hget(keys.records, one)
    stash._client.hset(keys.records, one, line.replace(b"sphinx", b"SPHINX"))
    with pytest.raises(DamagedRecordError):
        stash.get(one)
    # The right checksum under the wrong handle.
    stash._client.hset(keys.records, other, line)
    with pytest.raises(DamagedRecordError):
        stash.get(other)
    assert {damage.handle for damage in stash.verify().damages} == {one, other}


def test_compaction_takes_words_off_the_server(stash: ValkeyStash) -> None:
    kept, gone = put(stash, "kept words", "gone words")
    stash.remove([gone])
    stash.compact()
    keys = {key.decode() for key in stash._client.scan_iter(f"*{stash._keys.name}*")}
    assert stash._keys.postings("kept") in keys
    assert stash._keys.postings("gone") not in keys
    assert stash._client.strlen(stash._keys.postings("words")) == 4
    assert [hit.entry.handle for hit in stash.search("words")] == [kept]


def test_a_full_server_keeps_nothing(tmp_path: Path) -> None:
    with Server(tmp_path, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as server:
        stash = ValkeyStash(server.url)
        with pytest.raises(StashFullError):
            put_for_ever(stash, "large " * 10_000, {})
        stash.close()


def test_a_newer_version_is_refused(stash: ValkeyStash, server: Server) -> None:
    stash._client.hset(stash._keys.facts, "version", 2)
    with pytest.raises(StashFormatError):
        ValkeyStash(server.url, name=stash._keys.name)


def test_a_server_that_is_not_there_says_so() -> None:
    with pytest.raises(StashUnavailableError):
        ValkeyStash("valkey://127.0.0.1:1/0")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        pytest.param("http://localhost", "stash", id="another protocol"),
        pytest.param("valkey://localhost", "a b*", id="a pattern for a name"),
    ],
)
def test_bad_addresses_are_refused(url: str, name: str) -> None:
    with pytest.raises((UsageError, StashError)):
        ValkeyStash(url, name=name)


def test_redis_is_another_name_for_it(server: Server) -> None:
    stash = ValkeyStash(server.url.replace("valkey", "redis"), name="redis")
    put(stash, "a")
    assert stash.verify().records == 1
    stash.close()
