"""Feature model: a linear model on features whose inner products are, or approximate, a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.model import Model
from manylabel_core.online.updates._update import Update
from manylabel_core.rows import Rows, Targets
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import check_size


class FeatureMap(Protocol):
    """Map of examples to features whose inner products are, or approximate, a kernel."""

    @property
    def n_columns(self) -> int:
        """Return the number of features at present."""

    @property
    def n_points(self) -> int:
        """Return the number of stored examples."""

    @property
    def grows(self) -> bool:
        """True if an example can add a feature; in that case, examples must be passed one by one."""

    def enlarge(self, n_features: int) -> None:
        """Allocate memory for examples with this number of values."""

    def learn(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features (n_samples, n_columns) of rows about to be learnt."""

    def score(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features of rows, without changes."""

    def columns_after(self, n_samples: int) -> int:
        """Return the maximum number of features after this number of further examples."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state."""

    def nbytes_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the maximum bytes of memory after this growth, including memory outside the state."""

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Restore a state; raises ValueError if invalid."""


class FeatureModel(Model):
    """Linear model on the features of a map."""

    def __init__(self, features: FeatureMap, linear: LinearModel) -> None:
        super().__init__()
        self._map, self._linear = features, linear
        self._n_features = 0
        linear.reserve(features.n_columns, 0)

    @property
    def n_support(self) -> int:
        """Return the number of examples from which the features are computed."""
        return self._map.n_points

    def set_update(self, update: Update) -> None:
        """Use this update for the next examples."""
        self._linear.set_update(update)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        self._map.enlarge(n_features)
        self._linear.reserve(self._map.n_columns, n_labels, touch)
        self._n_features = max(self._n_features, n_features)

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        first, n_samples = 0, len(scores)
        while first < n_samples:
            last = min(first + (1 if self._map.grows else self._rows_at_once()), n_samples)
            n_columns = self._map.n_columns
            features = self._map.learn(rows.part(first, last), self._n_features)
            if self._map.n_columns > n_columns:
                self._linear.reserve(self._map.n_columns, scores.shape[1] - 1)
            self._linear.learn(_as_rows(features), targets.part(first, last), scores[first:last])
            first = last

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        size = self._rows_at_once()
        for first in range(0, len(scores), size):
            part = slice(first, min(first + size, len(scores)))
            features = self._map.score(rows.part(part.start, part.stop), self._n_features)
            self._linear.score(_as_rows(features), scores[part])

    def _rows_at_once(self) -> int:
        return max(1, MAX_SCALED_VALUES // max(self._map.n_columns, 1))

    def forget(self, label: int) -> None:
        self._linear.forget(label)

    def reset_step_sizes(self, label: int | None) -> None:
        self._linear.reset_step_sizes(label)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the linear model and of the map."""
        size = np.array([n_features, n_labels], dtype=np.int64)
        return {"size": size, **self._linear.arrays(self._map.n_columns, n_labels), **self._map.arrays()}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes, including the map's memory outside the state."""
        n_columns = self._map.columns_after(n_samples)
        weights = self._linear.nbytes_after(n_columns, n_labels, n_samples, n_samples * n_columns, n_columns)
        return 16 + weights + self._map.nbytes_after(n_features, n_samples, n_values)

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return check_size(arrays["size"])

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        self._map.restore(arrays, n_features)
        self._linear.restore(arrays, self._map.n_columns, n_labels)
        self._n_features = n_features


def _as_rows(features: NDArray[Any]) -> Rows:
    """Return dense features as rows, stored zeros included."""
    n_samples, n_columns = features.shape
    indptr = np.arange(0, n_samples * n_columns + 1, n_columns) if n_columns else np.zeros(n_samples + 1, np.int64)
    indices = np.tile(np.arange(n_columns, dtype=np.int32), n_samples)
    return Rows(indptr, indices, features.ravel())
