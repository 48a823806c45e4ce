"""Setup that a child process of `manylabel_service.forking` applies to itself."""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PR_SET_PDEATHSIG = 1
"""Linux option of prctl: send a signal when the parent process dies."""
PR_SET_NAME = 15
"""Linux option of prctl: set the process name that tools show, at most 15 bytes."""


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent dies, even while it is stopped; Linux only."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def name(text: str) -> None:
    """Set the name that ``ps`` and ``top`` show; works only on Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_NAME, text.encode(), 0, 0, 0)


def lower_priority(niceness: int, oom_score: int = 0) -> None:
    """Lower the CPU priority of this process, and make it the first to be killed when memory runs out."""
    with suppress(OSError):
        os.nice(niceness)
    if oom_score:
        with suppress(OSError):  # only Linux has it
            Path("/proc/self/oom_score_adj").write_text(str(oom_score))


def limit(kind: int, most: int, *, raisable: bool = False) -> None:
    """Limit a resource (an ``RLIMIT_`` constant of `resource`), unless the process already has a lower limit.

    `raisable`: whether the process can raise the limit again, up to the previous one. On a system without this limit,
    nothing happens.
    """
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, hard if raisable else most))


def take_output() -> BinaryIO:
    """Return the standard output; from then on, this process and its libraries print to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own
