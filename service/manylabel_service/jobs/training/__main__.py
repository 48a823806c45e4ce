"""The process that trains: ``python -m manylabel_service.jobs.training DIRECTORY UNTIL``.

It is alone with the files of its order. What it has to tell goes to its standard output, a JSON object a line.
On its standard input it is told, again and again, until when it may compute; when that time is over, or nobody is
left to tell, it ends at once. So there is never a second process at the same order: whoever declares the first one's
supervisor dead waits longer than that.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

FAILED = 3
"""Exit status after a failure that was told."""
ORPHANED = 4
"""Exit status when nobody is left, or the time is over."""
PR_SET_PDEATHSIG = 1
"""Of Linux: the signal that a process gets when its parent dies."""
OOM_SCORE = 800
"""When memory runs out, the kernel shall take this process and not the server."""


def main(directory: Path, until: float) -> int:
    """Do what the order in a directory says; the exit status.

    Parameters
    ----------
    directory : of the order.
    until : when to end unless told otherwise, on the monotonic clock, which all processes of a machine share.
    """
    _die_with_the_parent()
    told = _take_output()
    threading.Thread(target=_watch, args=(sys.stdin.fileno(), until), name="watch", daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes; the supervisor decides

    def tell(event: str, said: dict[str, Any]) -> None:
        told.write(json.dumps({"event": event, **said}).encode() + b"\n")
        told.flush()

    try:
        _work(directory, tell)
    except MemoryError:
        _limit_memory(resource.RLIM_INFINITY)  # to say so needs some
        tell("failed", {"code": "out_of_memory", "detail": "the training process may not have more memory"})
        return FAILED
    except BrokenPipeError:
        return ORPHANED
    except Exception as error:
        if not isinstance(error, ValueError):
            traceback.print_exc()
        tell("failed", {"code": _code(error), "detail": f"{error}" if isinstance(error, ValueError) else repr(error)})
        return FAILED
    return 0


def _code(error: Exception) -> str:
    """As the job tells it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "storage_full"
    return "training_refused" if isinstance(error, ValueError) else "training_failed"


def _work(directory: Path, tell: Any) -> None:
    # Only here: numerical libraries take seconds to load, at the niceness of the order.
    from manylabel_service.jobs.training.request import FitRequest

    order = FitRequest.read(directory)
    _give_way(order.niceness)
    from manylabel_service.jobs.training.fitting import FitRun

    _limit_memory(order.memory_bytes)
    FitRun(order, directory, tell).run()


def _take_output() -> BinaryIO:
    """The standard output, which from now on nobody else writes to: what is printed goes to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def _limit_memory(most_bytes: int) -> None:
    """Of this process by itself; where the system can do it, as Linux can."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(most_bytes, hard) if hard >= 0 else most_bytes, hard))


def _give_way(niceness: int) -> None:
    with suppress(OSError):
        os.nice(niceness)
    with suppress(OSError):  # only Linux has it
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))


def _die_with_the_parent() -> None:
    """Also while this process stands still, and sees nothing of the end of a pipe. Only Linux can do it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(told: int, until: float) -> None:
    """End the process when it is no longer told to go on. Compiled kernels and BLAS let this thread run."""
    rest = b""
    while True:
        # A process that was stopped for a while has to look once more before it believes that its time is over.
        if not (_readable(told, until - time.monotonic()) or _readable(told, 0.0)):
            os._exit(ORPHANED)
        data = os.read(told, 65536)
        if not data:
            os._exit(ORPHANED)
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            until = float(lines[-1])


def _readable(file: int, seconds: float) -> bool:
    return bool(select.select([file], [], [], max(0.0, seconds))[0])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
