"""Proximal bundle method over positive matrices of trace 1 for the label covariance that MLRL tries next.

The method is Kiwiel's (Mathematical Programming 46, 1990) with a Bregman divergence instead of the squared distance
(Mathematical Programming 85, 1999); see Eq. (27) of docs/mathematics.md.

g(Omega), the optimum of (6) over the weights, is convex. Every feasible a of the dual gives a plane below it,

    g(Omega) >= sum a - <Omega, M> / (2 lambda),     M = B'KB.

The next Omega minimises the highest plane plus the von Neumann divergence from the best Omega so far over a step. The
dual is a smooth problem in p, the weights of the planes in a convex combination:

    max_p  p.heights - 1/rate log tr exp(log Omega_best + rate / (2 lambda) sum_t p_t M_t),

with Omega the exponential in it, scaled to trace 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.relations._simplex import climb
from manylabel_core.batch.relations.covariance import Matrix, rebuilt

Vector = NDArray[np.float64]

PLANES = 20  # maximum number: more planes sharpen the model, but each costs an L x L matrix
PRECISION = 0.1  # share of the predicted gain
NEWTON_STEPS, HALVINGS, PAIRS = 20, 15, 1000  # maximum numbers of each kind of step when solving for p
FASTER = 4.0  # factor from one rate to the next


class LowerModel:
    """Piecewise linear lower bound of g: the cutting planes found so far."""

    def __init__(self, lam: float) -> None:
        self._double = 2.0 * lam
        self._heights = np.zeros(0)
        self._slopes = np.zeros((0, 0, 0))
        self._p = np.zeros(0)  # the combination that led to the last trial

    def add(self, height: float, M: Matrix) -> None:
        """Add the plane of an `a`, given by its sum and its M. If there are too many planes, remove the least used
        one."""
        if not len(self._p):  # a single plane is the best combination
            self._heights, self._slopes, self._p = np.array([height]), M[np.newaxis], np.ones(1)
        if len(self._p) == PLANES:
            kept = np.arange(PLANES) != 1 + np.argmin(self._p[1:-1])
            self._heights, self._slopes, self._p = self._heights[kept], self._slopes[kept], self._p[kept]
        self._heights = np.append(self._heights, height)
        self._slopes = np.concatenate([self._slopes, M[np.newaxis]])
        self._p = np.append(self._p / self._p.sum(), 0.0)

    def bound_with(self, height: float, M: Matrix) -> float:
        """Return the lower bound on the minimum of g by one plane."""
        return float(height - np.linalg.eigvalsh(M)[-1] / self._double)

    def bound(self, reached: float, known: float) -> float:
        """Return the lower bound on the minimum of g by the best combination of planes, given an upper and a lower
        bound.
        """
        n_labels = self._slopes.shape[1]
        anywhere = np.zeros((n_labels, n_labels))
        # The smooth problem is at most log(n_labels) / rate below the requested one.
        rate = np.log(n_labels + 1) / (PRECISION * max(reached - known, 1e-6 * abs(reached)))
        at = self._highest(self._p, anywhere, np.eye(n_labels) / n_labels, float(rate), reached)
        p = at.p / at.p.sum()
        height, slope = float(p @ self._heights), np.tensordot(p, self._slopes, 1)
        found = self.bound_with(height, slope)
        if found > known:  # stored as plane 0, because the planes it combines may be dropped
            self._heights[0], self._slopes[0] = height, slope
        return found

    def trial(self, center: Matrix, M: Matrix, reached: float, step: float, lost: float) -> tuple[Matrix, float]:
        """Return the next covariance to try, and the model's lower bound of g there.

        `center` is the best covariance so far, and M and `reached` are its slope (approximately) and objective. `step`
        bounds the change that M alone would make in the logarithm of an eigenvalue. Every direction gets the share
        `lost` of a mean eigenvalue, so that a lost relation can return.
        """
        values, V = np.linalg.eigh(center)
        values = np.maximum(values, lost / len(values))
        rate = self._double * step / float(np.linalg.eigvalsh(M)[-1])
        at = self._highest(self._p, rebuilt(np.log(values), V), rebuilt(values, V), rate, reached)
        self._p = at.p / at.p.sum()
        return rebuilt(at.weights, at.V), at.value

    def _highest(self, p: Vector, logarithm: Matrix, center: Matrix, last: float, reached: float) -> _Point:
        """Maximise the problem of p, continuing from lower rates, because the problem has near-kinks at high rates."""
        planes = self._heights - np.tensordot(self._slopes, center, 2) / self._double
        rate = min(last, 1.0 / max(float(np.ptp(planes)), 1e-300))
        at = self._climbed(self._evaluate(p, logarithm, rate), logarithm, rate, reached)
        while rate < last:
            rate = min(last, FASTER * rate)
            at = self._climbed(self._evaluate(at.p, logarithm, rate), logarithm, rate, reached)
        return at

    def _climbed(self, at: _Point, logarithm: Matrix, rate: float, reached: float) -> _Point:
        """Maximise the problem of p at one rate, by Newton steps that are halved until they help."""
        for _ in range(NEWTON_STEPS):
            missing = float(at.planes.max() - at.p @ at.planes)
            if len(at.p) == 1 or missing <= PRECISION * max(reached - at.value, 1e-12 * abs(reached)):
                break
            towards = self._newton_target(at, rate, PRECISION**2 * missing)
            share = 1.0
            for _ in range(HALVINGS):
                further = self._evaluate(at.p + share * (towards - at.p), logarithm, rate)
                if further.value >= at.value + 1e-4 * share * (at.planes @ (towards - at.p)):
                    break
                share *= 0.5
            else:
                break
            at = further
        return at

    def _evaluate(self, p: Vector, logarithm: Matrix, rate: float) -> _Point:
        slopes = self._slopes.reshape(len(p), -1)  # np.tensordot and np.einsum take longer than small products
        slope = np.dot(p, slopes).reshape(logarithm.shape)
        exponents, V = np.linalg.eigh(logarithm + slope * (rate / self._double))
        weights = np.exp(exponents - exponents[-1])
        total = float(weights.sum())
        value = float(p @ self._heights - (np.log(total) + exponents[-1]) / rate)
        weights /= total
        planes = self._heights - np.dot(slopes, rebuilt(weights, V).ravel()) / self._double
        return _Point(p, value, planes, exponents, weights, V)

    def _newton_target(self, at: _Point, rate: float, precision: float) -> Vector:
        """Maximise the second-order model of the problem of p over all combinations."""
        turned = at.V.T @ self._slopes @ at.V
        apart = at.exponents[:, None] - at.exponents[None, :]
        close = np.abs(apart) < 1e-9
        means = (at.weights[:, None] + at.weights[None, :]) / 2.0
        shares = np.where(close, means, (at.weights[:, None] - at.weights[None, :]) / np.where(close, 1.0, apart))
        through = np.einsum("tii,i->t", turned, at.weights)
        H = (turned * shares).reshape(len(turned), -1) @ turned.reshape(len(turned), -1).T - np.outer(through, through)
        H *= rate / self._double**2
        H += 1e-10 * np.trace(H) / len(H) * np.eye(len(H))
        return np.asarray(climb(at.p, at.planes, H, precision, PAIRS))


class _Point(NamedTuple):
    """Value and gradient of the problem for one p (the heights of the planes at Omega), and Omega itself."""

    p: Vector
    value: float
    planes: Vector
    exponents: Vector
    weights: Vector
    V: Matrix
