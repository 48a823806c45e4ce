"""Number of threads of BLAS, which is one setting of the whole process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  loads its BLAS, which is another than NumPy's
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_turn = threading.Lock()
_numbers: dict[object, int] = {}
"""Numbers that fits in progress ask for, in the order in which they began."""
_settings: list[Any] = []
"""The setting before the first of them, which can be restored; empty without fits."""


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries of NumPy and SciPy in this process."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(number: int) -> Iterator[None]:
    """Run BLAS with `number` threads within a `with` block. If fits overlap, the number of the fit that began last
    holds for all.
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
