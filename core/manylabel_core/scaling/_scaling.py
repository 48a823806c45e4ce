"""Compiled passes of feature scaling."""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def to_unit_norm(indptr, values):  # type: ignore[no-untyped-def]
    """Return the values with every row divided by its Euclidean norm; rows of zeros stay."""
    scaled = np.empty(len(values), values.dtype)
    for i in range(len(indptr) - 1):
        row = values[indptr[i] : indptr[i + 1]]
        largest = 0.0
        for value in row:
            largest = max(largest, abs(np.float64(value)))
        total = 0.0
        for value in row:  # ratios of at most 1, so that squares neither overflow nor vanish
            ratio = np.float64(value) / largest if largest > 0.0 else 0.0
            total += ratio * ratio
        norm = largest * np.sqrt(total)
        for p in range(len(row)):
            scaled[indptr[i] + p] = np.float64(row[p]) / norm if norm > 0.0 else 0.0
    return scaled
