"""Rows of data as tests write them."""

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import Rows


def dense(rows: Rows, n_features: int) -> NDArray[np.float64]:
    """Rows as a dense matrix."""
    X = np.zeros((len(rows.indptr) - 1, n_features))
    for i in range(len(X)):
        features, values = rows.row(i)
        X[i, features] = values
    return X
