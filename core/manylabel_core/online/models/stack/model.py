"""The stack: a model of several experts, each a model of its own, whose margins become one probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.model import Model
from manylabel_core.online.models.stack._stack import MAX_COEFFICIENT, learn_stack, score_stack, start_of
from manylabel_core.online.updates._update import Update
from manylabel_core.rows import Rows, Targets
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import MAX_COUNT, check_range, enlarged

MAX_CURVATURE = 1e15
"""More than the curvatures of any number of examples come to, with a million labels, whatever they weigh."""

MIN_CURVATURE = -0.5
"""In no direction is a curvature below, with rounding; together with a ridge it is above 0."""


class KernelModel(Model, Protocol):
    """A kernel model holds examples."""

    @property
    def n_support(self) -> int:
        """Return the number of examples held."""

    def set_update(self, update: Update) -> None:
        """Learn the next examples by this update."""


class Stack(Model):
    """A stack gives every label log-odds, by the margins of its experts and the base rate; the threshold is 0.

    Experts learn each for itself, as if the others were not there. `_stack` has the equations.

    Parameters
    ----------
    kernel : KernelModel
        The expert whose arrays keep their names in the state.
    linear : Mapping of str to LinearModel
        The other experts; the names are prefixes of their arrays.
    update : Update
        How an example is learnt. The expert "steady" has its `steady` as a multiple of the step size, and no metric.
    """

    def __init__(self, kernel: KernelModel, linear: Mapping[str, LinearModel], update: Update) -> None:
        self._kernel, self._linear = kernel, dict(linear)
        self._experts: list[Model] = [*self._linear.values(), kernel]
        self._existing = np.zeros(1, dtype=np.int64)
        n = self._n_coefficients = len(self._experts) + 2
        n_rows = n + n * (n + 1) // 2
        self._shared = np.zeros((n_rows, 1))
        self._shared[:n, 0] = [start_of(k, n) for k in range(n)]
        self._labels = np.zeros((n_rows + 2, 0))
        self.set_update(update)

    @property
    def n_support(self) -> int:
        """Return the number of examples that the kernel model holds."""
        return self._kernel.n_support

    def set_update(self, update: Update) -> None:
        """Learn the next examples by this update; its kind, and whether it has a `delta`, never change."""
        self._kernel.set_update(update)
        for name, expert in self._linear.items():
            expert.set_update(steady(update) if name == "steady" else update)

    def enlarge(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        for expert in self._experts:
            expert.enlarge(n_features, n_labels, touch)
        self._labels = enlarged(self._labels, (len(self._labels), n_labels))

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        size = self._rows_at_once(scores)
        for first in range(0, len(scores), size):
            last = min(first + size, len(scores))
            own, truth = rows.part(first, last), targets.part(first, last)
            margins = np.empty((len(self._experts), last - first, scores.shape[1]))
            for expert, margin in zip(self._experts, margins, strict=True):
                expert.learn(own, truth, margin)
            learn_stack(self._shared, self._labels, self._existing, margins, *truth, scores[first:last])

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        size = self._rows_at_once(scores)
        for first in range(0, len(scores), size):
            last = min(first + size, len(scores))
            own = rows.part(first, last)
            margins = np.empty((len(self._experts), last - first, scores.shape[1]))
            for expert, margin in zip(self._experts, margins, strict=True):
                expert.score(own, margin)
            score_stack(self._shared, self._labels, margins, scores[first:last])

    def _rows_at_once(self, scores: NDArray[np.float64]) -> int:
        """Return how many rows the margins of the experts are held for at a time."""
        return max(1, MAX_SCALED_VALUES // int(scores.shape[1]))

    def forget(self, label: int) -> None:
        for expert in self._experts:
            expert.forget(label)
        self._labels[:, label] = 0.0

    def reset_step_sizes(self, label: int | None) -> None:
        for expert in self._experts:
            expert.reset_step_sizes(label)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the experts, and the tables of what is shared and of the labels."""
        arrays = {f"{name}.{key}": array for name, key, array in self._linear_arrays(n_features, n_labels)}
        own = {"existing": self._existing, "shared": self._shared[:, 0], "labels": self._labels[:, :n_labels]}
        stack = {f"stack.{name}": array for name, array in own.items()}
        return {**self._kernel.arrays(n_features, n_labels), **arrays, **stack}

    def _linear_arrays(self, n_features: int, n_labels: int) -> list[tuple[str, str, NDArray[Any]]]:
        return [
            (name, key, array)
            for name, expert in self._linear.items()
            for key, array in expert.arrays(n_features, n_labels).items()
        ]

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Return the most bytes of the experts and the tables."""
        own = self._existing.nbytes + self._shared.nbytes + 8 * len(self._labels) * n_labels
        return own + sum(each.nbytes_after(n_features, n_labels, n_samples, n_values) for each in self._experts)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        size = self._kernel.restore(arrays)
        for name, expert in self._linear.items():
            prefix = f"{name}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            if expert.restore(own) != size:
                raise ValueError(f"state must hold {name}.weights for the features and labels of its size")
        existing, shared, labels = (arrays[f"stack.{name}"] for name in ("existing", "shared", "labels"))
        if existing.shape != (1,) or shared.shape != (len(self._shared),):
            raise ValueError(f"state must hold one stack.existing and {len(self._shared)} numbers of stack.shared")
        if labels.shape != (len(self._labels), size[1]):
            raise ValueError(f"state must hold {len(self._labels)} rows of n_labels stack.labels")
        check_range("stack.existing", existing, 0, size[1])
        self._check_table("stack.shared", shared[:, np.newaxis])
        self._check_table("stack.labels", labels[:-2])
        check_range("stack.labels (known)", labels[-1], 0, MAX_COUNT)
        check_range("stack.labels (true)", labels[-2], 0, MAX_COUNT)
        check_range("stack.labels (known but not true)", labels[-1] - labels[-2], 0, MAX_COUNT)
        self._existing, self._shared, self._labels = existing, shared[:, np.newaxis], labels
        return size

    def _check_table(self, name: str, table: NDArray[np.float64]) -> None:
        """Raise ValueError if these are no coefficients, or if a curvature is negative in any direction."""
        n = self._n_coefficients
        check_range(f"{name} (coefficients)", table[:n], -MAX_COEFFICIENT, MAX_COEFFICIENT)
        check_range(f"{name} (curvatures)", table[n:], -MAX_CURVATURE, MAX_CURVATURE)
        matrices = np.zeros((table.shape[1], n, n))
        matrices[:, *np.tril_indices(n)] = table[n:].T
        if (np.linalg.eigvalsh(matrices)[:, 0] < MIN_CURVATURE).any():
            raise ValueError(f"state must hold {name} of which no curvature is negative")


def steady(update: Update) -> Update:
    """Return the update of an expert of steady steps, beside one that learns by this update."""
    return Update(update.kind, update.eta * update.steady)
