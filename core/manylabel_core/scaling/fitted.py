"""Scaling of batch trainers, fitted to the examples of `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.checks import is_sparse
from manylabel_core.rows import MAX_MAGNITUDE, Rows, as_rows, row_blocks
from manylabel_core.scaling._automatic import N_MOMENTS
from manylabel_core.scaling._fitted import find_moments
from manylabel_core.scaling.automatic import AutomaticScaling

Arrays = dict[str, NDArray[Any]]


class FittedScaling:
    """Scaling by fixed statistics; sparse examples stay sparse. `name` is its name in the parameter `scaling`."""

    name: ClassVar[str]

    @classmethod
    def fit(cls, X: Any) -> Self:
        """Return the scaling for these examples, an ndarray or CSR array of float32 or float64."""
        raise NotImplementedError

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the scaling that has these `arrays`; raises KeyError or ValueError if they are invalid."""
        raise NotImplementedError

    def arrays(self) -> Arrays:
        """Return the statistics of the scaling."""
        raise NotImplementedError

    def __call__(self, X: Any) -> Any:
        """Return scaled examples of the same shape and dtype; the scaling of an example does not depend on other
        examples.
        """
        raise NotImplementedError


class FittedAutomaticScaling(FittedScaling):
    """Scaling of online learners by the statistics of all examples of the fit, in any order; see `AutomaticScaling`.

    Mean and deviation are computed from values clipped at five deviations from the mean, repeatedly until the deviation
    no longer changes.

    A value is missing if it is NaN in an ndarray or not stored in a CSR array. No other scaling accepts NaN.
    """

    name = "auto"

    def __init__(self, scaling: AutomaticScaling) -> None:
        self.scaling = scaling

    @classmethod
    def fit(cls, X: Any) -> Self:
        _check_magnitude(X)
        scaling, n_features = AutomaticScaling(), X.shape[1]
        moments = np.zeros((n_features, N_MOMENTS))
        for columns in _columns(X):
            find_moments(*_by_column(X, columns), moments[columns])
        count = np.array([X.shape[0]], dtype=np.int64)
        scaling.restore({"scaling.count": count, "scaling.moments": moments}, n_features, 0)
        return cls(scaling)

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        scaling = AutomaticScaling()
        scaling.restore(arrays, len(arrays["scaling.moments"]), 0)
        return cls(scaling)

    def arrays(self) -> Arrays:
        return self.scaling.state()

    def __call__(self, X: Any) -> Any:
        _check_magnitude(X)
        parts = [_like(X[block], self.scaling.score(_rows(X[block]))) for block in _blocks(X)]
        if len(parts) == 1:
            return parts[0]
        return sp.csr_array(sp.vstack(parts, format="csr")) if is_sparse(X) else np.vstack(parts)


