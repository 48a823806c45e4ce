"""SALT: a linear multi-label model with a learnt threshold, with a step size for every weight."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._adaptive import learn_salt
from manylabel_core.online.models.linear._metric import LARGEST, SQUARES
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.parameters import COIN, GRADIENT, PAIRED, check_positive, check_without_sizes
from manylabel_core.online.storage import MAX_WEIGHT
from manylabel_core.online.thresholding import ThresholdingLearner
from manylabel_core.rows import Rows, Targets

_DELTAS = MappingProxyType({PAIRED: 2.0, "implicit": 2.0, GRADIENT: 1.0, COIN: 1.0})
"""What suits each kind of step; a coin does not use it."""

_SUMS = MappingProxyType({COIN: ("sums", "magnitudes", "rewards", "largest")})
"""The planes between weights and drag, if they are not squares."""


class SALT(ThresholdingLearner, LinearLearner):
    """Second-order adaptive label thresholding.

    The loss is that of `FALT`, Eq. (4). Every weight has a step size of its own, Algorithm 3: with the sum S
    of its squared gradients, the present one included, it moves by eta / (delta + sqrt(S)) times its
    gradient. Rare features so keep large steps.

    Parameters
    ----------
    eta : float, default=None
        Step size, in (0, 2^20]; None is 1 (paired, implicit) or 0.5 (gradient). The loss is multiplied by it, and
        for all but the gradient step by the number of labels too. "coin" has none.
    delta : float, default=None
        Damps the first steps of a weight; in (0, 2^20]. None is 2 (paired, implicit) or 1 (gradient). "coin" has none.
    step : {"paired", "implicit", "gradient", "coin"}, default=None
        How an example is learnt. "gradient": by `passes` steps, as in the paper. "implicit": its round is solved
        exactly in the metric delta + sqrt(S) of the squares before it, and the squares of the gradient that it
        ends with are added. "coin": likewise in the metric of a bet for each weight (COCOB), which has no step size to
        choose and takes five numbers for each weight in place of two. "paired": an implicit model beside one of steady
        steps of 0.4 eta, without a metric and with a constant of 1; the one with the better micro-F1 over the last
        350 examples or so predicts. None is "paired", or "gradient" where `passes` are given. All steps but those of
        "coin" shrink: the alarm of a label lets its own be large again.
    passes : int or float, default=None
        The paper's M, for the gradient step: most passes over one example. An int, 1 to 100,000, is the number
        itself; a float, in (0, 100], is a multiple of the number of labels (1.0 is M = L, 1 is M = 1; None is
        1.0). A round ends earlier once the loss of its example is 0.
    average : bool, default=False
        Predict with the mean of the weights after each example since the label appeared, those without a loss
        included, in place of the present ones. Learning goes by the present ones. It takes as much memory again as
        the weights.
    fit_intercept : bool, default=True
        Add a constant feature (after scaling).
    intercept_scaling : float, default=0.3
        The constant, in (0, 2^20]. Set it by the norm of the examples: at 0.3, the intercept takes a twelfth of
        each step on an example of unit norm; at 1 it takes half, which costs much on sparse text.
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
        What an alarm does before the next example is learnt; needs `drift`. "raise": the steps of the label, or of
        all when the detector for all labels sounds, are as large as at the start; only for steps that shrink, see
        `step`. "restart": the label is forgotten and learnt anew. None: nothing.
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

    By an exact round no weight gets beyond 1e28, and no sum of squares beyond 1e38.

    What is said of new labels for `FALT` holds here too.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    F. Orabona, T. Tommasi: Training deep networks without learning rates through coin betting, NIPS 2017.

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

    _etas = MappingProxyType({PAIRED: 1.0, "implicit": 1.0, GRADIENT: 0.5, COIN: 1.0})
    _ranges = MappingProxyType(
        {
            "squares": (0.0, MAX_WEIGHT),
            "sums": (-LARGEST, LARGEST),
            "magnitudes": (0.0, LARGEST),
            "rewards": (0.0, LARGEST),
            "largest": (0.0, LARGEST),
        }
    )

    def __init__(
        self,
        eta: float | None = None,
        delta: float | None = None,
        step: str | None = None,
        passes: int | float | None = None,
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
        self.eta = eta
        self.delta = delta
        self.step = step
        self.passes = passes
        self.average = average
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.calibrate = calibrate
        self.optimise = optimise
        self.drift = drift
        self.on_drift = on_drift
        self.dtype = dtype

    def _check_parameters(self) -> None:
        if self._kind == COIN:
            check_without_sizes(COIN, delta=self.delta)
        self._delta = check_positive("delta", _DELTAS[self._kind] if self.delta is None else self.delta)

    def _chosen(self) -> dict[str, Any]:
        return {**super()._chosen(), "delta": None if self._kind == COIN else self._delta}

    @property
    def _sums(self) -> tuple[str, ...]:
        return _SUMS.get(self._kind, ("squares",))

    @property
    def _shrinks(self) -> bool:
        return self._kind != COIN

    def _quicken(self, label: int | None) -> None:
        self._table[:, SQUARES, slice(None) if label is None else 1 + label] = 0.0

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        model = self._table, self._ages, self._record
        learn_salt(*model, self._constant, self._step, self._delta, *rows, *targets, scores)
