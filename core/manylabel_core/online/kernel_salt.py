"""Kernel SALT: a nonlinear multi-label model with a step size for every weight, of fixed size."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.salt import SALT
from manylabel_core.online.thresholding import ThresholdingLearner


class KernelSALT(ThresholdingLearner, KernelLearner):
    """Second-order adaptive label thresholding on features of a kernel.

    `SALT` has a step size for every weight, and there are no weights in the feature space of a kernel; the paper leaves
    it at the linear model. With a fixed number of features whose inner products are the kernel's, or nearly, there are
    again, and memory and time do not grow with the stream.

    Parameters
    ----------
    eta : float, default=None
        Step size, in (0, 2^20]; None is 1 (implicit) or 0.5 (gradient). The loss is multiplied by it, and for the
        implicit step by the number of labels too.
    delta : float, default=None
        Damps the first steps of a weight; in (0, 2^20]. None is 2 (implicit) or 1 (gradient).
    step : {"implicit", "gradient"}, default=None
        How an example is learnt, as for `SALT`. None is "implicit", or "gradient" where `passes` are given.
    passes : int or float, default=None
        The paper's M, for the gradient step: most passes over one example. An int, 1 to 100,000, is the number
        itself; a float, in (0, 100], is a multiple of the number of labels (1.0 is M = L, 1 is M = 1; None is
        1.0). A round ends earlier once the loss of its example is 0.
    average : bool, default=False
        Predict with the mean of the weights after each example since the label appeared, those without a loss
        included, in place of the present ones. Learning goes by the present ones. It takes as much memory again as
        the weights.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.
    gamma : float, default=1.0
        Kernel coefficient, in (0, 2^20]; 1 / (2 s2) for an RBF kernel of the paper's width s2. The default
        suits examples of unit norm; it is a number, because a stream has no statistics yet when it starts.
    coef0 : float, default=1.0
        Constant of "poly", in [0, 2^20].
    degree : int, default=2
        Degree of "poly", 1 to 10.
    budget : int, default=500
        Number of features: at most 4,096 for "nystroem", and 16,384, even, for "rff".
    strategy : {"nystroem", "rff"}, default=None
        What the features are. "nystroem": coordinates in the span of landmarks, the first examples that are not nearly
        in the span of those before. "rff": random Fourier features, for the RBF kernel only; quicker, but it takes
        several times the budget for the same quality. None is "nystroem".
    seed : int, default=0
        Of the frequencies of "rff", 0 to 2^63 - 1.
    fit_intercept : bool, default=False
        Add a constant feature to those of the kernel.
    intercept_scaling : float, default=0.3
        The constant, in (0, 2^20].
    scaling : {"auto", "none", "unit", "standard"}, default=None
        Scaling of features as part of the model. "auto": quantities that most examples have are standardised
        over the stream so far, other features divided by their usual size, and every example brought to unit
        norm. "none": features as they are. "unit": every example to unit norm. "standard": standardisation over
        the stream so far (which makes examples dense). None is "auto", or "none" where `passes` are given.
    calibrate : bool, default=True
        Keep, label by label, what turns a score into a probability. Scores and predictions do not depend on it
        (but for `optimise`).
    optimise : {"none", "micro_f1", "macro_f1", "hamming"}, default=None
        The measure for which every label's cut is chosen, from the probabilities so far; needs `calibrate`. "none": a
        label is predicted when it scores above the learnt threshold. None is "micro_f1", or "none" where `passes` are
        given or `calibrate` is False.
    drift : {"adwin"}, default=None
        Watch the errors of every label, and of all labels together, for a rise; see `alarms`. None: watch nothing.
    on_drift : {"raise", "restart"}, default=None
        What an alarm does before the next example is learnt; needs `drift`. "raise": the steps of the label, or of all
        when the detector for all labels sounds, are as large as at the start. "restart": the label is forgotten and
        learnt anew. None: nothing.
    dtype : {"float32", "float64"}, default="float32"
        Type of the weights, of the sums of squares and of the landmarks' values. Scores are summed in float64 in
        either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Landmarks held; 0 with random features.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    J. Lu, S. Hoi, J. Wang, P. Zhao, Z. Liu: Large scale online kernel learning, JMLR 17(47), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import KernelSALT
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> Y = np.array([[0, 1], [1, 1], [1, 1], [0, 1]])  # label 0: exclusive or
    >>> model = KernelSALT(gamma=2.0)
    >>> for _ in range(5):
    ...     _ = model.partial_fit(X, Y)
    >>> model.predict(X)
    array([[0, 1],
           [1, 1],
           [1, 1],
           [0, 1]], dtype=uint8)
    """

    _etas = MappingProxyType({"implicit": 1.0, "gradient": 0.5})
    _fixed = ("step", *KernelLearner._fixed)
    _strategies = ("nystroem", "rff")
    _expands = False

    def __init__(
        self,
        eta: float | None = None,
        delta: float | None = None,
        step: str | None = None,
        passes: int | float | None = None,
        average: bool = False,
        kernel: str = "rbf",
        gamma: float = 1.0,
        coef0: float = 1.0,
        degree: int = 2,
        budget: int = 500,
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
        self.eta = eta
        self.delta = delta
        self.step = step
        self.passes = passes
        self.average = average
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.budget: int | None = budget
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

    def _chosen(self) -> dict[str, Any]:
        return {**super()._chosen(), "delta": self._linear().settled_params()["delta"]}

    @property
    def _shrinks(self) -> bool:
        """Whether steps shrink, as those of the learner on the features."""
        linear = self._linear()
        linear._check()
        return linear._shrinks

    def _linear(self) -> LinearLearner:
        return SALT(
            eta=self._step[0],
            delta=self.delta,
            step=self._kind,
            passes=self.passes,
            average=self.average,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            scaling="none",
            calibrate=False,
            dtype=self.dtype,
        )
