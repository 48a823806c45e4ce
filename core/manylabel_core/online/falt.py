"""FALT: a linear multi-label model with a learnt threshold, by first-order steps."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.linear._experts import STEADY_CONSTANT
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.parameters import GRADIENT, PAIRED
from manylabel_core.online.storage import check_range, enlarged
from manylabel_core.online.thresholding import ThresholdingLearner
from manylabel_core.rows import MAX_MAGNITUDE

MAX_SEEN = 4.0 * MAX_MAGNITUDE**2 * 2**53
"""More than the squares of a feature can come to."""


class LinearModel(Protocol):
    """A linear model with a score for each label and 0 for a threshold: a linear M3L, MLRL or SSMLRL.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    """

    coef_: NDArray[Any]
    intercept_: NDArray[Any]


class FALT(ThresholdingLearner, LinearLearner):
    """First-order adaptive label thresholding.

    Every label has a linear score and so has the threshold; labels that score above the threshold are
    predicted. An example costs its mean hinge loss over the relevant labels plus the one over the irrelevant
    labels, Eq. (4); the weights take gradient steps against it, Eqs. (5) and (6). A mean over no labels is 0.

    Parameters
    ----------
    eta : float, default=None
        Step size, in (0, 2^20]; None is 0.4 (paired, adaptive) or 0.25. It suits examples of unit norm; take a
        smaller one, by |x|^2, for larger ones. The loss is multiplied by it, and for all but the gradient step by
        the number of labels too: an irrelevant label then moves by about as much, however many labels there are.
    step : {"paired", "adaptive", "implicit", "gradient"}, default=None
        How an example is learnt. "gradient": by `passes` steps, as in the paper. "implicit": its round is solved
        exactly, Eq. (3) with the loss itself, so that no margin is overshot and there are no passes to choose.
        "adaptive": likewise, and every feature f moves by 1 / sqrt(1 + s_f) as much, with s_f the sum of its
        squares in earlier rounds with a loss. "paired": an adaptive and an implicit model side by side, of which the
        one with the better micro-F1 over the last 350 examples or so predicts; the constant of the latter is 1,
        which lets it follow the frequencies of labels. None is "paired", or "gradient" where
        `passes` are given. With "paired" and "adaptive" steps shrink. The sums s_f are shared by all labels: the
        alarm of all forgets them, and that of one label, which has no steps of its own, does not.
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
        Type of the weights. Scores are summed in float64 in either case.

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    Notes
    -----
    All M passes move the weights along the same x, so they are run on the 1 + n_labels scores, each pass
    changing a score by |x|^2 times a coefficient, and the weights are written once.

    A label starts with a score of 0, as the threshold does, and is not predicted when it scores no more than that.
    The first examples without it lower it below; where its truth is unknown, it keeps its 0, and is predicted where the
    threshold has come to be negative, which is where few labels are irrelevant.

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

    _etas = MappingProxyType({PAIRED: 0.4, "adaptive": 0.4, "implicit": 0.25, GRADIENT: 0.25})

    def __init__(
        self,
        eta: float | None = None,
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
        learner = cls(**{"scaling": "none", **parameters})
        if learner._chosen_scaling() in ("auto", "standard"):
            raise ValueError("scaling must be 'none' or 'unit': the statistics of others come from the stream alone")
        learner.grow(coef.shape[1], len(coef))
        if not learner.fit_intercept and intercept.any():
            raise ValueError("fit_intercept must be True: the model has intercepts")
        table = np.zeros((1 + coef.shape[1], 1 + len(coef)))
        table[0, 1:] = intercept / learner.intercept_scaling
        table[1:, 1:] = coef.T
        weights = {"weights": table.astype(learner.dtype)}
        if learner._paired:
            table[0, 1:] = intercept / STEADY_CONSTANT
            weights["steady"] = table.astype(learner.dtype)
        learner.restore({**learner.state(), **weights})
        return learner

    def _create(self) -> None:
        super()._create()
        self._seen = np.zeros(1 if self._shrinks else 0)

    @property
    def _shrinks(self) -> bool:
        """Whether every feature has a step size of its own."""
        return self._kind in (PAIRED, "adaptive")

    def _quicken(self, label: int | None) -> None:
        if label is None:
            self._seen[:] = 0.0

    def _enlarge(self, n_features: int, n_labels: int) -> None:
        super()._enlarge(n_features, n_labels)
        if self._shrinks:
            self._seen = enlarged(self._seen, (1 + n_features,))

    def _model(self) -> dict[str, NDArray[Any]]:
        if not self._shrinks:
            return super()._model()
        return {**super()._model(), "seen": self._seen[: 1 + self._n_features]}

    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        weights = super()._model_bytes(n_features, n_labels, n_samples, n_values)
        return weights + (self._seen.itemsize * (1 + n_features) if self._shrinks else 0)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        n_features, n_labels = super()._restore(arrays)
        if self._shrinks:
            if arrays["seen"].shape != (1 + n_features,):
                raise ValueError("state must hold one seen for each feature and the constant")
            check_range("seen", arrays["seen"], 0.0, MAX_SEEN)
            self._seen = arrays["seen"]
        return n_features, n_labels


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
