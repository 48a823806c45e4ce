"""Passive-aggressive binary relevance: a linear baseline."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from manylabel_core.online.aggressive import AggressiveLearner, check_threshold
from manylabel_core.online.models.linear.model import LinearLearner


class PassiveAggressive(AggressiveLearner, LinearLearner):
    """Passive-aggressive binary relevance.

    Every label is a binary problem of its own: it has a linear score s, is predicted when that is above 0, and costs
    the hinge loss l = max(0, 1 - y s) with y = +1 where it is relevant and -1 where it is not. Its weights move by
    tau y x, as little as the loss demands, with k = |x|^2:

        PA-I       tau = min(C, l / k)
        PA-II      tau = l / (k + 1 / (2 C))

    Parameters
    ----------
    C : float, default=1.0
        Aggressiveness, in (0, 2^20]: the price of the loss that is left after a step. It suits examples of unit norm.
    variant : {"PA-I", "PA-II"}, default="PA-I"
        Whether C is the price of that loss or of its square.
    average : bool, default=False
        Predict with the mean of the weights after each example so far, those without a loss included,
        in place of the present ones. Learning goes by the present ones. It takes one more plane of memory.
    fit_intercept : bool, default=True
        Add a constant feature (after scaling).
    intercept_scaling : float, default=0.3
        The constant, in (0, 2^20], as for `FALT`.
    scaling : {"auto", "none", "unit", "standard"}, default=None
        Scaling of features as part of the model, as for `FALT`; None is "auto".
    calibrate : bool, default=True
        Keep, label by label, what turns a score into a probability. Scores and predictions do not depend on it
        (but for `optimise`).
    optimise : {"none", "micro_f1", "macro_f1", "hamming"}, default=None
        The measure for which every label's cut is chosen, from the probabilities so far; needs `calibrate`. "none": a
        label is predicted when it scores above 0. None is "none".
    drift : {None, "adwin"}, default=None
        Watch the errors of every label, and of all labels together, for a rise; see `alarms`. None: watch nothing.
    on_drift : {None, "restart"}, default=None
        What an alarm does; needs `drift`. None: it is counted. "restart": the label is forgotten, and learnt anew.
    dtype : {"float32", "float64"}, default="float32"
        Type of the weights. Scores are summed in float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer: Online passive-aggressive algorithms, JMLR 7,
    2006, Fig. 1.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import PassiveAggressive
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    >>> model = PassiveAggressive()
    >>> for _ in range(3):
    ...     _ = model.partial_fit(X, Y)
    >>> model.predict(X)
    array([[1, 0, 0],
           [0, 1, 0],
           [1, 1, 0]], dtype=uint8)
    """

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        average: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        scaling: str | None = None,
        calibrate: bool = True,
        optimise: str | None = None,
        drift: str | None = None,
        on_drift: str | None = None,
        dtype: str = "float32",
    ) -> None:
        self.C = C
        self.variant = variant
        self.average = average
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.calibrate = calibrate
        self.optimise = optimise
        self.drift = drift
        self.on_drift = on_drift
        self.dtype = dtype

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        check_threshold(arrays, "weights", "drag")
        return super()._restore(arrays)
