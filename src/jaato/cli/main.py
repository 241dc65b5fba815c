"""The `jaato` command: arguments, printing and exit codes. Commands import what they need."""

from __future__ import annotations

import sys
from difflib import get_close_matches

import click

from jaato._version import __version__
from jaato.errors import JaatoError

EXAMPLES = """\b
Examples:
  jaato demo                 a collection of a generated session, before and after
  jaato demo --strategy gc_hybrid
  jaato strategies           which strategies are installed, and which are broken
  jaato strategies --json
"""


class Commands(click.Group):
    """A group that guesses what a mistyped command meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one is near."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near and "Did you mean" not in error.message:
                error.message += f" Did you mean {near[0]!r}?"
            raise


@click.group(cls=Commands, epilog=EXAMPLES, no_args_is_help=True)
@click.version_option(__version__, prog_name="jaato")
@click.help_option("-h", "--help")
def cli() -> None:
    """Context garbage collection for LLM agents."""


def main() -> None:
    """Run a command. Exit code 0: done; 1: it failed; 2: it was called wrongly."""
    from jaato.cli.demo import demo
    from jaato.cli.strategies import strategies

    cli.add_command(demo)
    cli.add_command(strategies)
    try:
        cli()
    except JaatoError as error:
        click.echo(f"jaato: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
