"""What the linear learners share: a table of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online._linear import score_linear
from manylabel_core.online._storage import MAX_WEIGHT, check_range, enlarged
from manylabel_core.online.base import OnlineLearner
from manylabel_core.rows import Rows


class LinearLearner(OnlineLearner):
    """A learner with one weight, or one of each of several planes, per feature and column.

    The planes stand side by side, feature by feature: see `_linear`. Row 0 is the intercept.
    """

    _planes: tuple[str, ...]
    _not_negative: tuple[str, ...] = ()
    _table: NDArray[Any]

    def _create(self) -> None:
        self._table = np.zeros((1, len(self._planes), 1), dtype=self.dtype)

    def _enlarge(self, n_features: int, n_labels: int) -> None:
        self._table = enlarged(self._table, (1 + n_features, len(self._planes), 1 + n_labels))

    def _score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        score_linear(self._table, self._constant, *rows, scores)

    def _model(self) -> dict[str, NDArray[Any]]:
        live = self._table[: 1 + self._n_features, :, : 1 + self._n_labels]
        return {name: live[:, plane] for plane, name in enumerate(self._planes)}

    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        return self._table.itemsize * len(self._planes) * (1 + n_features) * (1 + n_labels)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        shapes = {arrays[name].shape for name in self._planes}
        if len(shapes) > 1 or 0 in arrays[self._planes[0]].shape:
            raise ValueError(f"state must hold {' and '.join(self._planes)} of one shape, not empty")
        for name in self._planes:
            check_range(name, arrays[name], 0.0 if name in self._not_negative else -MAX_WEIGHT, MAX_WEIGHT)
        self._table = np.stack([arrays[name] for name in self._planes], axis=1)
        return len(self._table) - 1, self._table.shape[2] - 1
