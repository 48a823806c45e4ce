"""Kernel model as a sum over support vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core._mercer import inner_product
from manylabel_core.online.models._kernel_column import kernel_column
from manylabel_core.online.models.expansion._expansion import score_expansion
from manylabel_core.online.models.expansion.strategy import Example, Strategy, SupportVectors
from manylabel_core.online.models.model import Model
from manylabel_core.online.models.points import KernelSettings, scratch, stored_rows
from manylabel_core.online.updates._update import PASSIVE_AGGRESSIVE, Update, update_one
from manylabel_core.rows import Rows, Targets
from manylabel_core.storage import MAX_WEIGHT, check_range, check_size, check_threshold, enlarged


class Expansion(Model):
    """Kernel model: coefficients for each support vector, and an intercept."""

    def __init__(self, update: Update, settings: KernelSettings, strategy: Strategy) -> None:
        self.set_update(update)
        self._settings, self._strategy = settings, strategy
        self._support = SupportVectors(settings.dtype)
        self._intercept = np.zeros(1, dtype=settings.dtype)
        super().__init__()
        self._constant = settings.constant if strategy.separate_intercept else 0.0
        self._bias = 0.0 if strategy.separate_intercept else settings.constant**2
        self._n_features = 0

    @property
    def n_support(self) -> int:
        """Return the number of support vectors."""
        return self._support.n_points

    def set_update(self, update: Update) -> None:
        """Set the update for the next examples; its kind never changes."""
        self._kind, self._update = update.kind, update.as_array()

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        self._support.grow(1 + n_labels)
        self._intercept = enlarged(self._intercept, (1 + n_labels,))
        self._n_features = max(self._n_features, n_features)

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        rows, work = rows.without_zeros(), scratch(self._n_features)
        weights = targets.weights
        for i in range(len(scores)):
            n_labels, weight = int(targets.n_labels[i]), float(weights[i]) if len(weights) else 1.0
            own = scores[i, : 1 + n_labels]
            x = self._score_one(*rows.row(i), work, own)
            scores[i, 1 + n_labels :] = 0.0
            listed = slice(targets.indptr[i], targets.indptr[i + 1])
            truth = targets.indices[listed], targets.signs[listed], targets.complete[i]
            k, tau = x.own + self._constant**2, np.empty(1 + n_labels)
            # k is 0 if x is 0 in feature space: no update changes its scores
            if k > 0.0 and update_one(self._update, weight, n_labels, k, own, *truth, tau):
                self._add(x, tau)

    def _add(self, x: Example, tau: NDArray[np.float64]) -> None:
        """Add an example with the coefficients that the update found."""
        if self._constant > 0.0:
            self._intercept[: len(tau)] += self._constant * tau
        if x.own > 0.0:
            self._strategy.add(self._support, x, tau)

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        rows, work = rows.without_zeros(), scratch(self._n_features)
        for i in range(len(scores)):
            self._score_one(*rows.row(i), work, scores[i])

    def _score_one(
        self,
        features: NDArray[np.int32],
        values: NDArray[Any],
        work: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> Example:
        """Write the scores of one example."""
        parts, column = self._support.parts, np.empty(self._support.n_points)
        own, norm = kernel_column(self._settings.shape, self._bias, *parts, work, features, values, column)
        score_expansion(self._constant, self._intercept, self._support.alpha, column, len(column), scores)
        return Example(features, values, column, own, norm, work)

    def forget(self, label: int) -> None:
        """Forget a label: its coefficients become 0."""
        self._support.alpha[:, 1 + label] = 0
        self._intercept[1 + label] = 0
        for slot in range(self._support.n_points):
            self._support.update_norm(slot)

    def reset_step_sizes(self, label: int | None) -> None:
        """Do nothing: the steps of this model do not shrink."""

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return coefficients, vectors, and the state of the strategy."""
        return {
            "size": np.array([n_features, n_labels], dtype=np.int64),
            **({"intercept": self._intercept[: 1 + n_labels]} if self._constant > 0.0 else {}),
            "coefficients": self._support.alpha[: self.n_support, : 1 + n_labels],
            **self._support.arrays("vectors"),
            **self._strategy.arrays(self.n_support),
            **super().arrays(n_features, n_labels),
        }

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes, assuming that each example becomes a vector with all features."""
        item = self._intercept.itemsize
        n_vectors, n_values = self.n_support + n_samples, self._support.n_values + n_values
        if self._settings.budget is not None:
            n_vectors = min(n_vectors, self._settings.budget)
        coefficients = item * (n_vectors + (self._constant > 0.0)) * (1 + n_labels)
        vectors = 8 * (1 + n_vectors) + (4 + item) * min(n_values, n_vectors * n_features)
        own = super().nbytes_after(n_features, n_labels, n_samples, n_values) + self._strategy.nbytes(n_vectors)
        return 16 + coefficients + vectors + own

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return check_size(arrays["size"])

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        if self._kind == PASSIVE_AGGRESSIVE:
            check_threshold(arrays, "intercept", "coefficients")
        vectors = stored_rows("vectors", arrays, n_features)
        coefficients = arrays["coefficients"]
        if coefficients.shape != (len(vectors.indptr) - 1, 1 + n_labels):
            raise ValueError("state: coefficients must have one row of 1 + n_labels numbers for each support vector")
        if self._settings.budget is not None and len(coefficients) > self._settings.budget:
            raise ValueError(f"state: at most {self._settings.budget} support vectors are allowed")
        intercept = arrays.get("intercept", np.zeros(1 + n_labels, self._settings.dtype))
        if intercept.shape != (1 + n_labels,):
            raise ValueError("state: intercept must have 1 + n_labels numbers")
        for name, array in (("intercept", intercept), ("coefficients", coefficients)):
            check_range(name, array, -MAX_WEIGHT, MAX_WEIGHT)
        super().restore(arrays, n_features, n_labels)
        self._intercept, self._n_features = intercept, n_features
        self._support.grow(1 + n_labels)
        for i, tau in enumerate(coefficients):
            features, values = vectors.row(i)
            self._support.add(features, values, inner_product(values, values), tau)
        self._strategy.restore(arrays, self._support)
