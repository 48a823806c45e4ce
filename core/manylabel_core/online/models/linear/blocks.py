"""The adaptive expert of a stack, over blocks: the words of a linear model, and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._blocks import N_EVIDENCE, learn_blocks, score_blocks, share_gains
from manylabel_core.online.models.linear.model import MAX_FEATURE_SQUARES, LinearModel
from manylabel_core.online.models.linear.weight_table import padded_width
from manylabel_core.part import Array, Part, Sizes
from manylabel_core.rows import Rows, Targets, VectorRows
from manylabel_core.storage import MAX_COUNT, MAX_WEIGHT, check_range, enlarged

MAX_EVIDENCE = 1e300
"""Upper bound of the evidence; no stream reaches it."""


class VectorBlocks(Part):
    """Weights of vectors, next to those of a linear model, and the gain of each block; see `_blocks`.

    `words` has a step size for every feature, and no metric for each weight. The constructor makes its table dense.
    """

    prefix = "blocks."
    _squares: NDArray[np.float64]
    _n_effective: NDArray[np.float64]
    _means: NDArray[np.float64]
    _counts: NDArray[np.float64]

    def __init__(self, words: LinearModel, dtype: str) -> None:
        words.stay_dense()
        self._words = words
        self._table = np.zeros((1, 1, padded_width(1)), dtype=dtype)
        self._evidence = np.zeros((1, 1 + N_EVIDENCE))
        self._evidence[0, -2:] = 1.0
        super().__init__(
            {
                "squares": Array(("values",), ((0.0, MAX_FEATURE_SQUARES),)),
                "n_effective": Array((1,), ((0.0, MAX_COUNT),)),
                "means": Array(("blocks", "labels"), ((-MAX_WEIGHT, MAX_WEIGHT),)),
                "counts": Array(("blocks", "labels"), ((0.0, MAX_COUNT),)),
            }
        )

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels), "values": len(self._table), "blocks": len(self._evidence)}

    @property
    def evidence(self) -> NDArray[np.float64]:
        """The evidence of gains, of shape (n_blocks, n_blocks + N_EVIDENCE); see `_blocks`."""
        return self._evidence

    @property
    def gains(self) -> NDArray[np.float64]:
        """The gains of the blocks, of shape (1 + n_fields,); they sum to 1."""
        return self._evidence[:, -1]

    def set_lengths(self, lengths: Sequence[int], n_labels: int) -> None:
        """Add blocks for vector fields with the given lengths. Existing fields come first, with their lengths."""
        n_values, n_blocks = sum(lengths), 1 + len(lengths)
        known = len(self._evidence)
        self._table = enlarged(self._table, (1 + n_values, *self._table.shape[1:]))[: 1 + n_values]
        evidence = np.zeros((n_blocks, n_blocks + N_EVIDENCE))
        evidence[:known, :known] = self._evidence[:, :known]
        evidence[:known, n_blocks:] = self._evidence[:, known:]
        self._evidence = evidence
        self.reserve(0, n_labels)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        super().reserve(n_features, n_labels, touch)
        self._table = enlarged(self._table, (*self._table.shape[:2], padded_width(1 + n_labels)), touch)

    def learn(
        self, rows: Rows, vectors: VectorRows, targets: Targets, scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Learn rows in order; write the scores of each before it was learnt, and return the gains of its blocks."""
        shares = np.empty((len(scores), len(self._evidence)))
        own = self._table, self._squares, self._evidence, self._n_effective, self._means, self._counts
        learn_blocks(self._words.parts, own, rows, vectors, targets, scores, shares)
        return shares

    def score(self, rows: Rows, vectors: VectorRows, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Write the scores of rows; return the gains of their blocks."""
        shares = np.empty((len(scores), len(self._evidence)))
        table, _, constant, _ = self._words.parts
        score_blocks(table, constant, self._table, self._evidence, rows, vectors, scores, shares)
        return shares

    def share(self, has_words: bool, present: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the gains of the blocks that an example has; 0 for the others."""
        share = np.empty(len(self._evidence))
        share_gains(self._evidence, has_words, present, share)
        return share

    def forget(self, label: int) -> None:
        """Forget a label."""
        self._table[:, :, 1 + label] = 0.0
        self._means[:, label], self._counts[:, label] = 0.0, 0.0

    def reset_step_sizes(self) -> None:
        """Reset the step sizes."""
        self._squares[:] = 0.0

    def weights(self, label: int) -> NDArray[np.float64]:
        """Return the weights of vector values for a label, minus those of the threshold, without gains."""
        table = self._table[1:, 0].astype(np.float64)
        return table[:, 1 + label] - table[:, 0]

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        own = {"blocks.weights": self._table[:, 0, : 1 + n_labels], "blocks.evidence": self._evidence}
        return {**own, **super().arrays(n_features, n_labels)}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        own = self._table.itemsize * len(self._table) * (1 + n_labels) + self._evidence.nbytes
        return own + super().nbytes_after(n_features, n_labels, n_samples, n_values)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        weights, evidence = arrays["blocks.weights"], arrays["blocks.evidence"]
        if weights.shape != (len(self._table), 1 + n_labels) or evidence.shape != self._evidence.shape:
            raise ValueError("state: blocks.weights or blocks.evidence does not have the shape of the table of blocks")
        check_range("blocks.weights", weights, -MAX_WEIGHT, MAX_WEIGHT)
        check_range("blocks.evidence", evidence, -MAX_EVIDENCE, MAX_EVIDENCE)
        check_range("blocks.evidence (a, gains)", evidence[:, -2:], 0.0, MAX_EVIDENCE)
        check_range("blocks.evidence (gains)", evidence[:, -1], 0.0, 1.0)
        check_range("blocks.evidence (diagonal)", np.diagonal(evidence), 0.0, MAX_EVIDENCE)
        super().restore(arrays, n_features, n_labels)
        self._evidence = evidence
        self.reserve(n_features, n_labels)
        self._table[:, 0, : 1 + n_labels] = weights
