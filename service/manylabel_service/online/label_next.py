"""Selection of the stored predictions whose labels would teach the model most.

Uncertainty sampling: an example is uncertain if the log-odds of a label are close to its decision threshold.
`uncertainty` is 1 at the threshold, and decreases to 0. Rare labels do not count, because they are close to their
thresholds in every example. The rule was chosen by `python -m benchmarks label-next`: sums over all labels prefer
unusual examples, and teach less than random ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.predictions import Prediction

ALIKE = 0.9
"""Cosine similarity from which two examples count as near-duplicates."""


UnitRow = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Columns and values of an example with unit norm."""

SEEN_ENOUGH = 3
"""Minimum number of positive examples of a label that counts."""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Stored prediction without labels, predicted again by the current model.

    `record` is the example as posted, in JSON, if stored. `auto` and `review` are those that were served, if precision
    was promised.
    """

    id: str
    uncertainty: float
    prediction: Prediction
    record: bytes | None
    auto: list[str] | None = None
    review: bool | None = None


@dataclass(frozen=True, slots=True)
class RankedPredictions:
    """Stored predictions to label next, chosen from `candidates` by uncertainty at the state of a position."""

    predictions: Sequence[Unlabelled]
    candidates: int
    position: str
    updates: int


def uncertainty(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the uncertainty of examples, 0 to 1; 1 if the model has no label.

    Parameters
    ----------
    margins : ndarray of shape (n_samples, n_labels), float64 Half of the difference between log-odds and those of the
    threshold.
    """
    if not margins.shape[1]:
        return np.ones(len(margins))
    closest: NDArray[np.float64] = 1.0 - np.tanh(np.abs(margins).min(axis=1))
    return closest


def counting(examples: NDArray[np.int64], retired: Sequence[int]) -> NDArray[np.int64]:
    """Return the columns of the labels that count: those with enough examples, or all if no label has enough, without
    retired ones.

    Parameters
    ----------
    examples : ndarray of shape (n_labels,), int64 Number of positive examples per label.
    """
    enough = np.setdiff1d(np.flatnonzero(examples >= SEEN_ENOUGH), retired)
    return enough if len(enough) else np.setdiff1d(np.arange(len(examples)), retired)


def unit_row(x: Features, columns_of: dict[Any, int]) -> UnitRow:
    """Return columns and values of an example with unit norm, for `spread`.

    Parameters
    ----------
    columns_of : columns of the features of earlier rows, by name or index, to which new ones are added.
    """
    names: Sequence[Any] = range(len(x.values)) if x.names is None else x.names
    if x.indices is not None:
        names = x.indices.tolist()
    values = np.nan_to_num(x.values.astype(np.float64))
    for name, vector in (x.vectors or {}).items():
        names = [*names, *((name, place) for place in range(len(vector)))]
        own = vector.astype(np.float64)
        length = float(np.sqrt(own @ own))
        values = np.concatenate([values, own / length if length else own])
    if not values.any():  # all examples without features are alike
        names, values = [None], np.ones(1)
    columns = np.array([columns_of.setdefault(name, len(columns_of)) for name in names], dtype=np.int64)
    return columns, values / np.sqrt(values @ values)


def spread(rows: Sequence[UnitRow]) -> Iterator[int]:
    """Yield the indices of examples in their order, with near-duplicates of earlier ones last."""
    if not rows:
        return
    late: list[int] = []
    waiting = np.ones(len(rows), dtype=bool)
    scratch = np.zeros(max(int(columns.max()) + 1 for columns, _ in rows))
    row_of = np.repeat(np.arange(len(rows)), [len(columns) for columns, _ in rows])
    columns = np.concatenate([columns for columns, _ in rows])
    values = np.concatenate([values for _, values in rows])
    for place, (its_columns, its_values) in enumerate(rows):
        if not waiting[place]:
            late.append(place)
            continue
        yield place
        scratch[its_columns] = its_values
        cosines = np.bincount(row_of, scratch[columns] * values, minlength=len(rows))
        scratch[its_columns] = 0.0
        waiting &= cosines < ALIKE
    yield from late
