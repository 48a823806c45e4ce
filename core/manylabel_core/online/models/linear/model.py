"""The linear model: a table of weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear._learn import learn_linear
from manylabel_core.online.models.linear._metric import SQUARES
from manylabel_core.online.models.linear._table import PADDING, score_linear
from manylabel_core.online.models.model import Model
from manylabel_core.online.updates._update import PASSIVE_AGGRESSIVE, Update
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE, Rows, Targets
from manylabel_core.storage import MAX_WEIGHT, check_n_seen, check_range, check_threshold, enlarged

MAX_FEATURE_SQUARES = 4.0 * MAX_MAGNITUDE**2 * 2**53 * MAX_EXAMPLE_WEIGHT
"""More than the squares of a feature can come to."""

_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"squares": (0.0, MAX_WEIGHT)})
"""Bounds of the numbers of a plane, if not those of weights."""


class LinearModel(Model):
    """A linear model has one weight, and further numbers in planes of their own, per feature and column.

    The planes stand side by side, feature by feature: see `_table`. Row 0 is the intercept. With `average` the last
    plane is the accumulator of the weights, and every column counts the examples it has seen.

    Parameters
    ----------
    update : Update
        How an example is learnt. With a `delta` above 0, every weight has a metric of its own, in the plane "squares".
    constant : float
        The constant feature; 0 for none.
    average : bool
        Whether the means of the weights predict.
    dtype : str
        Type of the weights.
    by_feature : bool
        Whether every feature has a step size of its own.
    """

    is_linear = True

    def __init__(self, update: Update, constant: float, average: bool, dtype: str, by_feature: bool = False) -> None:
        self.set_update(update)
        self._constant, self._average, self._by_feature = constant, average, by_feature
        metric = ("squares",) if update.delta > 0.0 else ()
        self.dtype = dtype
        self._planes = ("weights", *metric, *(("accumulator",) if average else ()))
        self._table = np.zeros((1, len(self._planes), padded_width(1)), dtype=dtype)
        self._n_seen = np.zeros(1 if average else 0, dtype=np.int64)
        self._squares = np.zeros(1 if by_feature else 0)

    def set_update(self, update: Update) -> None:
        """Learn the next examples by this update; its kind, and whether it has a `delta`, never change."""
        self._kind, self._update = update.kind, update.as_array()

    @property
    def takes_blocks(self) -> bool:
        """True if the weights can be the words of `VectorBlocks`: each feature has a step size, and no weight has."""
        return self._by_feature and self._planes == ("weights",)

    @property
    def parts(self) -> tuple[NDArray[Any], NDArray[np.float64], float, NDArray[np.float64]]:
        """The table, the squares of the features, the constant, and the update."""
        return self._table, self._squares, self._constant, self._update

    def enlarge(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        self._table = enlarged(self._table, (1 + n_features, len(self._planes), padded_width(1 + n_labels)), touch)
        if self._average:
            self._n_seen = enlarged(self._n_seen, (1 + n_labels,))
        if self._by_feature:
            self._squares = enlarged(self._squares, (1 + n_features,))

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        model = self._table, self._n_seen, self._squares
        learn_linear(*model, self._constant, self._update, *rows, *targets, scores)

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        score_linear(self._table, self._n_seen, self._constant, *rows, scores)

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        """Return the weights of a label less those of the threshold, or their means where these predict."""
        rows, columns = np.concatenate([np.zeros(1, np.int32), 1 + features]), [0, 1 + label]
        weights = self._table[rows[:, np.newaxis], 0, columns].astype(np.float64)
        if self._average:
            weights -= self._table[rows[:, np.newaxis], -1, columns] / np.maximum(self._n_seen[columns], 1)
        margin = weights[:, 1] - weights[:, 0]
        return Scorer(margin[1:], float(self._constant * margin[0]))

    def forget(self, label: int) -> None:
        """Forget a label: its column is as that of a new one."""
        self._table[:, :, 1 + label] = 0.0
        self._n_seen[1 + label : 2 + label] = 0

    def reset_step_sizes(self, label: int | None) -> None:
        """Forget the squares that make steps small; those of features are shared by all labels, and stay for one."""
        if "squares" in self._planes:
            self._table[:, SQUARES, slice(None) if label is None else 1 + label] = 0.0
        if label is None:
            self._squares[:] = 0.0

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the planes, and what else there is of examples seen, counts and squares."""
        live = self._table[: 1 + n_features, :, : 1 + n_labels]
        arrays: dict[str, NDArray[Any]] = {name: live[:, plane] for plane, name in enumerate(self._planes)}
        if self._average:
            arrays["n_seen"] = self._n_seen[: 1 + n_labels]
        if self._by_feature:
            arrays["feature_squares"] = self._squares[: 1 + n_features]
        return arrays

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Return the bytes of the state with these numbers of columns."""
        n_seen = self._n_seen.itemsize * (1 + n_labels) if self._average else 0
        squares = self._squares.itemsize * (1 + n_features) if self._by_feature else 0
        table = self._table.itemsize * len(self._planes) * (1 + n_features) * (1 + n_labels)
        return table + n_seen + squares

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        if self._kind == PASSIVE_AGGRESSIVE:
            check_threshold(arrays, "weights", "accumulator")
        shapes = {arrays[name].shape for name in self._planes}
        if len(shapes) > 1 or 0 in arrays["weights"].shape:
            raise ValueError(f"state must hold {' and '.join(self._planes)} of one shape, not empty")
        for name in self._planes:
            check_range(name, arrays[name], *_RANGES.get(name, (-MAX_WEIGHT, MAX_WEIGHT)))
        n_features, n_labels = (length - 1 for length in arrays["weights"].shape)
        self._check_others(arrays, n_features, n_labels)
        self.enlarge(n_features, n_labels)
        for plane, name in enumerate(self._planes):
            self._table[:, plane, : 1 + n_labels] = arrays[name]
        self._n_seen = arrays.get("n_seen", self._n_seen)
        self._squares = arrays.get("feature_squares", self._squares)
        return n_features, n_labels

    def _check_others(self, arrays: dict[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        """Raise ValueError if one of the arrays beside the planes does not fit."""
        if self._average:
            check_n_seen(arrays["n_seen"], n_labels)
        if self._by_feature:
            if arrays["feature_squares"].shape != (1 + n_features,):
                raise ValueError("state must hold feature_squares for each feature and the constant")
            check_range("feature_squares", arrays["feature_squares"], 0.0, MAX_FEATURE_SQUARES)


def padded_width(n_columns: int) -> int:
    """Return `n_columns` rounded up to a multiple of PADDING, the width of a table."""
    return -(-n_columns // PADDING) * PADDING
