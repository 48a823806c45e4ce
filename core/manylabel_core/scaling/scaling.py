"""Scaling of features in a learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.part import Part
from manylabel_core.rows import Rows
from manylabel_core.scaling import _scaling

MAX_SCALED_VALUES = 2**20
"""Maximum number of values that imputation adds per call."""


class FeatureCounts(NamedTuple):
    """Counts of a scaling, as views of its state: each array is float64, shape (n_features,)."""

    n_samples: int  # examples with a known truth
    having: NDArray[np.float64]  # examples with the feature, with any value
    nonzero: NDArray[np.float64]  # examples with a value other than 0
    mean: NDArray[np.float64]  # mean of these values since the last change of the level or unit
    squares: NDArray[np.float64]  # sum of their squared distances from the mean
    last: NDArray[np.float64]  # the last of these values
    since: NDArray[np.float64]  # number of these values


class Scaling(Part):
    """Online scaling of rows before the model sees them; this base class leaves values unchanged.

    All scalings but `AutomaticScaling` treat a missing value as 0. Scaled rows list no zeros.
    """

    zero_is_missing = True
    """Whether a 0 counts as a missing value."""

    @property
    def rows_at_once(self) -> int:
        """Return the maximum rows per call."""
        return 2**62

    def pair(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Set the pairs of columns: a number, and the feature that is 1 in examples with the number. Pairs are not part
        of the state, and only `AutomaticScaling` uses them."""

    def counts(self) -> FeatureCounts | None:
        """Return how many examples have each feature; None if the scaling does not count them."""
        return None

    def learn(self, rows: Rows) -> Rows:
        """Scale rows to be learnt, in order, and add them to the statistics."""
        return self.score(rows)

    def score(self, rows: Rows) -> Rows:
        """Scale each row as if it were learnt next, without changes."""
        return rows.without_zeros()

    def values_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the maximum number of scaled values of `n_rows` rows with `n_values` values in all."""
        return n_values

    def features_after(self, n_distinct: int) -> int:
        """Return the maximum number of distinct features after scaling of rows with `n_distinct` features."""
        return n_distinct


class UnitNorm(Scaling):
    """Every example is divided by its Euclidean norm; an example of zeros stays as it is."""

    def score(self, rows: Rows) -> Rows:
        rows = rows.without_zeros()
        return Rows(rows.indptr, rows.indices, _scaling.to_unit_norm(rows.indptr, rows.values))
