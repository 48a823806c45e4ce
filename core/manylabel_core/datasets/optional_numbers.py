"""Optional numbers of the records of a dataset."""

from __future__ import annotations

from dataclasses import replace

import scipy.sparse as sp

from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.records.given_columns import with_new_given


def with_optional_numbers(dataset: Dataset) -> Dataset:
    """Return a dataset of records with an additional column for each optional number, which is 1 if a record has the
    number.

    The columns are the last ones of the view of records. Records that contain only numbers, and dense views, get none.
    """
    rows, names = dataset.views.get(SINGLE), dataset.feature_names.get(SINGLE)
    if names is None or not isinstance(rows, sp.csr_array):
        return dataset
    rows, names = with_new_given(rows, names)
    return replace(
        dataset, views={**dataset.views, SINGLE: rows}, feature_names={**dataset.feature_names, SINGLE: names}
    )
