"""Sums of held-out probabilities over the examples of pairs of labels: whether a model can tell two labels apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.doubts.held_out import HeldOut
from manylabel_core.label_health.counts import Columns, Numbers, Truths, by_label

MAX_DENSE_LABELS, MOST_PROBABLE = 3_000, 20
"""Maximum number of labels for sums over all pairs, and number of the most probable labels of an example that count if
there are more labels."""
MAX_PAIRS = 2**22
"""Maximum number of pairs if there are more labels; above it, the pairs with the smallest sums are dropped."""
DAMP = 2.0
"""Expected hits that are added to lower `alike` for rare and poorly predicted labels."""

_BUFFERED = 2**20


class Likenesses(NamedTuple):
    """How alike the labels of pairs are to the model.

    Attributes
    ----------
    alike : 1 if the model cannot tell the labels apart; 0 if it can, or if it has not learnt the labels.
    pull_of_first : probability of the second label on examples of the first label, relative to that on examples of the
        second label.
    pull_of_second : probability of the first label on examples of the second label, relative to that on examples of the
        first label.
    own_of_first, own_of_second : sum of the probability of a label in excess of its mean, on its own examples without
        the other label.
    """

    alike: Numbers
    pull_of_first: Numbers
    pull_of_second: Numbers
    own_of_first: Numbers
    own_of_second: Numbers


class ProbabilitySums:
    """Weighted sums over examples.

    The blocks of `held_out` may be added in any order, each example once. If a judge has learnt no example with a
    label, the label has no probability there, and is not compared.

    Parameters
    ----------
    truths : true labels of all examples.
    """

    def __init__(self, truths: Truths) -> None:
        n = truths.n_labels
        self.truths = truths
        self._given = np.zeros(len(truths.labels))
        self._ends = np.searchsorted(truths.rows, np.arange(truths.n_rows + 1))
        self._dense = np.zeros((n, n)) if n <= MAX_DENSE_LABELS else None
        self._table = (np.zeros(0, np.int64), np.zeros(0))
        self._buffer, self._n_buffered = [self._table], 0
        self._all, self._weight = np.zeros(n), 0.0
        self._false = np.zeros(n)
        self._judged = np.ones(n, dtype=np.bool_)

    def add(self, block: HeldOut, truth: NDArray[np.int8]) -> None:
        """Add examples.

        Parameters
        ----------
        block : examples with their probabilities.
        truth : ndarray of shape (n_rows, n_labels), int8: 1 for a true label, -1 for a false one, 0 for an unknown one.
        """
        weights = self.truths.row_weights[block.rows]
        self._judged &= ~np.isnan(block.probabilities).any(axis=0)
        p = np.nan_to_num(block.probabilities, nan=0.0)
        self._all += weights @ p
        self._weight += float(weights.sum())
        lengths = self._ends[block.rows + 1] - self._ends[block.rows]
        rows = np.repeat(np.arange(len(block.rows)), lengths)
        places = np.repeat(self._ends[block.rows] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        labels = self.truths.labels[places]
        self._given[places] = p[rows, labels]
        false = np.where(truth < 0, p, 0.0)
        self._false += weights @ false
        if self._dense is not None:
            present, column = np.unique(labels, return_inverse=True)
            given = sp.csr_array((weights[rows], (column, rows)), shape=(len(present), len(weights)))
            self._dense[present] += given @ false
        else:
            probable, values = _most_probable(false)
            sums = values[rows] * weights[rows, None]
            self._buffer_pairs((labels[:, None] * self.truths.n_labels + probable[rows]).ravel(), sums.ravel())

    def _buffer_pairs(self, keys: Columns, values: Numbers) -> None:
        self._buffer.append((keys, values))
        self._n_buffered += len(keys)
        if self._n_buffered > _BUFFERED:
            self._add_buffered()

    def _add_buffered(self) -> None:
        """Add the buffered pairs to the table, which is in ascending order."""
        keys, values = (np.concatenate(parts) for parts in zip(*self._buffer, strict=True))
        order = np.argsort(keys, kind="stable")
        keys, first = np.unique(keys[order], return_index=True)
        values = np.add.reduceat(values[order], first) if len(first) else values
        if len(keys) > MAX_PAIRS:
            kept = np.sort(np.lexsort((keys, -values))[:MAX_PAIRS])
            keys, values = keys[kept], values[kept]
        self._table, self._buffer, self._n_buffered = (keys, values), [(keys, values)], 0

    def candidates(self, least: float) -> tuple[Columns, Columns]:
        """Return the pairs of labels that may be alike, ascending. Both labels have examples with a total weight of
        `least`, and each label is probable on examples of the other label."""
        n = self.truths.n_labels
        enough = self._judged & (self.truths.examples >= least)
        if self._dense is not None:
            columns = np.flatnonzero(enough)
            sums = self._dense[np.ix_(columns, columns)]
            first, second = np.nonzero(np.triu((sums > 0) & (sums.T > 0), 1))
            return columns[first], columns[second]
        self._add_buffered()
        first, second = np.divmod(self._table[0][self._table[1] > 0], n)
        forward, backward = first < second, first > second
        keys = np.intersect1d((first * n + second)[forward], (second * n + first)[backward])
        first, second = np.divmod(keys, n)
        kept = enough[first] & enough[second]
        return first[kept], second[kept]

    def likenesses(self, first: Columns, second: Columns) -> Likenesses:
        """Return how alike the labels of pairs are; the pairs are ascending."""
        mean = self._all / max(self._weight, 1e-300)
        counted = self.truths.pairs(first, second)
        own = self.truths.pairs(first, second, self.truths.weights * self._given)
        of_second = np.maximum(self._sum(first, second) - counted.first_only * mean[second], 0.0)
        of_first = np.maximum(self._sum(second, first) - counted.second_only * mean[first], 0.0)
        own_of_first = np.maximum(own.first_only - counted.first_only * mean[first], 0.0)
        own_of_second = np.maximum(own.second_only - counted.second_only * mean[second], 0.0)
        alike = of_first * of_second / ((own_of_first + DAMP) * (own_of_second + DAMP))
        judged = self._judged[first], self._judged[second]
        return Likenesses(
            np.where(judged[0] & judged[1], alike, 0.0),
            np.where(judged[1], _pull(of_second, counted.first_only, own_of_second, counted.second_only), 0.0),
            np.where(judged[0], _pull(of_first, counted.second_only, own_of_first, counted.first_only), 0.0),
            own_of_first,
            own_of_second,
        )

    def mean_where(self, truth: bool) -> tuple[Numbers, Numbers]:
        """Return the mean probability of each label over the examples where its truth is `truth`, and their weighted
        number; NaN for a label that is not judged."""
        truths = self.truths
        if truth:
            weights = truths.examples
            sums = by_label(truths.labels, truths.weights * self._given, truths.n_labels)
        else:
            weights, sums = truths.known - truths.examples, self._false
        means = sums / np.maximum(weights, 1e-300)
        return np.where(self._judged & (weights > 0), means, np.nan), weights

    def _sum(self, given: Columns, other: Columns) -> Numbers:
        """Return the sums of the probability of labels over the examples with another one."""
        if self._dense is not None:
            return self._dense[given, other]
        self._add_buffered()
        keys, values = self._table
        wanted = given * self.truths.n_labels + other
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return np.where(keys[at] == wanted, values[at], 0.0) if len(keys) else np.zeros(len(wanted))


def _pull(other: Numbers, other_weight: Numbers, own: Numbers, own_weight: Numbers) -> Numbers:
    """Return the mean probability of a label on examples of another label, relative to that on its own examples."""
    means = other / np.maximum(other_weight, 1e-9), own / np.maximum(own_weight, 1e-9)
    pull: Numbers = means[0] / np.maximum(means[1], 1e-9)
    return pull


def _most_probable(p: Numbers) -> tuple[Columns, Numbers]:
    """Return the columns of the largest values of each row, and these values; of equal ones, the first columns.

    Values are compared in float32.
    """
    bits = p.astype(np.float32).view(np.int32).astype(np.int64)
    keys = (bits << 32) | (0xFFFFFFFF - np.arange(p.shape[1]))
    best = np.partition(keys, -MOST_PROBABLE, axis=1)[:, -MOST_PROBABLE:]
    columns = 0xFFFFFFFF - (np.sort(best, axis=1)[:, ::-1] & 0xFFFFFFFF)
    return columns, np.take_along_axis(p, columns, axis=1)
