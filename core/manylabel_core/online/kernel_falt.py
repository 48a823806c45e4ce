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
    loss, each with one coefficient per label and one for the threshold (section 5 of the paper). Without a budget the
    model, and the time of a prediction, grow with every such example.

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

    - "project": the vector that the others represent best is projected on their span. It is the best strategy over long
      streams. The time to learn an example and the memory are proportional to the square of the budget; the time of a
      prediction is not.
    - "merge": the support vector with the smallest norm of coefficients and its best partner become a mixture of the
      two. It is as good, or slightly better, on short streams and small budgets, needs a fraction of the memory, and is
      faster with large budgets. For the RBF kernel only.
    - "nystroem": the first examples that are not nearly in the span of earlier ones are landmarks; a linear model
      learns on the coordinates in their span. The time of a prediction is also proportional to the square of the
      budget. Landmarks never change: prefer another strategy if the distribution of the examples drifts.
    - "rff": a linear model on random Fourier features, for the RBF kernel only. It is the fastest, but needs a much
      larger budget for the same quality.

    Until the budget is full, "project" and "merge" learn as without one.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    Z. Wang, K. Crammer, S. Vucetic: Breaking the curse of kernelization: budgeted stochastic gradient descent for
    large-scale SVM training, JMLR 13, 2012 ("merge").

    F. Orabona, J. Keshet, B. Caputo: The Projectron: a bounded kernel-based perceptron, ICML 2008 ("project").

    J. Lu, S. Hoi, J. Wang, P. Zhao, Z. Liu: Large scale online kernel learning, JMLR 17(47), 2016 ("rff", "nystroem").

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

    leading = ("eta", "step", "passes", "passes_per_label", "average")

    steps = MappingProxyType({STACKED: 0.4, "implicit": 0.4, GRADIENT: 0.5})

    eta: float | None = step_size(steps)
    step: str | None = step_kind(
        steps,
        "How an example is learnt. 'gradient': by passes, as in the paper. 'implicit': by an exact solution of the "
        "example's problem, Eq. (3) with the loss itself: no margin is overshot, and no number of passes is needed. "
        "'stacked': the kernel model learns like 'implicit', next to the two experts of `FALT` with 'stacked'.",
    )
