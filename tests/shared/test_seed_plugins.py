"""The custom plug-in of the specification, registered through a real entry point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from jaato.budget import budget_for
from jaato.cli.main import cli
from jaato.gc.settle import settle
from jaato.testing import run_collection, sketch
from jaato.tokens import count_messages, default_counter
from shared.plugins.gc import (
    GCConfig,
    GCPlugin,
    GCTriggerReason,
    discover_gc_plugins,
    load_gc_from_file,
    load_gc_plugin,
)

# As printed, with the places filled in that are left open there. `collect` knows no budget.
MY_PACKAGE = '''
"""Keeps the last two messages."""

from shared.plugins.gc import GCPlugin, GCConfig, GCResult, GCTriggerReason

class MyCustomGCPlugin:
    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config=None):
        self._config = config or {}

    def shutdown(self):
        pass

    def should_collect(self, context_usage, config):
        percent = context_usage.get('percent_used', 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history, context_usage, config, reason):
        # Implement your GC logic
        new_history = history[-self._config.get("keep", 2):]
        result = GCResult(
            success=True,
            items_collected=len(history) - len(new_history),
            tokens_before=100,
            tokens_after=10,
            plugin_name=self.name,
            trigger_reason=reason
        )
        return new_history, result

def create_plugin():
    return MyCustomGCPlugin()
'''


@pytest.fixture(autouse=True)
def _installed(install: Callable[..., Path]) -> None:
    install(
        "my-package",
        modules={"my_package": MY_PACKAGE},
        plugins={"gc_custom": "my_package:create_plugin"},
        version="2.1",
    )


def test_it_is_discovered_beside_the_built_in_ones() -> None:
    plugins = discover_gc_plugins()
    assert plugins.keys() == {"gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget", "gc_custom"}
    assert isinstance(plugins["gc_custom"](), GCPlugin)


@pytest.mark.parametrize("name", ["gc_custom", "custom"])
def test_it_loads_with_its_options_and_collects(name: str) -> None:
    plugin = load_gc_plugin(name, {"keep": 3})
    assert plugin.should_collect({"percent_used": 81.0}, GCConfig()) == (
        True,
        GCTriggerReason.THRESHOLD,
    )
    history = sketch("u a u a u a")
    after, result = plugin.collect(history, {}, GCConfig(), GCTriggerReason.MANUAL)
    assert (after, result.tokens_freed) == (history[-3:], 90)


def test_a_budget_is_settled_although_it_names_nothing_it_removed() -> None:
    history = sketch("u a u c1 r1 a u a")
    counter = default_counter()
    budget = budget_for(history, count_messages(counter, history), context_limit=1_000)
    observed = run_collection(load_gc_plugin("gc_custom"), history, budget=budget)
    assert observed.after == tuple(history[-2:])
    settle(budget, observed.result, history, observed.after, counter)
    assert budget.total_tokens() == sum(count_messages(counter, history[-2:]))


def test_a_file_may_ask_for_it(tmp_path: Path) -> None:
    path = tmp_path / "gc.json"
    path.write_text('{"type": "gc_custom", "threshold_percent": 70, "plugin_config": {"keep": 1}}')
    loaded = load_gc_from_file(path, strict=True)
    assert loaded is not None
    plugin, config = loaded
    assert (plugin.name, config.threshold_percent) == ("gc_custom", 70)
    history = sketch("u a u a")
    assert plugin.collect(history, {}, config, GCTriggerReason.MANUAL)[0] == history[-1:]


def test_the_commands_know_it() -> None:
    listed = CliRunner().invoke(cli, ["strategies"])
    row = next(line for line in listed.output.splitlines() if line.startswith("gc_custom"))
    assert row.split(maxsplit=4) == [
        "gc_custom",
        "ok",
        "my-package",
        "2.1",
        "Keeps the last two messages.",
    ]
    shown = CliRunner().invoke(cli, ["demo", "--strategy", "custom", "--window", "2000"])
    assert shown.exit_code == 0
    assert "gc_custom freed 90 tokens" in shown.output
