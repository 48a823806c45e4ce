"""The coupled dual of a training set, with the same interface for kernels and primal weights. See
`solvers.coupled.problem`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from manylabel_core.batch.base.inputs import check_diagonal
from manylabel_core.mercer import GramRows, Kernel, gram
from manylabel_core.rows import row_blocks
from manylabel_core.solvers import (
    CachedRows,
    DualResult,
    ProgressCallback,
    StoredGram,
    solve_kernel_dual,
    solve_linear_dual,
)


class Expansion(NamedTuple):
    """Kernel expansion over examples: the scores of x are `kernel(x, X) A + intercept`."""

    X: Any  # (n_examples, n_features)
    A: NDArray[np.float64]  # (n_examples, n_labels)
    intercept: NDArray[np.float64]  # (n_labels,)


class Weights(NamedTuple):
    """Linear model: the scores of x are `x Z + intercept`."""

    Z: NDArray[Any]  # (n_features, n_labels)
    intercept: NDArray[np.float64]  # (n_labels,)


class Problem(ABC):
    """Examples of a fit and the signs of their labels, (n_samples, n_labels). With `equality`, intercepts are free."""

    def __init__(self, signs: NDArray[np.int8], equality: bool, n_threads: int, seed: int) -> None:
        self.signs = signs
        self.equality = equality
        self.n_threads = n_threads
        self.seed = seed

    @abstractmethod
    def solve(
        self,
        S: NDArray[np.float64],
        c: float | NDArray[np.float64],
        *,
        tol: float,
        max_iter: int,
        alpha0: NDArray[np.float64] | None = None,
        V0: NDArray[np.float64] | None = None,
        progress: ProgressCallback | None = None,
    ) -> DualResult:
        """Solve the problem for S, (n_labels, n_labels). `c` is a number, or an array with one for each example. The
        solver starts from the `alpha` and `V` of an earlier result, if passed.
        """

    @abstractmethod
    def coupling(self, result: DualResult) -> NDArray[np.float64]:
        """Return `B' K B`, shape (n_labels, n_labels)."""

    @abstractmethod
    def model(self, result: DualResult, S: NDArray[np.float64]) -> Expansion | Weights:
        """Return the model of the solution for S."""

    def _options(self) -> dict[str, Any]:
        return {"equality": self.equality, "n_threads": self.n_threads, "seed": self.seed}


class KernelProblem(Problem):
    """Problem over the Gram matrix of X, (n_samples, n_features).

    The matrix is stored if it takes at most `cache_mb` MB, and otherwise computed row by row. A constant of the kernel
    is a regularised intercept.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        signs: NDArray[np.int8],
        *,
        equality: bool,
        n_threads: int,
        seed: int,
        cache_mb: float,
    ) -> None:
        super().__init__(signs, equality, n_threads, seed)
        self.kernel = kernel
        self.X = X
        self._max_bytes = int(cache_mb * 1e6)
        self.K: Any
        if X.dtype == np.float64 and self._fits(np.float32):
            self.K = StoredGram(GramRows(kernel, X).rows, self._gram)
        else:
            self.K = self._gram(X.dtype)
        check_diagonal(as_given(self.K).diagonal())

    def solve(
        self,
        S: NDArray[np.float64],
        c: float | NDArray[np.float64],
        *,
        V0: NDArray[np.float64] | None = None,
        **options: Any,
    ) -> DualResult:
        return solve_kernel_dual(self.K, self.signs, S, c, **self._options(), **options)

    def coupling(self, result: DualResult) -> NDArray[np.float64]:
        B = result.alpha * self.signs
        return symmetrised(B.T @ times(self.K, B))

    def _gram(self, dtype: DTypeLike) -> NDArray[Any] | CachedRows:
        if self._fits(dtype):
            return gram(self.kernel, self.X, dtype)
        return CachedRows(GramRows(self.kernel, self.X), self._max_bytes)

    def _fits(self, dtype: DTypeLike) -> bool:
        size = len(self.signs) ** 2 * np.dtype(dtype).itemsize
        return size <= self._max_bytes or self.kernel.shape == "precomputed"

    def model(self, result: DualResult, S: NDArray[np.float64]) -> Expansion:
        A = (result.alpha * self.signs) @ S
        return Expansion(self.X, A, result.bias + self.kernel.constant * A.sum(axis=0))


