"""`jaato stash restore`, `export` and `import`: records become files, and files records."""

from __future__ import annotations

import io
import json
import mimetypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from jaato.cli.stash_options import (
    filter_of,
    filtered,
    force_option,
    help_option,
    json_option,
    opened,
    place_option,
    to_option,
)
from jaato.cli.stash_shown import exactly, one_line, print_exactly, print_json, tell_damages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaato.history import Media

_ENDING = re.compile(r"\.[a-z0-9]{1,8}")


@click.command()
@click.argument("handle")
@to_option
@force_option
@place_option
@help_option
def restore(handle: str, *, target: Path | None, force: bool, place: str) -> None:
    """Write the text of a record to a file.

    What was attached is written beside it. Its names are FILE's with a number and an ending:
    nothing that is kept names a file.
    """
    from jaato.session.recall import attachments_of

    with opened(place) as there:
        record = there.get(handle)
    attached = attachments_of(record)
    if target is None:
        print_exactly(record.text)
        if attached:
            click.echo(f"{len(attached)} attached, which --to FILE writes beside it", err=True)
        return
    files = {target: exactly(record.text), **_beside(target, attached)}
    there_already = [path for path in files if path.exists()]
    if there_already and not force:
        raise _exists(there_already[0])
    for path, data in files.items():
        with _created(path, force=force) as file:
            file.write(data)
        click.echo(click.format_filename(path))


@click.command()
@filtered
@to_option
@force_option
@place_option
@help_option
def export(*, target: Path | None, force: bool, place: str, **asked: Any) -> None:
    """Write records as JSON: {"segments": [...]}."""
    from jaato.stash.segments import write_segments

    where = filter_of(asked)
    with opened(place) as there:
        if target is None:
            count = write_segments(there, sys.stdout, where)
        else:
            with _created(target, force=force) as file:
                text = io.TextIOWrapper(file, encoding="ascii", newline="\n")
                count = write_segments(there, text, where)
                text.flush()
                text.detach()
        tell_damages(there)
    click.echo(f"{count:,} exported.", err=True)


@click.command("import")
@click.argument("source", metavar="FILE", type=click.File("rb"))
@json_option
@place_option
@help_option
def import_(source: IO[bytes], *, as_json: bool, place: str) -> None:
    """Take in what `export` wrote.

    `-` reads it from stdin. What is kept already is not kept twice; a stash that is not there is
    made.
    """
    from jaato.errors import UsageError
    from jaato.stash.segments import import_segments

    try:
        document = json.loads(source.read())
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the document is no JSON: {error}", hint="`jaato stash export` writes one"
        ) from error
    with opened(place, may_be_made=True) as there:
        done = import_segments(there, document)
    if as_json:
        print_json({"records": done.records, "renamed": dict(done.renamed)})
        return
    click.echo(f"{done.records:,} imported.")
    for old, new in done.renamed.items():
        click.echo(f"{one_line(old)} is now {new}")


def _beside(target: Path, attached: Sequence[Media]) -> dict[Path, bytes]:
    """Names for what was attached, made of the target's alone."""
    named = {}
    for number, media in enumerate(attached, start=1):
        ending = mimetypes.guess_extension(media.mime_type) or ""
        kind = ending if _ENDING.fullmatch(ending) else ".bin"
        named[target.with_name(f"{target.name}.{number}{kind}")] = media.data
    return named


@contextmanager
def _created(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A new file; what is half written does not stay."""
    try:
        file = path.open("wb" if force else "xb")
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise _cannot(path, error) from error
    try:
        with file:
            yield file
    except BaseException as error:
        if not force:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot(path, error) from error
        raise


def _exists(path: Path) -> click.ClickException:
    return click.ClickException(f"{click.format_filename(path)} exists (--force overwrites it)")


def _cannot(path: Path, error: OSError) -> click.ClickException:
    why = error.strerror or str(error)
    return click.ClickException(f"{click.format_filename(path)} cannot be written: {why}")
