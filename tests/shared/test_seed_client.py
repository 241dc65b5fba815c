"""The usage examples of the specification that need a session, as they are printed.

Vertex AI is played by a script that keeps the API's rules: `connect` finds it where it would find
the real provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from tests.session.agents import read, steps_of_turn
from tests.shared.test_seed_examples import HYBRID_FILE, RESEARCH_PROFILE, SUBAGENT_PROFILE

from jaato.budget import locate
from jaato.exchange import Request
from jaato.history import FunctionCall, violations
from jaato.providers.scripted import Reply, ScriptedProvider
from jaato.wiring import PROVIDERS
from shared.instruction_budget import GCPolicy, InstructionSource
from shared.jaato_client import JaatoClient
from shared.jaato_session import JaatoSession
from shared.plugins.gc import (
    GCConfig,
    GCResult,
    GCTriggerReason,
    discover_gc_plugins,
    load_gc_from_file,
    load_gc_plugin,
)
from shared.plugins.gc_hybrid import create_plugin as create_hybrid
from shared.plugins.gc_summarize import create_plugin as create_summarize
from shared.plugins.gc_truncate import create_plugin as create_truncate

CONVERSATION = InstructionSource.CONVERSATION
WINDOW = 12_000
project, location, model = "my-project", "us-central1", "gemini-2.5-flash"


class Gemini(ScriptedProvider):
    """Reads two files in each turn, then answers. Spawns a child where it is told how."""

    def __init__(self, *, project: str, location: str) -> None:
        super().__init__(self._answer, rules="google", window=WINDOW, name="google")
        self.where = (project, location)

    def _answer(self, request: Request) -> Reply:
        at = steps_of_turn(request)
        task = request.messages[-1].text
        if task.startswith("spawn_subagent "):
            call = FunctionCall("s", "spawn_subagent", json.loads(task.partition(" ")[2]))
            return Reply(calls=(call,))
        if task.startswith("Summarize this conversation"):
            return Reply(text="They read files.")
        if at < 2:
            call = FunctionCall(f"c{at}", "read", {"path": f"f{at}.py", "lines": 25})
            return Reply(text=f"step {at}", calls=(call,))
        return Reply(text=f"done after {at} steps. " + "And so on. " * 30)


@pytest.fixture(autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which the program runs, where Vertex AI is a script."""
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".jaato" / "profiles").mkdir(parents=True)
    monkeypatch.setitem(
        cast("dict[str, tuple[str, str]]", PROVIDERS), "google", (__name__, Gemini.__name__)
    )
    return tmp_path / ".jaato"


@pytest.fixture
def client() -> JaatoClient:
    client = JaatoClient()
    client.connect(project, location, model)
    client.configure_tools([read])
    return client


def talk(client: JaatoClient, turns: int = 12) -> list[GCResult]:
    """Talk for so long that the window would overflow more than once."""
    for turn in range(turns):
        response = client.send_message(f"Question {turn}?")
        assert response.startswith("done after 2 steps")
        assert client.get_context_usage()["percent_used"] < 100.0
        assert violations(client.get_history()) == ()
    assert client.get_history()[0].text == "Question 0?"
    freed = [result for result in client.get_gc_history() if result.tokens_freed > 0]
    assert freed, "nothing was collected: the test tests nothing"
    return freed


def prompts(client: JaatoClient) -> list[str]:
    texts = (message.text for message in client.get_history() if message.opens_turn)
    return [text for text in texts if text.startswith("Question")]


# Seed 003, "Available Strategies"


def my_summarizer(conversation: str) -> str:
    return f"A conversation of {len(conversation)} characters."


def truncating() -> Any:
    plugin = create_truncate()
    plugin.initialize(
        {
            "preserve_recent_turns": 10,  # Keep last 10 turns
            "notify_on_gc": True,  # Inject notification into history
        }
    )
    return plugin


def summarizing() -> Any:
    plugin = create_summarize()
    plugin.initialize(
        {
            "preserve_recent_turns": 10,
            "summarizer": my_summarizer,  # Required
            "notify_on_gc": True,
        }
    )
    return plugin