class LinearProblem(Problem):
    """Problem over features X, (n_samples, n_features), solved for the primal weights.

    `constant` is the value of an additional constant feature, whose weight is regularised too; 0 for none.
    """

    def __init__(
        self, X: Any, signs: NDArray[np.int8], *, equality: bool, n_threads: int, seed: int, constant: float = 0.0
    ) -> None:
        super().__init__(signs, equality, n_threads, seed)
        check_diagonal(row_norms(X, squared=True))
        self.X = X
        self.constant = constant

    def solve(self, S: NDArray[np.float64], c: float | NDArray[np.float64], **options: Any) -> DualResult:
        return solve_linear_dual(self.X, self.signs, S, c, bias_feature=self.constant, **self._options(), **options)

    def coupling(self, result: DualResult) -> NDArray[np.float64]:
        V = result.V
        if V is None:
            V = safe_sparse_dot(self.X.T, result.alpha * self.signs, dense_output=True)
        return symmetrised(V.T @ V)

    def model(self, result: DualResult, S: NDArray[np.float64]) -> Weights:
        assert result.Z is not None
        return Weights(result.Z, result.bias)


class SemiSupervisedProblem(KernelProblem):
    """Problem of SSMLRL: labelled examples with a kernel made from unlabelled ones, Eq. (22) of the paper.

    X has the labelled examples first, then the unlabelled ones; `ratio` is lambda_1 / lambda_2.
    """

    def __init__(
        self, kernel: Kernel, X: Any, signs: NDArray[np.int8], ratio: float, *, n_threads: int, seed: int
    ) -> None:
        Problem.__init__(self, signs, equality=True, n_threads=n_threads, seed=seed)
        self.kernel = kernel
        self.X = X
        n_labelled = len(signs)
        G = gram(kernel, X)
        check_diagonal(G.diagonal())
        G = G.astype(np.float64, copy=False)
        K_ul, K_uu = G[n_labelled:, :n_labelled], G[n_labelled:, n_labelled:]
        factor = cho_factor(K_uu + ratio * np.eye(len(K_uu)), lower=True, overwrite_a=True)
        self.reflected = cho_solve(factor, K_ul)
        """inv(ratio I + K_uu) K_ul: the negative coefficients of unlabelled examples per unit coefficient of a labelled
        one.
        """
        self.K = StoredGram.of(symmetrised(G[:n_labelled, :n_labelled] - K_ul.T @ self.reflected))

    def model(self, result: DualResult, S: NDArray[np.float64]) -> Expansion:
        A = (result.alpha * self.signs) @ S
        return Expansion(self.X, np.vstack([A, -self.reflected @ A]), result.bias)


def times(K: Any, B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `K B` in the precision of the kernel values; K is a Gram matrix or some of its rows."""
    K = as_given(K)
    if isinstance(K, np.ndarray):
        return np.asarray(K @ B.astype(K.dtype, copy=False), dtype=np.float64)
    product = np.empty(B.shape)
    for rows in row_blocks(len(B), len(B), 2**23):
        product[rows] = K.rows(np.arange(rows.start, rows.stop)) @ B
    return product


def as_given(K: Any) -> Any:
    """Return a Gram matrix, or some of its rows, in the current precision of the solver."""
    return K.kept() if isinstance(K, StoredGram) else K


def balanced(alpha: NDArray[np.float64], signs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return dual variables with `sum_i b_il = 0`, lowered on the heavier side of each label."""
    relevant = signs > 0
    weights = (alpha * relevant).sum(axis=0), (alpha * ~relevant).sum(axis=0)
    lighter = np.minimum(*weights)
    above, below = (np.divide(lighter, side, out=np.zeros_like(side), where=side > 0) for side in weights)
    return np.asarray(alpha * np.where(relevant, above, below))


def symmetrised(M: NDArray[np.float64]) -> NDArray[np.float64]:
    return (M + M.T) / 2
