"""One contender on one task in a separate process with limits on CPU seconds and memory.

Processes are forked from one that has imported the common libraries.
"""

import os
import resource
import signal
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.peers.contenders import Contender
from benchmarks.peers.ours import OURS
from benchmarks.peers.outside.processes import outside
from benchmarks.peers.selection import Setting, choose_and_measure
from benchmarks.peers.tasks import Problem, Task, load_task
from benchmarks.peers.theirs import THEIRS

MEMORY = 8 << 30
"""Maximum bytes of address space of a contender."""
CONTEXT = get_context("forkserver")
PRELOADED = ["benchmarks.__main__", "benchmarks.peers.child"]
"""Modules imported before contenders are forked."""

Found = dict[str, Any]


def contenders(args: Any) -> tuple[Contender, ...]:
    return (*OURS, *THEIRS, *outside(args))


def call(args: Any, name: str, contender: Contender) -> Found:
    """Run a contender on a task in a process; if it does not end by itself, kill it and its children."""
    if contender.needs:
        return {"ended": f"not run: needs {contender.needs}"}
    receiving, sending = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(sending, args, name, contender.name))
    process.start()
    sending.close()
    try:
        if receiving.poll(args.wall * args.seconds + 60):
            return dict(receiving.recv())
        return {"ended": f"did not finish in {args.wall * args.seconds:.0f} s by the clock"}
    except EOFError:
        process.join()
        if process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"ended": f"did not finish in {args.seconds:.0f} s"}
        return {"ended": f"failed: its process ended with {process.exitcode}"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()


def _work(sending: Connection, args: Any, name: str, contender_name: str) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(args.seconds), int(args.seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some learners print to standard output
    warnings.simplefilter("ignore")
    (contender,) = (one for one in contenders(args) if one.name == contender_name)
    with threadpool_limits(1):
        sending.send(_result(contender, load_task(args.data, name), args.seconds))


def _result(contender: Contender, task: Task, seconds: float) -> Found:
    found: Found = {"task": str(task), "version": _version(contender.package)}
    if why := contender.unfit(task):
        return {**found, "ended": f"not run: {why}"}
    settings = contender.settings(task)
    try:
        if contender.ours:
            _warm_up(contender, task, settings[0])
        return {**found, "ended": "in good order", **choose_and_measure(task, settings, contender.run, seconds)}
    except MemoryError:
        return {**found, "ended": f"out of memory ({MEMORY >> 30} GB)"}
    except ImportError as error:
        return {**found, "ended": f"not run: needs {contender.package} ({error})"}
    except Exception as error:
        return {**found, "ended": f"failed: {type(error).__name__}: {str(error)[:200]}"}


def _warm_up(contender: Contender, task: Task, setting: Setting) -> None:
    """Load compiled code before anything is timed."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 8))
    Y = (X[:, :3] + random.normal(size=(60, 3)) > 0).astype(np.int8)
    X = X if task.dense else sp.csr_array(X)
    views = {"a": np.arange(4), "b": np.arange(4, 8)}
    contender.run(Problem(X[:40], Y[:40], X[40:], views), setting)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
