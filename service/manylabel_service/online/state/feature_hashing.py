"""The hashing trick: features in a fixed number of columns, without their names (Weinberger et al., ICML 2009).

A feature's column and its sign follow from a hash of its name. Features that share a column are added with their signs,
so the expected effect of one feature on another is 0. Columns and signs are the same as those of scikit-learn's
FeatureHasher (`alternate_sign=True`), so a client can compute them too. The hash is MurmurHash3 of the UTF-8 name, 32
bits, seed 0: identical on every machine, and ten times as fast as a cryptographic hash. A client can find collisions,
but these harm only its own model.
"""

from collections.abc import Collection
from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import MAX_MAGNITUDE
from manylabel_service.hosting.examples import Features


def hashed(x: Features, n_columns: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the columns of an example, ascending, and the sums of the values in them.

    NaN means that a dense example lacks the feature.

    Numbered features keep their columns if they are below the limit; others are hashed by their number as a 32-bit
    integer. The result is identical bit for bit for any order of the features. Sums are at most MAX_MAGNITUDE.
    """
    if x.names is not None:
        return _summed(*_placed(_hashes_of_names(x.names), x.values, n_columns))
    numbers = np.arange(len(x.values), dtype=np.int32) if x.indices is None else x.indices
    n_within = int(np.searchsorted(numbers, n_columns))
    if n_within == len(numbers):
        return numbers, x.values
    known = ~np.isnan(x.values)
    numbers, given = numbers[known], x.values[known]
    n_within = int(np.count_nonzero(known[:n_within]))
    columns, values = _placed(_hashes_of_numbers(numbers[n_within:]), given[n_within:], n_columns)
    return _summed(np.concatenate([numbers[:n_within], columns]), np.concatenate([given[:n_within], values]))


def sources(x: Features, n_columns: int) -> dict[int, str | int]:
    """Return the feature of each column of an example. If several features share a column, the one with the largest
    value is returned; NaN counts as the smallest."""
    if x.names is not None:
        names: list[Any] = list(x.names)
        columns = _placed(_hashes_of_names(x.names), x.values, n_columns)[0]
    else:
        numbers = np.arange(len(x.values), dtype=np.int32) if x.indices is None else x.indices
        n_within = int(np.searchsorted(numbers, n_columns))
        hashes = _hashes_of_numbers(numbers[n_within:])
        names = numbers.tolist()
        columns = np.concatenate([numbers[:n_within], _placed(hashes, x.values[n_within:], n_columns)[0]])
    order = np.argsort(-np.abs(np.nan_to_num(x.values)), kind="stable")[::-1]
    return {int(columns[place]): names[place] for place in order.tolist()}


def _hashes_of_names(names: Collection[str]) -> NDArray[np.int64]:
    return np.fromiter(map(mmh3.hash, names), dtype=np.int64, count=len(names))


def _hashes_of_numbers(numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the hashes of the four bytes of each number, lowest byte first."""
    return np.fromiter(map(mmh3.hash, numbers.astype("<i4").view("V4").tolist()), dtype=np.int64, count=len(numbers))


def _placed(
    hashes: NDArray[np.int64], values: NDArray[np.float32], n_columns: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return columns, and values with their signs."""
    return np.abs(hashes) % n_columns, np.where(hashes >= 0, values, -values)


def _summed(columns: NDArray[np.int64], values: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return ascending, distinct columns with the sums of their values."""
    order = np.lexsort((values, columns))  # sorted by the values too, because sums depend on the order
    columns, values = columns[order], values[order]
    is_first = np.diff(columns, prepend=-1) != 0
    if not is_first.all():
        sums = np.bincount(np.cumsum(is_first) - 1, weights=values)  # one value at a time, in float64
        columns, values = columns[is_first], np.clip(sums, -MAX_MAGNITUDE, MAX_MAGNITUDE).astype(np.float32)
    return columns.astype(np.int32), values
