"""Kernel FALT: a nonlinear multi-label model with a learnt threshold."""

from __future__ import annotations

from types import MappingProxyType

from manylabel_core.online.falt import FALT
from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.thresholding import ThresholdingLearner


class KernelFALT(ThresholdingLearner, KernelLearner):
    """First-order adaptive label thresholding in the feature space of a kernel.

    The loss and the steps are those of `FALT`. The weights are a sum over support vectors, the examples of
    the rounds that had a loss, each with one coefficient per label and one for the threshold (section 5 of
    the paper).

    Without a budget the model grows with every such round, and so does the cost of a prediction.

    Parameters
    ----------
    eta : float, default=None
        Step size, in (0, 2^20]; None is 0.4 (implicit) or 0.5 (gradient). The loss is multiplied by it, and for
        the implicit step by the number of labels too.
    step : {"implicit", "gradient"}, default=None
        How an example is learnt. "gradient": by `passes` steps, as in the paper. "implicit": its round is solved
        exactly, Eq. (3) with the loss itself, so that no margin is overshot and there are no passes to choose.
        None is "implicit", or "gradient" where `passes` are given.
    passes : int or float, default=None
        The paper's M, for the gradient step: most passes over one example. An int, 1 to 100,000, is the number
        itself; a float, in (0, 100], is a multiple of the number of labels (1.0 is M = L, 1 is M = 1; None is
        1.0). A round ends earlier once the loss of its example is 0.
    average : bool, default=False
        Predict with the mean of the coefficients after each example since the label appeared, those without a loss
        included, in place of the present ones. Learning goes by the present ones. It takes as much memory again as
        the coefficients.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.
    gamma : float, default=1.0
        Kernel coefficient, in (0, 2^20]; 1 / (2 s2) for an RBF kernel of the paper's width s2. The default
        suits examples of unit norm; it is a number, because a stream has no statistics yet when it starts.
    coef0 : float, default=1.0
        Constant of "poly", in [0, 2^20].
    degree : int, default=2
        Degree of "poly", 1 to 10.
    budget : int, default=None
        Most support vectors kept, or the number of features of "rff" and "nystroem"; then memory and time do not grow
        with the stream. At most 4,096 for "project" and "nystroem", which keep its square in memory, and 16,384, even,
        for "rff". None: as many as there are rounds with a loss.
    strategy : {"project", "merge", "drop", "rff", "nystroem"}, default=None
        How the budget is kept; see the notes. It needs a budget. None is "project".
    seed : int, default=0
        Of the frequencies of "rff", 0 to 2^63 - 1.
    fit_intercept : bool, default=False
        Add a constant to the kernel.
    intercept_scaling : float, default=0.3
        The root of that constant, in (0, 2^20], as for `FALT`.
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
        What an alarm does before the next example is learnt; needs `drift`. "restart": the label is forgotten and
        learnt anew. None: nothing. "raise" is for learners whose steps shrink, and is refused here.
    dtype : {"float32", "float64"}, default="float32"
        Type of the coefficients and of the support vectors' values. Inner products and scores are summed in
        float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Support vectors or landmarks held.

    Notes
    -----
    Strategies under a budget:

    - "project": the vector that the others replace best is projected on their span. The best one over long streams. An
      example costs time, and the model memory, in proportion to the square of the budget; a prediction does not.
    - "merge": the support vector with the smallest norm of coefficients and its best partner become one, a mixture of
      the two. As good, or a little better, on short streams and small budgets, in a fraction of the memory; for budgets
      of 1,000 and more it is quicker. For the RBF kernel only, whose mixture is known in closed form.
    - "nystroem": the first examples that are not nearly in the span of those before are landmarks; a linear model
      learns on the coordinates in their span. A prediction costs the square of the budget too. Landmarks stay: where
      the examples themselves move on, prefer another strategy.
    - "rff": a linear model on random Fourier features. For the RBF kernel only. Quickest, and the same for any stream,
      but it takes several times the budget for the same quality.
    - "drop": the support vector with the smallest norm of coefficients is dropped. Mostly for comparison.

    Until the budget is full, "project", "merge" and "drop" learn as without one.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    Z. Wang, K. Crammer, S. Vucetic: Breaking the curse of kernelization: budgeted stochastic gradient descent for
    large-scale SVM training, JMLR 13, 2012 ("merge").

    F. Orabona, J. Keshet, B. Caputo: The Projectron: a bounded kernel-based perceptron, ICML 2008 ("project").

    J. Lu, S. Hoi, J. Wang, P. Zhao, Z. Liu: Large scale online kernel learning, JMLR 17(47), 2016 ("rff", "nystroem").

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

    _etas = MappingProxyType({"implicit": 0.4, "gradient": 0.5})
    _fixed = ("step", *KernelLearner._fixed)

    def __init__(
        self,
        eta: float | None = None,
        step: str | None = None,
        passes: int | float | None = None,
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
        self.eta = eta
        self.step = step
        self.passes = passes
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
        return FALT(
            eta=self._step[0],
            step=self._kind,
            passes=self.passes,
            average=self.average,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            scaling="none",
            calibrate=False,
            dtype=self.dtype,
        )
