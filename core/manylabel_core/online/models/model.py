"""What a kernel learner asks of its model: a sum over support vectors, or linear in features of the kernel."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import Rows, Targets

Step = tuple[float, int, float, int]
"""What `run_round` takes."""


class KernelSettings(NamedTuple):
    """What a kernel model is made of, all of it checked.

    Attributes
    ----------
    shape : tuple (kind, gamma, coef0, degree)
        The kernel: see `kernel_value`.
    constant : float
        The root of what is added to the kernel, 0 for nothing.
    budget : int or None
        Most support vectors, or the number of features.
    seed : int
        Of random features.
    average : bool
        Whether the mean of the coefficients predicts.
    dtype : str
        Type of coefficients, weights and values.
    """

    shape: tuple[int, float, float, int]
    constant: float
    budget: int | None
    seed: int
    average: bool
    dtype: str


class KernelModel(Protocol):
    """What was learnt, and how it takes more."""

    @property
    def n_support(self) -> int:
        """Examples held: support vectors or landmarks."""

    def enlarge(self, n_features: int, n_labels: int) -> None:
        """Make room for so many features and labels."""

    def learn(self, rows: Rows, targets: Targets, step: Step, n_features: int, scores: NDArray[np.float64]) -> None:
        """Learn rows in order; write the scores of each before it was learnt."""

    def score(self, rows: Rows, n_features: int, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows."""

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """The live part of the arrays of the state; views where possible."""

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Most bytes of the model once it has grown and learnt so much more."""

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Take over arrays; give the numbers of features and labels. Raises ValueError if they are no state."""

    def quicken(self, label: int | None) -> None:
        """Let the steps of a label, or of everything, be as large as at the start, if they shrink."""

    def restart(self, label: int) -> None:
        """Forget a label."""
