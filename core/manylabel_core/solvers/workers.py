"""Threads for compiled code and BLAS, which release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

from manylabel_core.solvers.blas import blas_threads

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """Threads that run a function over several items at a time; `pool` None runs the items in turn.

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
