"""FALT: a linear multi-label model with a learnt threshold, by first-order steps."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.calibration._logistic import POSITIVES, SLOPE, START
from manylabel_core.online.margin import GRADIENT, STACKED, LinearThresholdingLearner, step_kind, step_size
from manylabel_core.online.models.linear.weight_table import dense_state
from manylabel_core.parameters import declared

if TYPE_CHECKING:
    from manylabel_core.scaling.fitted import FittedScaling


class FittedLinear(Protocol):
    """Fitted linear model with a score per label and the threshold 0: a linear M3L, MLRL or SSMLRL."""

    coef_: NDArray[Any]  # (n_labels, n_features)
    intercept_: NDArray[Any]  # (n_labels,)


FIRST_ALONE = (0.0, 0.0, 1.0, 0.0, 0.0)
"""Shared coefficients of a stack of three experts for which the log-odds equal the margin of the first expert."""


@declared
class FALT(LinearThresholdingLearner):
    """FALT: first-order adaptive label thresholding.

    Every label and the threshold have a linear score; labels that score above the threshold are predicted. The loss of
    an example is the mean hinge loss over its relevant labels plus that over its irrelevant labels, Eq. (4) of the
    paper. By default the steps differ from those of the paper: see `step`.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    Notes
    -----
    A new label starts with a score of 0, like the threshold, and is not predicted until it scores higher. The first
    examples without the label lower its score. While the truth of the label is unknown, its score stays 0. Then the
    label is predicted for examples with a negative threshold, which occurs if few labels are irrelevant.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    B. Kulis, P. Bartlett: Implicit online learning, ICML 2010 ("implicit").

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

    steps = MappingProxyType({STACKED: 0.4, "adaptive": 0.4, "implicit": 0.25, GRADIENT: 0.25})

    eta: float | None = step_size(steps)
    step: str | None = step_kind(
        steps,
        "How an example is learnt. 'gradient': by passes, as in the paper. 'implicit': by an exact solution of the "
        "example's problem, Eq. (3) with the loss itself: no margin is overshot, and no number of passes is needed. "
        "'adaptive': like 'implicit', with the step of each feature f multiplied by 1 / sqrt(1 + s_f), where s_f is "
        "the sum of its squares over earlier examples with a loss. 'stacked': an adaptive expert next to a centroid of "
        "each label's examples and, for up to 512 features, a second-order logistic regression; a logistic model that "
        "all labels share, with corrections for each label, makes log-odds of these margins and of the frequency of "
        "the label in the last examples. The steps of 'stacked' and 'adaptive' shrink. All labels share the sums s_f: "
        "the alarm of all labels resets them, and the alarm of one "
        "label does not.",
    )

    @classmethod
    def from_linear(cls, model: FittedLinear, **parameters: Any) -> Self:
        """Start from a model learnt in batch, with a threshold of 0, and continue learning from the stream.

        Scores are those of the model minus its thresholds, in the precision of `dtype`. A model with scaling="auto"
        passes on its statistics. A model with scaling="none" must have been fitted to features scaled like the
        stream's: for scaling="unit", to rows of unit norm. Both losses require margins of 1, so the first examples do
        not undo the batch result; a small `eta` preserves it longest.

        Parameters
        ----------
        model : FittedLinear
            A fitted M3L, MLRL or SSMLRL with a linear kernel, or an object with the same `coef_` and `intercept_`.
        **parameters
            Parameters of the constructor. `scaling` is that of the model, or "unit" for a model with "none"; no other
            scaling can be continued.

        Raises
        ------
        ValueError
            If the model has no linear weights; if it has intercepts, but `fit_intercept` is False; if a parameter is
            not allowed.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core.batch import M3L
        >>> X, Y = np.eye(3), np.eye(3, dtype=int)
        >>> model = FALT.from_linear(M3L(C=10.0, optimise="none").fit(X, Y))
        >>> model.predict(X).tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> model.partial_fit([[1.0, 0.0, 0.0, 1.0]], [[0, 0, 0, 1]]).n_labels_
        4
        """
        coef, intercept = _linear_parts(model)
        scaling = getattr(model, "scaling_", None)
        learner = cls(**{"scaling": "none" if scaling is None else scaling.name, **parameters})
        _check_scaling(scaling, learner._resolved_scaling())
        learner.pipeline.grow(coef.shape[1], len(coef))
        if not learner.fit_intercept and intercept.any():
            raise ValueError("fit_intercept must be True: the model has intercepts")
        table = np.zeros((1 + coef.shape[1], 1 + len(coef)))
        table[0, 1:] = intercept / learner.intercept_scaling
        table[1:, 1:] = coef.T
        state = {**learner.state(), **dense_state("weights", table.astype(learner.dtype))}
        if learner._stacked:
            slope = 1.0 if learner._resolved_optimise() == "none" else START[SLOPE]
            state["stack.shared"][: len(FIRST_ALONE)] = [slope * of for of in FIRST_ALONE]
            if state.get("calibration.counts", np.empty((2, 0))).size:
                state["calibration.counts"][:, :1] = [[0.5], [1.0]]  # the threshold 1/2 is a margin of 0
                state["calibration.labels"][POSITIVES] = 1.0
        learner.restore({**state, **({} if scaling is None else scaling.arrays())})
        return learner

    @property
    def _shrinks(self) -> bool:
        return self._kind in (STACKED, "adaptive")


def _check_scaling(scaling: FittedScaling | None, chosen: str) -> None:
    """Raise ValueError if a stream with the chosen scaling cannot continue from a model with this scaling."""
    if scaling is None and chosen not in ("none", "unit"):
        raise ValueError("scaling must be 'none' or 'unit': the model's features are not scaled")
    if scaling is not None and (scaling.name != "auto" or chosen != "auto"):
        raise ValueError(
            f"scaling must be 'auto' for the model and for the stream, not {scaling.name!r} and {chosen!r}"
        )


def _linear_parts(model: FittedLinear) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights (n_labels, n_features) and intercepts (n_labels,) of a fitted linear model."""
    if not hasattr(model, "coef_") or not hasattr(model, "intercept_"):
        raise ValueError(f"model must be fitted and linear, with coef_ and intercept_; {model!r} does not have them")
    coef, intercept = (np.asarray(part, dtype=np.float64) for part in (model.coef_, model.intercept_))
    intercept = intercept - getattr(model, "threshold_", 0.0)
    if coef.ndim != 2 or not coef.size or intercept.shape != coef.shape[:1]:
        raise ValueError(
            f"model must have coef_ of shape (n_labels, n_features) and n_labels intercepts, not "
            f"{coef.shape} and {intercept.shape}"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("model must have finite weights")
    return coef, intercept
