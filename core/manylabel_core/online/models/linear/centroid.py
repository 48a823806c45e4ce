"""Online centroids of labels, as a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear import _centroid
from manylabel_core.online.models.linear._centroid import (
    learn_centroid,
    learn_sparse_centroid,
    rarity,
    score_centroid,
    score_sparse_centroid,
)
from manylabel_core.online.models.linear.weight_table import WeightTable
from manylabel_core.online.models.model import Model
from manylabel_core.part import Array
from manylabel_core.rows import Rows, Targets
from manylabel_core.storage import MAX_COUNT, MAX_WEIGHT


class Centroid(Model):
    """Linear model in which the weights of a label are the normalised sum of its examples; see `_centroid`."""

    is_linear = True

    _labels: NDArray[np.float64]
    _seen: NDArray[np.float64]

    def __init__(self, dtype: str) -> None:
        weight, square = (1.0, _centroid.MAX_WEIGHT), (0.0, MAX_WEIGHT**2)
        labels = Array((2, "labels"), (weight, square), (1.0, 0.0))
        super().__init__({"labels": labels, "seen": Array(("rows",), ((0.0, MAX_COUNT),))})
        self._table = WeightTable(dtype)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        self._table.enlarge(n_features, n_labels, touch)

    @property
    def seen(self) -> NDArray[np.float64]:
        """Number of examples, and of those with each feature, with spare capacity."""
        return self._seen

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        dense, sparse = self._table.both
        examples = tuple(rows), tuple(targets), scores
        if sparse is None:
            learn_centroid(dense, self._labels, self._seen, *examples)
            return
        first = 0
        while first < len(scores):
            first, room = learn_sparse_centroid(sparse.parts, self._labels, self._seen, first, *examples)
            sparse.reserve(room)

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        dense, sparse = self._table.both
        if sparse is None:
            score_centroid(dense, self._labels, self._seen, tuple(rows), scores)
        else:
            score_sparse_centroid(sparse.parts, self._labels, self._seen, tuple(rows), scores)

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        sums = self._table.column(features, 1 + label)[1:]
        length = np.sqrt(max(self._labels[_centroid.SQUARE, label], _centroid.MIN_SQUARE))
        return Scorer(sums * rarity.py_func(self._seen[0], self._seen[1 + features]) / length, 0.0)

    def forget(self, label: int) -> None:
        self._table.clear(1 + label)
        self._labels[:, label] = 1.0, 0.0

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the sums, the weights and squared norms of labels, and the number of examples with each feature."""
        return {**self._table.arrays("sums", n_features, n_labels), **super().arrays(n_features, n_labels)}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the state with these numbers of columns."""
        own = super().nbytes_after(n_features, n_labels, n_samples, n_values)
        return own + self._table.nbytes_after(n_features, n_labels, n_distinct)

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return self._table.size("sums", arrays)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        self._table.restore("sums", arrays, n_features, n_labels)
        if arrays["sums"][0].any() or self._table.column(np.arange(n_features, dtype=np.int32), 0).any():
            raise ValueError("state: sums of the constant feature and of the threshold must be 0")
        super().restore(arrays, n_features, n_labels)
