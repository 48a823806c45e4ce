"""Fits in several threads leave the number of BLAS's threads as it was, in whatever order they end."""

from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from manylabel_core.solvers.workers import blas_threads, workers


def numbers() -> list[int]:
    """Numbers of threads of all BLAS libraries in this process, some of which may have one thread only."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_overlapping_fits_restore_the_setting(order: tuple[int, ...]) -> None:
    with blas_threads(2):
        before = numbers()
        fits = [ExitStack() for _ in order]
        for fit in fits:
            fit.enter_context(workers(1))
        assert set(numbers()) == {1}
        for number in order:
            fits[number].close()
        assert numbers() == before
        assert 2 in before