def generational() -> Any:
    plugin = create_hybrid()
    plugin.initialize(
        {
            "preserve_recent_turns": 5,  # Keep last 5 intact
            "summarize_middle_turns": 15,  # Summarize next 15
            "summarizer": my_summarizer,  # Optional
        }
    )
    return plugin


@pytest.mark.parametrize(
    ("create", "preserved", "said"),
    [
        pytest.param(truncating, 10, "[System: ", id="gc_truncate"),
        pytest.param(summarizing, 10, "A conversation of", id="gc_summarize"),
        pytest.param(generational, 5, "A conversation of", id="gc_hybrid"),
    ],
)
def test_a_strategy_keeps_a_client_inside_its_window(
    client: JaatoClient, create: Callable[[], Any], preserved: int, said: str
) -> None:
    client.set_gc_plugin(create(), GCConfig(threshold_percent=75.0))
    freed = talk(client, turns=24)
    assert {result.plugin_name for result in freed} == {create().name}
    assert prompts(client)[-preserved:] == [f"Question {n}?" for n in range(24 - preserved, 24)]
    assert any(said in message.text for message in client.get_history())


# Seed 003, "Configuration Methods"


def test_file_based_configuration(client: JaatoClient, project_folder: Path) -> None:
    (project_folder / "gc.json").write_text(HYBRID_FILE, encoding="utf-8")
    result = load_gc_from_file()  # Defaults to .jaato/gc.json
    if result:
        gc_plugin, gc_config = result
        client.set_gc_plugin(gc_plugin, gc_config)
    freed = talk(client, turns=24)
    assert {one.plugin_name for one in freed} == {"gc_hybrid"}
    assert any("They read files." in one.text for one in client.get_history())


@pytest.mark.parametrize(
    ("text", "name", "turns_are_kept"),
    [
        pytest.param(SUBAGENT_PROFILE, "my-subagent", 5, id="of seed 003"),
        pytest.param(RESEARCH_PROFILE, "research", 3, id="of seed 000"),
    ],
)
def test_profile_based_configuration(
    client: JaatoClient, project_folder: Path, text: str, name: str, turns_are_kept: int
) -> None:
    (project_folder / "profiles" / "one.json").write_text(text, encoding="utf-8")
    children: list[Any] = []
    opener = client.session.open_child
    assert opener is not None

    async def opened(*arguments: Any) -> Any:
        children.append(await opener(*arguments))
        return children[-1]

    client.session.open_child = opened
    done = client.spawn_subagent(task="Look around", profile=name)
    assert done.success
    [child] = children
    written = json.loads(text)
    assert child.collector.plugin.name == "gc_" + written["gc"]["type"].removeprefix("gc_")
    config = child.collector.rules
    assert config.preserve_recent_turns == turns_are_kept
    assert config.threshold_percent == written["gc"]["threshold_percent"]
    assert config.continuous_mode == ("pressure_percent" in written["gc"])
    assert child.get_context_usage()["model"] == model


INLINE: dict[str, Any] = {
    "task": "Stress test GC behavior",
    "inline_config": {
        "gc": {
            "type": "truncate",
            "threshold_percent": 5.0,  # Trigger early for testing
            "preserve_recent_turns": 3,
        }
    },
}


def test_inline_configuration(client: JaatoClient) -> None:
    spawn_subagent = client.spawn_subagent
    done = spawn_subagent(
        task="Stress test GC behavior",
        inline_config={
            "gc": {
                "type": "truncate",
                "threshold_percent": 5.0,  # Trigger early for testing
                "preserve_recent_turns": 3,
            }
        },
    )
    assert done.text.startswith("done after 2 steps")
    assert done.collections > 0
    assert client.get_history() == []


def test_inline_configuration_by_the_model(client: JaatoClient) -> None:
    client.send_message("spawn_subagent " + json.dumps(INLINE))
    result = client.get_history()[2].parts[0].function_response
    assert result is not None
    assert not result.is_error
    assert str(result.result).startswith("done after 2 steps")
    assert len(client.list_sessions()) == 2


