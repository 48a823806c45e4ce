"""Passive-aggressive binary relevance in the feature space of a kernel: a nonlinear baseline."""

from __future__ import annotations

from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.margin import POSITIVE, AggressiveLearner
from manylabel_core.parameters import again, declared


@declared
class KernelPassiveAggressive(KernelLearner, AggressiveLearner):
    """Kernel passive-aggressive binary relevance: a separate kernel model for each label.

    The loss and the steps are those of `PassiveAggressive`, with k = K(x, x). The weights are a sum over support
    vectors, the examples that had a loss for a label, each with one coefficient per label.

    Without a budget, each support vector makes the model larger and predictions slower.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Number of support vectors.

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

    leading = ("C", "variant")

    gamma: float = again(
        KernelLearner,
        "gamma",
        1.0,
        kinds=(POSITIVE,),
        python=(POSITIVE,),
        description="Coefficient of the kernel; 1 / (2 s2) for an RBF kernel of the paper's width s2.",
    )
