"""Passive-aggressive binary relevance in the feature space of a kernel: a nonlinear baseline."""

from __future__ import annotations

from dataclasses import dataclass

from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.margin import AggressiveLearner


@dataclass(eq=False, repr=False)
class KernelPassiveAggressive(AggressiveLearner, KernelLearner):
    """Kernel passive-aggressive binary relevance: a separate kernel model for each label.

    The loss and the steps are those of `PassiveAggressive`, with k = K(x, x). The weights are a sum over support
    vectors, the examples that had a loss for a label, each with one coefficient per label.

    Without a budget the model grows with every such example, and so does the cost of a prediction.

    {parameters}

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

    C: float = 1.0
    variant: str = "PA-I"
    average: bool = False
    kernel: str = "rbf"
    gamma: float = 1.0
    coef0: float = 1.0
    degree: int = 2
    budget: int | None = None
    strategy: str | None = None
    seed: int = 0
    fit_intercept: bool = False
    intercept_scaling: float = 0.3
    scaling: str | None = None
    missing: str | None = None
    calibrate: bool = True
    optimise: str | None = None
    drift: str | None = None
    on_drift: str | None = None
    dtype: str = "float32"
