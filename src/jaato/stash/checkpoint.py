"""The catalogue as a file, so that a large stash opens without reading it. It may be lost."""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jaato.stash.catalogue import Catalogue, Interned
from jaato.stash.disk import Disk, write_new
from jaato.stash.line import is_whole
from jaato.stash.log import Log

VERSION: Final = 1
_NAME: Final = "catalogue"


def save_checkpoint(folder: Path, log: str, catalogue: Catalogue, end: int, disk: Disk) -> None:
    """Write down what is in a log up to its `end`. Where that fails, it is read next time."""
    columns = _columns(catalogue)
    body = b"".join(column.tobytes() for column in columns.values())
    texts = {
        "sessions": catalogue.sessions.values,
        "types": catalogue.types.values,
        "tools": catalogue.tools.values,
        "files": catalogue.files.values,
        "tags": catalogue.tags.values,
        "fates": catalogue.fates,
        "buried": sorted(catalogue.buried),
    }
    blob = json.dumps(texts).encode() + b"\n" + "\n".join(catalogue.handles).encode()
    header = {
        "jaato_stash_catalogue": VERSION,
        "order": sys.byteorder,
        "log": log,
        "end": end,
        "rows": len(catalogue),
        "bytes": len(body),
        "crc": zlib.crc32(blob, zlib.crc32(body)),
    }
    with suppress(OSError):
        pieces = (json.dumps(header).encode() + b"\n", body, blob)
        write_new(disk, folder / _NAME, pieces, is_synced=False)


def load_checkpoint(folder: Path, log: Log) -> tuple[Catalogue, int] | None:
    """What was written down of this log, and how far it goes; None where nothing fits."""
    path = folder / _NAME
    try:
        data = path.read_bytes()
        first, _, rest = data.partition(b"\n")
        header = json.loads(first)
        is_ours = (
            header["jaato_stash_catalogue"] == VERSION
            and (header["order"], header["log"]) == (sys.byteorder, log.header.name)
            and header["end"] <= log.size
            and header["crc"] == zlib.crc32(rest)
        )
        if is_ours:
            catalogue = _catalogue(header, rest)
            if is_whole(log.read(catalogue.places[-1], catalogue.lengths[-1])):
                return catalogue, header["end"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        pass
    # It may never fit again by chance, when the log has grown.
    with suppress(OSError):
        path.unlink()
    return None


def _columns(catalogue: Catalogue) -> dict[str, array[Any]]:
    return {
        "places": catalogue.places,
        "lengths": catalogue.lengths,
        "created": catalogue.created,
        "turns": catalogue.turns,
        **catalogue.columns,
    }


def _catalogue(header: dict[str, Any], rest: bytes) -> Catalogue:
    catalogue = Catalogue()
    at = 0
    for column in _columns(catalogue).values():
        end = at + header["rows"] * column.itemsize
        column.frombytes(rest[at:end])
        at = end
    first, _, names = rest[at:].partition(b"\n")
    texts = json.loads(first)
    catalogue.sessions = Interned(texts["sessions"])
    catalogue.types = Interned(texts["types"])
    catalogue.tools = Interned(texts["tools"])
    catalogue.files = Interned(map(tuple, texts["files"]))
    catalogue.tags = Interned(map(tuple, texts["tags"]))
    catalogue.fates = texts["fates"]
    catalogue.buried = set(texts["buried"])
    catalogue.handles = names.decode().split("\n") if names else []
    catalogue.index_rows()
    return catalogue
