"""Size of the representation, random state and warning of LSA-MML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from manylabel_core.batch.decisions.convergence import warn_of_convergence
from manylabel_core.checks import TooFewRows

COMPONENTS = 200
"""Default number of components, if that many are allowed."""


def check_components(learner: Any, widths: Mapping[str, int], n_samples: int) -> int:
    """Return the number of components, within the limits of views and rows."""
    most = sum(widths.values())
    why = f"the views have {most} features together"
    if n_samples < most:
        most, why = n_samples, f"there are {n_samples} rows"
    wanted = learner.n_components
    if wanted is None:
        return min(COMPONENTS, most)
    if wanted > most:
        raise TooFewRows(f"n_components must be at most {most}, not {wanted}: {why}")
    return int(wanted)


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
