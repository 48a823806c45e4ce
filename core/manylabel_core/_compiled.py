"""How the kernels of this package are compiled, and when a compiled one is thrown away.

Every kernel is compiled once per machine and kept on disk. It holds no Python lock while it runs, divides as
NumPy does (no exception, so that loops with a division vectorise), and never reorders floating-point sums:
the same input gives the same bits, however it is grouped into calls.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit

_compile: Any = partial(njit, nogil=True, error_model="numpy")


def kernel(function: Callable[..., Any]) -> Any:
    """Decorate a kernel. Where numba finds no directory it may write, the kernel is compiled anew in each process."""
    try:
        return _compile(cache=True)(function)
    except RuntimeError as error:
        message = f"compiled kernels cannot be kept ({error}): set NUMBA_CACHE_DIR to a directory that can be written"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _compile()(function)


def discard_stale_kernels(package: Path) -> int:
    """Delete compiled kernels that are older than a source they may call; give their number.

    Numba recompiles a kernel when its own file has changed, not when one that it calls from another file has.
    After an update such a kernel would go on computing as before, differently from the rest. A kernel calls
    kernels of its own folder and of the package's root, nowhere else. Directories that NUMBA_CACHE_DIR names are not
    looked at.
    """
    shared = _newest_kernel_ns(package)
    stale = []
    for folder in [package, *(path for path in package.iterdir() if path.is_dir())]:
        newest = max(shared, _newest_kernel_ns(folder))
        stale += [index for index in folder.glob("__pycache__/*.nbi") if 0 < _changed_ns(index) < newest]
    for index in stale:
        with suppress(OSError):  # gone already, or not ours to delete
            index.unlink()
    return len(stale)


def _newest_kernel_ns(folder: Path) -> int:
    """The last change of a file of the folder that defines kernels."""
    return max((_changed_ns(file) for file in folder.glob("*.py") if b"\n@kernel" in file.read_bytes()), default=0)


def _changed_ns(file: Path) -> int:
    """The time of change; 0 if another process has just removed the file."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