def test_programmatic_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    # Create client
    client = JaatoClient()
    client.connect(project, location, model)

    # Load and set GC plugin
    gc_plugin = load_gc_plugin("gc_truncate", {"preserve_recent_turns": 10})
    client.set_gc_plugin(gc_plugin, GCConfig(threshold_percent=75.0, check_before_send=True))
    client.configure_tools([read])

    # Use client normally - GC triggers automatically
    response = client.send_message("Hello")
    assert response.startswith("done after 2 steps")

    # Manual GC
    result = client.manual_gc()
    assert result is not None
    print(f"Freed {result.tokens_freed} tokens")  # noqa: T201 -- as printed

    # View GC history
    for result in client.get_gc_history():
        print(f"{result.plugin_name}: {result.items_collected} items collected")  # noqa: T201 -- as printed
    assert capsys.readouterr().out == "Freed 0 tokens\ngc_truncate: 0 items collected\n"

    provider = client.runtime.provider("google", client.session.settings.provider_settings)
    assert isinstance(provider, Gemini)
    assert provider.where == (project, location)
    assert client.get_context_usage()["model"] == model


# Seed 003, "Creating Custom GC Plugins"


class MyCustomGCPlugin:
    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self._config = config or {}

    def shutdown(self) -> None:
        pass

    def should_collect(self, context_usage: Any, config: GCConfig) -> Any:
        percent = context_usage.get("percent_used", 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history: Any, context_usage: Any, config: Any, reason: Any) -> Any:
        # Implement your GC logic
        starts = [at for at, message in enumerate(history) if message.opens_turn]
        new_history = history[: starts[1]] + history[starts[-3] :] if starts[3:] else history
        result = GCResult(
            success=True,
            items_collected=len(history) - len(new_history),
            tokens_before=context_usage["total_tokens"],
            tokens_after=0,
            plugin_name=self.name,
            trigger_reason=reason,
        )
        return new_history, result


def test_a_custom_plug_in_collects_for_a_client(client: JaatoClient) -> None:
    plugin = MyCustomGCPlugin()
    plugin.initialize()
    client.set_gc_plugin(plugin, GCConfig(threshold_percent=75.0))  # type: ignore[arg-type]  # as printed, it knows no budget
    freed = talk(client)
    assert freed[0].plugin_name == "gc_custom"
    assert client.instruction_budget.total_tokens() == client.get_context_usage()["total_tokens"]


# Seed 000, parts 6 to 8


def test_the_threshold_callback(client: JaatoClient, capsys: pytest.CaptureFixture[str]) -> None:
    session = client.session
    assert isinstance(session, JaatoSession)
    heard: list[str] = []

    def output_callback(source: str, text: str, mode: str) -> None:
        assert mode in {"write", "append"}
        if source == "model":
            heard.append(text)

    def on_gc_threshold_callback(percent_used: float, threshold: float) -> None:
        # UI can show warning notification
        print(f"Context pressure: {percent_used:.1f}% >= {threshold}%")  # noqa: T201 -- as printed

    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(threshold_percent=5.0))
    prompt = "Question 0?"
    response = session.send_message(
        prompt,
        on_output=output_callback,
        on_gc_threshold=on_gc_threshold_callback,
    )
    assert "".join(heard).endswith(response)
    told = capsys.readouterr().out.splitlines()
    assert told
    for line in told:
        percent, _, threshold = line.removeprefix("Context pressure: ").partition("% >= ")
        assert 5.0 <= float(percent) < 100.0
        assert threshold == "5.0%"
    result = session.manual_gc()
    assert result is not None
    assert result.trigger_reason is GCTriggerReason.MANUAL


