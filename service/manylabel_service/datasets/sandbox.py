"""Sandbox: a disposable process that parses untrusted data.

A file from a client can make the parser slow, use much memory, or crash it. So a child process parses the file, with
low priority and with limits on memory, time and output; neither the event loop nor other processes wait for it. The
child gets open, unnamed files, so nothing is left behind.
"""

import asyncio
import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import structlog

from manylabel_service import forking
from manylabel_service.errors import InvalidDataset, StorageFull

WORK_SECONDS = 900.0
"""Maximum seconds of a child process, including its waits for a processor."""

BASE_BYTES = 2**28
"""Bytes of memory of a child process, without its data."""

TAIL_CHARACTERS = 2_000

_BY_LIMITS = (-signal.SIGKILL, -signal.SIGXCPU)
"""Exit statuses of a child that exceeded its time, or that the kernel killed because memory ran out."""

_OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "llocat")
"""Texts in the standard error of a child that ran out of memory."""


class ReaderFailed(Exception):
    """Unexpected failure of a reader, which is a defect of the reader regardless of the file."""


log = structlog.get_logger()


def scratch_file(directory: Path) -> IO[bytes]:
    """Return a new unnamed file on the disk of a directory, which is created if necessary."""
    directory.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=directory)


async def run(
    module: str, request: Mapping[str, Any], files: Sequence[IO[bytes]], *, memory_bytes: int, file_bytes: int
) -> dict[str, Any]:
    """Let a child process work on open files, and return its report. Raises InvalidDataset, ReaderFailed or
    StorageFull.

    Parameters
    ----------
    module : module whose `main` calls `manylabel_service.datasets.sandbox_child.serve_request`.
    request : request to the child, as JSON.
    files : open files that the child may read and write, from their beginning.
    memory_bytes, file_bytes : maximum memory for data, and maximum size of a file.
    """
    for file in files:
        file.flush()
        file.seek(0)
    line = json.dumps({"memory": memory_bytes, "size": file_bytes, **request})
    try:  # every additional thread would reserve memory
        child = await forking.start(module, threads=1, files=[file.fileno() for file in files])
    except forking.CannotStart as error:
        raise _failed(str(error)) from error
    try:
        async with asyncio.timeout(WORK_SECONDS):
            out, err = await child.communicate(line.encode())
    except TimeoutError:
        raise InvalidDataset(f"parsing took longer than {WORK_SECONDS:g} s; send fewer or simpler rows") from None
    finally:
        await child.kill()
    try:
        report: dict[str, Any] = json.loads(out)
    except ValueError:
        tail = err.decode(errors="replace")[-TAIL_CHARACTERS:]
        if child.returncode not in _BY_LIMITS and not any(words in tail for words in _OUT_OF_MEMORY):
            raise _failed(f"the parsing process ended with {child.returncode}: {tail}") from None
        log.warning("dataset_sandbox_died", status=child.returncode, output=tail)
        raise InvalidDataset(
            f"parsing it needs more memory or time than the server allows (the parsing process ended with "
            f"{child.returncode}); send less, or ask the operator to raise max_dataset_bytes"
        ) from None
    return checked(report)


def checked(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a successful child; raise the reported failure."""
    if "full" in report:
        raise StorageFull(f"the disk of the data directory is full ({report['full']}); free space on it")
    if "bad" in report:
        raise InvalidDataset(**report["bad"])
    if "defect" in report:
        raise _failed(report["defect"])
    return report


def _failed(tail: str) -> ReaderFailed:
    """Log the failure of a reader, and return the error to raise."""
    log.error("dataset_reader_failed", tail=tail[-TAIL_CHARACTERS:])
    return ReaderFailed("parsing failed; the log of the server has details")
