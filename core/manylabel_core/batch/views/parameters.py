"""Checks of LSA-MML's parameters. Every error is a ValueError that names the parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from manylabel_core.batch.base.learner import MAX_ITERATIONS, MAX_THREADS
from manylabel_core.batch.decisions.convergence import warn_of_convergence
from manylabel_core.batch.views.alternation import Prices
from manylabel_core.batch.views.landmarks import VIEW_KERNELS
from manylabel_core.batch.views.thresholds import THRESHOLDS
from manylabel_core.checks import TooFewRows, check_choice, check_count, check_flag, check_positive, is_finite, shown
from manylabel_core.scaling.fitted import FITTED_SCALINGS

COMPONENTS = 200
"""Default number of components, if that many are allowed."""
MAX_LANDMARKS = 10_000
VIEW_WEIGHTS = ("labels", "equal")


def check_parameters(learner: Any) -> Prices:
    """Check all parameters except the number of components, and return the coefficients of the objective."""
    if check_positive("r", learner.r) <= 1:
        raise ValueError(f"r must be above 1, not {learner.r!r}")
    check_choice("scaling", learner.scaling, FITTED_SCALINGS)
    for name in ("centre", "refit", "warm_start"):
        check_flag(name, getattr(learner, name))
    check_choice("kernel", learner.kernel, VIEW_KERNELS)
    check_count("n_landmarks", learner.n_landmarks, MAX_LANDMARKS)
    check_choice("view_weights", learner.view_weights, VIEW_WEIGHTS)
    check_choice("threshold", learner.threshold, THRESHOLDS)
    if check_positive("tol", learner.tol) >= 1:
        raise ValueError(f"tol must be below 1, not {learner.tol!r}")
    check_count("max_iter", learner.max_iter, MAX_ITERATIONS)
    check_count("n_threads", learner.n_threads, MAX_THREADS)
    random(learner.random_state)
    return Prices(
        float(learner.r),
        check_positive("beta", learner.beta),
        _not_negative("gamma", learner.gamma),
        check_positive("ridge", learner.ridge),
        check_positive("label_ridge", learner.label_ridge),
    )


def check_components(learner: Any, widths: Mapping[str, int], n_samples: int) -> int:
    """Return the number of components, within the limits of views and rows."""
    most = sum(widths.values())
    why = f"the views have {most} features together"
    if n_samples < most:
        most, why = n_samples, f"there are {n_samples} rows"
    wanted = learner.n_components
    if wanted is None:
        return min(COMPONENTS, most)
    wanted = check_count("n_components", wanted, 2**31 - 1)
    if wanted > most:
        raise TooFewRows(f"n_components must be at most {most}, not {wanted}: {why}")
    return wanted


def random(state: Any) -> np.random.RandomState:
    try:
        found: np.random.RandomState = check_random_state(state)
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from error
    return found


def warn_not_converged(max_iter: int, change: float) -> None:
    warn_of_convergence(
        f"not converged in max_iter={max_iter} iterations: the last one lowered the objective by {change:.2g} of it",
        stacklevel=4,
    )


def _not_negative(name: str, value: object) -> float:
    if is_finite(value) and float(value) >= 0:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{name} must be a finite number of at least 0, not {shown(value)}")
