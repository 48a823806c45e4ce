"""Passive-aggressive binary relevance in the feature space of a kernel: a nonlinear baseline."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from manylabel_core.online.aggressive import AggressiveLearner, check_threshold
from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.passive_aggressive import PassiveAggressive


class KernelPassiveAggressive(AggressiveLearner, KernelLearner):
    """Passive-aggressive binary relevance in the feature space of a kernel.

    The loss and the steps are those of `PassiveAggressive`, with k = K(x, x). The weights are a sum over support
    vectors, the examples that had a loss for a label, each with one coefficient per label.

    Without a budget the model grows with every such example, and so does the cost of a prediction.

    Parameters
    ----------
    C : float, default=1.0
        Aggressiveness, in (0, 2^20]: the price of the loss that is left after a step.
    variant : {"PA-I", "PA-II"}, default="PA-I"
        Whether C is the price of that loss or of its square.
    average : bool, default=False
        Predict with the mean of the coefficients after each example so far, those without a loss included,
        in place of the present ones. Learning goes by the present ones. It takes as many coefficients again of memory.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.
    gamma : float, default=1.0
        Kernel coefficient, in (0, 2^20], as for `KernelFALT`.
    coef0 : float, default=1.0
        Constant of "poly", in [0, 2^20].
    degree : int, default=2
        Degree of "poly", 1 to 10.
    budget : int or None, default=None
        Most support vectors kept, or features, as for `KernelFALT`.
    strategy : {None, "project", "merge", "drop", "rff", "nystroem"}, default=None
        How the model keeps to its budget, as for `KernelFALT`.
    seed : int, default=0
        Of random features, as for `KernelFALT`.
    fit_intercept : bool, default=False
        Add a constant to the kernel.
    intercept_scaling : float, default=0.3
        The root of that constant, in (0, 2^20], as for `FALT`.
    scaling : {"auto", "none", "unit", "standard"}, default=None
        Scaling of features as part of the model, as for `FALT`; None is "auto".
    calibrate : bool, default=True
        Keep, label by label, what turns a score into a probability. Scores and predictions do not depend on it
        (but for `optimise`).
    optimise : {"none", "micro_f1", "macro_f1", "hamming"}, default=None
        The measure for which every label's cut is chosen, from the probabilities so far; needs `calibrate`. "none": a
        label is predicted when it scores above 0. None is "none".
    drift : {None, "adwin"}, default=None
        Watch the loss of every label, and that of all, for a change. "adwin": by river's ADWIN.
    on_drift : {None, "restart"}, default=None
        What an alarm does; needs `drift`. None: it is counted. "restart": the label is forgotten, and learnt anew.
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
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer: Online passive-aggressive algorithms, JMLR 7,
    2006, section 7.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import KernelPassiveAggressive
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> Y = np.array([[0, 1], [1, 1], [1, 1], [0, 1]])  # label 0: exclusive or
    >>> model = KernelPassiveAggressive(gamma=2.0)
    >>> for _ in range(5):
    ...     _ = model.partial_fit(X, Y)
    >>> model.predict(X)
    array([[0, 1],
           [1, 1],
           [1, 1],
           [0, 1]], dtype=uint8)
    """

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        average: bool = False,
        kernel: str = "rbf",
        gamma: float = 1.0,
        coef0: float = 1.0,
        degree: int = 2,
        budget: int | None = None,
        strategy: str | None = None,
        seed: int = 0,
        fit_intercept: bool = False,
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
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.budget = budget
        self.strategy = strategy
        self.seed = seed
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.calibrate = calibrate
        self.optimise = optimise
        self.drift = drift
        self.on_drift = on_drift
        self.dtype = dtype

    def _linear(self) -> LinearLearner:
        return PassiveAggressive(
            C=self.C,
            variant=self.variant,
            average=self.average,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            scaling="none",
            calibrate=False,
            dtype=self.dtype,
        )

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        check_threshold(arrays, "intercept", "coefficients", "drag")
        return super()._restore(arrays)
