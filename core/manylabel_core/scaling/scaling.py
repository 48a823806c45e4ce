"""Scaling of features as a part of a learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from manylabel_core.rows import Rows
from manylabel_core.scaling import _scaling

MAX_SCALED_VALUES = 2**20
"""Maximum number of values that imputation fills in at once."""


class Scaling:
    """Online scaling of rows before the model sees them; this base class leaves values unchanged.

    All scalings but `AutomaticScaling` treat a missing value as 0. Scaled rows list no zeros.
    """

    def reserve(self, n_features: int) -> None:
        """Allocate memory for this number of features, without other changes."""

    def grow(self, n_features: int) -> None:
        """Grow to at least this many features."""

    @property
    def rows_at_once(self) -> int:
        """Return the maximum rows per call."""
        return 2**62

    def learn(self, rows: Rows) -> Rows:
        """Scale rows to be learnt, in order, and add them to the statistics."""
        return self.score(rows)

    def score(self, rows: Rows) -> Rows:
        """Scale each row as if it were learnt next, without changes."""
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
        """Restore a state for this number of features; raises ValueError, without changes, if it is invalid."""


class UnitNorm(Scaling):
    """Every example is divided by its Euclidean norm; an example of zeros stays as it is."""

    def score(self, rows: Rows) -> Rows:
        rows = rows.without_zeros()
        return Rows(rows.indptr, rows.indices, _scaling.to_unit_norm(rows.indptr, rows.values))
