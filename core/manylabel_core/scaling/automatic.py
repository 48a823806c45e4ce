"""Automatic scaling of streams of dense, sparse and mixed features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.part import Array
from manylabel_core.rows import MAX_MAGNITUDE, Rows
from manylabel_core.scaling._automatic import (
    COUNT,
    FAR_IN_A_ROW,
    HAVING,
    LAST,
    MEAN,
    N_MOMENTS,
    NEAR_IN_A_ROW,
    SAME,
    SINCE,
    SQUARES,
    find_dense,
    scale_automatically,
)
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES, FeatureCounts, Scaling
from manylabel_core.storage import MAX_COUNT, check_range, enlarged


class AutomaticScaling(Scaling):
    """Scaling of each feature by the statistics of the stream so far, then of each example to a length of about 1.

    A quantity that most examples have (it is not 0 in more than half of them, and these values vary) is dense. It is
    standardised by the values of the examples so far, including zeros. A quantity that fewer examples have is optional
    if its values mostly differ, and if they are far from 0 or another feature states which examples have it (`pair`).
    It is standardised in the examples that have it, and multiplied by its rarity. The rarity is the eighth root of (n +
    1) / (n_f + 1), where n_f of the n examples so far have the quantity. Any other feature stays sparse: it is divided
    by the root mean square of its values that are not 0, and multiplied by its rarity. The statistics include the
    example itself. See Eq. (12) of docs/mathematics.md.

    If ten values in a row are far from the earlier values (a leaking count), or twenty are nearly alike, the level or
    unit of the feature has changed. Then its mean and deviation start again.

    A missing dense feature is at its mean and does not count in its statistics; with `missing="zero"` it is a 0. Any
    other missing feature is a 0.

    An example is divided by its Euclidean norm. This alone would discard the size of an example that consists of a few
    quantities. So an example with one to ten quantities, and at most as many other features, is divided by the root of
    the number of quantities, their typical norm.

    At most twice as many features are dense as an example has values on average, so time and memory per example are
    proportional to its number of values, regardless of the number of features.
    """

    prefix = "scaling."
    _count: NDArray[np.int64]
    _moments: NDArray[np.float64]

    def __init__(self, missing: str = "mean") -> None:
        self.zero_is_missing = missing == "zero"
        self._dense, self._given = np.zeros((2, 0), dtype=np.int32)
        self._n_pairs = 0
        self._n_dense, self._n_values = np.zeros((2, 1), dtype=np.int64)
        count, squares = (0, MAX_COUNT), (0.0, 4 * MAX_MAGNITUDE**2 * MAX_COUNT)
        size, run = (-2 * MAX_MAGNITUDE, 2 * MAX_MAGNITUDE), (1 - NEAR_IN_A_ROW, FAR_IN_A_ROW - 1)
        moments = Array(("features", N_MOMENTS), (count, size, squares, count, count, run, size, count))
        super().__init__({"count": Array((1,), (count,), dtype="int64"), "moments": moments})

    @property
    def rows_at_once(self) -> int:
        """Return the maximum rows per call, each of which has all dense features when scaled."""
        return max(1, MAX_SCALED_VALUES // max(int(self._n_dense[0]), 1))

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        self._dense = enlarged(self._dense, (n_features,))
        if self._n_pairs:
            self._given = enlarged(self._given, (n_features,))

    def pair(self, pairs: Sequence[tuple[int, int]]) -> None:
        if len(pairs) == self._n_pairs:
            return
        given = np.zeros(len(self._dense), dtype=np.int32)
        known = [pair for pair in pairs if max(pair) < len(given)]
        for number, other in known:
            given[number] = other + 1
        self._given, self._n_pairs = given, len(known)

    def counts(self) -> FeatureCounts:
        moments = self._moments[: self.n_features]
        columns = (moments[:, row] for row in (HAVING, COUNT, MEAN, SQUARES, LAST, SINCE))
        return FeatureCounts(int(self._count[0]), *columns)

    def learn(self, rows: Rows) -> Rows:
        return self._scale(rows, store=True)

    def score(self, rows: Rows) -> Rows:
        return self._scale(rows, store=False)

    def _scale(self, rows: Rows, store: bool) -> Rows:
        moments = self._moments[: self.n_features]
        statistics = self._count, moments, self._given[: self.n_features], self._dense, self._n_dense, self._n_values
        return Rows(*scale_automatically(*statistics, self.zero_is_missing, store, *rows))

    def values_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the number of values, plus the maximum number of dense features of each row."""
        seen = int(self._n_values[0]) + n_values
        most_dense = min(n_features, 2 * seen // (int(self._count[0]) + 1) + 1)
        return n_values + n_samples * most_dense

    def features_after(self, n_distinct: int) -> int:
        """Return `n_distinct` plus the number of dense features: only features of the rows can become dense."""
        return n_distinct + int(self._n_dense[0])

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        super().restore(arrays, n_features, n_labels)
        self._dense, self._given = np.zeros((2, n_features), dtype=np.int32)
        self._n_pairs = 0
        self._n_dense = np.array([find_dense(int(self._count[0]), self._moments, self._dense)], dtype=np.int64)
        self._n_values = np.array([self._moments[:, COUNT].sum()], dtype=np.int64)

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        n_values, n_examples, since, same = (arrays["moments"][:, row] for row in (COUNT, HAVING, SINCE, SAME))
        for counted in (n_values, n_examples, n_examples - n_values, n_values - since, since - same):
            check_range("scaling.moments", counted, 0, int(arrays["count"][0]))
