"""`jaato strategies`: every installed GC plug-in, the broken ones with their reason."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout

import click

HEADINGS = ("strategy", "state", "from", "what it does, or what is wrong with it")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.help_option("-h", "--help")
def strategies(*, as_json: bool) -> None:
    """List the installed strategies, broken ones too."""
    from jaato.gc.registry import installed_strategies

    # What somebody's package prints while it is imported is no data of ours.
    with redirect_stdout(sys.stderr):
        found = installed_strategies()
    if as_json:
        listed = [
            {"name": one.name, "from": one.origin, "summary": one.summary, "error": one.error}
            for one in found
        ]
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [
        (one.name, "broken" if one.error else "ok", one.origin, one.error or one.summary)
        for one in found
    ]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    click.secho(_line(HEADINGS, widths), bold=True)
    for row in rows:
        click.secho(_line(row, widths), fg="red" if row[1] == "broken" else None)
    if not rows:
        click.echo("None is installed, not even the built-in ones: reinstall jaato.", err=True)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
