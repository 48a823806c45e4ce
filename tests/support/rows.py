"""Rows of data as tests write them."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.rows import Rows


def csr_of_all(X: Any) -> Any:
    """A dense matrix as a CSR array that stores every value, zeros too: none is missing."""
    n, width = X.shape
    return sp.csr_array((X.ravel(), np.tile(np.arange(width), n), np.arange(0, n * width + 1, width)), shape=X.shape)


def dense(rows: Rows, n_features: int) -> NDArray[np.float64]:
    """Rows as a dense matrix."""
    X = np.zeros((len(rows.indptr) - 1, n_features))
    for i in range(len(X)):
        features, values = rows.row(i)
        X[i, features] = values
    return X