class FittedAffineScaling(FittedScaling):
    """Features are shifted by `centre` and divided by `scale`, both of shape (n_features,), float64."""

    def __init__(self, centre: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        self.centre, self.scale = centre, scale

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        centre, scale = arrays["centre"], arrays["scale"]
        if centre.ndim != 1 or centre.shape != scale.shape or not (scale > 0).all():
            raise ValueError("a scaling must have a centre and a scale above 0 for each feature")
        return cls(centre, scale)

    def arrays(self) -> Arrays:
        return {"centre": self.centre, "scale": self.scale}

    def __call__(self, X: Any) -> Any:
        if is_sparse(X) and not self.centre.any():
            values = (X.data / self.scale[X.indices]).astype(X.dtype)
            return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
        scaled = ((_dense(X) - self.centre) / self.scale).astype(X.dtype)
        return sp.csr_array(scaled) if is_sparse(X) else scaled


class FittedStandardisation(FittedAffineScaling):
    """Scaling by mean and standard deviation; a constant feature is only centred."""

    name = "standard"

    @classmethod
    def fit(cls, X: Any) -> Self:
        X = _dense(X)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = X.mean(axis=0, dtype=np.float64)
            deviation = X.std(axis=0, dtype=np.float64)
        if not np.isfinite(deviation).all():
            raise ValueError("X has values that are too large to be scaled")
        varies = (X[:1] != X).any(axis=0) & (deviation > 0)  # rounding can move the mean of equal values
        return cls(np.where(varies, centre, X[:1].sum(axis=0)), np.where(varies, deviation, 1.0))


class FittedMaxAbsScaling(FittedAffineScaling):
    """Features are divided by their largest absolute value; zeros stay zeros."""

    name = "max_abs"

    @classmethod
    def fit(cls, X: Any) -> Self:
        sizes = abs(X).max(axis=0)
        scale = np.asarray(sizes.toarray() if is_sparse(X) else sizes, dtype=np.float64).ravel()
        return cls(np.zeros(X.shape[1]), np.where(scale > 0, scale, 1.0))


FITTED_SCALINGS: Mapping[str, type[FittedScaling] | None] = {
    "none": None,
    "auto": FittedAutomaticScaling,
    "standard": FittedStandardisation,
    "max_abs": FittedMaxAbsScaling,
}
"""Scalings of batch trainers by the value of the parameter `scaling`."""


def as_taken(X: Any, scaling: str) -> Any:
    """Return a matrix, or a mapping of matrices, in the input format of a scaling: NaN becomes 0, except for "auto"."""
    if isinstance(X, Mapping):
        return {name: as_taken(view, scaling) for name, view in X.items()}
    if scaling == "auto" or is_sparse(X) or not np.isnan(X).any():
        return X
    return np.nan_to_num(X, nan=0.0)


def _blocks(X: Any) -> list[slice]:
    """Return at least one slice of rows, each of bounded size."""
    stored = X.nnz if is_sparse(X) else X.size
    return list(row_blocks(X.shape[0], 16 * (stored // max(1, X.shape[0]) + 1))) or [slice(0, 0)]


def _columns(X: Any) -> list[slice]:
    """Return slices of columns, each of bounded size; all columns of a CSR array."""
    if is_sparse(X):
        return [slice(0, X.shape[1])]
    return list(row_blocks(X.shape[1], max(1, X.shape[0]) * X.dtype.itemsize))


def _by_column(X: Any, columns: slice) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the bounds of some columns, and copies of their values that are not missing, column by column."""
    if is_sparse(X):
        transposed = X.tocsc()
        return transposed.indptr.astype(np.int64), transposed.data
    values = np.ascontiguousarray(X[:, columns].T)
    has = ~np.isnan(values)
    ends = np.cumsum(has.sum(axis=1, dtype=np.int64))
    values = np.sort(values, axis=1)  # NaN comes last
    return np.concatenate([np.zeros(1, np.int64), ends]), values[np.sort(has, axis=1)[:, ::-1]]


def _rows(X: Any) -> Rows:
    return as_rows(X, np.float64)[0]


def _like(X: Any, rows: Rows) -> Any:
    """Return rows as a matrix of the type of X."""
    values = rows.values.astype(X.dtype)
    if is_sparse(X):
        return sp.csr_array((values, rows.indices, rows.indptr), shape=X.shape)
    dense = np.zeros(X.shape, dtype=X.dtype)
    dense[np.repeat(np.arange(X.shape[0]), np.diff(rows.indptr)), rows.indices] = values
    return dense


def _dense(X: Any) -> Any:
    return X.toarray() if is_sparse(X) else X


def _check_magnitude(X: Any) -> None:
    stored = X.data if is_sparse(X) else X
    if stored.size and max(-np.fmin.reduce(stored, axis=None), np.fmax.reduce(stored, axis=None)) > MAX_MAGNITUDE:
        raise ValueError(f"X must contain values of at most {MAX_MAGNITUDE:g} in absolute value to be scaled")
