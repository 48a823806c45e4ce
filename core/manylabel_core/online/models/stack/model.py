"""Stack: a model that combines the margins of several experts into one probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.model import Model
from manylabel_core.online.models.second_order._second_order import MAX_FEATURES, MAX_LABELS
from manylabel_core.online.models.second_order.model import SecondOrder
from manylabel_core.online.models.stack._stack import (
    FREE,
    MAX_COEFFICIENT,
    START_INTERCEPT,
    START_MARGINS,
    START_TITLES,
    learn_stack,
    score_stack,
)
from manylabel_core.online.models.stack.titles import NO_WORDS, NewWords, Titles
from manylabel_core.online.models.stack.vectors import VectorExperts
from manylabel_core.online.updates._update import Update
from manylabel_core.part import Array, Sizes, without_prefix
from manylabel_core.rows import Rows, Targets, VectorRows, row_blocks
from manylabel_core.scaling.scaling import MAX_SCALED_VALUES
from manylabel_core.storage import check_range

_NO_EVIDENCE = np.zeros((0, 0))

MAX_CURVATURE = 1e15
"""Upper bound of curvatures; no stream reaches it, even with a million labels and the largest weights."""

MIN_CURVATURE = -0.5
"""Lower bound of the curvature in any direction, rounding included; with a ridge it is above 0."""

_CHECKED_BYTES = 1 << 20
"""Maximum bytes of the matrices of curvatures checked at once."""


class Stack(Model):
    """Logistic combination of the margins of the experts and the recent share of each label; the threshold is 0.

    Each expert learns independently. `_stack` has the equations. The initial coefficient of a second-order expert is 0.
    When the expert stops at an example, it is dropped with its rows of the tables. The arrays of `first` keep their
    names in a state; the names of `others` are prefixes of their arrays.
    """

    prefix = "stack."
    _existing: NDArray[np.int64]
    _labels: NDArray[np.float64]

    def __init__(self, first: Model, others: Mapping[str, Model]) -> None:
        self.first, self._others = first, dict(others)
        self._experts = [first, *self._others.values()]
        self._second = next((each for each in self._experts if isinstance(each, SecondOrder)), None)
        self._has_stopped = False
        self._titles = Titles()
        self.takes_ranks = self._second is not None
        self.takes_vectors = isinstance(first, LinearModel) and first.takes_blocks
        self._vectors: VectorExperts | None = None
        self.is_linear = all(expert.is_linear for expert in self._experts)
        n = self._n_coefficients
        self._shared = np.zeros((self._n_rows, 1))
        lasting = [not isinstance(expert, SecondOrder) for expert in self._experts]
        margins = [START_MARGINS / sum(lasting) if lasts else 0.0 for lasts in lasting]
        self._start = np.array([START_INTERCEPT, 0.0, *margins, START_TITLES])
        self._shared[:n, 0] = self._start[:n]
        existing = Array((1,), ((0, "labels"),), dtype="int64")
        super().__init__({"existing": existing, "labels": Array(("numbers", "labels"), ())})

    @property
    def _n_coefficients(self) -> int:
        return FREE + len(self._experts)

    @property
    def _n_rows(self) -> int:
        """Number of coefficients and of their curvatures."""
        return self._n_coefficients + _n_curvatures(self._n_coefficients)

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels), "numbers": self._n_rows + 1}

    def set_update(self, update: Update) -> None:
        for expert in self._experts:
            expert.set_update(update)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        for expert in self._experts:
            expert.reserve(n_features, n_labels, touch)
        if self._vectors is not None:
            self._vectors.enlarge(n_labels)

    def set_vectors(self, lengths: Sequence[int]) -> None:
        """Accept vector fields with the given lengths. Existing fields come first, with their lengths."""
        if not isinstance(self.first, LinearModel) or not self.takes_vectors:
            return
        if self._vectors is None:
            self._vectors = VectorExperts(self.first, self.first.dtype)
        self._vectors.set_lengths(lengths, self._labels.shape[1])

    def set_ranked(self, n_ranked: int) -> None:
        """Accept at least this number of ranks in addition to the features."""
        if self._second is not None:
            self._second.set_ranked(n_ranked)

    def learn(
        self,
        rows: Rows,
        targets: Targets,
        scores: NDArray[np.float64],
        vectors: VectorRows | None = None,
        ranks: Rows | None = None,
    ) -> None:
        size = self._rows_at_once(scores)
        if len(scores) <= size:  # the common case: a single part
            self._learn_part(rows, targets, scores, vectors, ranks)
            return
        for first in range(0, len(scores), size):
            last = min(first + size, len(scores))
            own = None if vectors is None else vectors.part(first, last)
            its = None if ranks is None else ranks.part(first, last)
            self._learn_part(rows.part(first, last), targets.part(first, last), scores[first:last], own, its)

    def _learn_part(
        self,
        rows: Rows,
        targets: Targets,
        scores: NDArray[np.float64],
        vectors: VectorRows | None,
        ranks: Rows | None,
    ) -> None:
        margins = np.empty((len(self._experts), *scores.shape))
        evidence = self._evidence(rows, NO_WORDS, scores.shape[1], learning=True)
        n_rows = n_learnt = len(scores)
        for q, expert in enumerate(self._experts):
            if expert is self._second:
                n_learnt = self._second.learn_until_stop(rows, targets, margins[q], ranks)
            elif q > 0 or self._vectors is None or vectors is None:
                expert.learn(rows, targets, margins[q])
        if self._vectors is not None and vectors is not None:
            self._vectors.learn(rows, vectors, targets, margins)
        if n_learnt == n_rows:  # the common case
            self._combine(margins, evidence, targets, scores)
            return
        last = n_learnt + 1  # the second-order expert has also scored the row at which it stops
        self._combine(np.ascontiguousarray(margins[:, :last]), evidence[:last], targets.part(0, last), scores[:last])
        left = np.delete(margins[:, last:], self._drop_second(), axis=0)
        self._combine(left, evidence[last:], targets.part(last, n_rows), scores[last:])

    def _combine(
        self, margins: NDArray[np.float64], evidence: NDArray[np.float64], targets: Targets, scores: NDArray[np.float64]
    ) -> None:
        """Learn the coefficients from the margins of rows; write the log-odds of each row before."""
        learn_stack(self._start, self._shared, self._labels, self._existing, margins, evidence, targets, scores)

    def _drop_second(self) -> int:
        """Drop the second-order expert, and its rows of the tables; return its index among the experts."""
        assert self._second is not None
        q, n = self._experts.index(self._second), self._n_coefficients
        self._labels = self._labels[[*_rows_without(FREE + q, n), -1]]
        self._shared = self._shared[_rows_without(FREE + q, n + int(self._has_titles))]
        self._start = np.delete(self._start, FREE + q)
        self._others = {name: each for name, each in self._others.items() if each is not self._second}
        del self._experts[q]
        self._second, self._has_stopped, self.takes_ranks = None, True, False
        return q

    def expect(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Drop the second-order expert if a state has none; `restore` checks whether the state may lack it."""
        if self._second is not None and "second.covariance" not in arrays:
            self._drop_second()

    def score(
        self,
        rows: Rows,
        scores: NDArray[np.float64],
        vectors: VectorRows | None = None,
        ranks: Rows | None = None,
        new: NewWords = NO_WORDS,
    ) -> None:
        size = self._rows_at_once(scores)
        for first in range(0, len(scores), size):
            last = min(first + size, len(scores))
            if last - first == len(scores):  # the common case: a single part
                self._score_part(rows, scores, vectors, ranks, new)
            else:
                own = None if vectors is None else vectors.part(first, last)
                its = None if ranks is None else ranks.part(first, last)
                self._score_part(rows.part(first, last), scores[first:last], own, its, new)

    def _score_part(
        self,
        rows: Rows,
        scores: NDArray[np.float64],
        vectors: VectorRows | None,
        ranks: Rows | None,
        new: NewWords,
    ) -> None:
        margins = np.empty((len(self._experts), *scores.shape))
        for q, expert in enumerate(self._experts):
            if expert is self._second:
                self._second.score(rows, margins[q], ranks)
            elif q > 0 or self._vectors is None or vectors is None:
                expert.score(rows, margins[q])
        if self._vectors is not None and vectors is not None:
            self._vectors.score(rows, vectors, margins)
        evidence = self._evidence(rows, new, scores.shape[1])
        score_stack(self._shared, self._labels, margins, evidence, scores)

    @property
    def _has_titles(self) -> bool:
        """True if a label has had a title, so that titles have a coefficient."""
        return len(self._shared) > self._n_rows

    @property
    def _seen(self) -> NDArray[np.float64]:
        """Number of examples, and of those with each feature."""
        centroid = self._others["centroid"]
        assert isinstance(centroid, Centroid)
        return centroid.seen

    def _evidence(self, rows: Rows, new: NewWords, n_scores: int, learning: bool = False) -> NDArray[np.float64]:
        """Return the title inputs of rows, threshold first; shape (0, 0) without titles."""
        if not self._has_titles:
            return _NO_EVIDENCE
        evidence = np.empty((len(rows.indptr) - 1, n_scores))
        self._titles.write(self._seen, rows, new, learning, evidence)
        return evidence

    def set_titles(self, titles: Mapping[int, ArrayLike]) -> None:
        """Set the words of the titles of labels."""
        self._titles.set_titles(titles, self._seen)
        if len(self._titles) and not self._has_titles:
            n = self._n_coefficients
            parts = self._shared[:n, 0], [START_TITLES], self._shared[n:, 0], np.zeros(n + 1)
            self._shared = np.concatenate(parts)[:, np.newaxis]

    def has_title(self, label: int) -> bool:
        """Return whether the title of a label has words."""
        return label in self._titles

    def link(self, features: NDArray[np.int32], words: NDArray[np.int64]) -> None:
        """Map features to words of titles."""
        self._titles.link(features, words, self._seen)

    def title_parts(self, row: Rows, n_labels: int, new: NewWords) -> NDArray[np.float64]:
        """Return the contribution of titles to the log-odds of each label, for one row."""
        if not self._has_titles:
            return np.zeros(n_labels)
        parts: NDArray[np.float64] = (
            self._shared[self._n_coefficients, 0] * self._evidence(row, new, 1 + n_labels)[0, 1:]
        )
        return parts

    @property
    def counts_titles(self) -> bool:
        """True if titles have an influence on scores."""
        return self._has_titles and len(self._titles) > 0 and bool(self._shared[self._n_coefficients, 0])

    def _rows_at_once(self, scores: NDArray[np.float64]) -> int:
        """Return the number of rows per block of expert margins."""
        return max(1, MAX_SCALED_VALUES // int(scores.shape[1]))

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        """Return the weights of a label's log-odds."""
        return self._combined([expert.scorer(features, label) for expert in self._experts], label)

    def scorer_with(self, features: NDArray[np.int32], vectors: VectorRows, has_words: bool, label: int) -> Scorer:
        """Return the weights of a label's log-odds for one example, followed by the part of each vector.

        `has_words` is whether the example has other features, known or not.
        """
        assert self._vectors is not None
        own = [expert.scorer(features, label) for expert in self._experts]
        return self._combined(self._vectors.extend(own, vectors, has_words, label), label)

    def _combined(self, own: Sequence[Scorer], label: int) -> Scorer:
        """Return the log-odds of a label as a combination of the experts."""
        intercept, of_recent, *slopes = (
            self._shared[: self._n_coefficients, 0] + self._labels[: self._n_coefficients, label]
        )
        weights = sum(
            (slope * each.weights for slope, each in zip(slopes, own, strict=True)), np.zeros(len(own[0].weights))
        )
        constants = sum(slope * each.constant for slope, each in zip(slopes, own, strict=True))
        recent = 2.0 * np.sqrt(self._labels[-1, label])
        return Scorer(weights, float(intercept + constants + of_recent * recent))

    def weights_of_ranks(self, label: int) -> NDArray[np.float64]:
        """Return the weights of the ranks in a label's log-odds."""
        if self._second is None:
            return np.zeros(0)
        k = FREE + self._experts.index(self._second)
        slope = self._shared[k, 0] + self._labels[k, label]
        weights: NDArray[np.float64] = slope * self._second.weights_of_ranks(label)
        return weights

    def forget(self, label: int) -> None:
        for expert in self._experts:
            expert.forget(label)
        if self._vectors is not None:
            self._vectors.forget(label)
        self._labels[:, label] = 0.0

    def reset_step_sizes(self, label: int | None) -> None:
        for expert in self._experts:
            expert.reset_step_sizes(label)
        if self._vectors is not None and label is None:
            self._vectors.reset_step_sizes()

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the experts, the shared coefficients, and the tables of labels."""
        arrays = self.first.arrays(n_features, n_labels)
        for name, expert in self._others.items():
            arrays |= {f"{name}.{key}": array for key, array in expert.arrays(n_features, n_labels).items()}
        titles = self._titles.arrays(n_features, n_labels)
        arrays |= {f"stack.titles.{name}": array for name, array in titles.items()}
        if self._vectors is not None:
            arrays |= self._vectors.arrays(n_labels)
        return {**arrays, "stack.shared": self._shared[:, 0], **super().arrays(n_features, n_labels)}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the experts and the tables."""
        own = super().nbytes_after(n_features, n_labels, n_samples, n_values) + self._shared.nbytes
        own += self._titles.nbytes_after(n_features, n_labels)
        own += 0 if self._vectors is None else self._vectors.nbytes(n_labels)
        return own + sum(
            each.nbytes_after(n_features, n_labels, n_samples, n_values, n_distinct) for each in self._experts
        )

    def nbytes_of_first_vectors(self, n_features: int, n_labels: int) -> int:
        """Return the bytes of the dense table of words that vectors need; 0 if it exists."""
        return self.first.nbytes_of_first_vectors(n_features, n_labels) if self.takes_vectors else 0

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        return self.first.size(arrays)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        if self._has_stopped and n_features <= MAX_FEATURES and n_labels <= MAX_LABELS:
            raise ValueError("state: second.covariance must have a row for the constant and one for each feature")
        self.first.restore(arrays, n_features, n_labels)
        for name, expert in self._others.items():
            expert.restore(without_prefix(arrays, f"{name}."), n_features, n_labels)
        shared, n_titled = arrays["stack.shared"][:, np.newaxis], self._n_rows + self._n_coefficients + 2
        if len(shared) not in (self._n_rows, n_titled):
            raise ValueError(f"state: stack.shared must have {self._n_rows} numbers, or {n_titled} with titles")
        self._check_table("stack.shared", shared)
        super().restore(arrays, n_features, n_labels)
        self._shared = shared
        self._titles.restore(without_prefix(arrays, "stack.titles."), (n_features, n_labels), self._seen)
        if len(self._titles) and not self._has_titles:
            raise ValueError(f"state: stack.shared must have {n_titled} numbers, because labels have titles")
        if self._vectors is not None:
            self._vectors.restore(arrays, n_labels)

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_table("stack.labels", arrays["labels"][:-1])
        check_range("stack.labels (recent share)", arrays["labels"][-1], 0.0, 1.0)

    def _check_table(self, name: str, table: NDArray[np.float64]) -> None:
        """Raise ValueError if coefficients are out of bounds, or if a curvature is negative in any direction."""
        n = self._n_coefficients + int(len(table) == self._n_rows + self._n_coefficients + 2)
        check_range(f"{name} (coefficients)", table[:n], -MAX_COEFFICIENT, MAX_COEFFICIENT)
        check_range(f"{name} (curvatures)", table[n:], -MAX_CURVATURE, MAX_CURVATURE)
        for labels in row_blocks(table.shape[1], 8 * n * n, _CHECKED_BYTES):
            matrices = np.zeros((labels.stop - labels.start, n, n))
            matrices[:, *np.tril_indices(n)] = table[n:, labels].T
            if (np.linalg.eigvalsh(matrices)[:, 0] < MIN_CURVATURE).any():
                raise ValueError(f"state: {name} must have no negative curvatures")


def _n_curvatures(n_coefficients: int) -> int:
    """Return the number of elements of a lower triangle."""
    return n_coefficients * (n_coefficients + 1) // 2


def _rows_without(k: int, n_coefficients: int) -> list[int]:
    """Return the rows of a table of coefficients and their curvatures that do not concern coefficient k."""
    at, kept = np.tril_indices(n_coefficients), [i for i in range(n_coefficients) if i != k]
    return [*kept, *(n_coefficients + np.flatnonzero((at[0] != k) & (at[1] != k))).tolist()]
