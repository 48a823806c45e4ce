"""Records of runs: one text file each, with a JSON header and the output of the run.

The header has the command, the commit and whether the tree was clean, the start and the outcome of the run, the machine
and its load before and after, and the versions of Python and of relevant packages.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
PACKAGES = (
    "manylabel", "numpy", "scipy", "scikit-learn", "numba", "river", "vowpalwabbit", "fastapi", "uvicorn", "uvloop",
    "httptools", "pydantic", "redis",
)  # fmt: skip
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment of a process that computes with one thread."""
LAST_WORDS_SECONDS = 10.0
"""Seconds for child processes that still write when the run has ended."""


@contextmanager
def recorded(name: str, folder: Path) -> Iterator[None]:
    """Print the header, then copy all output of the block, including that of child processes, to a file."""
    began, header = datetime.now(UTC), describe()
    print(json.dumps(header, indent=2), flush=True)
    header["ended"] = "in good order"
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "printed"
        try:
            with _copied_to(copy):
                yield
        except BaseException as error:
            header["ended"] = repr(error)
            raise
        finally:
            header |= {"seconds": round((datetime.now(UTC) - began).total_seconds()), "load after": _load()}
            path = _free_path(folder, f"{name}-{began:%Y-%m-%d}-{header['commit'][:8]}")
            path.write_text(f"{json.dumps(header, indent=2)}\n\n{copy.read_text()}")
            print(f"written to {path}")


def describe() -> dict[str, Any]:
    """Return the command, the state of the tree, the machine and the versions."""
    return {
        # Names of folders, without the paths on this machine.
        "command": "python -m benchmarks " + shlex.join(Path(arg).name if "/" in arg else arg for arg in sys.argv[1:]),
        **state_of(ROOT),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} x {_processor()}, {platform.system()} {platform.machine()}",
        "load before": _load(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def state_of(checkout: Path) -> dict[str, str]:
    """Return the commit of a checkout, and whether its tree is clean, except for records of runs."""
    changed = _git(checkout, "status", "--porcelain", "--", ".", ":!benchmarks/results")
    return {"commit": _git(checkout, "rev-parse", "HEAD"), "tree": "changed" if changed else "as committed"}


@contextmanager
def _copied_to(path: Path) -> Iterator[None]:
    """Copy standard output at the level of the file descriptor."""
    sys.stdout.flush()
    screen = os.dup(1)
    tee = subprocess.Popen(["tee", str(path)], stdin=subprocess.PIPE, stdout=screen)
    assert tee.stdin is not None
    os.dup2(tee.stdin.fileno(), 1)
    tee.stdin.close()
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(screen, 1)
        os.close(screen)
        try:
            tee.wait(LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            tee.terminate()
            tee.wait()


def _free_path(folder: Path, stem: str) -> Path:
    """Return a path that does not exist yet: a second run of a day on one commit has a number."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{stem}.txt", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.txt", number + 1
    return path


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # only some benchmarks need this package
            continue
    return found


def _git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("unknown" if done.returncode else "")


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
