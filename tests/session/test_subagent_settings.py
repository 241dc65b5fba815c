"""How a child is set up: by a profile, for this one time, or as its parent is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.agents import gc, read, worker
from tests.session.families import TASK, parent, spawning

from jaato.events import Event, Noticed
from jaato.exchange import Request
from jaato.gc.config import GCConfig
from jaato.gc.drive import DrivenPlugin
from jaato.gc.result import GCResult, GCTriggerReason
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.session.session import AsyncSession
from jaato.session.settings import LoopSettings
from jaato.strategies.truncate import TruncateGCPlugin

STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


def run(work: Any) -> Any:
    return asyncio.run(work)


async def child_of(
    profile: str | None = None, inline_config: Any = None, **settings: Any
) -> AsyncSession:
    """The child that a parent of these settings spawns."""
    session, children = await parent(**settings)
    done = await session.aspawn_subagent(TASK, profile, inline_config)
    assert done.success, done.error
    [child] = children
    return child


def collector_of(child: AsyncSession) -> tuple[str, GCConfig, dict[str, Any]]:
    plugin = child.collector.plugin
    assert isinstance(plugin, DrivenPlugin)
    return plugin.name, child.collector.config, plugin._options


# The collector, as a profile or `inline_config` writes it


GC_OBJECTS = [
    # Each row of seed 003, "Available inline_config.gc options".
    pytest.param({}, "gc_truncate", {}, {}, id="nothing: the printed defaults"),
    pytest.param({"type": "truncate"}, "gc_truncate", {}, {}, id="truncate"),
    pytest.param({"type": "summarize"}, "gc_summarize", {}, {}, id="summarize"),
    pytest.param({"type": "hybrid"}, "gc_hybrid", {}, {}, id="hybrid"),
    pytest.param({"type": "gc_budget"}, "gc_budget", {}, {}, id="gc_budget"),
    pytest.param(
        {"threshold_percent": 5.0},
        "gc_truncate",
        {"threshold_percent": 5.0, "target_percent": 3.75},
        {},
        id="threshold_percent",
    ),
    pytest.param(
        {"preserve_recent_turns": 3},
        "gc_truncate",
        {"preserve_recent_turns": 3},
        {},
        id="preserve_recent_turns",
    ),
    pytest.param(
        {"notify_on_gc": False}, "gc_truncate", {}, {"notify_on_gc": False}, id="notify_on_gc"
    ),
    pytest.param(
        {"type": "hybrid", "summarize_middle_turns": 4},
        "gc_hybrid",
        {},
        {"summarize_middle_turns": 4},
        id="summarize_middle_turns",
    ),
    pytest.param({"max_turns": 7}, "gc_truncate", {"max_turns": 7}, {}, id="max_turns"),
    pytest.param(
        {"plugin_config": {"notification_template": "{kept}"}},
        "gc_truncate",
        {"plugin_config": {"notification_template": "{kept}"}},
        {"notification_template": "{kept}"},
        id="plugin_config",
    ),
    pytest.param(
        {"summarize_middle_turns": None, "max_turns": None},
        "gc_truncate",
        {},
        {},
        id="null is the default",
    ),
    # Seed 000, part 10, "Subagent GC Profiles".
    pytest.param(
        {
            "type": "gc_budget",
            "threshold_percent": 75.0,
            "target_percent": 50.0,
            "pressure_percent": 0,
            "preserve_recent_turns": 3,
        },
        "gc_budget",
        {
            "threshold_percent": 75.0,
            "target_percent": 50.0,
            "pressure_percent": 0,
            "preserve_recent_turns": 3,
        },
        {},
        id="continuous mode",
    ),
]


@pytest.mark.parametrize("way", ["inline_config", "a profile", "inline_config over a profile"])
@pytest.mark.parametrize(("written", "name", "config", "options"), GC_OBJECTS)
def test_every_option_of_gc_reaches_the_childs_collector(
    tmp_path: Path,
    way: str,
    written: dict[str, Any],
    name: str,
    config: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Whatever the parent collects with."""
    profile = {} if way == "inline_config" else {"gc": written}
    if way == "inline_config over a profile":
        profile = {"gc": {"type": "gc_budget", "threshold_percent": 33.0, "max_turns": 2}}
    (tmp_path / "one.json").write_text(json.dumps(profile), encoding="utf-8")
    child = run(
        child_of(
            None if way == "inline_config" else "one",
            None if way == "a profile" else {"gc": written},
            profiles=tmp_path,
            plugin=gc("gc_summarize", preserve_recent_turns=9),
            config=GCConfig(threshold_percent=44.0),
        )
    )
    made, its_config, its_options = collector_of(child)
    assert made == name
    assert its_config == GCConfig(**config)
    assert its_options == {"notify_on_gc": True, **options}


