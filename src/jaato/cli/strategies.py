"""`jaato strategies`: every installed GC plug-in, the broken ones with their reason."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.help_option("-h", "--help")
def strategies(*, as_json: bool) -> None:
    """List the installed strategies."""
    from jaato.gc.registry import installed_strategies

    found = installed_strategies()
    if as_json:
        rows = [
            {"name": one.name, "from": one.origin, "summary": one.summary, "error": one.error}
            for one in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        state = click.style("broken", fg="red") if one.error else click.style("ok", fg="green")
        click.echo(f"{one.name:<{width}}  {state}  {one.error or one.summary}  [{one.origin}]")
