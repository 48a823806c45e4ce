"""Rows of data as tests write them."""

from collections.abc import Iterable, Sequence

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


def quoted(name: str) -> str:
    """A name in an ARFF file."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def arff_of(features: Sequence[str], labels: Sequence[str], rows: Iterable[Sequence[float]], is_sparse: bool) -> str:
    """An ARFF file of rows that have the values of the features, and 0 or 1 for each label."""
    lines = ["% by a test", "@RELATION 'a: -C -3'", ""]
    lines += [f"@attribute {quoted(name)} numeric" for name in features]
    lines += [f"@ATTRIBUTE {quoted(name)} {{0, 1}}" for name in labels]
    lines += ["@Data"]
    for row in rows:
        pairs = [f"{i} {value!r}" for i, value in enumerate(row) if value]
        lines.append("{" + ", ".join(pairs) + "}" if is_sparse else ", ".join(map(repr, row)))
    return "\n".join(lines)