def test_the_context_usage_is_what_the_budget_says(client: JaatoClient) -> None:
    client.send_message("Question 0?")
    budget = client.instruction_budget
    printed = {
        "context_limit": budget.context_limit,
        "total_tokens": budget.total_tokens(),
        "percent_used": budget.utilization_percent(),
        "tokens_remaining": budget.available_tokens(),
    }
    usage = client.get_context_usage()
    assert printed["context_limit"] == WINDOW
    # What the provider reported corrects the percentage.
    assert {key: usage[key] for key in printed} == pytest.approx(printed, rel=0.05)


def test_the_budget_follows_a_collection_and_everybody_is_told(client: JaatoClient) -> None:
    told: list[Mapping[str, Any]] = []
    shown: list[Mapping[str, Any]] = []

    class UiHooks:
        def on_agent_instruction_budget_updated(
            self, agent_id: str, snapshot: Mapping[str, Any]
        ) -> None:
            assert agent_id == "main"
            shown.append(snapshot)

    on_instruction_budget_updated = told.append
    client.on_instruction_budget_updated(on_instruction_budget_updated)
    client.set_ui_hooks(UiHooks())
    plugin = load_gc_plugin("gc_summarize", {"preserve_recent_turns": 2})
    client.set_gc_plugin(plugin, GCConfig(target_percent=10.0))
    for turn in range(5):
        client.send_message(f"Question {turn}?")
    result = client.manual_gc()
    assert result is not None
    budget = client.instruction_budget
    assert told == shown
    assert told[-1] == budget.snapshot()
    held = [locate(budget, message.message_id) for message in client.get_history()]
    assert all(held), "every message that is left has its entry"
    for item in result.removal_list:
        assert item.source is CONVERSATION
        assert all(locate(budget, gone) is None for gone in item.message_ids)
    summary = budget.get_child(CONVERSATION, "gc_summary_1")
    assert summary is not None
    assert summary.gc_policy is GCPolicy.PRESERVABLE
    assert summary.tokens == result.details["summary_tokens"]


# Seed 000, parts 9 and 10


def test_threshold_mode(client: JaatoClient) -> None:
    # Threshold mode (default)
    gc_plugin = load_gc_plugin(
        "gc_budget",
        {
            "preserve_recent_turns": 5,
            "target_percent": 60.0,
            "pressure_percent": 90.0,
            "notify_on_gc": True,
        },
    )
    config = GCConfig(threshold_percent=80.0)
    client.set_gc_plugin(gc_plugin, config)
    for result in talk(client, turns=24):
        assert result.tokens_before >= 0.75 * WINDOW
        assert result.tokens_after <= 0.62 * WINDOW


@pytest.mark.parametrize("pressure_percent", [None, 0])
def test_continuous_mode(client: JaatoClient, pressure_percent: float | None) -> None:
    # Continuous mode
    gc_plugin = load_gc_plugin(
        "gc_budget",
        {
            "preserve_recent_turns": 5,
            "target_percent": 60.0,
            "pressure_percent": 0,  # enables continuous mode
        },
    )
    config = GCConfig(pressure_percent=pressure_percent)  # or 0
    client.set_gc_plugin(gc_plugin, config)
    freed = talk(client, turns=24)
    assert client.get_context_usage()["percent_used"] <= 60.0
    assert all(result.tokens_before < 0.8 * WINDOW for result in freed)
    assert len(freed) > 5, "small trims, nearly every turn"


def test_pinned_turns_are_never_removed(client: JaatoClient) -> None:
    plugin = load_gc_plugin("gc_truncate", {"preserve_recent_turns": 2})
    client.set_gc_plugin(plugin, GCConfig(pinned_turn_indices=[0, 3]))
    talk(client, turns=24)
    assert {"Question 0?", "Question 3?"} < set(prompts(client))
    assert "Question 1?" not in prompts(client)


def test_every_discovered_plug_in_serves_a_client(client: JaatoClient) -> None:
    for name in discover_gc_plugins():
        client.set_gc_plugin(load_gc_plugin(name, {"preserve_recent_turns": 2}))
        result = client.manual_gc()
        assert result is not None
        assert (result.plugin_name, result.success) == (name, True)
