"""Number of threads of BLAS, which is one setting of the whole process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

_turn = threading.Lock()
_numbers: dict[object, int] = {}
"""Numbers that fits under way ask for, in the order in which they began."""
_before: list[threadpool_limits] = []
"""The setting before the first of them."""


@contextmanager
def blas_threads(number: int) -> Iterator[None]:
    """Run BLAS with `number` threads within a `with` block.

    Fits in several threads of a process may overlap, and end in any order. The number of the fit that began last holds
    for all; after the last fit has ended, the setting is what it was before the first.
    """
    own = object()
    with _turn:
        if not _numbers:
            _before.append(threadpool_limits(limits=None))
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
        threadpool_limits(limits=list(_numbers.values())[-1], user_api="blas")
    else:
        _before.pop().restore_original_limits()
