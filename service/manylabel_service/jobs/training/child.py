"""Training process for the request in a directory.

It uses only the files of its request, and reports JSON lines on its standard output. On its standard input it receives
deadlines until which it may compute; after the last deadline, or when its supervisor has exited, it exits at once. The
lease of its supervisor lasts longer than the deadline, so two processes never work on the same task.
"""

import errno
import json
import os
import resource
import select
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manylabel_service import processes

FAILED = 3
"""Exit status after a reported failure."""
ORPHANED = 4
"""Exit status if the supervisor has exited, or the deadline has passed."""
OOM_SCORE = 800
"""OOM score adjustment: when memory runs out, the kernel should kill this process and not the server."""


def main(arguments: Sequence[str], files: Sequence[int]) -> int:
    """Run the request in a directory; return the exit status.

    Parameters
    ----------
    arguments : sequence of str
        The directory, and the first deadline on the monotonic clock, which all processes of a machine share.
    files : sequence of int
        Empty, because the child gets no files.
    """
    directory, until = Path(arguments[0]).absolute(), float(arguments[1])
    processes.name("manylabel-train")
    os.chdir(directory)  # shows in the process list which task this process runs
    output = processes.take_output()
    threading.Thread(target=_watch, args=(0, until), name="watch", daemon=True).start()

    def report(event: str, facts: dict[str, Any]) -> None:
        output.write(json.dumps({"event": event, **facts}).encode() + b"\n")
        output.flush()

    try:
        _work(directory, report)
    except MemoryError:
        _limit_memory(sys.maxsize)  # the report of the error needs memory
        report("failed", {"code": "out_of_memory", "detail": "the training process reached its memory limit"})
        return FAILED
    except BrokenPipeError:
        return ORPHANED
    except Exception as error:
        if not isinstance(error, ValueError):
            traceback.print_exc()
        report("failed", {"code": _code(error), "detail": f"{error}" if isinstance(error, ValueError) else repr(error)})
        return FAILED
    return 0


def _code(error: Exception) -> str:
    """Return the code of the job's error."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "storage_full"
    return "training_refused" if isinstance(error, ValueError) else "training_failed"


def _work(directory: Path, report: Any) -> None:
    # Imported here: the supervisor imports this file, and does not need the trainers.
    from manylabel_service.jobs.training.request import FitRequest

    request = FitRequest.read(directory)
    processes.lower_priority(request.niceness, OOM_SCORE)
    from manylabel_core.compiled import when_compiling

    run: Any
    if request.kind == "doubts":
        from manylabel_service.jobs.training.doubts import DoubtsRun

        run = DoubtsRun
    elif request.kind == "dry_run":
        from manylabel_service.jobs.training.label_dry_run import LabelDryRun

        run = LabelDryRun
    else:
        from manylabel_service.jobs.training.fitting import FitRun

        run = FitRun
    _limit_memory(request.memory_bytes)
    text = f"compiling the functions of {request.trainer}, once on this machine, which takes up to a minute"
    with when_compiling(lambda: report("log", {"text": text})):
        run(request, directory, report).run()


def _limit_memory(most_bytes: int) -> None:
    """Limit the memory of this process."""
    processes.limit(resource.RLIMIT_DATA, most_bytes, raisable=True)


def _watch(deadlines: int, until: float) -> None:
    """Exit the process if its deadline is not renewed. This thread can run because compiled functions and BLAS release
    the interpreter lock."""
    rest = b""
    while True:
        # A process that was suspended must check for a new deadline before it concludes that the deadline has passed.
        if not (_readable(deadlines, until - time.monotonic()) or _readable(deadlines, 0.0)):
            os._exit(ORPHANED)
        data = os.read(deadlines, 65536)
        if not data:
            os._exit(ORPHANED)
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            until = float(lines[-1])


def _readable(file: int, seconds: float) -> bool:
    return bool(select.select([file], [], [], max(0.0, seconds))[0])
