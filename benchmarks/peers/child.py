"""One contender on one task, in a process of its own, bounded in the processor's seconds and in memory.

The last line that it prints is the result as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.contenders import Contender
from benchmarks.peers.ours import OURS
from benchmarks.peers.outside.processes import outside
from benchmarks.peers.selection import Setting, choose_and_measure
from benchmarks.peers.tasks import Problem, Task, load_task
from benchmarks.peers.theirs import THEIRS

MEMORY = 8 << 30
"""Bytes of addresses that a contender may have."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PATHS = ("meka", "clus", "boomer", "pecos")
"""Flags that say where something outside is."""


def contenders(args: Any) -> tuple[Contender, ...]:
    return (*OURS, *THEIRS, *outside(args))


def main() -> None:
    args = parser().parse_args()
    resource.setrlimit(resource.RLIMIT_CPU, (int(args.seconds), int(args.seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    (contender,) = (one for one in contenders(args) if one.name == args.contender)
    print(json.dumps(_result(contender, load_task(args.data, args.set), args.seconds)), flush=True)


def _result(contender: Contender, task: Task, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"task": str(task), "version": _version(contender.package)}
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
    """Let compiled code be loaded before any time is taken."""
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


def call(args: Any, name: str, contender: Contender) -> dict[str, Any]:
    """Run a contender in such a process, and end it with all that it has started if it does not end by itself."""
    if contender.needs:
        return {"ended": f"not run: needs {contender.needs}"}
    command = [sys.executable, "-m", "benchmarks.peers.child", "--data", str(args.data), "--set", name]
    command += ["--contender", contender.name, "--seconds", str(args.seconds)]
    command += [word for flag in PATHS if getattr(args, flag) for word in (f"--{flag}", str(getattr(args, flag)))]
    process = subprocess.Popen(
        command,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        out, err = process.communicate(timeout=args.wall * args.seconds + 60)
    except subprocess.TimeoutExpired:
        _end(process.pid)
        process.communicate()
        return {"ended": f"did not finish in {args.wall * args.seconds:.0f} s by the clock"}
    except BaseException:
        _end(process.pid)
        raise
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"ended": f"did not finish in {args.seconds:.0f} s"}
    if process.returncode:
        return {"ended": f"failed: {(err.strip() or 'no message').splitlines()[-1][:200]}"}
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def _end(group: int) -> None:
    os.killpg(group, signal.SIGKILL)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    for name in ("--data", *(f"--{flag}" for flag in PATHS)):
        made.add_argument(name, type=Path)
    for name in ("--set", "--contender"):
        made.add_argument(name)
    made.add_argument("--seconds", type=float)
    return made


if __name__ == "__main__":
    main()
