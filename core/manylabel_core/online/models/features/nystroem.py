"""Nystroem features: a kernel model of fixed size on examples of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core._mercer import inner_product
from manylabel_core.online.models.features._nystroem import MAX_LENGTH, admit, to_landmark_features
from manylabel_core.online.models.points import KernelSettings, Points, scratch, stored_rows
from manylabel_core.rows import Rows
from manylabel_core.storage import enlarged

NOVELTY = 0.01
"""Minimum squared distance of an example from the span of the landmarks, relative to its norm, to become a landmark."""


class Landmarks:
    """Landmarks: the first `budget` examples that are not nearly in the span of earlier ones.

    At first, each example adds the direction that it needs, so the model learns like a kernel model without a budget.
    Landmarks never change: the weights refer to their span, and replacing a landmark would change the meaning of every
    later feature. Prefer another strategy if the distribution of the examples changes much.
    """

    def __init__(self, settings: KernelSettings, budget: int) -> None:
        self._settings, self._budget = settings, budget
        self._points = Points(settings.dtype)
        self._scales = np.ones(1)
        self._R = np.zeros(1)

    @property
    def n_points(self) -> int:
        """Return the number of landmarks, and so of features."""
        return self._points.n_points

    @property
    def grows(self) -> bool:
        """True if an example can become a landmark; in that case, examples must be passed one by one."""
        return self.n_points < self._budget

    def learn(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features (n_samples, n_points) of rows. Below the budget, there must be one row, which may become
        a landmark."""
        rows, work = rows.without_zeros(), scratch(n_features)
        features, rest = self._transform(rows, work)
        if not self.grows or rest <= NOVELTY:
            return features
        features_of_x, values = rows.row(0)
        self._points.append(features_of_x, values, inner_product(values, values))
        rest = self._admit(work)
        added = min(self._scales[self.n_points - 1], MAX_LENGTH) * np.sqrt(rest)
        return np.append(features, np.full((1, 1), added, features.dtype), axis=1)

    def _admit(self, work: NDArray[np.float64]) -> float:
        """Make the last point a landmark; return its squared distance from the span of the others, relative to its
        squared norm."""
        n = self.n_points
        self._scales = enlarged(self._scales, (n,))
        self._R = enlarged(self._R, (n * (n + 1) // 2,))
        return float(admit(self._settings.shape, *self._points.parts, self._scales, self._R, work))

    def score(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features of rows, without changes."""
        return self._transform(rows.without_zeros(), scratch(n_features))[0]

    def _transform(self, rows: Rows, work: NDArray[np.float64]) -> tuple[NDArray[Any], float]:
        """Return the features of rows, and the squared distance of the last row from the span of the landmarks."""
        features = np.empty((len(rows.indptr) - 1, self.n_points), dtype=self._settings.dtype)
        shape, parts = self._settings.shape, self._points.parts
        rest = to_landmark_features(shape, *parts, self._scales, self._R, work, *rows, features)
        return features, rest

    def points_after(self, n_samples: int) -> int:
        """Return the maximum number of landmarks after `n_samples` more examples."""
        return min(self.n_points + n_samples, self._budget)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the landmarks. `restore` recomputes everything else, bit for bit."""
        return self._points.arrays("landmarks")

    def nbytes_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the maximum bytes of the landmarks and their factors."""
        n = self.points_after(n_samples)
        n_values = min(self._points.n_values + n_values, n * n_features)
        beside = 8 * (n + n * (n + 1) // 2)
        return 8 * (1 + n) + (4 + self._points.values.itemsize) * n_values + beside

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Restore the landmarks and compute their factors again."""
        rows = stored_rows("landmarks", arrays, n_features)
        if len(rows.indptr) - 1 > self._budget:
            raise ValueError(f"state: at most {self._budget} landmarks are allowed")
        work = scratch(n_features)
        for i in range(len(rows.indptr) - 1):
            features, values = rows.row(i)
            self._points.append(features, values, inner_product(values, values))
            if self._admit(work) <= NOVELTY:
                raise ValueError("state: no landmark may be in the span of earlier landmarks")
