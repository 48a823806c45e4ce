"""A kernel model as a sum over support vectors."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core._mercer import inner_product
from manylabel_core.online.models.expansion._expansion import kernel_column, score_expansion
from manylabel_core.online.models.expansion.support import SupportVectors, check_rows
from manylabel_core.online.models.model import KernelSettings, Step
from manylabel_core.online.scaling.scaling import MAX_COUNT
from manylabel_core.online.storage import MAX_WEIGHT, check_range, enlarged
from manylabel_core.online.updates._update import run_alone
from manylabel_core.rows import MAX_COLUMNS, Rows, Targets


class Newcomer(NamedTuple):
    """An example that was learnt: its values, kernel with the vectors and with itself, squared norm, and scratch."""

    features: NDArray[np.int32]
    values: NDArray[Any]
    column: NDArray[np.float64]
    own: float
    norm: float
    work: NDArray[np.float64]


class Strategy(Protocol):
    """Which vectors stay."""

    @property
    def apart(self) -> bool:
        """Whether the constant that is added to the kernel has coefficients of its own, which no strategy touches."""

    def add(self, support: SupportVectors, x: Newcomer, tau: NDArray[np.float64]) -> None:
        """Take an example with its coefficients (planes, columns) in, and make the vectors as few as is allowed."""

    def arrays(self, n_vectors: int) -> dict[str, NDArray[Any]]:
        """What the strategy keeps beside the vectors."""

    def nbytes(self, n_vectors: int) -> int:
        """Bytes of that for so many vectors."""

    def restore(self, arrays: dict[str, NDArray[Any]], support: SupportVectors) -> None:
        """Take over the arrays for these vectors; raises ValueError if they do not fit."""


class KeepAll:
    """Every vector stays."""

    apart = False

    def add(self, support: SupportVectors, x: Newcomer, tau: NDArray[np.float64]) -> None:
        """Add it."""
        support.add(x.features, x.values, x.norm, tau)

    def arrays(self, n_vectors: int) -> dict[str, NDArray[Any]]:
        """Nothing."""
        return {}

    def nbytes(self, n_vectors: int) -> int:
        """None."""
        return 0

    def restore(self, arrays: dict[str, NDArray[Any]], support: SupportVectors) -> None:
        """Nothing to do."""


class DropSmallest(KeepAll):
    """Of more vectors than the budget, the one with the smallest norm of coefficients leaves, but not the newest."""

    def __init__(self, settings: KernelSettings, budget: int) -> None:
        self._budget = budget

    def add(self, support: SupportVectors, x: Newcomer, tau: NDArray[np.float64]) -> None:
        """Add it; it takes the slot of the one that leaves."""
        super().add(support, x, tau)
        if support.n_points > self._budget:
            support.remove(int(np.argmin(support.weights[: self._budget])))


class Expansion:
    """Coefficients of examples, and an intercept.

    Where the mean of the coefficients is asked for, there is a second plane of all of them (see `_expansion`).
    """

    def __init__(self, settings: KernelSettings, strategy: Strategy) -> None:
        self._settings, self._strategy = settings, strategy
        n_planes = 2 if settings.average else 1
        self._support = SupportVectors(settings.dtype, n_planes)
        self._intercept = np.zeros((n_planes, 1), dtype=settings.dtype)
        self._ages = np.zeros(n_planes - 1, dtype=np.int64)
        self._constant = settings.constant if strategy.apart else 0.0
        self._bias = 0.0 if strategy.apart else settings.constant**2

    @property
    def n_support(self) -> int:
        """Number of support vectors."""
        return self._support.n_points

    def enlarge(self, n_features: int, n_labels: int) -> None:
        """Make room for so many labels."""
        self._support.grow(1 + n_labels)
        self._intercept = enlarged(self._intercept, (len(self._intercept), 1 + n_labels))
        if self._settings.average:
            self._ages = enlarged(self._ages, (1 + n_labels,))

    def learn(self, rows: Rows, targets: Targets, step: Step, n_features: int, scores: NDArray[np.float64]) -> None:
        """Learn rows in order; write the scores of each before it was learnt."""
        rows, work = rows.without_zeros(), np.zeros((2, n_features))
        for i in range(len(scores)):
            n_labels = int(targets.n_labels[i])
            planes = np.empty((len(self._intercept), 1 + n_labels))
            x = self._score_one(*rows.row(i), work, planes)
            scores[i, 1 + n_labels :] = 0.0
            scores[i, : 1 + n_labels] = self._predicting(planes)
            listed = slice(targets.indptr[i], targets.indptr[i + 1])
            truth = targets.indices[listed], targets.signs[listed], targets.complete[i]
            k, tau = x.own + self._constant**2, np.empty(1 + n_labels)
            # k is 0 where x is 0 in feature space: nothing can be learnt along it
            if k > 0.0 and run_alone(planes[0], *truth, step, n_labels, k, tau):
                self._add(x, tau)
            self._ages[: 1 + n_labels] += 1

    def _add(self, x: Newcomer, tau: NDArray[np.float64]) -> None:
        changes = np.stack([tau, self._ages[: len(tau)] * tau]) if self._settings.average else tau[np.newaxis]
        if self._constant > 0.0:
            self._intercept[:, : len(tau)] += self._constant * changes
        if x.own > 0.0:
            self._strategy.add(self._support, x, changes)

    def score(self, rows: Rows, n_features: int, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows."""
        rows, work = rows.without_zeros(), np.zeros((2, n_features))
        planes = np.empty((len(self._intercept), scores.shape[1]))
        for i in range(len(scores)):
            self._score_one(*rows.row(i), work, planes)
            scores[i] = self._predicting(planes)

    def _score_one(
        self,
        features: NDArray[np.int32],
        values: NDArray[Any],
        work: NDArray[np.float64],
        planes: NDArray[np.float64],
    ) -> Newcomer:
        """Write the scores of one example by every plane."""
        parts, column = self._support.parts, np.empty(self._support.n_points)
        own, norm = kernel_column(self._settings.shape, self._bias, *parts, work, features, values, column)
        score_expansion(self._constant, self._intercept, self._support.alpha, column, len(column), planes)
        return Newcomer(features, values, column, own, norm, work)

    def _predicting(self, planes: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores that predict: of the coefficients, or of their mean."""
        scores: NDArray[np.float64] = planes[0]
        if self._settings.average:
            scores = scores - planes[1] / np.maximum(self._ages[: planes.shape[1]], 1)
        return scores

    def quicken(self, label: int | None) -> None:
        """Nothing to do: these steps do not shrink."""

    def restart(self, label: int) -> None:
        """Forget a label: its coefficients become 0."""
        self._support.alpha[:, :, 1 + label] = 0
        self._intercept[:, 1 + label] = 0
        self._ages[1 + label : 2 + label] = 0
        for slot in range(self._support.n_points):
            self._support.weigh(slot)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """The live part of the arrays of the state."""
        indptr, indices, values = self._support.packed()
        live = self._support.alpha[: self.n_support, :, : 1 + n_labels]
        averaging = {"drag": live[:, 1], "ages": self._ages[: 1 + n_labels]} if self._settings.average else {}
        return {
            "size": np.array([n_features, n_labels], dtype=np.int64),
            **({"intercept": self._intercept[:, : 1 + n_labels]} if self._constant > 0.0 else {}),
            "coefficients": live[:, 0],
            **averaging,
            "vectors.indptr": indptr,
            "vectors.indices": indices,
            "vectors.values": values,
            **self._strategy.arrays(self.n_support),
        }

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Most bytes: each example may become a vector, and no vector has more values than there are features."""
        n_planes, item = len(self._intercept), self._intercept.itemsize
        n_vectors, n_values = self.n_support + n_samples, self._support.n_values + n_values
        if self._settings.budget is not None:
            n_vectors = min(n_vectors, self._settings.budget)
        coefficients = item * n_planes * (n_vectors + (self._constant > 0.0)) * (1 + n_labels)
        vectors = 8 * (1 + n_vectors) + (4 + item) * min(n_values, n_vectors * n_features)
        ages = 8 * (1 + n_labels) if self._settings.average else 0
        return 16 + coefficients + ages + vectors + self._strategy.nbytes(n_vectors)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Take over arrays; give the numbers of features and labels."""
        vectors = Rows(*(arrays[f"vectors.{part}"] for part in Rows._fields))
        n_features, n_labels = checked_size(arrays["size"])
        planes = [arrays["coefficients"], *([arrays["drag"]] if self._settings.average else [])]
        if {plane.shape for plane in planes} != {(len(vectors.indptr) - 1, 1 + n_labels)}:
            raise ValueError("state must hold one row of 1 + n_labels coefficients for each support vector")
        if self._settings.budget is not None and len(planes[0]) > self._settings.budget:
            raise ValueError(f"state must hold at most {self._settings.budget} support vectors")
        intercept = arrays.get("intercept", np.zeros((len(planes), 1 + n_labels), self._settings.dtype))
        if intercept.shape != (len(planes), 1 + n_labels):
            raise ValueError("state must hold an intercept of 1 + n_labels for each plane of coefficients")
        for name, array in (("intercept", intercept), ("coefficients", planes[0]), ("drag", planes[-1])):
            check_range(name, array, -MAX_WEIGHT, MAX_WEIGHT)
        if self._settings.average:
            if arrays["ages"].shape != (1 + n_labels,):
                raise ValueError("state must hold one of ages for each label and the threshold")
            check_range("ages", arrays["ages"], 0, MAX_COUNT)
            self._ages = arrays["ages"]
        check_rows("vectors", vectors, n_features)
        self._intercept = intercept
        self._support.grow(1 + n_labels)
        for i in range(len(planes[0])):
            features, values = vectors.row(i)
            tau = np.stack([plane[i] for plane in planes])
            self._support.add(features, values, inner_product(values, values), tau)
        self._strategy.restore(arrays, self._support)
        return n_features, n_labels


def checked_size(size: NDArray[np.int64]) -> tuple[int, int]:
    """Numbers of features and labels of a state."""
    if size.shape != (2,):
        raise ValueError("state must hold a size of two numbers")
    check_range("size", size, 0, MAX_COLUMNS)
    return int(size[0]), int(size[1])
