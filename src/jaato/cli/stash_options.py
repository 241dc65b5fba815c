"""What the commands of `jaato stash` are told in the same words: the place, filters, `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from jaato.kept import Filter
    from jaato.ports import Stash

DEFAULT_PLACE = ".jaato/stash"
PLACE_VARIABLE = "JAATO_STASH"
F = TypeVar("F", bound=Callable[..., Any])


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no time before anything is opened; a mere date stays one."""
    from jaato.errors import UsageError
    from jaato.kept import moment

    try:
        if value is not None:
            moment(value)
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return value


def _file_or_stdout(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    del ctx, param
    return None if path == Path("-") else path


place_option = click.option(
    "--stash",
    "place",
    metavar="PLACE",
    envvar=PLACE_VARIABLE,
    show_envvar=True,
    default=DEFAULT_PLACE,
    show_default=True,
    help="A folder, or the address of a server: valkey://host:6379/0.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
help_option = click.help_option("-h", "--help")
to_option = click.option(
    "--to",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_file_or_stdout,
    help="Write a file instead of printing.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite what is there.")
_FILTERS = (
    click.option("--session", help="Only what this session kept."),
    click.option("--turn", type=int, help="Only what was in this turn, counted from 0."),
    click.option("--type", help="Only message, result, summary, code, log, note, decision, …"),
    click.option("--tool", help="Only results of this tool."),
    click.option("--file", metavar="PATH", help="Only what was about a file, or a folder/."),
    click.option("--tag", "tags", multiple=True, help="Only what has this tag; may be repeated."),
    click.option(
        "--since",
        metavar="TIME",
        callback=_time,
        help="Only what was made then or later (ISO 8601).",
    ),
    click.option(
        "--until",
        metavar="TIME",
        callback=_time,
        help="Only what was made before; a date includes it.",
    ),
)


def filtered(command: F) -> F:
    """A command that takes filters; it is given them by the names that `Filter` has for them."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def filter_of(asked: dict[str, Any]) -> Filter:
    """The filter that was asked for."""
    from jaato.kept import Filter

    return Filter(**asked)


@contextmanager
def opened(place: str, *, may_be_made: bool = False) -> Iterator[Stash]:
    """The stash in a place. One that is not there is an error, and is not made."""
    from jaato.errors import UsageError
    from jaato.kept import StashError
    from jaato.wiring import IN_MEMORY, STASH_SCHEMES, open_stash

    if place in {"", IN_MEMORY}:
        raise UsageError(f"{place!r} is no place", hint="a folder, or valkey://host:6379/0")
    is_folder = place.partition("://")[0] not in STASH_SCHEMES
    if is_folder and not may_be_made and not _holds_stash(Path(place)):
        raise StashError(
            f"there is no stash in {place!r}",
            hint=f"name its place: --stash PLACE, or {PLACE_VARIABLE}",
        )
    with closing(open_stash(place)) as stash:
        yield stash


def _holds_stash(folder: Path) -> bool:
    from jaato.stash.store import LOG_NAME

    try:
        (folder / LOG_NAME).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True  # Whoever opens it says what is wrong.
    return True
