"""Child process of the sandbox: sets limits, reads a request, writes a report."""

import json
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from manylabel_core.datasets import BadDataset
from manylabel_service import processes
from manylabel_service.errors import DISK_FULL

NICENESS = 10
CPU_SECONDS = 600
"""Maximum CPU seconds."""

Handler = Callable[[dict[str, Any], list[IO[bytes]]], dict[str, Any]]


def serve_request(handle: Handler, fds: Sequence[int]) -> int:
    """Handle the request on standard input, write the report to standard output, and return the exit status."""
    processes.name("manylabel-read")
    with os.fdopen(0, "rb", closefd=False) as stdin:
        request = json.loads(stdin.read())
    processes.lower_priority(NICENESS)
    if used := _address_space_bytes():
        processes.limit(resource.RLIMIT_AS, used + request["memory"])
    processes.limit(resource.RLIMIT_CPU, CPU_SECONDS)
    processes.limit(resource.RLIMIT_FSIZE, request["size"])
    processes.limit(resource.RLIMIT_CORE, 0)
    files: list[IO[bytes]] = [os.fdopen(fd, "r+b") for fd in fds]
    sys.stdout.write(json.dumps(report_of(handle, request, files)))
    return 0


def report_of(handle: Handler, request: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
    """Return the result of `handle`, or the report of its failure."""
    try:
        report = handle(request, files)
        for file in files:
            file.flush()
        return report
    except BadDataset as error:
        return {"bad": {"detail": str(error), "line": error.line, "row": error.row, "member": error.member}}
    except MemoryError:
        return {"bad": {"detail": "parsing takes more memory than allowed: send less data"}}
    except OSError as error:
        if error.errno in DISK_FULL:
            return {"full": str(error)}
        return {"defect": traceback.format_exc()}
    except Exception:
        return {"defect": traceback.format_exc()}


def _address_space_bytes() -> int:
    """Return the bytes of memory reserved by this process; 0 if the system does not report them, so that they cannot be
    limited."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
