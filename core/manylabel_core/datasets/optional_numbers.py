"""Optional numbers of the records of a dataset."""

from __future__ import annotations

from dataclasses import replace

import scipy.sparse as sp

from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.records.given_columns import with_new_given


def with_optional_numbers(dataset: Dataset) -> Dataset:
    """Return a dataset of records with a column for each optional number, which says that a record has it.

    They are the last columns of the view of records. Records of numbers alone, and dense views, have none.
    """
    rows, names = dataset.views.get(SINGLE), dataset.feature_names.get(SINGLE)
    if names is None or not isinstance(rows, sp.csr_array):
        return dataset
    rows, names = with_new_given(rows, names)
    return replace(
        dataset, views={**dataset.views, SINGLE: rows}, feature_names={**dataset.feature_names, SINGLE: names}
    )
