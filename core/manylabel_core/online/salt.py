"""SALT: a linear multi-label model with a learnt threshold, with a step size for every weight."""

from __future__ import annotations

from types import MappingProxyType

from manylabel_core.online.margin import GRADIENT, STACKED, LinearThresholdingLearner, damping, step_kind, step_size
from manylabel_core.parameters import declared

SALT_STEPS = MappingProxyType({STACKED: 1.0, "implicit": 1.0, GRADIENT: 0.5})
"""Default eta of each kind of step, the best kind first."""

SALT_DELTAS = MappingProxyType({STACKED: 2.0, "implicit": 2.0, GRADIENT: 1.0})
"""Default delta of each kind of step."""


@declared
class SALT(LinearThresholdingLearner):
    """SALT: second-order adaptive label thresholding.

    The loss is that of `FALT`. Every weight has a separate step size (Algorithm 3 of the paper). It moves by eta /
    (delta + sqrt(S)) times its gradient, and S is the sum of its squared gradients including the current one. So rare
    features keep large steps.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    Notes
    -----
    In float32 a sum of squares stops growing after about 1.7e7 equal gradients, so the steps of a weight never become
    smaller than about eta / 4096. With implicit updates no weight exceeds 1e28, and no sum of squares 1e38.

    New labels are handled as in `FALT`.

    References
    ----------
    T. Zhai, H. Tang, H. Wang: Adaptive label thresholding methods for online multi-label classification,
    Pattern Recognition.

    B. Kulis, P. Bartlett: Implicit online learning, ICML 2010 ("implicit").

    J. Duchi, E. Hazan, Y. Singer: Adaptive subgradient methods for online learning and stochastic optimization, JMLR
    12, 2011.

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

    leading = ("eta", "delta")

    steps = SALT_STEPS
    _deltas = SALT_DELTAS
    _shrinks = True

    eta: float | None = step_size(steps)
    delta: float | None = damping(SALT_DELTAS)
    step: str | None = step_kind(
        steps,
        "How an example is learnt. 'gradient': by passes, as in the paper. 'implicit': the problem of the example is "
        "solved in the metric delta + sqrt(S) of the squares before it, and the squares of the gradient that it ends "
        "with are added. 'stacked': an implicit expert next to the other experts of `FALT`. All "
        "steps shrink: after the alarm of a label its steps are large again.",
    )
