"""Compilation of the specialisations that are not on disk, in several processes."""

import fcntl
import gc
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from manylabel_core.compiled import KernelCache
from manylabel_core.kernels.listing import TIERS, Kernel, kernels, missing, of

MAX_PROCESSES = 4
"""Maximum number of processes; each takes a core and 200 MB."""

ORPHANED_SECONDS = 24 * 3600.0
"""Age at which a file that belongs to no specialisation is deleted. A younger one may be in use soon."""

LOCK = "manylabel-{}.lock"
"""Lock of a tier, in the folder of the files of the first function of the list."""

PARENT_SECONDS = 1.0
"""Seconds between two checks of a process whether its parent has ended."""


class KernelsOutdated(Exception):
    """The list contains a specialisation that cannot be compiled; run `make kernels`."""


def compile_missing(tiers: Collection[str], *, more: Iterable[str] = (), n_processes: int | None = None) -> int:
    """Compile the specialisations of the tiers that are not on disk, and return their number.

    A second caller, even in another process, waits until the first one has compiled them. No specialisation is run.

    Parameters
    ----------
    more : additional specialisations, in the format of the list without tiers.
    n_processes : number of processes, by default one per core; at most `MAX_PROCESSES`.

    Raises
    ------
    KernelsOutdated
        The list of specialisations does not match the functions.
    """
    wanted = [*of(tiers), *(Kernel("", None, call) for call in more)]
    first = missing(wanted)
    cache = kernels()[0].dispatcher._cache
    if not first or not isinstance(cache, KernelCache) or not cache.writable:
        return 0  # everything is there, or nothing can be stored
    with _locked(Path(cache.cache_path), tiers) as locks:
        discard_orphans({sys.modules[each.dispatcher.py_func.__module__] for each in wanted})
        todo = missing(wanted)
        if todo:
            _Filling(todo).run(min(MAX_PROCESSES, n_processes or n_cores()), locks)
    return len(todo)


class _Filling:
    """Specialisations to be compiled: functions before their callers, and never two of one function at a time."""

    def __init__(self, todo: list[Kernel]) -> None:
        self._waiting = todo
        self._running: dict[Future[None], Kernel] = {}
        self._called = {each.function: _called_by(each.function, each.dispatcher) for each in todo}

    def run(self, n_processes: int, locks: Sequence[int]) -> None:
        # A forked process need not repeat the imports, which take seconds. All processes are forked before the pool
        # starts a thread.
        fork = multiprocessing.get_context("fork")
        start = partial(_start, os.getpid(), locks)
        pool = ProcessPoolExecutor(n_processes, mp_context=fork, initializer=start)
        failed: list[str] = []
        with pool:
            while self._waiting or self._running:
                for kernel in self._possible():
                    if len(self._running) == n_processes:
                        break
                    self._waiting.remove(kernel)
                    self._running[pool.submit(_compile, kernel.call)] = kernel
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in done:
                    kernel = self._running.pop(future)
                    try:
                        future.result()
                    except (NumbaError, TypeError, AttributeError) as error:
                        failed.append(f"{kernel.function}{kernel.types}: {error}")
        if failed:
            raise KernelsOutdated("the list of kernels is out of date (make kernels):\n" + "\n".join(failed))

    def _possible(self) -> list[Kernel]:
        """Return the specialisations that call only compiled functions, in the order of the list."""
        open_ = {each.function for each in (*self._waiting, *self._running.values())}
        running = {each.function for each in self._running.values()}
        return [
            each for each in self._waiting if each.function not in running and not (self._called[each.function] & open_)
        ]


def _start(parent: int, locks: Sequence[int]) -> None:
    for lock in locks:
        os.close(lock)  # held as long as the parent lives
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.disable()  # garbage collection takes a tenth of the time of a compilation, and finds little


def _compile(call: str) -> None:
    kernel = Kernel("", None, call)
    kernel.dispatcher.compile(kernel.types)


def _called_by(function: str, dispatcher: Any) -> set[str]:
    """Return the names of the other compiled functions that a compiled function uses."""
    code, names = dispatcher.py_func.__code__, dispatcher.py_func.__globals__
    used = set(_names(code))
    values = [names[name] for name in used & names.keys()]
    values += [vars(each)[name] for each in values if isinstance(each, ModuleType) for name in used & vars(each).keys()]
    called = {each.py_func for each in values if isinstance(each, Dispatcher)}
    return {f"{each.__module__.partition('.')[2]}.{each.__qualname__}" for each in called} - {function}


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, because a process of a pool waits for work without limit."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


@contextmanager
def _locked(folder: Path, tiers: Collection[str]) -> Iterator[list[int]]:
    """Hold the locks of tiers, which are acquired in one order; yield their file descriptors."""
    with ExitStack() as stack:
        held = [stack.enter_context(open(folder / LOCK.format(tier), "ab")) for tier in TIERS if tier in tiers]
        for file in held:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield [file.fileno() for file in held]


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def discard_orphans(modules: Iterable[ModuleType]) -> int:
    """Delete old files of compiled code that the modules no longer use; return their number.

    A changed function leaves its former index and code. And if two processes update an index at the same time, the
    entry of one of them is lost. Files of other versions of Python are not examined.
    """
    before, deleted = time.time() - ORPHANED_SECONDS, 0
    for module in modules:
        functions: list[Any] = [each for each in vars(module).values() if isinstance(each, Dispatcher)]
        own = [each for each in functions if each.py_func.__module__ == module.__name__]
        caches = [each._cache for each in own if isinstance(each._cache, KernelCache) and each._cache.writable]
        if not caches:
            continue
        used = set().union(*(each.file_names() for each in caches))
        stem = Path(str(module.__file__)).stem
        for file in Path(caches[0].cache_path).glob(f"{stem}.*.py{sys.version_info[0]}{sys.version_info[1]}.*nb[ic]*"):
            with suppress(OSError):  # already deleted, or owned by another user
                if file.name not in used and file.stat().st_mtime < before:
                    file.unlink()
                    deleted += 1
    return deleted
