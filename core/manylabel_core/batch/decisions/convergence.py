"""Convergence warnings: only the fit of all rows warns, not the fits of its folds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sklearn.exceptions import ConvergenceWarning

_silent = ContextVar("silent", default=False)


def warn_of_convergence(message: str, stacklevel: int) -> None:
    """Warn that a fit has not converged, unless it runs in `silent`."""
    if not _silent.get():
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress convergence warnings of fits in this thread; the filters of `warnings` apply to all threads."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
