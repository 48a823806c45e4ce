"""Gains of vectors for models without blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._blocks import share_rows
from manylabel_core.online.models.linear.blocks import VectorBlocks
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.updates._update import IMPLICIT, Update
from manylabel_core.part import Part, without_prefix
from manylabel_core.rows import Rows, Targets, VectorRows

ETA, CONSTANT = 0.4, 0.3
"""Step size and constant feature of `FALT`."""


class VectorGains(Part):
    """Adaptive expert of `FALT` over blocks, which learns alongside a model, and is used only for the gains of the
    blocks."""

    prefix = "gains."

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._words = LinearModel(Update(IMPLICIT, ETA), CONSTANT, dtype, by_feature=True, can_be_sparse=False)
        self._blocks = VectorBlocks(self._words, dtype)

    def set_lengths(self, lengths: Sequence[int], n_features: int, n_labels: int) -> None:
        """Add blocks for vector fields with the given lengths. Existing fields come first, with their lengths."""
        self._blocks.set_lengths(lengths, n_labels)
        self.grow(n_features, n_labels)

    def learn(self, rows: Rows, vectors: VectorRows, targets: Targets, n_labels: int) -> NDArray[np.float64]:
        """Learn scaled rows in order; return the gains of the blocks of each, shape (n_samples, n_blocks)."""
        return self._blocks.learn(rows, vectors, targets, np.empty((len(rows.indptr) - 1, 1 + n_labels)))

    def shares(self, rows: Rows, vectors: VectorRows) -> NDArray[np.float64]:
        """Return the gains of the blocks of each row, as in `learn`."""
        shares = np.empty((len(rows.indptr) - 1, len(self._blocks.gains)))
        share_rows(self._blocks.evidence, rows.indptr, vectors.present, shares)
        return shares

    def forget(self, label: int) -> None:
        """Forget a label."""
        self._words.forget(label)
        self._blocks.forget(label)

    def reset_step_sizes(self) -> None:
        """Reset the step sizes."""
        self._words.reset_step_sizes(None)
        self._blocks.reset_step_sizes()

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        self._words.reserve(n_features, n_labels, touch)
        self._blocks.reserve(0, n_labels, touch)

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        arrays = {**self._words.arrays(n_features, n_labels), **self._blocks.arrays(0, n_labels)}
        return {self.prefix + name: array for name, array in arrays.items()}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        own = self._words.nbytes_after(n_features, n_labels, n_samples, n_values)
        return own + self._blocks.nbytes_after(0, n_labels, n_samples, n_values)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        own = without_prefix(arrays, self.prefix)
        if self._words.size(own) != (n_features, n_labels):
            raise ValueError(f"state: gains.weights must be for {n_features} features and {n_labels} labels")
        self._words.restore(own, n_features, n_labels)
        self._blocks.restore(own, 0, n_labels)
        self.n_features, self.n_labels = n_features, n_labels


def nbytes_of_gains(itemsize: int, n_features: int, n_labels: int) -> int:
    """Return the bytes of new gains, with the values of vectors among the features."""
    return (itemsize * (1 + n_labels) + 8) * (2 + n_features)
