"""The `jaato` command: arguments, printing and exit codes. Commands import what they need."""

from __future__ import annotations

import io
import sys

import click

from jaato._version import __version__
from jaato.cli.demo import demo
from jaato.cli.stash import stash
from jaato.cli.strategies import strategies
from jaato.errors import JaatoError, UsageError

EXAMPLES = """\b
Examples:
  jaato demo                        a collection, before and after
  jaato demo --strategy gc_hybrid   the same with another strategy
  jaato strategies                  what is installed, and what is broken
  jaato strategies --json           the same for programs
  jaato stash list --turn 3         what left the windows of sessions
  jaato stash search time out       the same by its words
  jaato stash verify                whether all of it is whole
"""


class Commands(click.Group):
    """A group that knows whose fault an error is."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Exit code 0: done; 1: it failed; 2: it was called wrongly."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise click.UsageError(str(error)) from error
        except JaatoError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, epilog=EXAMPLES, no_args_is_help=True)
@click.version_option(__version__, prog_name="jaato")
@click.help_option("-h", "--help")
def cli() -> None:
    """Context garbage collection for LLM agents."""


cli.add_command(demo)
cli.add_command(stash)
cli.add_command(strategies)


def main() -> None:
    """Run a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no ◐ shows a question mark instead of a traceback.
            stream.reconfigure(errors="replace")
    cli()


if __name__ == "__main__":
    main()
