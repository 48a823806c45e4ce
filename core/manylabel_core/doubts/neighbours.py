"""Most similar other examples of a stream, by the cosine of scaled features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.doubts.held_out import take_rows
from manylabel_core.rows import VECTOR_COLUMNS, Rows

NEIGHBOURS = 10
"""Number of neighbours of an example."""
LEAST_SIMILARITY = 1e-6
"""Minimum weight of a neighbour."""

_BLOCK_ROWS, _BLOCK_QUERIES = 4_096, 256
_DENSE_NUMBERS = 2**22
"""Maximum numbers in a block of dense features."""
_NOTHING = np.iinfo(np.int64).min


class Neighbours(NamedTuple):
    """Neighbours of some examples, the most similar one first."""

    rows: NDArray[np.int64]
    """(n_queries, n_neighbours): numbers of the neighbours."""
    similarities: NDArray[np.float32]
    """(n_queries, n_neighbours): cosines, at least `LEAST_SIMILARITY`."""


class _Parts(NamedTuple):
    """Scaled examples of unit norm: dense features, which most examples have, and the others."""

    dense: NDArray[np.float32]
    sparse: sp.csr_array


class Similarity:
    """Scaled features of a stream, which need not be in memory.

    Features that more than half of the examples have are standardised, others weighted by their rarity; a missing value
    counts as 0.

    Parameters
    ----------
    rows : examples; the arrays may be memory-mapped files.
    n_features, n_vector_values : numbers of columns, without and with those of vectors.
    """

    def __init__(self, rows: Rows, n_features: int, n_vector_values: int = 0) -> None:
        self._rows = rows
        self._n_rows, self._n_features = len(rows.indptr) - 1, n_features
        self._n_columns = n_columns = n_features + n_vector_values
        counts = np.zeros(n_columns, dtype=np.int64)
        for first in range(0, self._n_rows, _BLOCK_ROWS):
            block = self._matrix(np.arange(first, min(first + _BLOCK_ROWS, self._n_rows)))
            counts += np.bincount(block.indices[block.data != 0], minlength=n_columns)
        is_dense = 2 * counts > self._n_rows
        self._dense = np.flatnonzero(is_dense)
        counts[self._dense] = self._n_rows
        self._rarity = np.sqrt(np.log(1 + self._n_rows / np.maximum(counts, 1))).astype(np.float32)
        self._sparse_columns = np.flatnonzero(~is_dense)
        self._step = max(1, min(_BLOCK_ROWS, _DENSE_NUMBERS // max(1, len(self._dense))))
        self._mean, self._deviation = self._moments()

    def _moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means and standard deviations of the dense features, merged block by block."""
        n, mean, squares = 0, np.zeros(len(self._dense)), np.zeros(len(self._dense))
        for first in range(0, self._n_rows if len(self._dense) else 0, self._step):
            block = self._matrix(np.arange(first, min(first + self._step, self._n_rows)))
            dense = block[:, self._dense].toarray().astype(np.float64)
            of_block, m = dense.mean(0), len(dense)
            shift = of_block - mean
            squares += ((dense - of_block) ** 2).sum(0) + shift**2 * (n * m / (n + m))
            mean += shift * (m / (n + m))
            n += m
        return mean, np.maximum(np.sqrt(squares / max(n, 1)), 1e-6)

    def _matrix(self, chosen: NDArray[np.int64]) -> sp.csr_array:
        rows = take_rows(self._rows, chosen)
        columns = rows.indices.astype(np.int64)
        of_vectors = columns >= VECTOR_COLUMNS
        columns[of_vectors] += self._n_features - VECTOR_COLUMNS
        values = np.nan_to_num(rows.values.astype(np.float32))
        return sp.csr_array((values, columns, rows.indptr), shape=(len(chosen), self._n_columns))

    def _scaled(self, chosen: NDArray[np.int64]) -> _Parts:
        matrix = self._matrix(chosen)
        dense = ((matrix[:, self._dense].toarray() - self._mean) / self._deviation).astype(np.float32)
        dense *= self._rarity[self._dense]
        sparse = sp.csr_array(matrix[:, self._sparse_columns] @ sp.diags_array(self._rarity[self._sparse_columns]))
        squares = (dense.astype(np.float64) ** 2).sum(1) + (sparse.astype(np.float64) ** 2).sum(1)
        scale = (1 / np.maximum(np.sqrt(squares), 1e-12)).astype(np.float32)
        return _Parts(dense * scale[:, None], sp.csr_array(sp.diags_array(scale) @ sparse))

    def neighbours(self, queries: NDArray[np.int64], report: Callable[[int], Any] = lambda n: None) -> Neighbours:
        """Return the neighbours of examples among all others; if some are equally similar, the earlier ones.

        Parameters
        ----------
        queries : ndarray of shape (n_queries,), int64
            Numbers of examples, distinct.
        report : callback with the number of examples of a block that were compared.
        """
        k = min(NEIGHBOURS, self._n_rows - 1)
        best = np.full((len(queries), max(k, 0)), _NOTHING)
        parts = [queries[at : at + _BLOCK_QUERIES] for at in range(0, len(queries), _BLOCK_QUERIES)] if k > 0 else []
        scaled = [self._scaled(chosen) for chosen in parts]
        for first in range(0, self._n_rows if parts else 0, self._step):
            others = np.arange(first, min(first + self._step, self._n_rows))
            block = self._scaled(others)
            transposed = block.sparse.T.tocsr()
            for n, (chosen, own) in enumerate(zip(parts, scaled, strict=True)):
                cosines = (own.sparse @ transposed).toarray() + own.dense @ block.dense.T
                keys = _keys(cosines, others)
                keys[chosen[:, None] == others] = _NOTHING  # not itself
                so_far = best[n * _BLOCK_QUERIES : (n + 1) * _BLOCK_QUERIES]
                so_far[:] = np.partition(np.concatenate([so_far, keys], axis=1), -k, axis=1)[:, -k:]
            report(len(others))
        rows, cosines = _read(np.sort(best, axis=1)[:, ::-1])
        return Neighbours(rows, np.maximum(cosines, np.float32(LEAST_SIMILARITY)))


def _keys(cosines: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return integers that order pairs by their cosine, and equal ones by descending number of the row."""
    bits = (cosines + np.float32(0.0)).view(np.int32)
    ordered = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys: NDArray[np.int64] = (ordered << 32) | (0xFFFFFFFF - rows)
    return keys


def _read(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rows and cosines of `_keys`."""
    ordered = (keys >> 32).astype(np.int32)
    bits = np.where(ordered < 0, ordered ^ np.int32(0x7FFFFFFF), ordered)
    return 0xFFFFFFFF - (keys & 0xFFFFFFFF), bits.view(np.float32)
