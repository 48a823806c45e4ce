"""The side of the child process: limits, an order in, a report out."""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from manylabel_core.datasets import BadDataset

NICE = 10
CPU_SECONDS = 600
"""Most time on a processor."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Work = Callable[[dict[str, Any], list[IO[bytes]]], dict[str, Any]]


def fulfil(work: Work) -> None:
    """Do what the order on standard input says, and write the report of `work` to standard output."""
    order = json.loads(sys.stdin.buffer.read())
    threading.Thread(target=_end_with_parent, args=(order["alive"],), daemon=True).start()
    os.nice(NICE)
    _limit(order["memory"], order["size"])
    files: list[IO[bytes]] = [os.fdopen(fd, "r+b") for fd in order["files"]]
    report = report_of(work, order, files)
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # nothing is left to do, and the thread never ends


def report_of(work: Work, order: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
    """What `work` reports, or what to report of its failure."""
    try:
        report = work(order, files)
        for file in files:
            file.flush()
        return report
    except BadDataset as error:
        return {"bad": {"detail": str(error), "line": error.line, "row": error.row, "member": error.member}}
    except MemoryError:
        return {"bad": {"detail": "reading it takes more memory than a data set may: send less"}}
    except OSError as error:
        if error.errno in FULL:
            return {"full": str(error)}
        raise


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os._exit(1)


def _limit(memory_bytes: int, file_bytes: int) -> None:
    """Bounds that hold whatever the code does."""
    used = _address_space_bytes()
    if used:
        _bound(resource.RLIMIT_AS, used + memory_bytes)
    _bound(resource.RLIMIT_CPU, CPU_SECONDS)
    _bound(resource.RLIMIT_FSIZE, file_bytes)
    _bound(resource.RLIMIT_CORE, 0)


def _bound(kind: int, most: int) -> None:
    """Bound a resource, unless the whole server has a lower bound already."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _address_space_bytes() -> int:
    """What this process has reserved by now; 0 where the system does not tell, which does not limit it either."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
