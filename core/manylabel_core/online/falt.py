"""FALT: a linear multi-label model with a learnt threshold, by first-order steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online._linear import learn_falt
from manylabel_core.online.linear import LinearLearner
from manylabel_core.rows import Rows, Targets


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

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        learn_falt(self._table, self._constant, *self._step, *rows, *targets, scores)
