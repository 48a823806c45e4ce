"""Weighted counts of labels, and of pairs of labels, in the order in which the examples were learnt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.doubts.held_out import weights_of
from manylabel_core.rows import Targets

LEAST_SHARE, LEAST_EXAMPLES = 0.9, 5
"""Conditions for a pair of labels to be counted: minimum share of the examples of one label that also have the other
label, and minimum weighted number of examples of that label."""

_BLOCK_LABELS = 256
_ROUNDING = 1e-9

Columns = NDArray[np.int64]
Numbers = NDArray[np.float64]


class Pairs(NamedTuple):
    """Sums over the examples of pairs of labels; `first` is smaller than `second`.

    Attributes
    ----------
    first, second : columns of the labels.
    together : sum over the examples with both labels.
    first_only, second_only : sums over the examples that have one label, and for which the other label is known to be
        false.
    """

    first: Columns
    second: Columns
    together: Numbers
    first_only: Numbers
    second_only: Numbers

    def chosen(self, which: NDArray[np.bool_] | Columns) -> Pairs:
        """Return some of the pairs."""
        first, second, *sums = self
        return Pairs(first[which], second[which], *(part[which] for part in sums))


NO_PAIRS = Pairs(*np.zeros((2, 0), np.int64), *np.zeros((3, 0)))


class VocabularyCounts(NamedTuple):
    """Counts of labels, each of shape (n_labels,).

    Attributes
    ----------
    n_examples : number of examples.
    examples, known : weighted numbers of the examples with the label, and of the examples for which its truth is known.
    last : number of the last example with the label, from 0; -1 for none.
    longest_gap : largest difference of the numbers of two successive examples with the label; 0 for fewer than two.
        None: unknown.
    pairs : pairs of labels that often occur together, and pairs with nearly the same name.
    """

    n_examples: int
    examples: Numbers
    known: Numbers
    last: Columns
    longest_gap: Columns | None = None
    pairs: Pairs = NO_PAIRS


class Truths:
    """The true labels of examples, sorted by label. Memory is proportional to their number.

    Parameters
    ----------
    targets : true labels of the examples.
    n_labels : number of labels.

    Attributes
    ----------
    places : indices of the true labels in `targets`; arrays of values have one value for each.
    rows, labels : example and label of each true label.
    weights : weight of the example of each true label.
    """

    def __init__(self, targets: Targets, n_labels: int) -> None:
        self.n_labels, self.n_rows = n_labels, len(targets.complete)
        rows = np.repeat(np.arange(self.n_rows), np.diff(targets.indptr))
        self.places = np.flatnonzero(targets.signs > 0)
        self.rows, self.labels = rows[self.places], targets.indices[self.places].astype(np.int64)
        self.row_weights = weights_of(targets)
        self.weights = self.row_weights[self.rows]
        self._complete = targets.complete[self.rows]
        told_false = np.flatnonzero((targets.signs < 0) & ~targets.complete[rows])
        self._false = sp.csc_array(
            (np.ones(len(told_false)), (rows[told_false], targets.indices[told_false])), shape=(self.n_rows, n_labels)
        )
        known = by_label(targets.indices[told_false], self.row_weights[rows[told_false]], n_labels)
        partial = by_label(self.labels, self.weights * ~self._complete, n_labels)
        self.examples = by_label(self.labels, self.weights, n_labels)
        self.known = known + partial + float(self.row_weights[targets.complete].sum())

    def pairs(self, first: Columns, second: Columns, values: Numbers | None = None) -> Pairs:
        """Return sums of values over the examples of pairs; if both labels are true, both values are added.

        Parameters
        ----------
        first, second : columns, ascending by pair.
        values : ndarray of shape (n_true,); a value for each true label. None: the weights; then `together` adds the
            weight of an example once.
        """
        return _joined(list(self._blocks(first, second, values)))

    def frequent_pairs(self) -> Pairs:
        """Return the pairs that fulfil `LEAST_SHARE` and `LEAST_EXAMPLES`."""
        found = []
        for part in self._blocks(None, None, None):
            rarer = part.together + np.minimum(part.first_only, part.second_only)
            found.append(part.chosen((part.together >= LEAST_SHARE * rarer) & (rarer >= LEAST_EXAMPLES)))
        return _joined(found)

    def _blocks(self, first: Columns | None, second: Columns | None, values: Numbers | None) -> Iterator[Pairs]:
        """Yield the sums of pairs for some first labels at a time, so that not all pairs are in memory."""
        n, complete = self.n_labels, self._complete
        v = self.weights if values is None else values
        ones, whole, part = self._matrix(np.ones(len(v))), self._matrix(v * complete), self._matrix(v * ~complete)
        ones_of_whole = self._matrix(complete.astype(np.float64))
        weights = self._matrix(self.weights)
        rows = [matrix.tocsr() for matrix in (weights, ones_of_whole, whole, part, self._false)]
        weights_by_row, ones_by_row, whole_by_row, part_by_row, false_by_row = rows
        total = by_label(self.labels, v * complete, n)
        for start in range(0, n, _BLOCK_LABELS):
            block = slice(start, min(start + _BLOCK_LABELS, n))
            if first is None or second is None:
                keys = _keys_of(both := (ones[:, block].T @ weights_by_row).tocsr(), n)
                a, b = np.divmod(keys[both.data > 0], n)
                later = b > a + start
                a, b = a[later], b[later]
            else:
                here = slice(*np.searchsorted(first, [block.start, block.stop]))
                a, b = first[here] - start, second[here]
            if not len(a):
                continue
            wanted = a * n + b
            together = _at(ones[:, block].T @ weights_by_row, wanted)
            of_a = _at(whole[:, block].T @ ones_by_row, wanted)
            of_b = _at(ones_of_whole[:, block].T @ whole_by_row, wanted)
            first_only = _minus(total[a + start], of_a) + _at(part[:, block].T @ false_by_row, wanted)
            second_only = _minus(total[b], of_b) + _at(self._false[:, block].T @ part_by_row, wanted)
            yield Pairs(a + start, b, together, first_only, second_only)

    def _matrix(self, values: Numbers) -> sp.csc_array:
        return sp.csc_array((values, (self.rows, self.labels)), shape=(self.n_rows, self.n_labels))


def count_labels(truths: Truths, first: Columns, second: Columns) -> VocabularyCounts:
    """Return the counts of labels, with the frequent pairs and some others.

    Parameters
    ----------
    truths : true labels.
    first, second : columns of other pairs that are counted, ascending by pair.
    """
    n = truths.n_labels
    last, longest = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    order = np.argsort(truths.labels, kind="stable")
    labels, rows = truths.labels[order], truths.rows[order]
    np.maximum.at(last, labels, rows)
    same = labels[1:] == labels[:-1]
    np.maximum.at(longest, labels[1:][same], np.diff(rows)[same])
    both = _joined([truths.frequent_pairs(), truths.pairs(first, second)])
    _, once = np.unique(both.first * n + both.second, return_index=True)
    return VocabularyCounts(truths.n_rows, truths.examples, truths.known, last, longest, both.chosen(once))


def _joined(parts: list[Pairs]) -> Pairs:
    every = [NO_PAIRS, *parts]
    return Pairs(
        np.concatenate([part.first for part in every]),
        np.concatenate([part.second for part in every]),
        np.concatenate([part.together for part in every]),
        np.concatenate([part.first_only for part in every]),
        np.concatenate([part.second_only for part in every]),
    )


def by_label(labels: NDArray[np.integer[Any]], values: Numbers, n_labels: int) -> Numbers:
    """Return the sum of the values of each label."""
    return np.bincount(labels, values, minlength=n_labels).astype(np.float64, copy=False)


def _minus(whole: Numbers, part: Numbers) -> Numbers:
    """Return differences; those that may be rounding errors become 0."""
    rest = whole - part
    return np.where(rest > _ROUNDING * whole, rest, 0.0)


def _keys_of(matrix: sp.csr_array, n_columns: int) -> Columns:
    """Return a number for the row and column of each stored value, ascending."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * n_columns + matrix.indices


def _at(matrix: sp.csr_array, wanted: Columns) -> Numbers:
    """Return the values at some rows and columns; 0 if none is stored."""
    matrix = sp.csr_array(matrix)
    keys, values = _keys_of(matrix, matrix.shape[1]), np.zeros(len(wanted))
    if len(keys):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        values = np.where(keys[at] == wanted, matrix.data[at], 0.0)
    return values
