"""`jaato stash`: what left the windows of sessions: listed, found, shown, looked after."""

from __future__ import annotations

import sys
from typing import Any

import click

from jaato.cli.stash_files import export, import_, restore
from jaato.cli.stash_options import (
    filter_of,
    filtered,
    help_option,
    json_option,
    opened,
    place_option,
)
from jaato.cli.stash_shown import (
    entry_json,
    hit_json,
    print_exactly,
    print_hit,
    print_json,
    print_table,
    printable,
    record_json,
    tell_damages,
    title,
)

_LISTED, _FOUND, _TOLD = 20, 10, 20
_LIMIT = click.IntRange(min=1)


@click.group(no_args_is_help=True)
@help_option
def stash() -> None:
    """Look at what left the windows of sessions, and bring it back."""


@stash.command("list")
@filtered
@click.option("--limit", type=_LIMIT, default=_LISTED, show_default=True, help="How many at most.")
@click.option("--before", metavar="HANDLE", help="Go on behind this one, for a further page.")
@json_option
@place_option
@help_option
def list_(*, limit: int, before: str | None, as_json: bool, place: str, **asked: Any) -> None:
    """List records, the last one kept first."""
    with opened(place) as there:
        # One more than is shown tells whether there is more.
        entries = there.entries(filter_of(asked), limit + 1, before)
        damaged = tell_damages(there)
    shown = entries[:limit]
    if as_json:
        print_json([entry_json(entry) for entry in shown])
    elif shown:
        print_table(shown)
    if not shown:
        _tell_nothing(damaged)
    elif len(entries) > limit:
        click.echo(f"There are more: --before {shown[-1].handle}", err=True)


@stash.command()
@click.argument("query", nargs=-1, required=True)
@filtered
@click.option("--limit", type=_LIMIT, default=_FOUND, show_default=True, help="How many at most.")
@json_option
@place_option
@help_option
def search(query: tuple[str, ...], *, limit: int, as_json: bool, place: str, **asked: Any) -> None:
    """Find records by words, names or paths, best first.

    Beginnings of words are found, and words with a typing error.
    """
    with opened(place) as there:
        hits = there.search(" ".join(query), filter_of(asked), limit)
        damaged = tell_damages(there)
    if as_json:
        print_json([hit_json(hit) for hit in hits])
    else:
        for hit in hits:
            print_hit(hit)
    if not hits:
        _tell_nothing(damaged)


@stash.command()
@click.argument("handle")
@json_option
@place_option
@help_option
def show(handle: str, *, as_json: bool, place: str) -> None:
    """Print the text of a record; into a pipe exactly as it was kept."""
    with opened(place) as there:
        record = there.get(handle)
    if as_json:
        print_json(record_json(handle, record))
    elif sys.stdout.isatty():
        click.secho(title(handle, record, len(record.text)), bold=True)
        click.echo(printable(record.text))
    else:
        print_exactly(record.text)


@stash.command()
@json_option
@place_option
@help_option
def compact(*, as_json: bool, place: str) -> None:
    """Give back the room of what was removed."""
    with opened(place) as there:
        done = there.compact()
    if as_json:
        before, after = done.bytes_before, done.bytes_after
        print_json({"records": done.records, "bytes_before": before, "bytes_after": after})
        return
    click.echo(
        f"{_records(done.records)}: from {done.bytes_before:,} to {done.bytes_after:,} bytes."
    )


@stash.command()
@json_option
@place_option
@help_option
@click.pass_context
def verify(ctx: click.Context, *, as_json: bool, place: str) -> None:
    """Read every record. Exit code 1 if one is damaged."""
    with opened(place) as there:
        found = there.verify()
    if as_json:
        damages = [
            {"what": one.what, "handle": one.handle, "set_aside_in": one.set_aside_in}
            for one in found.damages
        ]
        facts = {"is_sound": found.is_sound, "records": found.records, "bytes": found.bytes}
        print_json({**facts, "durability": found.durability, "damages": damages})
    else:
        whole = f"{_records(found.records)} in {found.bytes:,} bytes"
        click.echo(f"{whole}, all whole; {found.durability}." if found.is_sound else f"{whole}.")
        for one in found.damages[:_TOLD]:
            aside = f" (set aside in {one.set_aside_in})" if one.set_aside_in else ""
            click.echo(printable(f"damaged: {one.handle or 'no handle'}: {one.what}{aside}"))
        if len(found.damages) > _TOLD:
            click.echo(f"and {len(found.damages) - _TOLD:,} more: --json has all")
    if not found.is_sound:
        ctx.exit(1)


for command in (restore, export, import_):
    stash.add_command(command)


def _tell_nothing(damaged: int) -> None:
    """No record is no failure, unless there are some that cannot be read."""
    if damaged:
        raise click.ClickException("of what can be read there is nothing")
    click.echo("There is nothing of that kind.", err=True)


def _records(number: int) -> str:
    return "1 record" if number == 1 else f"{number:,} records"
