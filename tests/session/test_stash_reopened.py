"""After a failed sync nobody knows what is on the disk: the stash is opened anew, by itself."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from tests.session.agents import assert_agrees, gc, opened, worker
from tests.stash.test_faults import FaultyDisk

from jaato.gc.config import GCConfig
from jaato.providers.scripted import ScriptedProvider
from jaato.session.runtime import JaatoRuntime
from jaato.stash.files import FileStash
from jaato.stash.memory import MemoryStash
from jaato.wiring import make_provider


def test_the_collection_after_a_failed_sync_keeps_again(tmp_path: Path) -> None:
    disks: list[FaultyDisk] = []

    def open_stash() -> FileStash:
        disks.append(FaultyDisk())
        return FileStash(tmp_path, disk=disks[-1])

    async def go() -> None:
        runtime = JaatoRuntime(make_provider, open_stash=open_stash)
        session = await opened(
            ScriptedProvider(worker(3)),
            runtime=runtime,
            plugin=gc("gc_truncate", preserve_recent_turns=1),
            config=GCConfig(threshold_percent=95.0, target_percent=1.0),
        )
        for turn in range(4):
            await session.asend_message(f"read, for the {turn}th time")
        assert runtime.stash is not None
        disks[0].syncs = [OSError(errno.EIO, "the disk said no")]
        failed = await session.amanual_gc()
        assert failed is not None
        assert (failed.success, "the disk said no" in str(failed.error)) == (False, True)
        done = await session.amanual_gc()
        assert done is not None
        assert done.success
        assert done.items_collected > 0
        assert len(disks) == 2
        assert session.search_stash("1th time")
        assert_agrees(session)
        await session.aclose()
        await runtime.aclose()

    asyncio.run(go())


def test_a_stash_that_was_given_is_never_opened_anew() -> None:
    given = MemoryStash()
    runtime = JaatoRuntime(make_provider, stash=given)
    given.close()
    assert runtime.stash is given
    assert runtime.has_stash
