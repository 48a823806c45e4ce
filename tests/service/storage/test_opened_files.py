"""Files opened in a thread are closed if their caller is cancelled meanwhile."""

import asyncio
import threading

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.storage import blob_pieces, file_to_blob, open_in_thread


async def test_a_cancelled_caller_leaves_no_file_open(tmp_path):
    opened, begun, may_go_on = [], asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def open_slowly():
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait(120)
        opened.append((tmp_path / "file").open("wb"))
        return opened[0]

    caller = asyncio.create_task(open_in_thread(open_slowly))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not opened
    may_go_on.set()
    await eventually_async(lambda: opened and opened[0].closed)


async def test_a_file_is_closed_if_its_upload_is_cancelled(tmp_path, monkeypatch):
    opened = []
    (tmp_path / "file").write_bytes(b"12")
    real = open_in_thread

    async def watched(open_file):
        opened.append(await real(open_file))
        return opened[0]

    monkeypatch.setattr(blob_pieces, "open_in_thread", watched)
    begun = asyncio.Event()

    class Slow:
        async def put(self, key, pieces):
            async for _ in pieces:
                begun.set()
                await asyncio.Event().wait()
            return 0

    caller = asyncio.create_task(file_to_blob(Slow(), tmp_path / "file", "key"))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert opened[0].closed
