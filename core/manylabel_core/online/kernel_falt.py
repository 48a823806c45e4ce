"""Kernel FALT: a nonlinear multi-label model with a learnt threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core._parameters import check_choice, check_count
from manylabel_core.kernels import KERNELS, inner_product
from manylabel_core.online._expansion import score_expansion
from manylabel_core.online._parameters import check_not_negative, check_positive
from manylabel_core.online._rounds import run_round
from manylabel_core.online._storage import MAX_WEIGHT, check_range
from manylabel_core.online.base import OnlineLearner
from manylabel_core.online.support import SupportVectors, check_rows
from manylabel_core.rows import MAX_COLUMNS, Rows, Targets

MAX_BUDGET = 2**31 - 1
MAX_DEGREE = 10


class KernelFALT(OnlineLearner):
    """First-order adaptive label thresholding in the feature space of a kernel.

    The loss and the steps are those of `FALT`. The weights are a sum over support vectors, the examples of
    the rounds that had a loss, each with one coefficient per label and one for the threshold (section 5 of
    the paper).

    Without a budget the model grows with every such round, and so does the cost of a prediction.

    Parameters
    ----------
    eta : float, default=0.5
        Step size, in (0, 2^20].
    passes : int or float, default=1.0
        The paper's M: most steps on one example. An int, 1 to 100,000, is the number itself; a float, in
        (0, 100], is a multiple of the number of labels (1.0 is M = L, 1 is M = 1). A round ends earlier once
        the loss of its example is 0.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.
    gamma : float, default=2.0
        Kernel coefficient, in (0, 2^20]; 1 / (2 s2) for an RBF kernel of the paper's width s2. The default
        suits examples of unit norm; it is a number, because a stream has no statistics yet when it starts.
    coef0 : float, default=1.0
        Constant of "poly", in [0, 2^20].
    degree : int, default=2
        Degree of "poly", 1 to 10.
    budget : int or None, default=None
        Most support vectors kept. When full, the new one takes the place of the one with the smallest norm of
        coefficients.
    fit_intercept : bool, default=False
        Add a constant to the kernel.
    intercept_scaling : float, default=0.3
        The root of that constant, in (0, 2^20], as for `FALT`.
    scaling : {"none", "unit", "standard"}, default="none"
        Scaling of features as part of the model: none, every example to unit norm, or standardisation over
        the stream so far (which makes examples dense).
    dtype : {"float32", "float64"}, default="float32"
        Type of the coefficients and of the support vectors' values. Inner products and scores are summed in
        float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Support vectors held.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import KernelFALT
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> Y = np.array([[0, 1], [1, 1], [1, 1], [0, 1]])  # label 0: exclusive or
    >>> model = KernelFALT(gamma=2.0)
    >>> for _ in range(5):
    ...     _ = model.partial_fit(X, Y)
    >>> model.predict(X)
    array([[0, 1],
           [1, 1],
           [1, 1],
           [0, 1]], dtype=uint8)
    """

    _fixed = ("kernel", "gamma", "coef0", "degree", "budget", *OnlineLearner._fixed)

    def __init__(
        self,
        eta: float = 0.5,
        passes: int | float = 1.0,
        kernel: str = "rbf",
        gamma: float = 2.0,
        coef0: float = 1.0,
        degree: int = 2,
        budget: int | None = None,
        fit_intercept: bool = False,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.passes = passes
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype

    @property
    def n_support_(self) -> int:
        """Number of support vectors."""
        self._settle()
        return self._support.n_vectors

    def _check_parameters(self) -> None:
        kind = KERNELS[check_choice("kernel", self.kernel, KERNELS)]
        gamma, coef0 = check_positive("gamma", self.gamma), check_not_negative("coef0", self.coef0)
        self._shape = (kind, gamma, coef0, check_count("degree", self.degree, MAX_DEGREE))
        if self.budget is not None:
            check_count("budget", self.budget, MAX_BUDGET)

    def _create(self) -> None:
        self._support = SupportVectors(self.dtype, self.budget)

    def _enlarge(self, n_features: int, n_labels: int) -> None:
        self._support.grow(1 + n_labels)

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        rows, work = rows.without_zeros(), self._work()
        for i in range(len(scores)):
            features, values = rows.row(i)
            n_labels = targets.n_labels[i]
            k, norm = self._score_one(features, values, work, scores[i])
            if k == 0.0:  # x is 0 in feature space: nothing can be learnt along it
                continue
            listed = slice(targets.indptr[i], targets.indptr[i + 1])
            truth = targets.indices[listed], targets.signs[listed], targets.complete[i], n_labels
            tau = np.empty(1 + n_labels, dtype=np.float64)
            if run_round(scores[i, : 1 + n_labels], *truth, *self._step, k, tau):
                self._support.add(features, values, norm, tau)

    def _score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        rows, work = rows.without_zeros(), self._work()
        for i in range(len(scores)):
            self._score_one(*rows.row(i), work, scores[i])

    def _score_one(
        self,
        features: NDArray[np.int32],
        values: NDArray[Any],
        work: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> tuple[float, float]:
        """Write the scores of one example; give K(x, x) and |x|^2."""
        bias, example = self._constant * self._constant, (work, features, values, scores)
        k, norm = score_expansion(self._shape, bias, *self._support.expansion, *example)
        return k, norm

    def _work(self) -> NDArray[np.float64]:
        return np.zeros((2, self._n_features), dtype=np.float64)

    def _model(self) -> dict[str, NDArray[Any]]:
        indptr, indices, values = self._support.packed()
        return {
            "size": np.array([self._n_features, self._n_labels], dtype=np.int64),
            "coefficients": self._support.alpha[: self._support.n_vectors, : 1 + self._n_labels],
            "vectors.indptr": indptr,
            "vectors.indices": indices,
            "vectors.values": values,
        }

    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        n_vectors, item = self._support.n_vectors + n_samples, np.dtype(self.dtype).itemsize
        if self.budget is not None:
            n_vectors = min(n_vectors, self.budget)
        coefficients = item * n_vectors * (1 + n_labels)
        return 16 + 8 * (n_vectors + 1) + (4 + item) * (self._support.n_values + n_values) + coefficients

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        alpha, vectors = arrays["coefficients"], Rows(*(arrays[f"vectors.{part}"] for part in Rows._fields))
        if arrays["size"].shape != (2,):
            raise ValueError("state must hold a size of two numbers")
        check_range("size", arrays["size"], 0, MAX_COLUMNS)
        n_features, n_labels = map(int, arrays["size"])
        if alpha.shape != (len(vectors.indptr) - 1, 1 + n_labels):
            raise ValueError("state must hold one row of 1 + n_labels coefficients for each support vector")
        if self.budget is not None and len(alpha) > self.budget:
            raise ValueError(f"state must hold at most {self.budget} support vectors")
        check_range("coefficients", alpha, -MAX_WEIGHT, MAX_WEIGHT)
        check_rows("vectors", vectors, n_features)
        support = SupportVectors(self.dtype, self.budget)
        support.grow(1 + n_labels)
        for i, tau in enumerate(alpha):
            features, values = vectors.row(i)
            support.add(features, values, inner_product(values, values), tau)
        self._support = support
        return n_features, n_labels
