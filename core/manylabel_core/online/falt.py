"""FALT: a linear multi-label model with a learnt threshold, by first-order steps."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online._linear import learn_falt
from manylabel_core.online.linear import LinearLearner
from manylabel_core.rows import Rows, Targets


class LinearModel(Protocol):
    """A linear model with a score for each label and 0 for a threshold: a linear M3L, MLRL or SSMLRL.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    """

    coef_: NDArray[Any]
    intercept_: NDArray[Any]


class FALT(LinearLearner):
    """First-order adaptive label thresholding.

    Every label has a linear score and so has the threshold; labels that score above the threshold are
    predicted. An example costs its mean hinge loss over the relevant labels plus the one over the irrelevant
    labels, Eq. (4); the weights take gradient steps against it, Eqs. (5) and (6). A mean over no labels is 0.

    Parameters
    ----------
    eta : float, default=0.25
        Step size, in (0, 2^20]. The default suits examples of unit norm; take a smaller one, by |x|^2, for larger ones.
    passes : int or float, default=1.0
        The paper's M: most steps on one example. An int, 1 to 100,000, is the number itself; a float, in
        (0, 100], is a multiple of the number of labels (1.0 is M = L, 1 is M = 1). A round ends earlier once
        the loss of its example is 0.
    fit_intercept : bool, default=True
        Add a constant feature (after scaling).
    intercept_scaling : float, default=0.3
        The constant, in (0, 2^20]. Set it by the norm of the examples: at 0.3, the intercept takes a twelfth of
        each step on an example of unit norm; at 1 it takes half, which costs much on sparse text.
    scaling : {"none", "unit", "standard"}, default="none"
        Scaling of features as part of the model: none, every example to unit norm, or standardisation over
        the stream so far (which makes examples dense).
    dtype : {"float32", "float64"}, default="float32"
        Type of the weights. Scores are summed in float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    Notes
    -----
    All M passes move the weights along the same x, so they are run on the 1 + n_labels scores, each pass
    changing a score by |x|^2 times a coefficient, and the weights are written once.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import FALT
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    >>> model = FALT(eta=0.5, passes=10)
    >>> for x, y in zip(X, Y):
    ...     _ = model.partial_fit([x], [y])
    >>> model.predict(X)
    array([[1, 0, 0],
           [0, 1, 0],
           [1, 1, 0]], dtype=uint8)
    """

    _planes = ("weights",)

    def __init__(
        self,
        eta: float = 0.25,
        passes: int | float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype

    @classmethod
    def from_linear(cls, model: LinearModel, **parameters: Any) -> Self:
        """Start from a model learnt in batch, with a threshold of 0, and go on learning from the stream.

        Scores are those of the model, to the precision of `dtype`, if it was learnt on features scaled as the
        stream's will be: with scaling="unit" on rows of unit norm. Both want margins of 1, so that the first
        examples do not undo what the batch has found; a small `eta` keeps it longest.

        Parameters
        ----------
        model : LinearModel
            A fitted M3L, MLRL or SSMLRL with a linear kernel, or anything with such a `coef_` and `intercept_`.
        **parameters
            Of the constructor; scaling must not be "standard", whose statistics come from the stream alone.

        Raises
        ------
        ValueError
            If the model has no linear weights, or intercepts where `fit_intercept` is False; if a parameter is
            not allowed.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core.batch import M3L
        >>> X, Y = np.eye(3), np.eye(3, dtype=int)
        >>> model = FALT.from_linear(M3L(C=10.0).fit(X, Y))
        >>> model.predict(X).tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> model.partial_fit([[1.0, 0.0, 0.0, 1.0]], [[0, 0, 0, 1]]).n_labels_
        4
        """
        coef, intercept = _linear_parts(model)
        learner = cls(**parameters)
        if learner.scaling == "standard":
            raise ValueError("scaling must not be 'standard': its statistics come from the stream alone")
        learner.grow(coef.shape[1], len(coef))
        if not learner.fit_intercept and intercept.any():
            raise ValueError("fit_intercept must be True: the model has intercepts")
        table = np.zeros((1 + coef.shape[1], 1 + len(coef)))
        table[0, 1:] = intercept / learner.intercept_scaling
        table[1:, 1:] = coef.T
        learner.restore({"weights": table.astype(learner.dtype)})
        return learner

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        learn_falt(self._table, self._constant, *self._step, *rows, *targets, scores)


def _linear_parts(model: LinearModel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (n_labels, n_features) and intercepts (n_labels,) of a fitted linear model."""
    if not hasattr(model, "coef_") or not hasattr(model, "intercept_"):
        raise ValueError(f"model must be fitted and linear, with coef_ and intercept_; {model!r} has none")
    coef, intercept = (np.asarray(part, dtype=np.float64) for part in (model.coef_, model.intercept_))
    if coef.ndim != 2 or not coef.size or intercept.shape != coef.shape[:1]:
        raise ValueError(
            f"model must have coef_ of shape (n_labels, n_features) and as many intercepts, got "
            f"{coef.shape} and {intercept.shape}"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("model must have finite weights")
    return coef, intercept
