"""A kernel model as a linear learner on features whose inner products are the kernel's, or close to it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.expansion.model import checked_size
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.models.model import Step
from manylabel_core.online.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.rows import Rows, Targets


class FeatureMap(Protocol):
    """What makes the features."""

    @property
    def n_columns(self) -> int:
        """Number of features at present."""

    @property
    def n_points(self) -> int:
        """Examples held."""

    @property
    def grows(self) -> bool:
        """Whether an example may add a feature: then they have to come one by one."""

    def enlarge(self, n_features: int) -> None:
        """Make room for examples of so many values."""

    def learn(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Features (n_samples, n_columns) of rows about to be learnt."""

    def score(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Features of rows, as they are."""

    def columns_after(self, n_samples: int) -> int:
        """Most features after so many more examples."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What it keeps."""

    def nbytes_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Most bytes of memory after so much growth, what is in no state included."""

    def restore(self, arrays: dict[str, NDArray[Any]], n_features: int) -> None:
        """Take over what was kept; raises ValueError if it is no such thing."""


class FeatureModel:
    """A linear learner on the features of a map. Its parameters are those of a round; its features are not scaled."""

    def __init__(self, features: FeatureMap, linear: LinearLearner) -> None:
        self._map, self._linear = features, linear
        linear.grow(features.n_columns, 0)

    @property
    def n_support(self) -> int:
        """Number of examples that the features are made of."""
        return self._map.n_points

    def follow(self, linear: LinearLearner) -> None:
        """Take over the parameters of another learner."""
        self._linear.set_params(**linear.get_params())
        self._linear._settle(again=True)

    def enlarge(self, n_features: int, n_labels: int) -> None:
        """Make room for so many features and labels."""
        self._map.enlarge(n_features)
        self._linear.reserve(self._map.n_columns, n_labels)

    def learn(self, rows: Rows, targets: Targets, step: Step, n_features: int, scores: NDArray[np.float64]) -> None:
        """Learn rows in order; write the scores of each before it was learnt."""
        first, n_samples = 0, len(scores)
        while first < n_samples:
            last = min(first + self._rows_at_once(), n_samples)
            features = self._map.learn(rows.part(first, last), n_features)
            self._linear.grow(self._map.n_columns, scores.shape[1] - 1)
            self._linear._learn(_as_rows(features), targets.part(first, last), scores[first:last])
            first = last

    def score(self, rows: Rows, n_features: int, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows."""
        size = max(1, MAX_SCALED_VALUES // max(self._map.n_columns, 1))
        for first in range(0, len(scores), size):
            part = slice(first, min(first + size, len(scores)))
            self._linear._score(_as_rows(self._map.score(rows.part(part.start, part.stop), n_features)), scores[part])

    def _rows_at_once(self) -> int:
        return 1 if self._map.grows else max(1, MAX_SCALED_VALUES // max(self._map.n_columns, 1))

    def quicken(self, label: int | None) -> None:
        """Let steps be as large as at the start."""
        self._linear._quicken(label)

    def restart(self, label: int) -> None:
        """Forget a label."""
        self._linear._restart(label)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """The arrays of the linear learner and of the map."""
        self._linear.grow(self._map.n_columns, n_labels)
        size = np.array([n_features, n_labels], dtype=np.int64)
        return {"size": size, **self._linear._model(), **self._map.arrays()}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Most bytes, those of the map's memory that is in no state included."""
        n_columns = self._map.columns_after(n_samples)
        weights = self._linear._model_bytes(n_columns, n_labels, n_samples, n_samples * n_columns)
        return 16 + weights + self._map.nbytes_after(n_features, n_samples, n_values)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Take over arrays; give the numbers of features and labels."""
        n_features, n_labels = checked_size(arrays["size"])
        self._map.restore(arrays, n_features)
        if arrays["weights"].shape != (1 + self._map.n_columns, 1 + n_labels):
            raise ValueError("state must hold weights for each feature of the kernel and each label of its size")
        self._linear._n_features, self._linear._n_labels = self._linear._restore(arrays)
        return n_features, n_labels


def _as_rows(features: NDArray[Any]) -> Rows:
    """Dense features, stored zeros included."""
    n_samples, n_columns = features.shape
    indptr = np.arange(0, n_samples * n_columns + 1, n_columns) if n_columns else np.zeros(n_samples + 1, np.int64)
    indices = np.tile(np.arange(n_columns, dtype=np.int32), n_samples)
    return Rows(indptr, indices, features.ravel())
