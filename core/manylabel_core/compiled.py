"""Compilation of functions by numba, and the compiled functions on disk.

Compiled functions are in files whose names begin with an underscore, and only there. Each specialisation, a function
for given types of arguments, is compiled once per machine and stored on disk, or comes with the package
(`manylabel_core.kernels`). It runs without Python's lock, and divides like NumPy: without an exception, so that loops
with a division vectorise. It never reorders floating-point sums. So the same input gives the same bits for every
grouping into calls and on every processor.
"""

import functools
import hashlib
import os
import platform
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import llvmlite.binding
from numba import njit
from numba.core import event
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)
from numba.core.dispatcher import Dispatcher

_compile: Any = partial(njit, nogil=True, error_model="numpy")

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "shipped"
"""Compiled functions that came with the package, in the folders of their sources; absent in a checkout."""

GENERIC = "generic"
"""Target of code that each processor of an architecture runs."""

TARGETS = ("x86-64-v3", GENERIC) if platform.machine() == "x86_64" else (GENERIC,)
"""Targets that a package has compiled functions for, the faster first."""

V3_FEATURES = (
    *("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
)
"""LLVM's names of the features of the level x86-64-v3 of the psABI that not each x86-64 has."""

_process = uuid.uuid4().hex[:16]


def _name_process() -> None:
    global _process
    _process = uuid.uuid4().hex[:16]


os.register_at_fork(after_in_child=_name_process)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function; every process recompiles it if it cannot be stored."""
    dispatcher = _compile()(function)
    try:
        dispatcher._cache = KernelCache(function)
    except (RuntimeError, AttributeError) as error:
        action = "set NUMBA_CACHE_DIR to a writable directory"
        if isinstance(error, AttributeError):
            action = "install a version of numba that pyproject.toml allows"
        message = f"compiled functions cannot be cached ({error}): {action}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return dispatcher


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


class _Nowhere(UserProvidedCacheLocator):
    """Place of a function's files where no directory is writable."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._cache_path = str(SHIPPED / "nowhere")  # which does not exist

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Nowhere":
        return cls(function, file)


class _Files(CompileResultCacheImpl):
    _locator_classes = [*CompileResultCacheImpl._locator_classes, _Nowhere]  # noqa: RUF012


_DAMAGE = (EOFError, UnpicklingError, ValueError, IndexError, AttributeError, ImportError)
"""Errors of pickle for a file that is cut or changed."""


class _Index(IndexDataCacheFile):
    """Files of one function; a damaged one counts as missing, and is replaced."""

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except _DAMAGE:
            return {}
        return index

    def _load_data(self, name: str) -> Any:
        try:
            data = super()._load_data(name)
        except _DAMAGE:
            data = None
        if not isinstance(data, tuple):
            raise OSError(f"{name} is damaged")  # as if it were missing
        return data


class KernelCache(FunctionCache):
    """Specialisations of one function on disk: those of this machine, then those that came with the package.

    It differs from numba's in three ways. A specialisation is found only while the sources of all functions that it may
    have compiled in are unchanged: numba looks at the function's own file alone. The files of compiled code are private
    to a process. Numba numbers them per function, so two processes that compile a function at the same time for
    different types would use one number. Every later lookup for one type would then find the code of the other. And it
    also finds the package's files, for the targets that this processor runs.

    Attributes
    ----------
    writable : whether new specialisations are stored.

    Raises
    ------
    RuntimeError
        No directory for these files is writable, and none came with the package.
    AttributeError
        This version of numba names them in another way.
    """

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        pattern = self._cache_file._data_name_pattern
        if "{number:d}" not in pattern:
            raise AttributeError(f"numba names its files {pattern!r}")
        stamp = stamp_of(function)
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, stamp)
        self._cache_file._data_name_pattern = _NameOfThisProcess(pattern)
        self.writable = not isinstance(self._impl.locator, _Nowhere)
        self._shipped: Any = None
        shipped = _shipped_folder(os.path.dirname(function.__code__.co_filename))
        if shipped is not None:
            self._shipped = _Index(shipped, self._impl.filename_base, stamp)
        elif not self.writable:
            raise RuntimeError("no directory is writable")

    def save_overload(self, types: Any, result: Any) -> None:
        """Store a specialisation, where that is possible; it is used in any case."""
        if not self.writable:
            return
        try:
            super().save_overload(types, result)
        except OSError as error:  # such as a full disk
            warnings.warn(f"a compiled function cannot be stored: {error}", RuntimeWarning, stacklevel=2)

    def file_names(self) -> set[str]:
        """Return the names of the files in use, in `cache_path`: the index, and the code that it names."""
        files = self._cache_file
        return {files._index_name, *files._load_index().values()}

    def holds(self, types: tuple[Any, ...], codegen: Any) -> bool:
        """Return whether a specialisation is on disk."""
        key = self._index_key(types, codegen)
        return _has(self._cache_file, [key]) or (self._shipped is not None and _has(self._shipped, _shipped_keys(key)))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is not None or self._shipped is None:
            return found
        for key in _shipped_keys(self._index_key(sig, target_context.codegen())):
            data = self._shipped.load(key)
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return None


@functools.cache
def _shipped_folder(folder: str) -> str | None:
    """Return the folder of compiled functions that came with the package for the sources in a folder, if any."""
    if not Path(folder).is_relative_to(PACKAGE):
        return None
    shipped = SHIPPED / Path(folder).relative_to(PACKAGE)
    return str(shipped) if shipped.is_dir() else None


def _has(files: Any, keys: list[tuple[Any, ...]]) -> bool:
    """Return whether the code for one of the keys is on disk; numba writes the index first."""
    index = files._load_index()
    return any(key in index and os.path.exists(files._data_path(index[key])) for key in keys)


def _shipped_keys(key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the keys of a specialisation among the package's files, for the targets that this processor runs."""
    types, (triple, *_), hashes = key
    return [(types, (triple, target, ""), hashes) for target in _runnable_targets()]


@functools.cache
def _runnable_targets() -> tuple[str, ...]:
    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        features = {}
    v3 = all(features.get(feature) for feature in V3_FEATURES)
    return tuple(target for target in TARGETS if target == GENERIC or v3)


_stamps: dict[str, bytes] = {}


def stamp_of(function: Callable[..., Any]) -> bytes:
    """Return a digest of the function's file and of the files of all compiled functions that it may call.

    The file's imports have run, and are not changed later.
    """
    return _stamp(function.__code__.co_filename, function.__globals__)


def _stamp(file: str, names: Mapping[str, Any]) -> bytes:
    if file not in _stamps:
        digest = hashlib.sha256(Path(file).read_bytes())
        called = {each.__code__.co_filename: each.__globals__ for each in _compiled_among(names)}
        for other in sorted(called.keys() - {file}):
            digest.update(_stamp(other, called[other]))
        _stamps[file] = digest.digest()
    return _stamps[file]


def _compiled_among(names: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """Yield the compiled functions among the names of a module, and those of modules that it names."""
    for value in names.values():
        inner = vars(value).values() if isinstance(value, ModuleType) else (value,)
        yield from (each.py_func for each in inner if isinstance(each, Dispatcher))


class _NameOfThisProcess(str):
    """Pattern of file names with the id of the process that formats it, even in a fork."""

    def format(self, *args: object, **values: object) -> str:
        return self.replace("{number:d}", f"{_process}.{{number:d}}").format(*args, **values)
