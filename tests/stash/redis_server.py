"""A real server on a free port of this machine, for tests that start, kill and restart it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import pytest

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")


def skip_without_server() -> None:
    """Skip the module that calls it, in one loud line; where it is required, let it fail."""
    missing = [
        name
        for name, there in (
            ("redis-server or valkey-server", PROGRAM),
            ("the client (jaato[valkey])", find_spec("valkey")),
        )
        if not there
    ]
    if missing and "redis" not in os.environ.get("JAATO_REQUIRE", "").split(","):
        pytest.skip(
            f"THE VALKEY STASH IS NOT TESTED: there is no {' and no '.join(missing)}",
            allow_module_level=True,
        )


class Server:
    """Writes everything to its log at once, as a stash wants it."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"valkey://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        """Start it, or start it again with what it had."""
        assert PROGRAM is not None
        settings = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "yes")
        self._process = subprocess.Popen(  # noqa: S603 -- the program that we looked for
            [
                PROGRAM,
                *("--port", str(self.port), "--dir", str(self._folder)),
                *settings,
                *("--appendfsync", "always"),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the server did not start")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """As a power cut would, but for the disk's cache."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
