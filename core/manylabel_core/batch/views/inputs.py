"""Checks of the input of LSA-MML: several views of the same rows, some of them missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from manylabel_core.batch.base.inputs import check_labels
from manylabel_core.batch.views.block import Block, Matrix, column_means, without_rows
from manylabel_core.checks import TooFewRows, canonical, is_sparse
from manylabel_core.scaling.fitted import FITTED_SCALINGS, FittedScaling

Views = Mapping[str, Any]
Mask = NDArray[np.bool_]

FLAT = 1e-24
"""Views whose energy is at most this share of their sum of squares are constant up to rounding."""


def check_views(
    X: Any, missing: Any, known: Sequence[str] | None = None, *, allow_nan: bool = False
) -> tuple[dict[str, Any], dict[str, Mask]]:
    """Check views, and masks of the rows that lack them; return both by name.

    Missing rows of the views, ndarrays or CSR arrays of float64, become 0; the masks, (n_samples,), are True where a
    row has the view. `known` lists the allowed names, and `allow_nan` allows NaN in arrays for missing values.
    """
    if not isinstance(X, Mapping):
        raise ValueError(
            f"X must be a mapping of view names to matrices, not {type(X).__name__}; a single view is {{'x': X}}"
        )
    if not X:
        raise ValueError("X must have at least one view")
    if missing is not None and not isinstance(missing, Mapping):
        raise ValueError(f"missing must be a mapping of view names to masks of rows, not {type(missing).__name__}")
    _check_names(X, known)
    raw = {name: _matrix(name, X[name]) for name in X}
    first, n = next((name, matrix.shape[0]) for name, matrix in raw.items())
    for name, matrix in raw.items():
        if matrix.shape[0] != n:
            raise ValueError(f"X[{name!r}] has {matrix.shape[0]} rows, but X[{first!r}] has {n}")
    gone = {name: _mask(f"missing[{name!r}]", (missing or {}).get(name), n, default=False) for name in raw}
    for name in missing or {}:
        if name not in raw:
            raise ValueError(f"missing names the view {name!r}, which X does not have")
    views = {name: _finite(name, without_rows(matrix, gone[name]), allow_nan) for name, matrix in raw.items()}
    _check_rows(gone)
    return views, {name: ~mask for name, mask in gone.items()}


def check_labelled(labelled: Any, n_samples: int) -> Mask:
    """Return the mask of labelled rows, which must have at least one."""
    mask = _mask("labelled", labelled, n_samples, default=True)
    if not mask.any():
        raise TooFewRows("labelled must be True for at least one row")
    return mask


def check_some_labels(Y: Any, labelled: Mask) -> sp.csr_array:
    """Return the indicator matrix of the labelled rows, 0 elsewhere; values of unlabelled rows are ignored."""
    given = sp.csr_array(Y) if is_sparse(Y) else _labelled_rows(Y, labelled)
    numbers = is_sparse(given) or getattr(getattr(given, "dtype", None), "kind", "") in tuple("biuf")
    if numbers and given.ndim == 2 and given.shape[0] == len(labelled):  # otherwise check_labels reports the error
        given = without_rows(given, ~labelled)
    return sp.csr_array((check_labels(given, len(labelled)) > 0).astype(np.float64))


def _labelled_rows(Y: Any, labelled: Mask) -> Any:
    """Return the labelled rows of Y as an array; invalid labels are returned for `check_labels` to reject."""
    try:
        rows = Y if Y is None or isinstance(Y, (list, tuple)) else np.asarray(Y)
        if isinstance(rows, np.ndarray) and rows.dtype == np.object_ and rows.ndim:
            rows = rows.tolist()
        if not isinstance(rows, (list, tuple)) or len(rows) != len(labelled):
            return rows
        found = np.asarray([row for row, known in zip(rows, labelled, strict=True) if known])
    except ValueError:  # rows of different lengths
        return Y
    whole = np.zeros((len(rows), *found.shape[1:]), dtype=found.dtype)
    whole[labelled] = found
    return whole


def fitted_scaling(name: str, X: Any, present: Mask) -> FittedScaling | None:
    """Return the scaling of a view, fitted to the rows that have the view; None for "none"."""
    scaling = FITTED_SCALINGS[name]
    return None if scaling is None else scaling.fit(X if present.all() else X[present])


def fitted_block(name: str, X: Any, present: Mask) -> Block:
    """Return a view centred and scaled to a mean energy of 1 per row."""
    there = None if present.all() else present
    n_present = int(np.count_nonzero(present))
    if n_present == 0:
        raise TooFewRows(f"missing: no row has the view {name!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        mean = column_means(X, n_present)
        block = Block(X, there, mean, 1.0)
        energy, offset = block.energy(), n_present * float(mean @ mean)
    if not np.isfinite(energy + offset):
        raise ValueError(f"X[{name!r}] has values that are too large: their squares overflow")
    if energy <= FLAT * offset:
        raise TooFewRows(f"X[{name!r}] must have rows that differ: all present rows are equal")
    block.scale = float(np.sqrt(energy / n_present))
    return block


def label_block(Y: sp.csr_array, labelled: Mask) -> tuple[Block, float]:
    """Return the labels minus their means over the labelled rows, and their energy per row (1 instead of 0)."""
    n_labelled = int(np.count_nonzero(labelled))
    block = Block(Y, None if labelled.all() else labelled, column_means(Y, n_labelled), 1.0)
    return block, block.energy() / n_labelled or 1.0


def seen_blocks(
    views: Mapping[str, Any], present: Mapping[str, Mask], means: Mapping[str, Matrix], scales: Mapping[str, float]
) -> list[Block]:
    """Return views scaled for a fitted model."""
    return [
        Block(views[name], None if present[name].all() else present[name], means[name], scales[name]) for name in views
    ]


def _check_names(X: Views, known: Sequence[str] | None) -> None:
    for name in X:
        if not isinstance(name, str) or not name:
            raise ValueError(f"X must have names of views, not {name!r}, as its keys")
        if known is not None and name not in known:
            raise ValueError(f"X holds the unknown view {name!r}; the views are {', '.join(map(repr, known))}")


def _matrix(name: str, X: Any) -> Any:
    """Return a numeric matrix; finiteness is checked after missing rows are removed."""
    try:
        return check_array(X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=False)
    except ValueError as error:
        raise ValueError(f"X[{name!r}]: {error}") from error


def _finite(name: str, X: Any, allow_nan: bool) -> Any:
    stored = X.data if is_sparse(X) else X
    if np.isinf(stored).any() if allow_nan and not is_sparse(X) else not np.isfinite(stored).all():
        raise ValueError(f"X[{name!r}] must contain finite numbers, except in rows that `missing` names")
    return canonical(sp.csr_array(X)) if is_sparse(X) else X


def _mask(what: str, mask: Any, n: int, *, default: bool) -> Mask:
    if mask is None:
        return np.full(n, default)
    mask = np.asarray(mask)
    if mask.dtype != np.bool_:
        raise ValueError(f"{what} must be a mask of True and False, not of type {mask.dtype}")
    if mask.shape != (n,):
        raise ValueError(f"{what} must have one entry for each of the {n} rows, not of shape {mask.shape}")
    return np.asarray(mask)


def _check_rows(gone: Mapping[str, Mask]) -> None:
    lost = np.all(list(gone.values()), axis=0)
    if lost.any():
        raise ValueError(f"row {int(np.argmax(lost))} has no view at all: every view of X is missing there")
