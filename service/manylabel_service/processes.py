"""Child processes: how they are started and ended, and what a child does to itself at its start.

Only the standard library is imported: a child shall start quickly, and load the rest at its own niceness.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR", "NUMBA")
PR_SET_PDEATHSIG = 1
"""Of Linux: the signal that a process gets when its parent dies."""

# The parent's side.


async def start(
    module: str, *arguments: str, threads: int, files: Sequence[int] = (), line_bytes: int = 2**16
) -> Process:
    """Start ``python -m module arguments`` with pipes for its standard input, output and error.

    Parameters
    ----------
    module, arguments : of the command line.
    threads : of each numerical library in it.
    files : open file descriptors that it inherits.
    line_bytes : longest line that it may write.
    """
    # Spawned, not forked: a fork would share this process's threads and locks in an unknown state.
    limits = {f"{library}_NUM_THREADS": str(threads) for library in _THREADS}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=line_bytes,
        pass_fds=files,
        env={**os.environ, **limits},
    )


async def kill(process: Process) -> None:
    """End a process at once, if it has not ended, and wait for that."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


# The child's side.


def die_with_parent() -> None:
    """Have the system kill this process when its parent dies, also while it stands still; only Linux can do it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def give_way(niceness: int, oom_score: int = 0) -> None:
    """Give way to other processes that want the processor, and be the one that goes when memory runs out."""
    with suppress(OSError):
        os.nice(niceness)
    if oom_score:
        with suppress(OSError):  # only Linux has it
            Path("/proc/self/oom_score_adj").write_text(str(oom_score))


def limit(kind: int, most: int, *, raisable: bool = False) -> None:
    """Bound a resource, an ``RLIMIT_`` of `resource`, unless the process has a lower bound already.

    `raisable`: whether it can be raised again, up to the bound that there was before. A system that has no such bound
    is left as it is.
    """
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, hard if raisable else most))


def take_output() -> BinaryIO:
    """Return the standard output, which from now on nobody else writes to: what is printed goes to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own
