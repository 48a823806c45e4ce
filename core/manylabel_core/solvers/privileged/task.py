"""Representation of the SVM+ dual for compiled code: a task over kinds of examples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.solvers.privileged._visits import intercept


class Task(NamedTuple):
    """Problem of `dual` without its features.

    Attributes
    ----------
    Y : ndarray of shape (n_labels, n_samples), int8
        Signs, label by label.
    kinds : ndarray of shape (n_samples,), int32
        Kind of each example.
    sizes : ndarray of shape (n_kinds,), float64
        Examples of each kind; the sums of their weights.
    indptr, indices : ndarrays, int64 and int32
        The label sets of the kinds: `indices[indptr[k]:indptr[k + 1]]`.
    mask : ndarray of shape (n_labels, n_labels), bool
        Which labels, in the columns, are privileged features of which, in the rows.
    C, rho, gamma : float
    ridge : float
        1 / rho, where slacks are squared; else 0. Over the weight of an example, what is added to its curvature.
    upper : float
        Times the weight of an example, the largest alpha that is allowed: rho, or infinite where slacks are squared.
    intercept : float
        B^2, of the intercepts that stand beside the weights; 0 for none.
    """

    Y: NDArray[np.int8]
    kinds: NDArray[np.int32]
    sizes: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    mask: NDArray[np.bool_]
    C: float
    rho: float
    gamma: float
    ridge: float
    upper: float
    intercept: float

    def features(self, label: int) -> NDArray[np.float64]:
        """Return the privileged features of all kinds for a label, (n_kinds, n_labels + 1), 0 outside of the mask."""
        n_kinds, n_labels = len(self.sizes), len(self.mask)
        T = np.ones((n_kinds, n_labels + 1))
        T[:, :-1] = -1.0
        T[np.repeat(np.arange(n_kinds), np.diff(self.indptr)), self.indices] = 1.0
        T[:, :-1] *= self.mask[label]
        return T


class Kinds(NamedTuple):
    """Kinds are the different label sets among examples, as in `Task`."""

    kinds: NDArray[np.int32]
    sizes: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


class Variables(NamedTuple):
    """Variables: a feasible point of the dual, and the privileged weights of a primal point.

    Attributes
    ----------
    alpha : ndarray of shape (n_labels, n_samples), float64
    beta : ndarray of shape (n_labels, n_kinds), float64
        Sums over kinds.
    known : ndarray of shape (n_labels, n_labels + 1), float64
        Feasible privileged weights w~, the constant's last.
    """

    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    known: NDArray[np.float64]

    def copy(self) -> Variables:
        return Variables(*(part.copy() for part in self))


def kinds_of(Y: NDArray[np.int8], weights: NDArray[np.float64]) -> Kinds:
    """Return the kinds of examples with signs Y of shape (n_samples, n_labels), in the order in which they first
    appear; their sizes are sums of weights.
    """
    packed = np.packbits(Y > 0, axis=1)
    _, first, kinds = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    sets = Y[first[order]] > 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sets.sum(axis=1))])
    indices = np.nonzero(sets)[1].astype(np.int32)
    ranked = rank[kinds.ravel()].astype(np.int32)
    return Kinds(ranked, np.bincount(ranked, weights).astype(np.float64), indptr, indices)


def intercepts_of(task: Task, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intercepts `B^2 sum_i y a` of labels, (n_labels,)."""
    return np.array([intercept(task, label, each) for label, each in enumerate(alpha)])


def zero(task: Task) -> Variables:
    """Return the variables to start from: a = 0, and e = 0, so that w~ is 0.

    At beta = 0, the paper's start, w~ is far from everything.
    """
    n_labels, n_samples = task.Y.shape
    beta = np.tile(task.C * task.sizes, (n_labels, 1))
    return Variables(np.zeros((n_labels, n_samples)), beta, np.zeros((n_labels, n_labels + 1)))


def moved_to(task: Task, weights: NDArray[np.float64], at: Variables) -> Variables:
    """Return a copy of variables that is feasible for a task of the same shape with another C or rho, or other
    examples or weights.

    Its w~ may still miss constraints.
    """
    alpha = np.clip(at.alpha, 0.0, task.upper * weights)
    beta = np.maximum(at.beta, 0.0)
    if task.upper <= task.C:  # the solver requires e = 0
        beta = np.tile(task.C * task.sizes, (len(alpha), 1))
        for row, a in zip(beta, alpha, strict=True):
            row -= np.bincount(task.kinds, a, len(row))
        beta = np.maximum(beta, 0.0)
    listed = np.pad(task.mask, ((0, 0), (0, 1)), constant_values=True)
    return Variables(alpha, beta, np.where(listed, at.known, 0.0))
