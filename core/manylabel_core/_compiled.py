"""How the kernels of this package are compiled, and when a compiled one is thrown away.

Every kernel is compiled once per machine and kept on disk. It holds no Python lock while it runs, divides as
NumPy does (no exception, so that loops with a division vectorise), and never reorders floating-point sums:
the same input gives the same bits, however it is grouped into calls.
"""

import uuid
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit

_compile: Any = partial(njit, nogil=True, error_model="numpy")
_PROCESS = uuid.uuid4().hex[:16]


def kernel(function: Callable[..., Any]) -> Any:
    """Decorate a kernel. Where numba finds no directory it may write, the kernel is compiled anew in each process."""
    try:
        return _with_files_of_its_own(_compile(cache=True)(function))
    except RuntimeError as error:
        message = f"compiled kernels cannot be kept ({error}): set NUMBA_CACHE_DIR to a directory that can be written"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _compile()(function)


def _with_files_of_its_own(compiled: Any) -> Any:
    """Let no other process write to the files that this one writes compiled code to.

    Numba numbers these files per kernel, and two processes that compile a kernel at the same time, each for other
    types, take the same number: whoever looks up the one finds the code of the other, in every later process too. With
    names of their own one of them may be missing from the index, and is compiled again.
    """
    with suppress(AttributeError):  # of numba's own, with another name in another version
        files = compiled._cache._cache_file
        files._data_name_pattern = files._data_name_pattern.replace("{number:d}", f"{_PROCESS}.{{number:d}}")
    return compiled


def discard_stale_kernels(package: Path) -> int:
    """Delete files of compiled kernels that are older than a source they may call; give their number.

    Numba recompiles a kernel when its own file has changed, not when one that it calls from another file has.
    After an update such a kernel would go on computing as before, differently from the rest. A kernel calls
    kernels of its own subpackage, at any depth, and of the package's root, nowhere else. Directories that
    NUMBA_CACHE_DIR names are not looked at.
    """
    shared = _newest_kernel_ns(package.glob("*.py"))
    stale = [file for file in package.glob("__pycache__/*.nb[ic]") if 0 < _changed_ns(file) < shared]
    for folder in (path for path in package.iterdir() if path.is_dir()):
        newest = max(shared, _newest_kernel_ns(folder.rglob("*.py")))
        stale += [file for file in folder.rglob("__pycache__/*.nb[ic]") if 0 < _changed_ns(file) < newest]
    for file in stale:
        with suppress(OSError):  # gone already, or not ours to delete
            file.unlink()
    return len(stale)


def _newest_kernel_ns(sources: Iterable[Path]) -> int:
    """The last change of one of the files that defines kernels."""
    return max((_changed_ns(file) for file in sources if b"\n@kernel" in file.read_bytes()), default=0)


def _changed_ns(file: Path) -> int:
    """The time of change; 0 if another process has just removed the file."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


# Whoever defines a kernel has imported this file before, so that none has been loaded yet.
discard_stale_kernels(Path(__file__).parent)
