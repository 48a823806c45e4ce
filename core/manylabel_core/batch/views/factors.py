"""Factor analysis of rows that may lack views: the covariance of representations, and the noise of each view.

Objective (8) has the same penalty for all directions of a representation, so one view carries little information about
the others. With the covariance, the representation of a row is its expectation given the views of the row. See Eqs.
(43) to (45) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.representation import Patterns, represent

ROUNDS = 10
"""Iterations of expectation and maximisation."""
STRENGTH = 3.0
"""Factor of the inverse covariance for new rows, because the covariance is fitted to the training rows."""
SHARE = 0.01
"""Weight of rows that lack views in the initial covariance."""
LEAST_VARIANCE = 1e-8
"""Smallest variance of a direction, as a share of the largest one."""
LEAST_NOISE = 1e-6
"""Noise of a view, as a share of its energy."""
FIRST_NOISE = 0.1
"""Noise of a view in the first round, as a share of its energy."""


class Factors(NamedTuple):
    """Factor model: rows of P are normal around 0, and views are their images under the bases plus noise."""

    precision: Matrix  # (n_components, n_components): inverse of the covariance of rows of P
    noise: Matrix  # (n_views,): variance of a feature of the view beyond what the bases explain

    def represent(self, blocks: Sequence[Block], bases: Sequence[Matrix], which: Sequence[int]) -> Matrix:
        """Return the expectation of P given the views of each row, (n_samples, n_components); `which` has the numbers
        of the views.
        """
        return represent(blocks, bases, [1.0 / float(self.noise[v]) for v in which], self.precision)


def fit_factors(views: Sequence[Block], bases: Sequence[Matrix], P: Matrix) -> Factors:
    """Fit the covariance and the noise to views with a mean energy of 1 per row, from representations P, (n_samples,
    n_components).
    """
    patterns = Patterns(views)
    widths = np.array([view.X.shape[1] for view in views], dtype=np.float64)
    energies = [view.energy() for view in views]
    covariance, noise = _first_covariance(patterns, P), FIRST_NOISE / widths
    for _ in range(ROUNDS):
        factors = Factors(_inverse(covariance), noise)
        covariance, noise = _maximised(views, bases, energies, patterns, factors)
    return Factors(STRENGTH * _inverse(covariance), noise)


def _first_covariance(patterns: Patterns, P: Matrix) -> Matrix:
    covariance: Matrix = P.T @ P / len(P)
    for kind, rows in zip(patterns.kinds, patterns.rows, strict=True):
        if kind.all():
            covariance = P[rows].T @ P[rows] / len(rows) + SHARE * covariance
    return covariance


def _maximised(
    views: Sequence[Block], bases: Sequence[Matrix], energies: Sequence[float], patterns: Patterns, factors: Factors
) -> tuple[Matrix, Matrix]:
    """Return the maximum-likelihood covariance and noise for views and expected representations."""
    P = factors.represent(views, bases, range(len(views)))
    grams = np.array([B.T @ B for B in bases])
    total = np.zeros_like(factors.precision)
    there = np.zeros((len(views), *total.shape))
    for kind, rows in zip(patterns.kinds, patterns.rows, strict=True):
        moment = P[rows].T @ P[rows] + len(rows) * _spread(factors, grams, kind)
        total += moment
        there[kind] += moment
    errors = [
        energy - 2.0 * float(np.vdot(B, view.cross(P))) + float(np.vdot(gram, moment))
        for view, B, energy, gram, moment in zip(views, bases, energies, grams, there, strict=True)
    ]
    counts = np.array([view.n_present for view in views])
    widths = np.array([len(B) for B in bases])
    return total / len(P), np.maximum(np.array(errors) / counts, LEAST_NOISE) / widths


def _spread(factors: Factors, grams: Matrix, kind: NDArray[np.bool_]) -> Matrix:
    """Return the conditional covariance of a row of P given its views."""
    normal = factors.precision + np.tensordot(kind / factors.noise, grams, axes=1)
    return np.asarray(cho_solve(cho_factor(normal, lower=True), np.eye(len(normal))))


def _inverse(covariance: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(covariance)
    least = max(LEAST_VARIANCE * float(values[-1]), np.finfo(np.float64).tiny)
    return np.asarray((vectors / np.maximum(values, least)) @ vectors.T)
