"""Scaling of features as a part of a learner: what comes out is what its model sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import MAX_MAGNITUDE, Rows
from manylabel_core.scaling import _scaling
from manylabel_core.storage import MAX_COUNT, check_range, enlarged

MAX_SCALED_VALUES = 2**20
"""Maximum number of values that imputation fills in at once."""


class Scaling:
    """Online scaling of rows before the model sees them; this base class leaves values unchanged.

    All scalings but `AutomaticScaling` treat a missing value as 0. Scaled rows list no zeros.
    """

    def reserve(self, n_features: int) -> None:
        """Take the memory for this many features, changing nothing else."""

    def grow(self, n_features: int) -> None:
        """Grow to at least this many features."""

    @property
    def rows_at_once(self) -> int:
        """Return the most rows that should be given in one call."""
        return 2**62

    def learn(self, rows: Rows) -> Rows:
        """Scale rows about to be learnt, in order, and take them into the statistics."""
        return self.score(rows)

    def score(self, rows: Rows) -> Rows:
        """Scale each row as `learn` would if it came next, changing nothing."""
        return rows.without_zeros()

    def values_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the maximum number of scaled values of `n_rows` rows with `n_values` values in all."""
        return n_values

    def nbytes(self, n_features: int) -> int:
        """Return the bytes of the state for this number of features."""
        return 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for `restore`; views, not copies."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Take over a state for this number of features; raise ValueError, changing nothing, if it is invalid."""


class UnitNorm(Scaling):
    """Every example is divided by its Euclidean norm; an example of zeros stays as it is."""

    def score(self, rows: Rows) -> Rows:
        rows = rows.without_zeros()
        return Rows(rows.indptr, rows.indices, _scaling.to_unit_norm(rows.indptr, rows.values))


class RunningStandardisation(Scaling):
    """Features become distances from their mean in standard deviations, over the stream so far.

    Each example is standardised by the statistics that include it. An absent feature is a 0 and counts. A
    feature that has not varied yet becomes 0.

    Standardised rows are dense: an example costs time and memory in proportion to all features ever seen, not
    to those it has. Prefer `UnitNorm` for long sparse rows.
    """

    def __init__(self) -> None:
        self._count = np.zeros(1, dtype=np.int64)
        self._moments = np.zeros((0, 2), dtype=np.float64)
        self._n_features = 0

    @property
    def rows_at_once(self) -> int:
        return max(1, MAX_SCALED_VALUES // max(self._n_features, 1))

    def reserve(self, n_features: int) -> None:
        self._moments = enlarged(self._moments, (n_features, 2))

    def grow(self, n_features: int) -> None:
        self.reserve(n_features)
        self._n_features = max(n_features, self._n_features)

    def learn(self, rows: Rows) -> Rows:
        return self._standardise(rows, store=True)

    def score(self, rows: Rows) -> Rows:
        return self._standardise(rows, store=False)

    def _standardise(self, rows: Rows, store: bool) -> Rows:
        moments = self._moments[: self._n_features]
        return Rows(*_scaling.standardise(self._count, moments, store, *rows.without_zeros()))

    def values_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        return n_features * n_samples

    def nbytes(self, n_features: int) -> int:
        return self._count.nbytes + 2 * self._moments.itemsize * n_features

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of examples, and mean and sum of squared distances of every feature."""
        return {"scaling.count": self._count, "scaling.moments": self._moments[: self._n_features]}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        count, moments = arrays["scaling.count"], arrays["scaling.moments"]
        if count.shape != (1,) or moments.shape != (n_features, 2):
            raise ValueError("state must hold one scaling.count, and two scaling.moments for each feature")
        check_range("scaling.count", count, 0, MAX_COUNT)
        check_range("scaling.moments", moments[:, 0], -2 * MAX_MAGNITUDE, 2 * MAX_MAGNITUDE)
        check_range("scaling.moments", moments[:, 1], 0.0, 4 * MAX_MAGNITUDE**2 * MAX_COUNT)
        self._count, self._moments, self._n_features = count, moments, n_features
