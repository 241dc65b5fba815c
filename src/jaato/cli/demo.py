"""`jaato demo`: one collection of a generated session, the window before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaato.budget import InstructionBudget, SourceEntry
    from jaato.history import Message

WINDOW = 24_000
BAR = 30


@click.command()
@click.option("--strategy", default="gc_budget", show_default=True, help="Which one collects.")
@click.option(
    "--window",
    type=click.IntRange(min=2_000),
    default=WINDOW,
    show_default=True,
    help="Size of the context window, in tokens.",
)
@click.help_option("-h", "--help")
def demo(strategy: str, window: int) -> None:
    """Show a collection of a generated session, before and after."""
    from jaato.budget.conversation import budget_for
    from jaato.gc.config import GCConfig
    from jaato.gc.registry import load_gc_plugin
    from jaato.gc.result import GCTriggerReason
    from jaato.gc.settle import settle
    from jaato.tokens import count_messages, default_counter

    options: dict[str, object] = {"notify_on_gc": True}
    if strategy.removeprefix("gc_") in {"summarize", "hybrid"}:
        options["summarizer"] = "extractive"
    plugin = load_gc_plugin(strategy, options)
    counter = default_counter()
    config = GCConfig(threshold_percent=80.0, target_percent=50.0, preserve_recent_turns=2)

    history = _grown(window, config.threshold_percent)
    budget = budget_for(
        history, count_messages(counter, history), session_id="demo", context_limit=window
    )
    usage = {
        "context_limit": budget.context_limit,
        "total_tokens": budget.total_tokens(),
        "percent_used": budget.utilization_percent(),
    }
    _print_window("before", budget, history)
    due, reason = plugin.should_collect(usage, config)
    assert due, "the session was grown past the threshold"
    after, result = plugin.collect(
        history, usage, config, reason or GCTriggerReason.THRESHOLD, budget
    )
    if not result.success:
        raise click.ClickException(result.error or "the collection failed")
    settle(budget, result, history, after, counter)
    click.echo()
    _print_window("after", budget, after)
    click.echo()
    click.echo(
        f"{result.plugin_name}: {result.items_collected} items, {result.tokens_freed:,} tokens "
        f"freed ({result.tokens_before:,} -> {result.tokens_after:,})"
    )
    for key, value in result.details.items():
        click.echo(f"  {key:<22} {value}")


def _grown(window: int, percent: float) -> list[Message]:
    """A session that has just passed the threshold."""
    from jaato.testing.agent_session import agent_session
    from jaato.tokens import default_counter, history_tokens

    counter = default_counter()
    turns, lines = 2, max(window // 600, 4)
    while True:
        history = agent_session(turns, lines=lines)
        if history_tokens(counter, history) >= window * percent / 100:
            return history
        turns += 1


def _print_window(title: str, budget: InstructionBudget, history: Sequence[Message]) -> None:
    from jaato.budget import InstructionSource

    percent = budget.utilization_percent()
    click.echo(
        f"{title}: {budget.total_tokens():,} of {budget.context_limit:,} tokens "
        f"({percent:.0f} %), {len(history)} messages"
    )
    source = budget.get_entry(InstructionSource.CONVERSATION)
    assert source is not None
    largest = max((entry.total_tokens() for entry in source.children.values()), default=1)
    for key, entry in source.children.items():
        _print_entry(key, entry, largest)


def _print_entry(key: str, entry: SourceEntry, largest: int) -> None:
    tokens = entry.total_tokens()
    bar = "#" * max(round(tokens / largest * BAR), 1)
    locked = f"  {entry.locked_tokens()} locked" if entry.locked_tokens() else ""
    click.echo(f"  {key:<14} {tokens:>7,}  {entry.indicator()}  {bar}{locked}")
