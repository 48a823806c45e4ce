"""Representation of the SVM+ dual for compiled code: a task over kinds of examples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.solvers.privileged._visits import intercept


class Task(NamedTuple):
    """Problem of `dual` without its features."""

    Y: NDArray[np.int8]  # (n_labels, n_samples): signs, label by label
    kinds: NDArray[np.int32]  # (n_samples,): kind of each example
    sizes: NDArray[np.float64]  # (n_kinds,): sums of the weights of the examples
    indptr: NDArray[np.int64]  # label set of kind k: `indices[indptr[k]:indptr[k + 1]]`
    indices: NDArray[np.int32]
    C: float
    rho: float
    gamma: float
    ridge: float  # 1 / rho; over the weight of an example, an addition to its curvature
    intercept: float  # B^2 of the intercepts next to the weights; 0 for none

    def features(self, label: int) -> NDArray[np.float64]:
        """Return the privileged features of all kinds for a label, (n_kinds, n_labels + 1), 0 for the label itself."""
        n_kinds, n_labels = len(self.sizes), len(self.Y)
        T = np.ones((n_kinds, n_labels + 1))
        T[:, :-1] = -1.0
        T[np.repeat(np.arange(n_kinds), np.diff(self.indptr)), self.indices] = 1.0
        T[:, label] = 0.0
        return T


class Kinds(NamedTuple):
    """Kinds of examples, the different label sets, as in `Task`."""

    kinds: NDArray[np.int32]
    sizes: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


class Variables(NamedTuple):
    """Feasible point of the dual, and the privileged weights of a primal point."""

    alpha: NDArray[np.float64]  # (n_labels, n_samples)
    beta: NDArray[np.float64]  # (n_labels, n_kinds): sums over kinds
    known: NDArray[np.float64]  # (n_labels, n_labels + 1): feasible w~, the constant's last

    def copy(self) -> Variables:
        return Variables(*(part.copy() for part in self))


def kinds_of(Y: NDArray[np.int8], weights: NDArray[np.float64]) -> Kinds:
    """Return the kinds of examples with signs Y, (n_samples, n_labels), in the order of first appearance."""
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
    """Return the initial variables: a = 0 and e = 0, so that w~ is 0. With the paper's start, beta = 0, w~ is far from
    the optimum.
    """
    n_labels, n_samples = task.Y.shape
    beta = np.tile(task.C * task.sizes, (n_labels, 1))
    return Variables(np.zeros((n_labels, n_samples)), beta, np.zeros((n_labels, n_labels + 1)))


def moved_to(at: Variables) -> Variables:
    """Return a feasible copy of variables for a task of the same shape; its w~ may still violate constraints."""
    known = at.known.copy()
    np.fill_diagonal(known, 0.0)
    return Variables(np.maximum(at.alpha, 0.0), np.maximum(at.beta, 0.0), known)
