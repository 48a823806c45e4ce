"""Feature model: a linear model on features whose inner products approximate a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.features.nystroem import Landmarks
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.model import Model
from manylabel_core.online.updates._update import Update
from manylabel_core.rows import Rows, Targets
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import check_size


class FeatureModel(Model):
    """Linear model on coordinates in the span of landmarks."""

    def __init__(self, landmarks: Landmarks, linear: LinearModel) -> None:
        super().__init__()
        self._landmarks, self._linear = landmarks, linear
        self._n_features = 0

    @property
    def n_support(self) -> int:
        """Return the number of landmarks."""
        return self._landmarks.n_points

    def set_update(self, update: Update) -> None:
        """Set the update for the next examples."""
        self._linear.set_update(update)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        self._linear.reserve(self.n_support, n_labels, touch)
        self._n_features = max(self._n_features, n_features)

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        first, n_samples = 0, len(scores)
        while first < n_samples:
            last = min(first + (1 if self._landmarks.grows else self._rows_at_once()), n_samples)
            n_points = self.n_support
            features = self._landmarks.learn(rows.part(first, last), self._n_features)
            if self.n_support > n_points:
                self._linear.reserve(self.n_support, scores.shape[1] - 1)
            self._linear.learn(_as_rows(features), targets.part(first, last), scores[first:last])
            first = last

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        size = self._rows_at_once()
        for first in range(0, len(scores), size):
            part = slice(first, min(first + size, len(scores)))
            features = self._landmarks.score(rows.part(part.start, part.stop), self._n_features)
            self._linear.score(_as_rows(features), scores[part])

    def _rows_at_once(self) -> int:
        return max(1, MAX_SCALED_VALUES // max(self.n_support, 1))

    def forget(self, label: int) -> None:
        self._linear.forget(label)

    def reset_step_sizes(self, label: int | None) -> None:
        self._linear.reset_step_sizes(label)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the linear model and of the landmarks."""
        size = np.array([n_features, n_labels], dtype=np.int64)
        return {"size": size, **self._linear.arrays(self.n_support, n_labels), **self._landmarks.arrays()}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes, including the memory of the landmarks outside the state."""
        n_columns = self._landmarks.points_after(n_samples)
        weights = self._linear.nbytes_after(n_columns, n_labels, n_samples, n_samples * n_columns, n_columns)
        return 16 + weights + self._landmarks.nbytes_after(n_features, n_samples, n_values)

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return check_size(arrays["size"])

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        self._landmarks.restore(arrays, n_features)
        self._linear.restore(arrays, self.n_support, n_labels)
        self._n_features = n_features


def _as_rows(features: NDArray[Any]) -> Rows:
    """Return dense features as rows, stored zeros included."""
    n_samples, n_columns = features.shape
    indptr = np.arange(0, n_samples * n_columns + 1, n_columns) if n_columns else np.zeros(n_samples + 1, np.int64)
    indices = np.tile(np.arange(n_columns, dtype=np.int32), n_samples)
    return Rows(indptr, indices, features.ravel())
