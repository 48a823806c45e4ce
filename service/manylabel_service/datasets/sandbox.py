"""Work on data that cannot be trusted, in a process that may be lost.

A file of a client can make its reader slow, large, or crash. So it is read by a child process with limits on memory,
time and what it writes, at low priority: neither the event loop nor the other processes wait for it. The child gets
open files, which have no names: whatever ends, and however, nothing is left of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import structlog

from manylabel_service.errors import InvalidDataset, StorageFull

WORK_SECONDS = 900.0
"""Longest that a child may take, with all waiting for a processor."""

BASE_BYTES = 2**28
"""Memory that a child may have beside what its data takes."""

TAIL_CHARACTERS = 2_000

log = structlog.get_logger()


def scratch_file(directory: Path) -> IO[bytes]:
    """A new file without a name, on the disk of a directory, which is made if it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=directory)


async def run(
    module: str, order: Mapping[str, Any], files: Sequence[IO[bytes]], *, memory_bytes: int, file_bytes: int
) -> dict[str, Any]:
    """Let a child process do something with open files; what it reports.

    Parameters
    ----------
    module : what it runs, ``python -m module``; it calls `manylabel_service.datasets.sandbox_child.fulfil`.
    order : JSON for it.
    files : what it may read and write, by their place here; each from its beginning.
    memory_bytes, file_bytes : most memory for data, and the largest file, that it may have.

    Raises
    ------
    InvalidDataset
        The data is not what it should be, or the child did not survive reading it.
    StorageFull
        The disk is.
    """
    reading, writing = os.pipe()  # never written to: its end tells the child that nobody waits for it any more
    try:
        for file in files:
            file.flush()
            file.seek(0)
        fds = [file.fileno() for file in files]
        words = json.dumps({"files": fds, "alive": reading, "memory": memory_bytes, "size": file_bytes, **order})
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(*fds, reading),
            env=_environment(),
        )
        return await _report(child, words.encode())
    finally:
        os.close(reading)
        os.close(writing)


async def _report(child: asyncio.subprocess.Process, order: bytes) -> dict[str, Any]:
    try:
        async with asyncio.timeout(WORK_SECONDS):
            out, err = await child.communicate(order)
    except TimeoutError:
        raise InvalidDataset(f"reading it took longer than {WORK_SECONDS:g} s; send less, or simpler rows") from None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    try:
        report: dict[str, Any] = json.loads(out)
    except ValueError:
        log.warning(
            "dataset_reader_died", status=child.returncode, tail=err.decode(errors="replace")[-TAIL_CHARACTERS:]
        )
        raise InvalidDataset(
            f"reading it took more memory or time than a data set may (the reading process ended with "
            f"{child.returncode}); send less, or have the operator raise max_dataset_bytes"
        ) from None
    return checked(report)


def checked(report: dict[str, Any]) -> dict[str, Any]:
    """What a child reports of its success; raises what it reports of a failure."""
    if "full" in report:
        raise StorageFull(f"the disk of the data directory is full ({report['full']}); make room there")
    if "bad" in report:
        raise InvalidDataset(**report["bad"])
    return report


def _environment() -> dict[str, str]:
    # One thread: several would each reserve memory, which is limited, and reading uses none.
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return {**os.environ, **threads}
