"""Compilation of functions by numba, and deletion of stale and orphaned compiled functions.

Compiled functions are in files whose names begin with an underscore, and only there. Each function is compiled
once per machine and stored on disk. It runs without Python's lock, divides like NumPy (without an exception, so that
loops with a division vectorise), and never reorders floating-point sums: the same input gives the same bits, however it
is grouped into calls.
"""

import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

_compile: Any = partial(njit, nogil=True, error_model="numpy")
ORPHANED_SECONDS = 24 * 3600.0
"""Age at which a file of compiled code that no index names is deleted. A younger one may be named soon."""

_process = uuid.uuid4().hex[:16]


def _name_process() -> None:
    global _process
    _process = uuid.uuid4().hex[:16]


os.register_at_fork(after_in_child=_name_process)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function; every process recompiles it if it cannot be cached."""
    try:
        return _with_files_of_its_own(_compile(cache=True)(function))
    except (RuntimeError, AttributeError) as error:
        action = "set NUMBA_CACHE_DIR to a writable directory"
        if isinstance(error, AttributeError):
            action = "install a version of numba that pyproject.toml allows"
        message = f"compiled functions cannot be cached ({error}): {action}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _compile()(function)


@contextmanager
def when_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once when a function is compiled in this context, but not when it is loaded from the cache."""
    listener = _FirstCompilation(tell)
    with event.install_listener("numba:compile", listener):
        yield


class _FirstCompilation(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: Any) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, event: Any) -> None:
        pass


def _with_files_of_its_own(dispatcher: Any) -> Any:
    """Make the files of compiled code private to this process; raise AttributeError if numba names them in another way.

    Numba numbers these files per function. Two processes that compile a function at the same time for different types
    would use the same number, and every later lookup for one type would find the code of the other.
    """
    files = dispatcher._cache._cache_file
    pattern = files._data_name_pattern
    if "{number:d}" not in pattern:
        raise AttributeError(f"numba names its files {pattern!r}")
    files._data_name_pattern = _NameOfThisProcess(pattern)
    return dispatcher


class _NameOfThisProcess(str):
    """Pattern of file names with the id of the process that formats it, also in a fork."""

    def format(self, *args: object, **values: object) -> str:
        return self.replace("{number:d}", f"{_process}.{{number:d}}").format(*args, **values)


def discard_stale(package: Path) -> int:
    """Delete files of compiled functions that are older than a source file they may call; return the number deleted.

    Numba recompiles a function when its own file has changed, but not when a called function in another file has. A
    compiled function calls only functions of its subpackage, at any depth, and of the package's root. Directories of
    NUMBA_CACHE_DIR are not examined.
    """
    shared = _newest_source_ns(package.glob("*.py"))
    stale = [file for file in package.glob("__pycache__/*.nb[ic]") if 0 < _changed_ns(file) < shared]
    for folder in (path for path in package.iterdir() if path.is_dir()):
        newest = max(shared, _newest_source_ns(folder.rglob("*.py")))
        stale += [file for file in folder.rglob("__pycache__/*.nb[ic]") if 0 < _changed_ns(file) < newest]
    for file in stale:
        with suppress(OSError):  # already deleted, or owned by another user
            file.unlink()
    return len(stale)


def discard_orphans(package: Path) -> int:
    """Delete old files of compiled code that no index names, and unfinished ones; return the number deleted.

    Numba writes the index of a function, then the code. A process that had read the index before another one wrote it
    writes it without the other's entry, so that process's code is never found again. Should an index still get to name
    a deleted file, numba compiles the function again. Directories of NUMBA_CACHE_DIR are not examined.
    """
    before_ns = time.time_ns() - int(ORPHANED_SECONDS * 1e9)
    indexes: dict[Path, bytes] = {}
    orphans = [file for file in package.rglob("__pycache__/*.nb[ic].tmp.*") if 0 < _changed_ns(file) < before_ns]
    for file in package.rglob("__pycache__/*.nbc"):
        if not 0 < _changed_ns(file) < before_ns:
            continue
        index = file.with_name(file.name.rsplit(".", 3)[0] + ".nbi")  # FUNCTION.PROCESS.NUMBER.nbc
        try:
            named = indexes[index] if index in indexes else indexes.setdefault(index, index.read_bytes())
        except FileNotFoundError:
            named = b""
        except OSError:
            continue  # what an unreadable index names is unknown
        if file.name.encode() not in named:
            orphans.append(file)
    for file in orphans:
        with suppress(OSError):
            file.unlink()
    return len(orphans)


def _newest_source_ns(sources: Iterable[Path]) -> int:
    """Return the time of the last change to any of the files that define compiled functions."""
    return max((_changed_ns(file) for file in sources if b"\n@compiled" in file.read_bytes()), default=0)


def _changed_ns(file: Path) -> int:
    """Return the modification time; 0 if another process has just removed the file."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


# Modules with compiled functions import this file first, so no compiled function has been loaded yet.
discard_stale(Path(__file__).parent)
discard_orphans(Path(__file__).parent)
