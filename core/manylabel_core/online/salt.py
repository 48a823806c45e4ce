"""SALT: a linear multi-label model with a learnt threshold, with a step size for every weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online._adaptive import learn_salt
from manylabel_core.online._parameters import check_positive
from manylabel_core.online.linear import LinearLearner
from manylabel_core.rows import Rows, Targets


class SALT(LinearLearner):
    """Second-order adaptive label thresholding.

    The loss is that of `FALT`, Eq. (4). Every weight has a step size of its own, Algorithm 3: with the sum S
    of its squared gradients, the present one included, it moves by eta / (delta + sqrt(S)) times its
    gradient. Rare features so keep large steps.

    Parameters
    ----------
    eta : float, default=0.5
        Step size, in (0, 2^20].
    delta : float, default=1.0
        Damps the first steps of a weight; in (0, 2^20].
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
        Type of the weights and of the sums of squares. Scores are summed in float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    Notes
    -----
    In float32 a sum of squares takes no more than about 1.7e7 equal gradients, so that the steps of a weight never
    become smaller than about eta / 4096.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import SALT
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    >>> model = SALT(eta=0.5, delta=1.0, passes=10)
    >>> for x, y in zip(X, Y):
    ...     _ = model.partial_fit([x], [y])
    >>> model.predict(X)
    array([[1, 0, 0],
           [0, 1, 0],
           [1, 1, 0]], dtype=uint8)
    """

    _planes = ("weights", "squares")
    _not_negative = ("squares",)

    def __init__(
        self,
        eta: float = 0.5,
        delta: float = 1.0,
        passes: int | float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.delta = delta
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype

    def _check_parameters(self) -> None:
        eta, passes, passes_per_label = self._step
        self._adaptive_step = (eta, check_positive("delta", self.delta), passes, passes_per_label)

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        learn_salt(self._table, self._constant, *self._adaptive_step, *rows, *targets, scores)
