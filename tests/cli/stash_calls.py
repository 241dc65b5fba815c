"""A stash with records of every kind, and the ways in which `jaato stash` is called."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from jaato.cli.main import cli
from jaato.history import Media, Message, Part, Role, ToolResult
from jaato.history.codec import to_dict
from jaato.kept import Record, moment

SCRIPT = Path(sys.executable).with_name("jaato")
LOG = "connecting to db-7\nconnection refused by HTTPServer2\r\nlast line, no line feed"
HALVES = "half a smile \ud83d, a raw byte \udc80"
ACTING = "\x1b[31mred\x1b[0m, \u202eturned around\u202c, bell \x07"
PICTURES = (
    Media("image/png", b"\x89PNG" + bytes(20), name="../../evil.png"),
    Media("x/../../y", b"two", name="/etc/passwd"),
)


def with_pictures(text: str) -> Record:
    """What a session keeps of a result that came with files."""
    result = ToolResult("c1", "camera", text, attachments=PICTURES)
    message = Message(Role.TOOL, [Part(function_response=result)])
    return Record(text=text, type="result", tool="camera", extra={"whole": to_dict(message)})


RECORDS = {
    "log": Record(
        text=LOG,
        type="result",
        session="s1",
        turn=3,
        step=1,
        message_ids=("m1",),
        tool="bash",
        files=("src/a/build.py",),
        tags=("tool", "slow"),
        tokens=1_234,
        created_at=moment("2026-11-19T10:00:00Z"),
        label="bash src/a/build.py: connecting to db-7",
    ),
    "note": Record(
        text="Use Postgres for the ledger.",
        type="note",
        session="s2",
        turn=0,
        tags=("slow",),
        created_at=moment("2026-11-20T09:30:00+01:00"),
    ),
    "halves": Record(text=HALVES, session="s2"),
    "acting": Record(text=ACTING, label=ACTING),
    "camera": with_pictures("(evil.png, attached)"),
}


def jaato(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["stash", *arguments], prog_name="jaato", input=stdin)


def done(*arguments: str, stdin: str | bytes | None = None) -> str:
    """What a command prints that does well."""
    result = jaato(*arguments, stdin=stdin)
    assert (result.exit_code, result.exception) == (0, None), result.output
    return result.stdout


def failed(*arguments: str) -> str:
    """What a command says that fails, in one line and nothing else."""
    result = jaato(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, SystemExit)
    assert re.fullmatch(r"Error: [^\n]+\n", result.stderr)
    return result.stderr


def command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """The installed command."""
    return subprocess.run(  # noqa: S603 -- the script that belongs to this interpreter
        [str(SCRIPT), "stash", *arguments], capture_output=True, check=False, timeout=60, **more
    )


def damage(place: str) -> None:
    """Change a letter of the log's text on the disk."""
    log = Path(place, "stash.jsonl")
    log.write_bytes(log.read_bytes().replace(b"connection refused", b"connection rexused"))


def search_of(place: str, query: str, *more: str) -> list[str]:
    hits = json.loads(done("search", query, "--stash", place, "--json", *more))
    return [one["handle"] for one in hits]


def on_a_terminal(*arguments: str) -> str:
    """What the installed command prints there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(SCRIPT), "stash", *arguments], stdout=theirs) as process:  # noqa: S603 -- ours
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 4_096):
                shown += more
        except OSError as error:  # How Linux says that the other end is closed.
            assert error.errno == errno.EIO  # noqa: PT017 -- nothing else ends it
        finally:
            os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")
