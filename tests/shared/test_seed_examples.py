"""The usage examples of the specification that need no session, as they are printed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from shared.instruction_budget import GCPolicy, InstructionBudget, InstructionSource
from shared.plugins.gc import (
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    discover_gc_plugins,
    load_gc_from_file,
    load_gc_plugin,
)
from shared.plugins.gc_hybrid import create_plugin as create_hybrid
from shared.plugins.gc_summarize import create_plugin as create_summarize
from shared.plugins.gc_truncate import create_plugin as create_truncate
from shared.plugins.model_provider.types import Message, Part, Role
from shared.plugins.subagent.config import GCProfileConfig, discover_profiles

HYBRID_FILE = """
{
  "type": "hybrid",
  "threshold_percent": 80.0,
  "preserve_recent_turns": 5,
  "notify_on_gc": true,
  "summarize_middle_turns": 10,
  "max_turns": null,
  "plugin_config": {}
}
"""
BUDGET_FILE = """
{
    "plugin": "gc_budget",
    "config": {
        "preserve_recent_turns": 5,
        "target_percent": 60.0,
        "pressure_percent": 90.0,
        "notify_on_gc": true
    }
}
"""
RESEARCH_PROFILE = """
{
  "name": "research",
  "model": "gemini-2.5-flash",
  "gc": {
    "type": "gc_budget",
    "threshold_percent": 75.0,
    "target_percent": 50.0,
    "pressure_percent": 0,
    "preserve_recent_turns": 3
  }
}
"""
SUBAGENT_PROFILE = """
{
  "name": "my-subagent",
  "description": "A specialized subagent",
  "plugins": ["cli", "file_edit"],
  "gc": {
    "type": "hybrid",
    "threshold_percent": 80.0,
    "preserve_recent_turns": 5,
    "notify_on_gc": true,
    "summarize_middle_turns": 10
  }
}
"""


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)


def talk(turns: int) -> list[Message]:
    """So many turns: a question, and an answer of some length."""
    history = []
    for turn in range(turns):
        answer = f"Answer {turn}: " + " ".join(f"word{turn}x{n}" for n in range(120))
        history += [
            Message(role=Role.USER, parts=[Part(text=f"Question {turn}?")]),
            Message(role=Role.MODEL, parts=[Part(text=answer)]),
        ]
    return history


def collect(plugin: GCPlugin, config: GCConfig, turns: int) -> tuple[list[Message], GCResult]:
    """A collection of a window about which nothing is known but that it is full."""
    usage: dict[str, Any] = {"percent_used": 82.0}
    due, reason = plugin.should_collect(usage, config)
    assert due
    assert reason is GCTriggerReason.THRESHOLD
    return plugin.collect(talk(turns), usage, config, reason)


def my_summarizer(conversation: str) -> str:
    assert "Question 0?" in conversation
    return "They talked about words."


def texts(history: list[Message]) -> list[str]:
    return [message.text for message in history]


def test_gc_truncate() -> None:
    plugin = create_truncate()
    plugin.initialize(
        {
            "preserve_recent_turns": 10,  # Keep last 10 turns
            "notify_on_gc": True,  # Inject notification into history
        }
    )
    history, result = collect(plugin, GCConfig(threshold_percent=75.0), turns=14)
    assert history[0].text.startswith("[System: ")
    assert texts(history[1:]) == texts(talk(14)[8:])
    assert result.success
    assert result.notification is not None
    assert result.notification in history[0].text
    assert [item.child_key for item in result.removal_list] == [f"turn_{n}" for n in range(4)]
    assert {item.reason for item in result.removal_list} == {"truncated"}
    assert {"turns_before": 14, "turns_after": 10, "preserve_count": 10}.items() <= (
        result.details.items()
    )


def test_gc_summarize() -> None:
    plugin = create_summarize()
    plugin.initialize(
        {
            "preserve_recent_turns": 10,
            "summarizer": my_summarizer,  # Required
            "notify_on_gc": True,
        }
    )
    history, result = collect(plugin, GCConfig(threshold_percent=75.0), turns=14)
    notice, summary, *rest = history
    assert notice.text.startswith("[System: ")
    assert summary.role is Role.USER
    assert summary.text.startswith("[Context Summary - Previous conversation compressed]\n")
    assert summary.text.endswith("\n[End Context Summary]")
    assert "They talked about words." in summary.text
    assert texts(rest) == texts(talk(14)[8:])
    assert {item.reason for item in result.removal_list} == {"summarized"}
    assert {
        "turns_before",
        "turns_after",
        "preserve_count",
        "turns_summarized",
        "summary_tokens",
    } <= result.details.keys()
    assert result.details["turns_summarized"] == 4


def test_gc_summarize_needs_a_summarizer() -> None:
    plugin = create_summarize()
    plugin.initialize({"preserve_recent_turns": 10})
    history, result = collect(plugin, GCConfig(threshold_percent=75.0), turns=14)
    assert not result.success
    assert "summarizer required" in str(result.error)
    assert (texts(history), result.tokens_freed) == (texts(talk(14)), 0)


def test_gc_hybrid() -> None:
    def my_summarizer(conversation: str) -> str:
        assert "Question 5?" in conversation
        assert "Question 4?" not in conversation
        return "The middle."

    plugin = create_hybrid()
    plugin.initialize(
        {
            "preserve_recent_turns": 5,  # Keep last 5 intact
            "summarize_middle_turns": 15,  # Summarize next 15
            "summarizer": my_summarizer,  # Optional
        }
    )
    history, result = collect(plugin, GCConfig(threshold_percent=75.0), turns=25)
    assert "The middle." in history[0].text
    assert texts(history[1:]) == texts(talk(25)[40:])
    reasons = [item.reason for item in result.removal_list]
    assert sorted(reasons) == ["ancient_truncated"] * 5 + ["middle_summarized"] * 15
    assert {
        "turns_before": 25,
        "turns_truncated": 5,
        "turns_summarized": 15,
        "preserve_recent": 5,
        "summarize_middle": 15,
        "had_summarizer": True,
    }.items() <= result.details.items()


def test_load_gc_plugin_in_threshold_mode() -> None:
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
    assert gc_plugin.should_collect({"percent_used": 79.9}, config) == (False, None)
    assert gc_plugin.should_collect({"percent_used": 80.0}, config)[0]


@pytest.mark.parametrize("pressure", [None, 0])
def test_load_gc_plugin_in_continuous_mode(pressure: float | None) -> None:
    gc_plugin = load_gc_plugin(
        "gc_budget",
        {
            "preserve_recent_turns": 5,
            "target_percent": 60.0,
            "pressure_percent": 0,  # enables continuous mode
        },
    )
    config = GCConfig(pressure_percent=pressure)
    assert gc_plugin.should_collect({"percent_used": 60.0}, config) == (False, None)
    assert gc_plugin.should_collect({"percent_used": 60.1}, config)[0]


def test_load_by_name() -> None:
    plugins = discover_gc_plugins()
    assert {"gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"} <= plugins.keys()
    plugin = load_gc_plugin("gc_truncate", {"preserve_recent_turns": 10})
    assert plugin.name == "gc_truncate"
    assert plugins["gc_truncate"]().name == "gc_truncate"
    config = GCConfig(threshold_percent=75.0, check_before_send=True)
    assert config.check_before_send
    plugin.shutdown()


def test_gc_budget_without_a_budget_truncates() -> None:
    plugin = load_gc_plugin("gc_budget")
    history, result = collect(plugin, GCConfig(), turns=8)
    assert texts(history) == texts(talk(8)[6:])
    assert result.details["mode"] == "fallback_truncate"


def test_the_details_of_gc_budget_are_as_printed() -> None:
    history = talk(12)
    budget = InstructionBudget.create_default("s-1", context_limit=128_000)
    budget.add_child(InstructionSource.SYSTEM, "base", 20_000)
    budget.update_tokens(InstructionSource.ENRICHMENT, 2_000)
    for n in range(3):
        budget.add_child(InstructionSource.PLUGIN, f"tool_{n}", 1_700, GCPolicy.EPHEMERAL)
    for n in range(12):
        pair = [message.message_id for message in history[2 * n : 2 * n + 2]]
        size = 3_800 if n < 7 else 9_740
        budget.add_child(
            InstructionSource.CONVERSATION, f"turn_{n}", size, GCPolicy.PARTIAL, message_ids=pair
        )
    assert budget.total_tokens() == 102_400
    usage = {"percent_used": budget.utilization_percent(), "context_limit": 128_000}
    plugin = load_gc_plugin("gc_budget")
    after, result = plugin.collect(
        history=history,
        context_usage=usage,
        config=GCConfig(),
        reason=GCTriggerReason.THRESHOLD,
        budget=budget,
    )
    printed = {
        "target_tokens": 76_800,
        "tokens_to_free": 25_600,
        "tokens_freed": 26_100,
        "enrichment_cleared": True,
        "ephemeral_removed": 3,
        "partial_removed": 5,
        "preservable_removed": 0,
    }
    assert {key: result.details[key] for key in printed} == printed
    assert (result.tokens_before, result.tokens_after) == (102_400, 76_300)
    assert result.items_collected == 9
    assert after == history[10:]
    first = result.removal_list[0]
    assert (first.source, first.child_key) == (InstructionSource.ENRICHMENT, None)
    assert (first.tokens_freed, first.reason) == (2_000, "enrichment_bulk_clear")
    turn = result.removal_list[-1]
    assert (turn.source, turn.child_key) == (InstructionSource.CONVERSATION, "turn_4")
    assert (turn.tokens_freed, turn.reason) == (3_800, "partial_turn")
    assert turn.message_ids == [message.message_id for message in history[8:10]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an empty `.jaato`, in which the program runs."""
    (tmp_path / ".jaato" / "profiles").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".jaato"


