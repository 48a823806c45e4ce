"""The linear model: a table of weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear._adaptive_implicit import SQUARES
from manylabel_core.online.models.linear._learn import learn_linear, learn_sparse, score_sparse
from manylabel_core.online.models.linear._table import score_linear
from manylabel_core.online.models.linear.weight_table import WeightTable
from manylabel_core.online.models.model import Model
from manylabel_core.online.updates._update import ANY, IMPLICIT, PASSIVE_AGGRESSIVE, Update
from manylabel_core.part import Array
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE, Rows, Targets
from manylabel_core.storage import MAX_WEIGHT, check_range, check_threshold

MAX_FEATURE_SQUARES = 4.0 * MAX_MAGNITUDE**2 * 2**53 * MAX_EXAMPLE_WEIGHT
"""Upper bound of the squares of a feature; no stream reaches it."""

_WEIGHTS = "weights"
"""Name of the first plane."""

_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"squares": (0.0, MAX_WEIGHT)})
"""Bounds of the numbers of a plane if they differ from the bounds of weights."""


class LinearModel(Model):
    """Linear model with a weight for each feature and column; other numbers of weights are in separate planes. See
    `_table`.

    Parameters
    ----------
    update : Update
        With a `delta` above 0, every weight has a separate metric, in the plane "squares".
    constant : float
        The constant feature; 0 for none.
    by_feature : bool
        Whether every feature has a separate step size.
    can_be_sparse : bool
        Whether a large table of one plane holds only blocks of weights that are not 0.
    """

    is_linear = True

    def __init__(
        self,
        update: Update,
        constant: float,
        dtype: str,
        by_feature: bool = False,
        can_be_sparse: bool = True,
    ) -> None:
        self.set_update(update)
        self._constant, self._by_feature = constant, by_feature
        metric = ("squares",) if update.delta > 0.0 else ()
        self.dtype = dtype
        self._planes = (_WEIGHTS, *metric)
        self._table = WeightTable(dtype, len(self._planes), can_be_sparse)
        self._feature_squares = np.zeros(0)
        squares = {"feature_squares": Array(("rows",), ((0.0, MAX_FEATURE_SQUARES),))} if by_feature else {}
        super().__init__(squares)

    def set_update(self, update: Update) -> None:
        """Set the update for the next examples. Its kind never changes, nor whether it has a `delta`."""
        self._kind, self._update = update.kind, update.as_array()
        self._others = None if update.kind == IMPLICIT else ANY

    @property
    def takes_blocks(self) -> bool:
        """True if the weights can be the words of `VectorBlocks`: step sizes are per feature, not per weight."""
        return self._by_feature and self._planes == (_WEIGHTS,)

    @property
    def parts(self) -> tuple[NDArray[Any], NDArray[np.float64], float, NDArray[np.float64]]:
        """The dense table, the squares of the features, the constant, and the update."""
        return self._table.dense, self._feature_squares, self._constant, self._update

    def nbytes_of_first_vectors(self, n_features: int, n_labels: int) -> int:
        """Return the bytes of the table that `stay_dense` makes; 0 if it is dense already."""
        return self._table.nbytes_if_dense(n_features, n_labels)

    def stay_dense(self) -> None:
        """Convert to a dense table, which `parts` returns."""
        self._table.stay_dense()

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        self._table.enlarge(n_features, n_labels, touch)

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        dense, sparse = self._table.both
        examples = tuple(rows), tuple(targets), scores  # numba takes a microsecond longer for each NamedTuple
        if sparse is None:
            learn_linear(dense, self._feature_squares, self._constant, self._update, self._others, *examples)
            return
        first, settings = 0, (self._feature_squares, self._constant, self._update)
        while first < len(scores):
            first, room = learn_sparse(sparse.parts, dense, first, *settings, *examples)
            sparse.reserve(room)

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        dense, sparse = self._table.both
        if sparse is None:
            score_linear(dense, self._constant, tuple(rows), scores)
        else:
            score_sparse(sparse.parts, dense, self._constant, tuple(rows), scores)

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        """Return the weights of a label minus those of the threshold."""
        columns = [0, 1 + label]
        weights = np.column_stack([self._table.column(features, column) for column in columns])
        margin = weights[:, 1] - weights[:, 0]
        return Scorer(margin[1:], float(self._constant * margin[0]))

    def forget(self, label: int) -> None:
        """Reset the column of a label."""
        self._table.clear(1 + label)

    def reset_step_sizes(self, label: int | None) -> None:
        """Reset the sums of squares. The sums of features are shared by all labels and are not reset with a single
        label.
        """
        if "squares" in self._planes:
            self._table.dense[:, SQUARES, slice(None) if label is None else 1 + label] = 0.0
        if label is None:
            self._feature_squares[:] = 0.0

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the planes and squares."""
        live = self._table.dense[: 1 + n_features, :, : 1 + n_labels]
        planes = {name: live[:, plane] for plane, name in enumerate(self._planes) if plane}
        weights = self._table.arrays(_WEIGHTS, n_features, n_labels)
        return {**weights, **planes, **super().arrays(n_features, n_labels)}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the state with these numbers of columns."""
        own = super().nbytes_after(n_features, n_labels, n_samples, n_values)
        return own + self._table.nbytes_after(n_features, n_labels, n_distinct)

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return self._table.size(_WEIGHTS, arrays)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        for name in self._planes[1:]:
            if arrays[name].shape != arrays[_WEIGHTS].shape:
                raise ValueError(f"state: {' and '.join(self._planes)} must have the same shape")
            check_range(name, arrays[name], *_RANGES.get(name, (-MAX_WEIGHT, MAX_WEIGHT)))
        self._table.restore(_WEIGHTS, arrays, n_features, n_labels)
        if self._kind == PASSIVE_AGGRESSIVE:
            own = {_WEIGHTS: self._table.column(np.arange(n_features, dtype=np.int32), 0)[:, np.newaxis]}
            check_threshold({**arrays, **own}, *self._planes)
        super().restore(arrays, n_features, n_labels)
        for plane, name in enumerate(self._planes[1:], 1):
            self._table.dense[:, plane, : 1 + n_labels] = arrays[name]
