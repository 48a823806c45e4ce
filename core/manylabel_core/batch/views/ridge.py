"""Ridge regression of labels whose penalty is chosen by leave-one-out, in closed form.

See Eqs. (37) to (39) of docs/mathematics.md. scikit-learn's `RidgeCV` takes fixed penalties. The penalties here are
shares of an eigenvalue from the same decomposition that gives the residuals, so `RidgeCV` would need another one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

Matrix = NDArray[np.float64]

PENALTIES = 10.0 ** np.arange(-6.0, 2.25, 0.5)
"""Penalties that are tried, as shares of the largest eigenvalue of the features' Gram matrix."""


class Ridge(NamedTuple):
    """Fitted ridge regression, which predicts `F @ coef.T + intercept`; the intercept is not penalised."""

    coef: Matrix  # (n_labels, n_features)
    intercept: Matrix  # (n_labels,)
    penalty: float  # penalty on `|coef|^2`, added to a sum of squares over rows
    error: float  # leave-one-out sum of squares with this penalty


class Rotated(NamedTuple):
    """Centred features and labels, in coordinates in which a fit with any penalty is a product.

    Without `full`, U contains the features on their principal axes (columns of length sqrt(w)). With `full`, U is an
    orthonormal basis of the space orthogonal to the constant.
    """

    values: Matrix  # (n_directions,): eigenvalues w of the features' Gram matrix, at least 0
    U: Matrix  # (n_samples, n_directions)
    toward: Matrix  # (n_directions, n_labels): U'Y
    Y: Matrix  # (n_samples, n_labels), centred
    full: bool

    def penalties(self) -> Matrix:
        """Return the candidate penalties; they are arbitrary for constant features."""
        return PENALTIES * (float(self.values.max(initial=0.0)) or 1.0)

    def residuals(self, penalty: float) -> Matrix:
        """Return the leave-one-out residuals, (n_samples, n_labels); neither form divides by a small eigenvalue."""
        if self.full:
            shrunk = penalty / (self.values + penalty)
            return np.asarray((self.U * shrunk) @ self.toward / ((self.U**2) @ shrunk)[:, np.newaxis])
        inverse = 1.0 / (self.values + penalty)
        left = 1.0 - 1.0 / len(self.Y) - (self.U**2) @ inverse
        return np.asarray((self.Y - (self.U * inverse) @ self.toward) / left[:, np.newaxis])

    def best(self) -> tuple[float, float]:
        """Return the penalty with the least leave-one-out error, and the error; in a tie, the largest penalty."""
        tried = [(_square(self.residuals(penalty)), -penalty) for penalty in self.penalties()]
        error, penalty = min(tried)
        return -penalty, error


def fit_ridge(F: Matrix, Y: Matrix) -> Ridge:
    """Fit labels to features with the penalty of the least leave-one-out error; a single row gives a constant."""
    centre, means = F.mean(axis=0), Y.mean(axis=0)
    if len(F) == 1:
        return Ridge(np.zeros((Y.shape[1], F.shape[1])), means, 1.0, 0.0)
    F = F - centre
    rotated = rotate(F, Y - means)
    penalty, error = rotated.best()
    if rotated.full:
        dual = (rotated.U / (rotated.values + penalty)) @ rotated.toward
        coef = dual.T @ F
    else:
        normal = F.T @ F + penalty * np.eye(F.shape[1])
        coef = np.asarray(np.linalg.solve(normal, F.T @ rotated.Y).T)
    return Ridge(coef, means - coef @ centre, penalty, error)


def rotate(F: Matrix, Y: Matrix) -> Rotated:
    """Rotate centred features and labels to the principal axes, by the smaller of the two Gram matrices."""
    n, d = F.shape
    if n > d + 1:
        values, vectors = np.linalg.eigh(F.T @ F)
        U = F @ vectors
    else:  # in an orthonormal basis of the space orthogonal to the constant
        H = helmert(n)
        turned = H @ F
        values, vectors = np.linalg.eigh(turned @ turned.T)
        U = H.T @ vectors
    return Rotated(np.maximum(values, 0.0), U, U.T @ Y, Y, n <= d + 1)


def _square(M: Matrix) -> float:
    return float(np.vdot(M, M))
