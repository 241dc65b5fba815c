"""`jaato demo`: one collection of a generated session, the window before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaato.budget import InstructionBudget
    from jaato.gc.protocol import GCPlugin
    from jaato.history import Message
    from jaato.ports import TokenCounter
    from jaato.testing import Collection

WINDOW = 24_000
THRESHOLD, TARGET, RECENT = 80.0, 50.0, 2
BAR = 30
LOCK = "🔒"
LEGEND = f"""\
  # stays   . freed   {LOCK} never goes   ◑ goes under pressure only   ◐ mixed   ○ goes first"""


@click.command()
@click.option("--strategy", default="gc_budget", show_default=True, help="Which one collects.")
@click.option(
    "--window",
    type=click.IntRange(min=2_000, max=2_000_000),
    default=WINDOW,
    show_default=True,
    help="Size of the context window, in tokens.",
)
@click.help_option("-h", "--help")
def demo(strategy: str, window: int) -> None:
    """Show a collection of a generated session, before and after."""
    from jaato.budget.conversation import budget_for
    from jaato.gc.options import full_name
    from jaato.gc.registry import load_gc_plugin
    from jaato.tokens import count_messages, default_counter

    options: dict[str, object] = {"notify_on_gc": True}
    if full_name(strategy) in {"gc_summarize", "gc_hybrid"}:
        options["summarizer"] = "extractive"
    plugin = load_gc_plugin(strategy, options)
    counter = default_counter()
    history = _grown(counter, window)
    budget = budget_for(
        history, count_messages(counter, history), session_id="demo", context_limit=window
    )
    click.echo(
        f"A made-up coding session has filled its window, and {plugin.name} collects:\n"
        f"at {THRESHOLD:.0f} %, down to {TARGET:.0f} %, leaving the last {RECENT} turns alone.\n"
    )
    observed = _collected(plugin, history, budget, counter)
    result = observed.result
    if not result.success:
        raise click.ClickException(f"{plugin.name} collected nothing: {result.error}")
    for line in _window(observed):
        click.echo(line)
    click.echo(f"\n{LEGEND}\n")
    click.echo(f"{plugin.name} freed {result.tokens_freed:,} tokens. It reports:")
    click.echo(f"  {'items_collected':<22}{_shown(result.items_collected)}")
    for key, value in result.details.items():
        click.echo(f"  {key:<22}{_shown(value)}")


def _grown(counter: TokenCounter, window: int) -> list[Message]:
    """A session that has just passed the threshold."""
    from jaato.testing.agent_session import agent_session
    from jaato.tokens import history_tokens

    turns, lines = 2, max(window // 600, 4)
    while True:
        history = agent_session(turns, lines=lines)
        if history_tokens(counter, history) >= window * THRESHOLD / 100:
            return history
        turns += 1


def _collected(
    plugin: GCPlugin, history: list[Message], budget: InstructionBudget, counter: TokenCounter
) -> Collection:
    from jaato.gc.config import GCConfig
    from jaato.gc.result import GCTriggerReason
    from jaato.testing import run_collection, usage_of

    config = GCConfig(
        threshold_percent=THRESHOLD, target_percent=TARGET, preserve_recent_turns=RECENT
    )
    try:
        _, reason = plugin.should_collect(usage_of(budget), config)
        return run_collection(
            plugin,
            history,
            config,
            budget=budget,
            reason=reason or GCTriggerReason.MANUAL,
            counter=counter,
            twice=False,
        )
    except Exception as error:
        # The plug-in may be anybody's.
        said = f"{type(error).__name__}: {error}"
        raise click.ClickException(f"{plugin.name} failed: {said}") from error


def _window(observed: Collection) -> Iterator[str]:
    """One line for each turn, summary and notice, in the order of the history; then the sums."""
    before, after = observed.budget_before, observed.budget_after
    assert before is not None
    assert after is not None
    was, now = _weights(before, observed.before), _weights(after, observed.after)
    largest = max((tokens for tokens, _ in was.values()), default=1)
    yield f"  {'':<16}{'before':>10}{'after':>10}"
    for key in _merged(list(was), list(now)):
        old, new = was.get(key), now.get(key)
        # The lock is as wide as two letters.
        sign = f"{new[1] if new else '':<{1 if new and new[1] == LOCK else 2}}"
        stays = _length(new, largest)
        bar = "#" * stays + "." * (_length(old, largest) - stays)
        yield f"  {key:<16}{_tokens(old):>10}{_tokens(new):>10}  {sign} {bar}{_kept(after, key)}"
    yield f"  {'tokens':<16}{before.total_tokens():>10,}{after.total_tokens():>10,}"
    yield f"  {'of the window':<16}" + "".join(
        f"{budget.utilization_percent():>8.0f} %" for budget in (before, after)
    )
    yield f"  {'messages':<16}{len(observed.before):>10,}{len(observed.after):>10,}"


def _weights(budget: InstructionBudget, history: Sequence[Message]) -> dict[str, tuple[int, str]]:
    """What each turn, summary and notice weighs, with the sign of its policy."""
    from jaato.budget import InstructionSource, locate

    found: dict[str, tuple[int, str]] = {}
    for message in history:
        located = locate(budget, message.message_id)
        key = located.path.partition("/")[0] if located is not None else ""
        entry = budget.get_child(InstructionSource.CONVERSATION, key)
        if entry is not None and key not in found:
            locked = entry.locked_tokens() == entry.total_tokens()
            found[key] = (entry.total_tokens(), LOCK if locked else entry.indicator())
    return found


def _kept(budget: InstructionBudget, key: str) -> str:
    """What of a turn never goes, where that is a part of it."""
    from jaato.budget import InstructionSource

    entry = budget.get_child(InstructionSource.CONVERSATION, key)
    locked = 0 if entry is None else entry.locked_tokens()
    whole = entry is not None and locked == entry.total_tokens()
    return f"  {locked} {LOCK}" if locked and not whole else ""


def _merged(old: list[str], new: list[str]) -> list[str]:
    """The keys of both, each where it stands or stood."""
    waiting = list(new)
    merged: list[str] = []
    for key in old:
        if key in waiting:
            ahead = waiting.index(key)
            merged += waiting[:ahead]
            del waiting[: ahead + 1]
        if key not in merged:
            merged.append(key)
    return [*merged, *waiting]


def _length(entry: tuple[int, str] | None, largest: int) -> int:
    return max(round(entry[0] / largest * BAR), 1) if entry else 0


def _tokens(entry: tuple[int, str] | None) -> str:
    return f"{entry[0]:,}" if entry else "-"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
