"""Second-order logistic regression, as a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.model import Model
from manylabel_core.online.models.second_order._second_order import (
    CONSTANT_PRIOR,
    MAX_FEATURES,
    PRIOR,
    START_CURVATURE,
    learn_second_order,
    score_second_order,
)
from manylabel_core.part import Array, Sizes
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, Rows, Targets
from manylabel_core.scaling._ranks import MAX_RANKED
from manylabel_core.storage import MAX_COUNT, MAX_WEIGHT, check_range


class SecondOrder(Model):
    """Linear model that learns the log-odds of labels by second-order steps; see `_second_order`.

    The ranks of features are additional inputs: with them, the margin of a label can be a curve of the value of a
    feature. Time and memory of an example grow with the square of the number of features, and with features times
    labels. The model therefore stops at the first example with a feature beyond the first 512, or with more than 1,024
    labels. It learns nothing from this example, and the caller drops the model. Its numbers are float64: in float32, an
    inverse of correlated features loses its small eigenvalues.
    """

    is_linear = True

    _covariance: NDArray[np.float64]
    _weights: NDArray[np.float64]
    _curvatures: NDArray[np.float64]
    _seen: NDArray[np.float64]

    def __init__(self, constant: float) -> None:
        self._constant = constant
        self._n_rows, self.n_ranked = 1, 0
        largest = (0.0, MAX_COUNT * MAX_EXAMPLE_WEIGHT)
        super().__init__(
            {
                "covariance": Array(("tabled", "tabled"), ()),
                "weights": Array(("tabled", "labels"), ((-MAX_WEIGHT, MAX_WEIGHT),)),
                "curvatures": Array(("labels",), ((START_CURVATURE, largest[1]),), (START_CURVATURE,)),
                "seen": Array((1,), (largest,)),
            }
        )
        self._set_diagonal(0)

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        tabled = 1 + self.n_ranked + min(n_features, MAX_FEATURES)
        return {**super()._sizes(n_features, n_labels), "tabled": tabled}

    def _set_diagonal(self, first: int) -> None:
        """Set the diagonal of the covariance from a row on to the start values."""
        rows = np.arange(first, len(self._covariance))
        self._covariance[rows, rows] = np.where(rows, PRIOR, CONSTANT_PRIOR)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        n_before = len(self._covariance)
        super().reserve(n_features, n_labels, touch)
        self._set_diagonal(n_before)
        self._n_rows = max(self._n_rows, 1 + self.n_ranked + min(n_features, MAX_FEATURES))

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the state: any of the features may become ranked."""
        sizes = self._sizes(n_features, n_labels)
        if n_samples:
            sizes["tabled"] = 1 + max(self.n_ranked, min(n_features, MAX_RANKED)) + min(n_features, MAX_FEATURES)
        return sum([each.nbytes(sizes) for each in self._declared.values()])

    def set_ranked(self, n_ranked: int) -> None:
        """Accept at least this number of ranks; the rows of features move behind the new rows."""
        n_new, at = n_ranked - self.n_ranked, 1 + self.n_ranked
        if n_new > 0:
            self.n_ranked = n_ranked
            rows = np.insert(self._covariance, [at] * n_new, 0.0, axis=0)
            self._covariance = np.insert(rows, [at] * n_new, 0.0, axis=1)
            self._weights = np.insert(self._weights, [at] * n_new, 0.0, axis=0)
            new = np.arange(at, at + n_new)
            self._covariance[new, new] = PRIOR
            self._n_rows += n_new

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64], ranks: Rows | None = None) -> None:
        self.learn_until_stop(rows, targets, scores, ranks)

    def learn_until_stop(
        self, rows: Rows, targets: Targets, scores: NDArray[np.float64], ranks: Rows | None = None
    ) -> int:
        """Learn rows in order until the model stops; return the number of rows learnt.

        Write the scores of these rows and of the row at which the model stops.
        """
        tables = self._covariance, self._weights, self._curvatures, self._seen
        sizes = self._n_rows, self.n_ranked, self._constant
        own_ranks = _no_ranks(rows) if ranks is None else ranks
        examples = tuple(rows), tuple(own_ranks), tuple(targets)
        return int(learn_second_order(*tables, *sizes, *examples, scores))

    def score(self, rows: Rows, scores: NDArray[np.float64], ranks: Rows | None = None) -> None:
        own_ranks = _no_ranks(rows) if ranks is None else ranks
        score_second_order(self._weights, self.n_ranked, self._constant, tuple(rows), tuple(own_ranks), scores)

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        weights = np.zeros(len(features))
        own = self._weights[1 + self.n_ranked :, label]
        known = features < len(own)
        weights[known] = own[features[known]]
        return Scorer(weights, float(self._constant * self._weights[0, label]))

    def weights_of_ranks(self, label: int) -> NDArray[np.float64]:
        """Return the weights of the ranks, (n_ranked,), in the margin of a label."""
        return self._weights[1 : 1 + self.n_ranked, label]

    def forget(self, label: int) -> None:
        self._weights[:, label], self._curvatures[label] = 0.0, START_CURVATURE

    def reset_step_sizes(self, label: int | None) -> None:
        """Reset the curvature of a label; for all labels (None), also the covariance, which they share."""
        self._curvatures[slice(None) if label is None else label] = START_CURVATURE
        if label is None:
            self._covariance[:] = self._seen[:] = 0.0
            self._set_diagonal(0)

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return len(arrays["covariance"]) - 1 - self.n_ranked, len(arrays["curvatures"])

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        super().restore(arrays, n_features, n_labels)
        self._n_rows = len(self._covariance)

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        covariance = arrays["covariance"]
        diagonal = covariance.diagonal()
        check_range("covariance (diagonal)", diagonal[:1], 0.0, CONSTANT_PRIOR)
        check_range("covariance (diagonal)", diagonal[1:], 0.0, PRIOR)
        check_range("covariance", covariance, -CONSTANT_PRIOR, CONSTANT_PRIOR)
        if (covariance != covariance.T).any():
            raise ValueError("state: covariance must be symmetric")


def _no_ranks(rows: Rows) -> Rows:
    return Rows(np.zeros_like(rows.indptr), np.zeros(0, np.int32), np.zeros(0))
