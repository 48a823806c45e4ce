"""Priors on the relations between labels: the matrix R of M3L, Eq. (24) of docs/mathematics.md.

R is positive definite, of shape (n_labels, n_labels). `R[l, k] > 0` means that the weights of the labels l and k are
similar, `< 0` that they are opposed; the diagonal determines the expected size of the weights of each label. Scaling R
by t is the same as scaling C by t, so every prior here has a mean diagonal of 1 (before eps is added). A matrix passed
as R is used unscaled.

A prior from data is often singular: ten categories span ten directions, regardless of the number of attributes. `R +
eps I` makes the prior positive definite, and `Prior.eps` is this eps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from manylabel_core.checks import is_sparse

FLOOR = 1e-6
"""Minimum ratio of the smallest eigenvalue of a prior to its largest."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior knowledge about the relations between labels."""

    R: NDArray[np.float64]  # (n_labels, n_labels), symmetric and positive definite
    eps: float = 0.0  # constant on the diagonal that makes R positive definite


def identity(n_labels: int) -> Prior:
    """Return the prior without relations: M3L is then one support vector machine for each label, "1-vs-All"."""
    return Prior(np.eye(n_labels))


def matrix(R: ArrayLike, n_labels: int | None = None) -> NDArray[np.float64]:
    """Check a matrix passed as a prior; raise ValueError unless it is finite, square (of `n_labels`), symmetric and
    positive definite.
    """
    R = symmetric(R, n_labels)
    smallest, largest = np.linalg.eigvalsh(R)[[0, -1]]
    if not smallest > len(R) * np.finfo(float).eps * max(largest, 0.0):
        raise ValueError(
            f"R must be positive definite, but its smallest eigenvalue is {smallest:.6g} (largest {largest:.6g}); "
            "manylabel_core.priors.positive_definite adds what is missing"
        )
    return R


def symmetric(R: ArrayLike, n_labels: int | None = None, name: str = "R") -> NDArray[np.float64]:
    """Check that a matrix is finite, square and symmetric; return it as exactly symmetric float64."""
    R = np.asarray(R)
    if R.ndim != 2 or R.shape[0] != R.shape[1] or not R.size:
        raise ValueError(f"{name} must be a square matrix, not of shape {R.shape}")
    if n_labels is not None and len(R) != n_labels:
        raise ValueError(f"{name} must have the shape (n_labels, n_labels), {(n_labels, n_labels)}, not {R.shape}")
    if R.dtype.kind not in "fiu" or not np.isfinite(R).all():
        raise ValueError(f"{name} must contain finite real numbers")
    R = R.astype(np.float64)
    asymmetry = np.abs(R - R.T).max()
    if asymmetry > 1e-8 * np.abs(R).max():
        raise ValueError(f"{name} must be symmetric, but it differs from its transpose by up to {asymmetry:.3g}")
    return np.asarray((R + R.T) / 2)


def positive_definite(R: ArrayLike, eps: float | None = None) -> Prior:
    """Return a symmetric matrix plus eps I.

    Parameters
    ----------
    R : array-like of shape (n_labels, n_labels)
    eps : float >= 0, optional
        None: the smallest eps >= 0 for which the smallest eigenvalue is at least `FLOOR` times the largest.

    Raises
    ------
    ValueError
        If R is not symmetric, has no positive eigenvalue, or eps does not suffice.
    """
    R = symmetric(R)
    smallest, largest = np.linalg.eigvalsh(R)[[0, -1]]
    if largest <= 0:
        raise ValueError(f"R must have a positive eigenvalue, but its largest is {largest:.6g}")
    if eps is None:
        # Adding eps raises every eigenvalue by eps, so the solution has smallest + eps = FLOOR * (largest + eps).
        eps = max(0.0, float((FLOOR * largest - smallest) / (1 - FLOOR)))
    elif not (np.isfinite(eps) and eps >= 0):
        raise ValueError(f"eps must be a number of at least 0, not {eps!r}")
    return Prior(matrix(R + eps * np.eye(len(R))), float(eps))


