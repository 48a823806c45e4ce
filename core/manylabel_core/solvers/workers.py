"""Threads for compiled code and BLAS, which release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401  loads its BLAS, which is another than NumPy's
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_turn = threading.Lock()
_numbers: dict[object, int] = {}
"""Thread counts requested by fits in progress, in the order in which the fits began."""
_settings: list[Any] = []
"""Setting before the first fit, to be restored; empty while no fit runs."""


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries of NumPy and SciPy in this process."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(number: int) -> Iterator[None]:
    """Run BLAS with `number` threads within a `with` block.

    The process has only one such setting. If fits overlap, the number of the fit that began last applies to all; after
    the last fit, the original setting is restored.
    """
    own = object()
    with _turn:
        if not _numbers:
            _settings.append(_blas().limit(limits=None))
        _numbers[own] = number
        _apply()
    try:
        yield
    finally:
        with _turn:
            del _numbers[own]
            _apply()


def _apply() -> None:
    if _numbers:
        _blas().limit(limits=list(_numbers.values())[-1])
    else:
        _settings.pop().restore_original_limits()


Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """Threads that run a function for several items at the same time. If `pool` is None, the items are processed in
    turn.

    BLAS uses one thread meanwhile, because its idle threads would compete for the cores.
    """

    def __init__(self, pool: ThreadPoolExecutor | None, n: int) -> None:
        self._pool = pool
        self.n = n

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results in the order of the items."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def parts(self, length: int, largest: int | None = None) -> list[slice]:
        """Return equal slices of a range, one for each thread, or more if they would be larger than `largest`."""
        number = min(length, self.n)
        if largest is not None:
            number = max(number, -(-length // largest))
        edges = [length * k // number for k in range(number + 1)]
        return [slice(first, last) for first, last in pairwise(edges)]


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """Threads for the duration of a `with` block."""
    with blas_threads(1):
        if n_threads == 1:
            yield Workers(None, 1)
        else:
            with ThreadPoolExecutor(n_threads, "manylabel-solver") as pool:
                yield Workers(pool, n_threads)
