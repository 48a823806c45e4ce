"""Unnamed files on the disk of the data directory, for data too large for memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import DISK_FULL, StorageFull
from manylabel_service.storage import open_in_thread


async def scratch_file(datasets: DatasetStore, stack: ExitStack) -> IO[bytes]:
    """Return a new file, which `stack` closes; raise StorageFull."""
    with full_disk():
        return stack.enter_context(await open_in_thread(datasets.scratch_file))


@contextmanager
def full_disk() -> Iterator[None]:
    """Raise StorageFull where a file inside cannot be written because the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            text = f"the disk of the data directory is full ({error}); free space on it"
            raise StorageFull(text) from error
        raise
