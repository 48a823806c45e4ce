"""Vectors in the experts of a stack: blocks of weights, and centroids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import Scorer
from manylabel_core.online.models.linear.blocks import VectorBlocks
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.part import without_prefix
from manylabel_core.rows import Rows, Targets, VectorRows


class VectorExperts:
    """Blocks of weights for vectors in the adaptive expert, and centroids of labels for each field of vectors.

    The margin of the centroids is the mean margin of the blocks, weighted by the gains of the adaptive expert.
    """

    def __init__(self, words: LinearModel, dtype: str) -> None:
        self.adaptive = VectorBlocks(words, dtype)
        self._centroids: list[Centroid] = []
        self._lengths: list[int] = []
        self._dtype = dtype

    def set_lengths(self, lengths: Sequence[int], n_labels: int) -> None:
        """Add blocks for vector fields with the given lengths. Existing fields come first, with their lengths."""
        self.adaptive.set_lengths(lengths, n_labels)
        for length in lengths[len(self._centroids) :]:
            centroid = Centroid(self._dtype)
            centroid.reserve(length, n_labels)
            self._centroids.append(centroid)
        self._lengths = list(lengths)

    def enlarge(self, n_labels: int) -> None:
        """Allocate memory for `n_labels` labels."""
        self.adaptive.reserve(0, n_labels)
        for centroid in self._centroids:
            centroid.reserve(0, n_labels)

    def learn(self, rows: Rows, vectors: VectorRows, targets: Targets, margins: NDArray[np.float64]) -> None:
        """Learn rows in order. Write the margins of both experts: the first two of `margins`, (n_experts, n_samples, 1
        + n_labels). At first, the second one contains the margins of the centroids of words.
        """
        gains = self.adaptive.learn(rows, vectors, targets, margins[0])
        others = [np.empty_like(margins[1]) for _ in self._centroids]
        for field, centroid in enumerate(self._centroids):
            centroid.learn(_rows_of(vectors, field), targets, others[field])
        _average(margins[1], others, gains)

    def score(self, rows: Rows, vectors: VectorRows, margins: NDArray[np.float64]) -> None:
        """Write the margins of rows, as `learn` does."""
        gains = self.adaptive.score(rows, vectors, margins[0])
        others = [np.empty_like(margins[1]) for _ in self._centroids]
        for field, centroid in enumerate(self._centroids):
            centroid.score(_rows_of(vectors, field), others[field])
        _average(margins[1], others, gains)

    def extend(self, own: Sequence[Scorer], vectors: VectorRows, has_words: bool, label: int) -> list[Scorer]:
        """Return the linear functions of all experts, from the weights of words for one example and the parts of its
        vectors, which only the first two experts have.
        """
        share = self.adaptive.share(has_words, vectors.present[0])
        weights = self.adaptive.weights(label) * vectors.values[0]
        parts = np.zeros((2, len(self._centroids)))
        for field, centroid in enumerate(self._centroids):
            if vectors.present[0, field]:
                its = slice(vectors.starts[field], vectors.starts[field + 1])
                features = np.arange(its.stop - its.start, dtype=np.int32)
                parts[0, field] = weights[its].sum()
                parts[1, field] = (centroid.scorer(features, label).weights * vectors.values[0, its]).sum()
        words_alone = [
            Scorer(np.concatenate([each.weights, np.zeros(parts.shape[1])]), each.constant)
            for each in own[len(parts) :]
        ]
        return [
            Scorer(np.concatenate([share[0] * each.weights, share[1:] * part]), each.constant)
            for each, part in zip(own[: len(parts)], parts, strict=True)
        ] + words_alone

    def arrays(self, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the state; views."""
        arrays = self.adaptive.arrays(0, n_labels)
        for field, centroid in enumerate(self._centroids):
            own = centroid.arrays(self._lengths[field], n_labels)
            arrays |= {f"blocks.centroid.{field}.{name}": array for name, array in own.items()}
        return arrays

    def nbytes(self, n_labels: int) -> int:
        """Return the maximum bytes of the state with `n_labels` labels."""
        sizes = zip(self._lengths, self._centroids, strict=True)
        return self.adaptive.nbytes_after(0, n_labels, 0, 0) + sum(
            each.nbytes_after(n, n_labels, 0, n, n) for n, each in sizes
        )

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Restore a state; raises ValueError if invalid."""
        self.adaptive.restore(arrays, 0, n_labels)
        for field, length in enumerate(self._lengths):
            self._centroids[field] = Centroid(self._dtype)
            self._centroids[field].restore(without_prefix(arrays, f"blocks.centroid.{field}."), length, n_labels)

    def forget(self, label: int) -> None:
        """Forget a label."""
        self.adaptive.forget(label)
        for centroid in self._centroids:
            centroid.forget(label)

    def reset_step_sizes(self) -> None:
        """Reset the step sizes."""
        self.adaptive.reset_step_sizes()


def _average(words: NDArray[np.float64], others: Sequence[NDArray[np.float64]], gains: NDArray[np.float64]) -> None:
    """Replace the margins of the words by the sum over all blocks, weighted by gains (n_samples, n_blocks)."""
    words *= gains[:, :1]
    for field, margins in enumerate(others):
        margins *= gains[:, 1 + field : 2 + field]
        words += margins


def _rows_of(vectors: VectorRows, field: int) -> Rows:
    """Return the vectors of a field as rows; empty where they are missing."""
    first, last = vectors.starts[field], vectors.starts[field + 1]
    present = vectors.present[:, field]
    n = int(np.count_nonzero(present))
    indptr = np.zeros(1 + len(present), np.int64)
    np.cumsum(present, out=indptr[1:])
    columns = np.arange(last - first, dtype=np.int32)
    indices = columns if n == 1 else np.tile(columns, n)
    return Rows(indptr * (last - first), indices, vectors.values[present, first:last].ravel())