def test_a_child_collects_as_it_was_told_and_its_parent_does_not() -> None:
    async def go() -> None:
        session, children = await parent(
            worker(6, lines=30), limit=16_000, plugin=gc(), config=GCConfig(threshold_percent=99.0)
        )
        await session.asend_message("read for the parent")
        done = await session.aspawn_subagent(
            "Stress test GC behavior",
            inline_config={
                "gc": {"type": "truncate", "threshold_percent": 5.0, "preserve_recent_turns": 3}
            },
        )
        [child] = children
        assert done.success
        assert done.collections == len(child.get_gc_history()) > 0
        assert {one.plugin_name for one in child.get_gc_history()} == {"gc_truncate"}
        assert session.get_gc_history() == []

    run(go())


# The collector, as the parent has it


EVERYTHING: dict[str, dict[str, Any]] = {
    "gc_truncate": {},
    "gc_summarize": {"summarizer": "extractive"},
    "gc_hybrid": {"summarizer": "extractive", "summarize_middle_turns": 3},
    "gc_budget": {"min_free_percent": 2.0, "pressure_percent": 0},
}
CONFIG = GCConfig(
    threshold_percent=70.0,
    target_percent=40.0,
    pressure_percent=85.0,
    max_turns=30,
    auto_trigger=True,
    check_before_send=False,
    preserve_recent_turns=4,
    pinned_turn_indices=[0, 2],
    plugin_config={"notification_template": "{kept}", "pinned_turn_indices": [1]},
)


