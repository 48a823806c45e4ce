"""One data set in the columns of another: a model learnt from that one can then be measured on this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from manylabel_core.datasets.dataset import Dataset


def aligned(dataset: Dataset, like: Dataset, *, for_labels: bool = True) -> Dataset:
    """Return the rows of a data set with the labels and features of another, in its order.

    Columns that have names are found by their names, numbered ones by their numbers. What only `dataset` has is left
    out: a model of `like` can know nothing about it. What only `like` has is 0.

    Parameters
    ----------
    dataset, like : Dataset
    for_labels : bool
        Whether it is about the labels, some of which must then be in both.

    Raises
    ------
    ValueError
        They have other views, names in one and numbers in the other, or no label in common.
    """
    if dataset.views.keys() != like.views.keys():
        due = ", ".join(like.views)
        raise ValueError(f"the views are {', '.join(dataset.views)}, expected {due}")
    if for_labels and not set(dataset.label_names) & set(like.label_names):
        raise ValueError(f"none of the labels is one of those to be predicted ({_some(like.label_names)})")
    views = {name: _view(dataset, like, name) for name in like.views}
    Y = _columns(dataset.Y, dataset.label_names, like.label_names)
    return Dataset(views, Y, like.label_names, dict(like.feature_names), dict(dataset.splits), dataset.labelled.copy())


def _view(dataset: Dataset, like: Dataset, name: str) -> Any:
    have, due = dataset.feature_names[name], like.feature_names[name]
    if (have is None) != (due is None):
        raise ValueError(f"the features of view {name!r} have {'numbers' if have is None else 'names'} here only")
    width = like.views[name].shape[1]
    if have is None or due is None:
        return _columns(dataset.views[name], range(dataset.views[name].shape[1]), range(width))
    return _columns(dataset.views[name], have, due)


def _columns(matrix: Any, have: Sequence[Any], due: Sequence[Any]) -> Any:
    """Return the columns `due`, each where `have` has it; zeros where it has not. Dense stays dense, CSR stays CSR."""
    if have == due:
        return matrix
    place = {name: column for column, name in enumerate(have)}
    pairs = [(column, place[name]) for column, name in enumerate(due) if name in place]
    to, found = (np.array(side, dtype=np.int64) for side in (zip(*pairs, strict=True) if pairs else ((), ())))
    if isinstance(matrix, np.ndarray):
        taken = np.zeros((len(matrix), len(due)), dtype=matrix.dtype)
        taken[:, to] = matrix[:, found]
        return taken
    ones = np.ones(len(to), dtype=matrix.dtype)
    choice = sp.csr_array((ones, (found, to)), shape=(len(have), len(due)))
    picked = sp.csr_array(matrix @ choice)
    picked.sort_indices()
    return picked


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
