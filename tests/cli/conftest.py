"""The stash that the tests of `jaato stash` look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.stash_calls import RECORDS

from jaato.stash.files import FileStash


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A folder with a stash that has `RECORDS`."""
    folder = tmp_path / "stash"
    stash = FileStash(folder)
    stash.put(list(RECORDS.values()), list(RECORDS))
    stash.close()
    return str(folder)
