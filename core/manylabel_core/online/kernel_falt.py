"""Kernel FALT: a nonlinear multi-label model with a learnt threshold."""

from __future__ import annotations

from types import MappingProxyType

from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.margin import GRADIENT, STACKED, ThresholdingLearner, step_kind, step_size
from manylabel_core.parameters import declared


@declared
class KernelFALT(KernelLearner, ThresholdingLearner):
    """Kernel FALT: first-order adaptive label thresholding in the feature space of a kernel.

    The loss and the steps are those of `FALT`. The weights are a sum over support vectors, the examples that had a
    loss, each with one coefficient per label and one for the threshold (section 5 of the paper). Without a budget, each
    support vector makes the model larger and predictions slower.

    By default the kernel is one of three experts; the others are the linear experts of `FALT`. The linear experts are
    better for nearly linear labels, the kernel for local labels: a stack learns weights of the experts for each label.
    Its scores are log-odds, and its threshold is 0.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Number of support vectors or landmarks.

    Notes
    -----
    Strategies under a budget:

    - "project": the vector that the other vectors represent best is projected on their span. It is the best strategy
      over long streams. The time to learn an example and the memory are proportional to the square of the budget; the
      time of a prediction is not.
    - "nystroem": the first examples that are not nearly in the span of earlier ones are landmarks; a linear model
      learns on the coordinates in their span. The time of a prediction is also proportional to the square of the
      budget. Landmarks never change: prefer "project" if the distribution of the examples drifts.

    Until the budget is full, "project" learns as without a budget.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    F. Orabona, J. Keshet, B. Caputo: The Projectron: a bounded kernel-based perceptron, ICML 2008 ("project").

    J. Lu, S. Hoi, J. Wang, P. Zhao, Z. Liu: Large scale online kernel learning, JMLR 17(47), 2016 ("nystroem").

    D. Wolpert: Stacked generalization, Neural Networks 5(2), 1992 ("stacked").

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

    leading = ("eta", "step", "passes")

    steps = MappingProxyType({STACKED: 0.4, "implicit": 0.4, GRADIENT: 0.5})

    eta: float | None = step_size(steps)
    step: str | None = step_kind(
        steps,
        "How an example is learnt. 'gradient': by passes, as in the paper. 'implicit': by an exact solution of the "
        "example's problem, Eq. (3) with the loss itself: no margin is overshot, and no number of passes is needed. "
        "'stacked': the kernel model learns like 'implicit', next to the first two experts of `FALT` with 'stacked'.",
    )