@pytest.mark.parametrize(
    ("text", "name", "config"),
    [
        pytest.param(HYBRID_FILE, "gc_hybrid", GCConfig(), id="type"),
        pytest.param(BUDGET_FILE, "gc_budget", GCConfig(), id="plugin and config"),
    ],
)
def test_load_gc_from_file(project: Path, text: str, name: str, config: GCConfig) -> None:
    (project / "gc.json").write_text(text, encoding="utf-8")
    result = load_gc_from_file()  # Defaults to .jaato/gc.json
    assert result
    gc_plugin, gc_config = result
    assert (gc_plugin.name, gc_config) == (name, config)
    history, outcome = collect(gc_plugin, gc_config, turns=8)
    assert texts(history[1:]) == texts(talk(8)[6:])
    assert outcome.notification


def test_no_file_gives_none(project: Path) -> None:
    assert load_gc_from_file() is None
    assert load_gc_from_file(strict=True) is None


def test_a_broken_file_is_logged_and_gives_none(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (project / "gc.json").write_text('{"type": "hybird"', encoding="utf-8")
    with caplog.at_level(logging.ERROR):
        assert load_gc_from_file() is None
    assert "gc.json" in caplog.text
    with pytest.raises(ValueError, match="not JSON"):
        load_gc_from_file(strict=True)


def test_profiles_configure_subagents(project: Path) -> None:
    for name, text in {"research": RESEARCH_PROFILE, "mine": SUBAGENT_PROFILE}.items():
        (project / "profiles" / f"{name}.json").write_text(text, encoding="utf-8")
    profiles = discover_profiles(".jaato/profiles")
    assert profiles.keys() == {"research", "my-subagent"}
    research, mine = profiles["research"].gc, profiles["my-subagent"].gc
    assert research is not None
    assert mine is not None
    assert research.to_gc_config() == GCConfig(75.0, 50.0, 0, preserve_recent_turns=3)
    assert (mine.type, mine.summarize_middle_turns) == ("hybrid", 10)
    for one in (research, mine):
        load_gc_plugin(one.type, one.plugin_options()).shutdown()


def test_inline_configuration() -> None:
    inline_config: dict[str, Any] = {
        "gc": {
            "type": "truncate",
            "threshold_percent": 5.0,  # Trigger early for testing
            "preserve_recent_turns": 3,
        }
    }
    profile = GCProfileConfig.from_dict(inline_config["gc"])
    config = profile.to_gc_config()
    plugin = load_gc_plugin(profile.type, profile.plugin_options())
    assert plugin.should_collect({"percent_used": 5.0}, config)[0]
    usage = {"percent_used": 5.0, "context_limit": 100_000, "total_tokens": 5_000}
    after, result = plugin.collect(talk(9), usage, config, GCTriggerReason.THRESHOLD)
    assert result.tokens_after <= 5_000 * 0.75
    assert len(after) < 18
    assert json.loads(json.dumps(result.details)) == result.details
