"""A short run of `bench/stash_crash.py`; the long one kills two thousand times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaato

BENCH = Path(__file__).parents[2] / "bench" / "stash_crash.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills what it forked")
def test_killed_writers_lose_nothing_that_they_acknowledged() -> None:
    source = str(Path(jaato.__file__).parents[1])
    done = subprocess.run(  # noqa: S603 -- our own script
        [sys.executable, str(BENCH), "40"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none wrong" in done.stdout
