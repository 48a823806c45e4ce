"""Agreement of predictions with labels from machines and rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCES = ("machine", "rule")
"""Sources other than people; the metrics of the model cover labels of people."""
_EXAMPLES, _LEARNT, _HITS, _PREDICTED, _RELEVANT = range(5)


class SourceMetrics:
    """Counts of examples and labels by source.

    Attributes
    ----------
    counts : ndarray of shape (2, 5), int64
        Counts per source: examples, learnt examples, labels predicted and true, labels predicted, labels true.
    """

    def __init__(self, counts: NDArray[np.int64] | None = None) -> None:
        self.counts = np.zeros((len(SOURCES), 5), dtype=np.int64) if counts is None else counts

    @property
    def learnt(self) -> int:
        """Number of learnt examples."""
        return int(self.counts[:, _LEARNT].sum())

    def add(
        self, source: str, learnt: bool, predicted: NDArray[np.bool_], known: NDArray[np.int8], unknown: int = 0
    ) -> None:
        """Count an example.

        Parameters
        ----------
        predicted : bool per label, whether it was predicted.
        known : for each label, 1 if it is true, -1 if it is false, 0 if it is unknown.
        unknown : number of true labels that the model does not know.
        """
        true = known > 0
        hits, n_predicted = int((predicted & true).sum()), int((predicted & (known != 0)).sum())
        self.counts[SOURCES.index(source)] += (1, int(learnt), hits, n_predicted, int(true.sum()) + unknown)

    def to_json(self) -> dict[str, Any]:
        """Return the metrics of the sources that have examples; empty if none has."""
        found = {}
        for source, counts in zip(SOURCES, self.counts.tolist(), strict=True):
            if not counts[_EXAMPLES]:
                continue
            hits, predicted, relevant = counts[_HITS:]
            found[source] = {
                "examples": counts[_EXAMPLES],
                "learnt": counts[_LEARNT],
                "precision": hits / predicted if predicted else None,
                "recall": hits / relevant if relevant else None,
                "micro_f1": 2 * hits / (predicted + relevant) if predicted + relevant else None,
            }
        return {"by_source": found} if found else {}

    @classmethod
    def from_array(cls, counts: NDArray[Any]) -> SourceMetrics:
        """Return the metrics with these counts; raise ValueError for impossible counts."""
        if counts.shape != (len(SOURCES), 5) or counts.dtype != np.int64 or (counts < 0).any():
            raise ValueError(f"sources: expected {len(SOURCES)} rows of 5 int64 counts, at least 0")
        if (counts[:, _LEARNT] > counts[:, _EXAMPLES]).any() or (counts[:, _HITS] > counts[:, _RELEVANT]).any():
            raise ValueError(
                "sources: a source has more learnt examples than examples, or more hits than relevant labels"
            )
        return cls(counts.copy())