@pytest.mark.parametrize("when", ["from the beginning", "set later"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_gc_a_child_has_all_its_parent_has_but_pins_and_memories(
    strategy: str, when: str
) -> None:
    options = {"preserve_recent_turns": 2, "notify_on_gc": False, **EVERYTHING[strategy]}

    async def go() -> None:
        plugin = gc(strategy, pinned_turn_indices=[3], **options)
        first = {} if when == "set later" else {"plugin": plugin, "config": CONFIG}
        session, children = await parent(worker(1), **first)
        if when == "set later":
            session.set_gc_plugin(plugin, CONFIG)
        for at in range(4):
            await session.asend_message(f"turn {at}")
        session.pin(1)
        await session.amanual_gc()
        assert (await session.aspawn_subagent(TASK)).success
        [child] = children
        name, config, its_options = collector_of(child)
        assert (name, its_options) == (strategy, options)
        kept = {"notification_template": "{kept}"}
        assert vars(config) == {
            **vars(CONFIG), "pinned_turn_indices": [], "plugin_config": kept
        }  # fmt: skip
        assert child.collector.effective.pinned_turn_indices == []
        assert child.state.pins == ()
        assert child.collector.plugin is not plugin
        assert isinstance(child.collector.plugin, DrivenPlugin)
        assert child.collector.plugin._numbers == {}
        assert plugin._options == {**options, "pinned_turn_indices": [3]}, (
            "the parent's are its own"
        )
        assert CONFIG.pinned_turn_indices == [0, 2]

    run(go())


def test_a_child_of_a_child_has_it_too() -> None:
    async def go() -> None:
        session, children = await parent(plugin=gc(max_turns=9), config=CONFIG)
        await session.aspawn_subagent(TASK, inline_config={"max_turns": 3})
        [child] = children
        assert child.open_child is not None
        settings = session.runtime.child(None, None)
        grandchild = await child.open_child(child, "main.subagent-1.subagent-1", settings, 2)
        assert collector_of(grandchild) == collector_of(child)
        await grandchild.aclose()

    run(go())


@pytest.mark.parametrize("config", [None, CONFIG], ids=["the default", "a configuration"])
def test_a_parent_without_a_collector_has_children_without(config: GCConfig | None) -> None:
    child = run(child_of(config=config))
    assert child.collector.plugin is None
    assert child.collector.config == (config or GCConfig())


def test_a_childs_summaries_are_its_own_models() -> None:
    """Not those of the model that the parent has."""

    async def go() -> None:
        def script(request: Request) -> Reply:
            if "Summarize this conversation" in request.messages[-1].text:
                return Reply(text=f"A SUMMARY BY {request.model}")
            return worker(1)(request)

        session, children = await parent(script, plugin=gc("gc_summarize", preserve_recent_turns=1))
        await session.aspawn_subagent(TASK, inline_config={"model": "small"})
        [child] = children
        plugin = child.collector.plugin
        assert isinstance(plugin, DrivenPlugin)
        assert plugin._model is not None
        written = plugin._model("Summarize this conversation")
        assert await written == "A SUMMARY BY small"  # type: ignore[misc]  # a session's is async

    run(go())


class Foreign:
    """Somebody else's plug-in."""

    name = "gc_foreign"

    def __init__(self, held: Any) -> None:
        self.held = held

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def should_collect(self, usage: Any, config: GCConfig) -> Any:
        return False, None

    def collect(
        self, history: Any, usage: Any, config: Any, reason: Any, budget: Any = None
    ) -> Any:
        return history, GCResult(True, 0, 1, 1, self.name, GCTriggerReason.MANUAL)


class Named(TruncateGCPlugin):
    """One of ours, made further, that is not made from nothing."""

    def __init__(self, who: str) -> None:
        super().__init__()
        self.who = who


@pytest.mark.parametrize(
    ("made", "is_shared"),
    [
        pytest.param(lambda: Foreign({"kept": [1]}), False, id="it is copied"),
        pytest.param(lambda: Foreign(threading.Lock()), True, id="it is shared where it cannot be"),
        pytest.param(lambda: Named("mine"), False, id="one of ours that needs to be told more"),
    ],
)
def test_a_plug_in_of_somebody_else_is_inherited_too(
    made: Callable[[], Any], is_shared: bool
) -> None:
    plugin = made()
    child = run(child_of(plugin=plugin, config=CONFIG))
    assert type(child.collector.plugin) is type(plugin)
    assert (child.collector.plugin is plugin) == is_shared
    assert child.collector.config.threshold_percent == 70.0


# All the rest


class Attentive(ScriptedProvider):
    """Notes what it was asked, and answers."""

    def __init__(self, name: str, window: int | None = None) -> None:
        super().__init__(self._answer, name=name, window=window)
        self.asked: list[Request] = []

    def _answer(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text="ok")


def other(path: str) -> str:
    """Do something else."""
    return path


async def asked_of_child(
    profile: dict[str, Any] | None, tmp_path: Path, **settings: Any
) -> tuple[Request, AsyncSession, list[Event]]:
    """The request that a child of this profile makes, the child, and what its parent heard."""
    (tmp_path / "one.json").write_text(json.dumps(profile or {}), encoding="utf-8")
    session, children = await parent(profiles=tmp_path, tools=[read, other], **settings)
    heard: list[Event] = []
    session.on(heard.append, Noticed)
    here, there = Attentive("scripted"), Attentive("elsewhere", 9_000)
    session._model.provider = here
    session.runtime.adopt(here)
    session.runtime.adopt(there)
    done = await session.aspawn_subagent(TASK, None if profile is None else "one")
    assert done.success, done.error
    [request] = [*here.asked, *there.asked]
    return request, children[0], heard


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(None, {}, id="no profile: as the parent"),
        pytest.param({}, {"agent": "main.one-1"}, id="an empty one: as the parent"),
        pytest.param({"system_instructions": "Be brief."}, {"system": "Be brief."}, id="told"),
        pytest.param({"model": "small"}, {"model": "small", "limit": None}, id="another model"),
        pytest.param({"model": "scripted"}, {}, id="the same model by its name"),
        pytest.param(
            {"provider": "elsewhere", "model": "large"},
            {"provider": "elsewhere", "model": "large", "limit": 9_000},
            id="another provider",
        ),
        pytest.param({"plugins": ["other"]}, {"tools": {"other"}}, id="some of the tools"),
        pytest.param(
            {"plugins": ["other", "cli"]},
            {"tools": {"other"}, "missing": "cli"},
            id="a tool that the parent has not",
        ),
        pytest.param({"max_turns": 2}, {"max_steps": 2}, id="fewer steps"),
    ],
)
def test_what_a_profile_says_is_so_and_the_rest_is_as_the_parents(
    tmp_path: Path, profile: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    wanted = {
        "agent": "main.one-1" if profile is not None else "main.subagent-1",
        "provider": "scripted",
        "model": "scripted",
        "system": "Be kind.\n\nBe careful.",
        "tools": {"read", "other"},
        "limit": 20_000,
        "max_steps": 50,
        "missing": None,
        **expected,
    }
    request, child, heard = run(
        asked_of_child(
            profile,
            tmp_path,
            limit=20_000,
            system_instructions={"base": "Be kind.", "client": "Be careful."},
            loop=LoopSettings(max_steps=50, max_result_tokens=700),
            enrichers={"clock": lambda _prompt: "it is noon"},
        )
    )
    assert child.agent_id == wanted["agent"]
    assert (child.state.provider, request.model) == (wanted["provider"], wanted["model"])
    assert request.system == wanted["system"]
    offered = {tool.name for tool in request.tools}
    assert offered == {*wanted["tools"], "recall", "spawn_subagent"}
    assert child.get_context_usage()["context_limit"] == wanted["limit"]
    assert child.settings.loop.max_steps == wanted["max_steps"]
    assert child.settings.loop.max_result_tokens == 700
    assert "it is noon" in request.messages[0].text
    assert TASK in request.messages[0].text
    texts = [event.text for event in heard if isinstance(event, Noticed)]
    assert [wanted["missing"] in text for text in texts] == [True] * bool(wanted["missing"])


def test_what_is_given_for_one_time_stands_over_the_profile(tmp_path: Path) -> None:
    profile = {"name": "scout", "model": "small", "max_turns": 9, "system_instructions": "Look."}
    (tmp_path / "file.json").write_text(json.dumps(profile), encoding="utf-8")
    child = run(
        child_of("scout", {"max_turns": 3, "model": "tiny", "plugins": None}, profiles=tmp_path)
    )
    assert child.agent_id == "main.scout-1"
    assert child.get_context_usage()["model"] == "tiny"
    assert child.settings.loop.max_steps == 3
    assert child.state.window.system == {"base": "Look."}


def test_a_profile_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    async def go() -> None:
        session, children = await parent(profiles=tmp_path)
        for model in ("first", "second"):
            text = json.dumps({"model": model})
            (tmp_path / "one.json").write_text(text, encoding="utf-8")
            await session.aspawn_subagent(TASK, "one")
        assert [child.state.window.model for child in children] == ["first", "second"]

    run(go())


def test_a_child_speaks_with_the_model_that_its_parent_has_now() -> None:
    async def go() -> None:
        session, children = await parent()
        session.runtime.adopt(ScriptedProvider(spawning(), name="small", window=9_000))
        await session.aswitch_model("little", provider="small")
        assert (await session.aspawn_subagent(TASK)).success
        usage = children[0].get_context_usage()
        assert (usage["model"], usage["context_limit"]) == ("little", 9_000)

    run(go())
