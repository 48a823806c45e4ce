"""Kernel SALT: a nonlinear multi-label model of fixed size with a step size for every weight."""

from __future__ import annotations

from manylabel_core.online.kernel import BUDGET, KernelLearner
from manylabel_core.online.margin import ThresholdingLearner, damping, step_kind, step_size
from manylabel_core.online.salt import SALT_DELTAS, SALT_STEPS
from manylabel_core.parameters import NULL, Choice, again, declared


@declared
class KernelSALT(KernelLearner, ThresholdingLearner):
    """Kernel SALT: second-order adaptive label thresholding on features of a kernel.

    `SALT` has a step size for every weight, but a model in the feature space of a kernel has no explicit weights, so
    the paper has only a linear model. A fixed number of features whose inner products approximate the kernel provides
    weights again, and memory and time do not grow with the stream.

    By default the kernel is one of three experts, next to two linear ones, as in `KernelFALT`.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Number of landmarks.

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

    leading = ("eta", "delta", "step", "passes")

    steps = SALT_STEPS
    strategies = ("nystroem",)
    _deltas = SALT_DELTAS
    _shrinks = True

    eta: float | None = step_size(steps)
    delta: float | None = damping(SALT_DELTAS)
    step: str | None = step_kind(
        steps,
        "How an example is learnt, as for `SALT`. 'stacked': by an implicit step, by the kernel next to the two "
        "experts that `SALT` has with 'stacked'.",
    )
    budget: int = again(
        KernelLearner,
        "budget",
        500,
        kinds=(BUDGET,),
        python=(BUDGET,),
        description="Number of kernel features, at most 4,096, because its square is kept in memory.",
    )
    strategy: str | None = again(
        KernelLearner,
        "strategy",
        None,
        kinds=(Choice(strategies), NULL),
        python=(Choice(strategies), NULL),
        description="Kernel features. 'nystroem': coordinates in the span of landmarks, the first examples that are "
        "not nearly in the span of those before. None means 'nystroem'.",
    )
