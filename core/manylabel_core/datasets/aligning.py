"""Conversion of a dataset to the columns of another one, so that a model of the other one can be evaluated on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manylabel_core.datasets.dataset import Dataset
from manylabel_core.records.given_columns import given_pairs, with_given


def aligned(dataset: Dataset, like: Dataset, *, for_labels: bool = True) -> Dataset:
    """Return the rows of a dataset with the labels and features of the dataset `like`, in the order of `like`.

    Named columns are matched by name, numbered ones by number. Columns that only `dataset` has are omitted. Features
    that only `like` has are missing, labels are 0, and rows lack a view that only `like` has. If a number is optional
    in `like`, each row states whether it has the number, even if all rows of `dataset` have it. With `for_labels`, at
    least one label must be in both.
    """
    check_text(dataset, like)
    unknown = dataset.views.keys() - like.views.keys()
    if unknown:
        due = ", ".join(like.views)
        raise ValueError(f"the dataset must have the views {due}, not {', '.join(dataset.views)}")
    if for_labels and not set(dataset.label_names) & set(like.label_names):
        raise ValueError(f"the dataset has none of the labels to predict ({_some(like.label_names)})")
    dataset = with_views(dataset, like)
    views = {name: _view(dataset, like, name) for name in like.views}
    Y = _columns(dataset.Y, dataset.label_names, like.label_names)
    names, splits = dict(like.feature_names), dict(dataset.splits)
    labelled, missing = dataset.labelled.copy(), dict(dataset.missing)
    others = like.text, dataset.weights, like.label_details
    return Dataset(views, Y, like.label_names, names, splits, labelled, missing, *others)


def with_views(dataset: Dataset, other: Dataset) -> Dataset:
    """Return a dataset that also has the views of another dataset; its rows lack these views."""
    new = [name for name in other.views if name not in dataset.views]
    if not new:
        return dataset
    n, everyone = dataset.n_rows, np.ones(dataset.n_rows, dtype=np.bool_)
    empty: dict[str, Any] = {name: sp.csr_array((n, other.views[name].shape[1]), dtype=np.float32) for name in new}
    return replace(
        dataset,
        views={**dataset.views, **empty},
        feature_names={**dataset.feature_names, **{name: other.feature_names[name] for name in new}},
        missing={**dataset.missing, **dict.fromkeys(new, everyone)},
    )


def check_text(dataset: Dataset, like: Dataset) -> None:
    """Raise ValueError if both datasets have records, with different text options."""
    if dataset.text is not None and like.text is not None and dataset.text != like.text:
        mine, its = dataset.text.to_json(), like.text.to_json()
        names = ", ".join(name for name, value in mine.items() if value != its[name])
        raise ValueError(f"the texts of the two datasets were tokenised with different options: {names} differ")


def _view(dataset: Dataset, like: Dataset, name: str) -> Any:
    have, due = dataset.feature_names[name], like.feature_names[name]
    if (have is None) != (due is None):
        found, needed = ("numbers", "names") if have is None else ("names", "numbers")
        raise ValueError(f"the features of view {name!r} must have {needed}, as in the other dataset, not {found}")
    width = like.views[name].shape[1]
    if have is None or due is None:
        return _columns(dataset.views[name], range(dataset.views[name].shape[1]), range(width))
    matrix = _columns(dataset.views[name], have, due)
    return matrix if have == due else with_given(matrix, given_pairs(dict(zip(due, range(width), strict=True))), width)


def _columns(matrix: Any, have: Sequence[Any], due: Sequence[Any]) -> Any:
    """Return the columns named in `due` of a matrix whose columns are named in `have`. Missing ones are NaN in dense
    matrices, and not stored in CSR."""
    if have == due:
        return matrix
    place = {name: column for column, name in enumerate(have)}
    pairs = [(column, place[name]) for column, name in enumerate(due) if name in place]
    to, found = (np.array(side, dtype=np.int64) for side in (zip(*pairs, strict=True) if pairs else ((), ())))
    if isinstance(matrix, np.ndarray):
        taken = np.full((len(matrix), len(due)), np.nan, dtype=matrix.dtype)
        taken[:, to] = matrix[:, found]
        return taken
    columns = np.full(len(have), -1, dtype=np.int32)
    columns[found] = to
    indices = columns[matrix.indices]
    kept = indices >= 0
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    shape = (matrix.shape[0], len(due))
    picked = sp.csr_array((matrix.data[kept], indices[kept], before[matrix.indptr]), shape=shape)
    picked.sort_indices()
    return picked


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
