"""The half-steps of LSA-MML, each the minimiser of its objective (8) over one group of variables.

Rows are examples here and columns in the paper. P is the common representation (n_samples, n_components), B the
basis of a view (n_features, n_components), W the weights of the labels (n_labels, n_components).

See Eqs. (33) to (37) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Matrix = NDArray[np.float64]

MAX_STEPS = 30
"""Steps of the alternating direction method, for one basis in one iteration; the next iteration continues."""
PRECISION = 1e-5
"""Change of a basis, relative to the lengths of its columns, below which the method ends."""
MIN_MU, ABOVE = 1e-3, 1.1
"""mu is at least this share of the largest eigenvalue, and this multiple of the largest eigenvalue of G."""


class Quadratic(NamedTuple):
    """Quadratic `tr(B H B') - 2 tr(B' R)`, to be minimised over B with columns in the unit ball."""

    H: Matrix  # (n_components, n_components), symmetric: the data's part minus G; not always positive
    R: Matrix  # (n_features, n_components)
    least_mu: float  # largest eigenvalue of G: with a larger mu, every step has one minimiser

    def value(self, B: Matrix) -> float:
        return float(np.vdot(B.T @ B, self.H) - 2.0 * np.vdot(B, self.R))


def centred(M: Matrix) -> Matrix:
    """Return `C M C` with C = I - 11'/K, for a symmetric M (K, K)."""
    rows = M - M.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1)[:, np.newaxis])


def hsic(grams: Sequence[Matrix]) -> float:
    """Return the sum over ordered pairs of different views of `HSIC(B_v, B_w)`, Eq. (6) with linear kernels, from all
    `B_v'B_v`.
    """
    n_components = len(grams[0])
    if n_components == 1:
        return 0.0
    each = [centred(gram) for gram in grams]
    total = np.sum(each, axis=0)
    apart = np.vdot(total, total) - sum(float(np.vdot(gram, gram)) for gram in each)
    return float(apart) / (n_components - 1) ** 2


def pull(others: Sequence[Matrix], gamma: float, n_components: int) -> Matrix:
    """Return G: HSIC contributes `-tr(B G B')` to the objective of a basis B."""
    if not others or n_components == 1:
        return np.zeros((n_components, n_components))
    return 2.0 * gamma / (n_components - 1) ** 2 * centred(np.sum(others, axis=0))


def in_ball(B: Matrix) -> Matrix:
    """Shorten columns longer than 1 to 1."""
    return np.asarray(B / np.maximum(1.0, np.linalg.norm(B, axis=0)))


def basis(problem: Quadratic, start: Matrix, *, precision: float = PRECISION, most: int = MAX_STEPS) -> Matrix:
    """Minimise over a basis by at most `most` steps of the alternating direction method of multipliers, Eq. (18), from
    a start in the ball.

    It ends when two distances are at most `precision`: of B from its copy in the ball, and of this copy from the
    previous one (root mean squares over columns). Where the problem is not convex, the result may be worse than the
    start.
    """
    values, vectors = np.linalg.eigh(problem.H)
    mu = _penalty(values, problem.least_mu)
    inverse = (vectors / (values + mu)) @ vectors.T
    S, T = start, _multipliers(problem, start, mu)
    enough = precision * np.sqrt(len(problem.H))
    for _ in range(most):
        B = (problem.R + mu * (S - T)) @ inverse
        T += B
        before, S = S, in_ball(T)
        T -= S
        if max(np.linalg.norm(B - S), np.linalg.norm(S - before)) <= enough:
            break
    return S


def representation(normal: Matrix, right: Matrix) -> Matrix:
    """Return rows of P for one normal matrix, Eqs. (12) and (14): `P normal = right`."""
    try:
        factor = cho_factor(normal, lower=True)
    except LinAlgError as error:
        raise ValueError("ridge must be larger, because the solution is not unique") from error
    return np.ascontiguousarray(cho_solve(factor, right.T).T)


def weights(gram: Matrix, cross: Matrix) -> Matrix:
    """Return W of the labels, Eq. (20) with a ridge: `W (P'P + I) = Y'P` over the labelled rows."""
    return representation(gram + np.eye(len(gram)), cross)


def _penalty(values: Matrix, least: float) -> float:
    """Return mu: the geometric mean of the ends of the spectrum, which makes the method fast, but at least its lower
    bound."""
    largest = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    mu = np.sqrt(max(values[0], MIN_MU**2 * largest) * largest)
    return float(max(mu, ABOVE * least, -2.0 * values[0]))


def _multipliers(problem: Quadratic, B: Matrix, mu: float) -> Matrix:
    """Return the multipliers T if B were optimal: along columns on the ball, and 0 for columns inside the ball."""
    outward = np.einsum("ij,ij->j", problem.R - B @ problem.H, B) / mu
    at_ball = np.linalg.norm(B, axis=0) > 1.0 - 1e-9
    return B * np.where(at_ball, np.maximum(0.0, outward), 0.0)
