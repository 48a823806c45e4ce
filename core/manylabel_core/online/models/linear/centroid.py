"""Online centroids of labels, as a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear import _centroid
from manylabel_core.online.models.linear._centroid import learn_centroid, rarity, score_centroid
from manylabel_core.online.models.linear.model import padded_width
from manylabel_core.online.models.model import Model
from manylabel_core.rows import Rows, Targets
from manylabel_core.storage import MAX_COUNT, MAX_WEIGHT, check_range, enlarged


class Centroid(Model):
    """A linear model by the directions of the sums of each label's examples; see `_centroid`.

    Parameters
    ----------
    dtype : str
        Type of the sums.
    """

    is_linear = True

    def __init__(self, dtype: str) -> None:
        self._table = np.zeros((1, 1, padded_width(1)), dtype=dtype)
        self._labels, self._seen = np.zeros((2, 0)), np.zeros(1)

    def enlarge(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        self._table = enlarged(self._table, (1 + n_features, 1, padded_width(1 + n_labels)), touch)
        self._seen = enlarged(self._seen, (1 + n_features,))
        before = self._labels.shape[1]
        self._labels = enlarged(self._labels, (2, n_labels))
        self._labels[_centroid.WEIGHT, before:] = 1.0

    @property
    def seen(self) -> NDArray[np.float64]:
        """The number of examples, and of those that had each feature, with room for more."""
        return self._seen

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        learn_centroid(self._table, self._labels, self._seen, *rows, *targets, scores)

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        score_centroid(self._table, self._labels, self._seen, *rows, scores)

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        sums = self._table[1 + features, 0, 1 + label].astype(np.float64)
        length = np.sqrt(max(self._labels[_centroid.SQUARE, label], _centroid.MIN_SQUARE))
        return Scorer(sums * rarity.py_func(self._seen[0], self._seen[1 + features]) / length, 0.0)

    def forget(self, label: int) -> None:
        self._table[:, 0, 1 + label] = 0.0
        self._labels[:, label] = 1.0, 0.0

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the sums, the weights and squared norms of labels, and how many examples had each feature."""
        sums = self._table[: 1 + n_features, 0, : 1 + n_labels]
        return {"sums": sums, "labels": self._labels[:, :n_labels], "seen": self._seen[: 1 + n_features]}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Return the bytes of the state with these numbers of columns."""
        return self._table.itemsize * (1 + n_features) * (1 + n_labels) + 8 * (2 * n_labels + 1 + n_features)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        sums, labels, seen = (arrays[name] for name in ("sums", "labels", "seen"))
        if 0 in sums.shape or sums[0].any() or sums[:, 0].any():
            raise ValueError("state must hold sums, with zeros for the constant feature and the threshold")
        n_features, n_labels = (length - 1 for length in sums.shape)
        if labels.shape != (2, n_labels) or seen.shape != (1 + n_features,):
            raise ValueError("state must hold two rows of n_labels labels, and seen for each feature and the constant")
        check_range("sums", sums, -MAX_WEIGHT, MAX_WEIGHT)
        check_range("labels (weight)", labels[_centroid.WEIGHT], 1.0, _centroid.MAX_WEIGHT)
        check_range("labels (square)", labels[_centroid.SQUARE], 0.0, MAX_WEIGHT**2)
        check_range("seen", seen, 0.0, MAX_COUNT)
        self.enlarge(n_features, n_labels)
        self._table[:, 0, : 1 + n_labels] = sums
        self._labels, self._seen = labels, seen
        return n_features, n_labels