def category_attributes(attributes: ArrayLike, p: ArrayLike | None = None, eps: float | None = None) -> Prior:
    """Return the zero-shot prior: `R = sum_c p(c) y_c y_c'` over categories with known attributes (the labels).

    R is the mean product of two attributes over future categories, and not centred: two attributes that most categories
    lack have a product near 1. If examples are passed instead, each example is a category.

    Parameters
    ----------
    attributes : array-like or sparse matrix of shape (n_categories, n_labels)
        1 for an attribute that the category has, otherwise 0.
    p : array-like of shape (n_categories,), optional
        Expected frequency of each category, >= 0, scaled to sum 1. None: equal.
    eps : float, optional
        Constant added to the diagonal; see `positive_definite`. R has at most rank n_categories; a larger eps weakens
        the prior.

    References
    ----------
    B. Hariharan, S. V. N. Vishwanathan, M. Varma: Efficient max-margin multi-label classification with applications to
    zero-shot learning, Machine Learning 88 (2012), section 7.2.1.

    Examples
    --------
    >>> category_attributes([[1, 1, 0], [1, 0, 0]], p=[0.75, 0.25], eps=0.5).R
    array([[ 1.5,  0.5, -1. ],
           [ 0.5,  1.5, -0.5],
           [-1. , -0.5,  1.5]])
    """
    signs = 2.0 * _indicator(attributes, "attributes") - 1.0
    weights = np.ones(len(signs)) if p is None else np.asarray(p, dtype=np.float64)
    if weights.shape != (len(signs),) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"p must contain {len(signs)} numbers of at least 0, one for each category, and not only 0")
    return positive_definite((signs.T * (weights / weights.sum())) @ signs, eps)


def label_correlation(Y: Any, shrinkage: float | str = "auto") -> Prior:
    """Return the correlation of the columns of Y, shrunk towards the identity: `(1 - s) corr(Y) + s I`.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        0 and 1. A label with one class only is uncorrelated with all others.
    shrinkage : float from 0 to 1, or "auto"
        s; "auto" is the estimated optimum of J. Schaefer, K. Strimmer: A shrinkage approach to large-scale covariance
        matrix estimation, Statistical Applications in Genetics and Molecular Biology 4 (2005).
    """
    Y = sp.csr_array(Y) if is_sparse(Y) else _indicator(Y, "Y")
    both, n = _cooccurrence(Y)
    share = np.diag(both) / n
    spread = np.sqrt(share * (1 - share))
    spread[spread == 0] = np.inf  # only one class
    corr = (both / n - np.outer(share, share)) / np.outer(spread, spread)
    np.fill_diagonal(corr, 1.0)
    s = _optimal_shrinkage(both, n, share, spread, corr) if shrinkage == "auto" else shrinkage
    if isinstance(s, str) or not 0 <= s <= 1:
        raise ValueError(f"shrinkage must be 'auto' or a number from 0 to 1, not {shrinkage!r}")
    return positive_definite((1 - s) * corr + s * np.eye(len(corr)))


def from_mlrl(model: Any) -> Prior:
    """Return the label covariance that a fitted MLRL or SSMLRL has learnt, scaled to a mean diagonal of 1."""
    check_is_fitted(model, "label_covariance_")
    covariance = model.label_covariance_
    return positive_definite(covariance * (len(covariance) / np.trace(covariance)))


def _indicator(Y: Any, name: str) -> NDArray[np.float64]:
    Y = Y.toarray() if is_sparse(Y) else np.asarray(Y)
    if Y.ndim != 2 or not Y.size:
        raise ValueError(f"{name} must be a matrix with rows and columns, not of shape {Y.shape}")
    if Y.dtype.kind not in "biuf" or not np.isin(Y, (0, 1)).all():
        raise ValueError(f"{name} must contain only 0 and 1")
    return np.asarray(Y, dtype=np.float64)


def _cooccurrence(Y: Any) -> tuple[NDArray[np.float64], int]:
    """Return the number of examples in which both labels of each pair are relevant, and the number of examples."""
    if is_sparse(Y):
        if not np.isin(Y.data, (0, 1)).all():
            raise ValueError("Y must contain only 0 and 1")
        Y = Y.astype(np.float64)
        return (Y.T @ Y).toarray(), Y.shape[0]
    return Y.T @ Y, len(Y)


def _optimal_shrinkage(
    both: NDArray[np.float64],
    n: int,
    share: NDArray[np.float64],
    spread: NDArray[np.float64],
    corr: NDArray[np.float64],
) -> float:
    """Estimate the shrinkage s of least squared error from counts, because standardised labels have two values."""
    if n < 2:
        return 1.0
    one, zero = ((1 - share) / spread) ** 2, (share / spread) ** 2  # squares of the two values
    counts = np.diag(both)
    alone = counts[:, None] - both
    neither = n - counts[:, None] - counts[None, :] + both
    squares = both * np.outer(one, one) + neither * np.outer(zero, zero)
    squares += alone * np.outer(one, zero) + alone.T * np.outer(zero, one)
    # The correlation of two labels is the mean of the products of their standardised values: the variance of that mean.
    variance = (squares / n - corr**2) / (n - 1)
    apart = ~np.eye(len(corr), dtype=bool)
    signal = float((corr[apart] ** 2).sum())
    return min(1.0, max(0.0, float(variance[apart].sum()) / signal)) if signal > 0 else 1.0
