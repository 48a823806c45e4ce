"""Columns of a batch of records that are 1 for records with an optional number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.records.number_fields import MAX_NUMBER_FIELDS, given_name, given_names, numbers_of

Pairs = Sequence[tuple[int, int]]
"""Columns of numbers, each with the column that is 1 for records with the number."""


def with_new_given(rows: sp.csr_array, names: Sequence[str]) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Return the rows of a batch with a column for each optional number, and the names of all columns.

    A number is optional if some of the rows have it and some lack it, by the rules of
    `manylabel_core.records.number_fields.NumberFields`; a stored 0 is a number. These columns come last, in the order
    of the columns of their numbers. If the rows already have such columns, they are moved to the end.
    """
    numbers, known = numbers_of(names), {name: column for column, name in enumerate(names)}
    if len(numbers) == len(names):
        return rows, tuple(names)
    are_few, counts = len(numbers) <= MAX_NUMBER_FIELDS, np.bincount(rows.indices, minlength=len(names))
    optional = [are_few and 0 < counts[known[name]] < rows.shape[0] for name in numbers]
    named = [(given_name(name), is_optional) for name, is_optional in zip(numbers, optional, strict=True)]
    given = dict.fromkeys(name for name, is_new in named if is_new or name in known)
    columns = {name: column for column, name in enumerate([*(name for name in names if name not in given), *given])}
    if not given.keys().isdisjoint(known):
        moved = np.array([columns[name] for name in names], dtype=rows.indices.dtype)
        rows = sp.csr_array((rows.data, moved[rows.indices], rows.indptr), shape=(rows.shape[0], len(columns)))
        rows.sort_indices()
    return with_given(rows, given_pairs(columns), len(columns)), tuple(columns)


def given_pairs(columns: Mapping[str, int]) -> Pairs:
    """Return the pairs of columns by the names of all columns."""
    return [(columns[name], columns[given]) for name, given in given_names(columns).items()]


def with_given(rows: Any, pairs: Pairs, width: int) -> Any:
    """Return rows in which each record with a number has 1 in the second column of its pair.

    Parameters
    ----------
    rows : CSR array with ascending columns in each row, or ndarray, in which NaN is missing
        Rows with all columns, or with the first ones only.
    pairs : sequence of (int, int)
    width : number of all columns.
    """
    if not pairs:
        return rows
    if isinstance(rows, np.ndarray):
        rows = rows.copy()
        for number, given in pairs:
            rows[~np.isnan(rows[:, number]), given] = 1
        return rows
    given_of = np.full(width, -1, dtype=np.int32)
    given_of[[number for number, _ in pairs]] = [given for _, given in pairs]
    columns = given_of[rows.indices]
    places = np.flatnonzero(columns >= 0)
    columns, row = columns[places], _rows_of(rows, places)
    is_new = ~_are_stored(rows, row, columns)
    columns, row = columns[is_new], row[is_new]
    added = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows.shape[0]))])
    ends = rows.indptr[1:][row]
    parts = np.insert(rows.data, ends, 1), np.insert(rows.indices, ends, columns)
    made = sp.csr_array((*parts, rows.indptr + added.astype(rows.indptr.dtype)), shape=(rows.shape[0], width))
    made.sort_indices()
    return made


def _rows_of(rows: sp.csr_array, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of stored values."""
    return np.searchsorted(rows.indptr, places, side="right") - 1


def _are_stored(rows: sp.csr_array, row: NDArray[np.int64], columns: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return for pairs of a row and a column whether a value is stored."""
    places = np.flatnonzero(np.isin(rows.indices, np.unique(columns)))
    width = int(max(rows.shape[1], columns.max(initial=0) + 1))
    return np.isin(row * width + columns, _rows_of(rows, places) * width + rows.indices[places])
