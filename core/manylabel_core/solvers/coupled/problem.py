"""The label-coupled dual, Eqs. (21) and (22) of docs/mathematics.md, and the validation of its inputs.

All solvers work with `b_il = y_il a_il`, which lies between 0 and y_il c_i. With scores `F = K B S`, for a linear
kernel `F = X Z` with `Z = X'B S`, the gradient of the dual is `T = Y - F`. Usually all c_i are equal; they differ if
examples have weights.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.solvers.inputs import check_signs

SYMMETRY = 1e-6
"""Maximum asymmetry of S, relative to its largest entry (single precision rounds it)."""
SEMIDEFINITE = 1e-6
"""Maximum negative eigenvalue of S, relative to the largest."""
FEASIBLE = 1e-9
"""Maximum violation of the constraints by initial variables, relative to c (box) or to n c (equality)."""


class Task(NamedTuple):
    """Problem in the arrays of compiled code."""

    Y: NDArray[np.int8]  # (n_samples, n_labels)
    S: NDArray[np.float64]  # (n_labels, n_labels)
    c: NDArray[np.float64]  # (n_samples,): upper bounds of the dual variables
    even: bool  # whether c is the same for all
    coupled: bool  # whether S has entries off its diagonal
    equality: bool

    def labels(self, part: slice) -> Task:
        """Return the problem for some labels; S must not couple them to other labels."""
        Y = np.ascontiguousarray(self.Y[:, part])
        return self._replace(Y=Y, S=np.ascontiguousarray(self.S[part, part]))

    @property
    def largest_c(self) -> float:
        return float(self.c.max())

    @property
    def mean_c(self) -> float:
        """Return the mean of c, without rounding if all c are equal."""
        return self.largest_c * float((self.c / self.largest_c).mean())

    def times_coupling(self, M: NDArray[Any]) -> NDArray[Any]:
        """Return `M S`, in the precision of M."""
        if self.coupled:
            return np.asarray(M @ self.S.astype(M.dtype, copy=False))
        return np.asarray(M * self.S.diagonal().astype(M.dtype))


def make_task(Y: ArrayLike, S: ArrayLike, c: float | ArrayLike, n: int, equality: bool) -> Task:
    """Check the parts of a problem with n examples."""
    signs = check_signs(Y, n)
    coupling = _coupling(S, signs.shape[1])
    coupled = bool(np.count_nonzero(coupling - np.diag(coupling.diagonal())))
    bounds = _bounds(c, n)
    return Task(signs, coupling, bounds, bool((bounds == bounds[0]).all()), coupled, bool(equality))


def start_from(alpha0: ArrayLike | None, task: Task) -> NDArray[np.float64]:
    """Return B = Y * alpha0, or zeros."""
    if alpha0 is None:
        return np.zeros(task.Y.shape)
    alpha = np.asarray(alpha0, dtype=np.float64)
    if alpha.shape != task.Y.shape:
        raise ValueError(f"alpha0 must have the shape of Y, {task.Y.shape}, not {alpha.shape}")
    most, slack = task.c[:, None], FEASIBLE * task.largest_c
    if not (alpha.min() >= -slack and (alpha <= most + slack).all()):  # NaN fails it, too
        bound = f"{task.largest_c:g}" + ("" if task.even else " at most")
        raise ValueError(f"alpha0 must lie between 0 and c = {bound}, not {alpha.min():g} to {alpha.max():g}")
    B = np.clip(alpha, 0.0, most) * task.Y
    if task.equality and np.abs(B.sum(axis=0)).max() > slack * len(B):
        label = int(np.abs(B.sum(axis=0)).argmax())
        raise ValueError(f"alpha0: sum_i y_il alpha_il must be 0, not {B[:, label].sum():g} for label {label}")
    return np.asarray(B)


def _bounds(c: float | ArrayLike, n: int) -> NDArray[np.float64]:
    """Return c of each example."""
    if np.ndim(c) == 0:
        if not (isinstance(c, int | float | np.number) and math.isfinite(c) and c > 0):
            raise ValueError(f"c must be a finite number above 0, not {c!r}")
        return np.full(n, float(c))
    bounds = np.ascontiguousarray(c, dtype=np.float64)
    if bounds.shape != (n,):
        raise ValueError(f"c must be a number, or have the shape (n_samples,) with n_samples = {n}, not {bounds.shape}")
    if not (np.isfinite(bounds).all() and bounds.min() > 0):
        raise ValueError("c must be finite and above 0 for every row")
    return bounds


def _coupling(S: ArrayLike, n_labels: int) -> NDArray[np.float64]:
    coupling = np.ascontiguousarray(S, dtype=np.float64)
    if coupling.shape != (n_labels, n_labels):
        raise ValueError(f"S must have the shape {(n_labels, n_labels)} for {n_labels} labels, not {coupling.shape}")
    if not np.isfinite(coupling).all():
        raise ValueError("S must be finite")
    scale = float(np.abs(coupling).max())
    asymmetry = float(np.abs(coupling - coupling.T).max())
    if asymmetry > SYMMETRY * scale:
        raise ValueError(f"S must be symmetric, but S and its transpose differ by up to {asymmetry:g}")
    coupling = (coupling + coupling.T) / 2.0
    eigenvalues = np.linalg.eigvalsh(coupling)
    if eigenvalues[0] < -SEMIDEFINITE * max(eigenvalues[-1], 0.0) or (eigenvalues[0] < 0.0 >= eigenvalues[-1]):
        raise ValueError(f"S must be positive semi-definite; its smallest eigenvalue is {eigenvalues[0]:g}")
    return coupling
