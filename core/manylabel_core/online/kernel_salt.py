"""Kernel SALT: a nonlinear multi-label model of fixed size with a step size for every weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.margin import ThresholdingLearner
from manylabel_core.online.parameters import Documentation
from manylabel_core.online.salt import SALT_DELTAS, SALT_STEPS


@dataclass(eq=False, repr=False)
class KernelSALT(ThresholdingLearner, KernelLearner):
    """Kernel SALT is second-order adaptive label thresholding on features of a kernel.

    `SALT` has a step size for every weight, and there are no weights in the feature space of a kernel; the paper leaves
    it at the linear model. With a fixed number of features whose inner products are the kernel's, or nearly, there are
    again, and memory and time do not grow with the stream.

    By default the kernel is one of three experts, beside two linear ones, as in `KernelFALT`.

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.
    n_support_ : int
        Landmarks held; 0 with random features.

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

    steps = SALT_STEPS
    strategies = ("nystroem", "rff")
    _deltas = SALT_DELTAS
    _expands = False
    _shrinks = True
    _fixed = ("step", *KernelLearner._fixed)

    _documentation: ClassVar[Documentation] = {
        "eta": (
            "float",
            "Step size, in (0, 2^20]; None is 1 (stacked, implicit) or 0.5 (gradient). The loss is multiplied by it, "
            "and for all but the gradient step by the number of labels too.",
        ),
        "delta": (
            "float",
            "Damps the first steps of a weight; in (0, 2^20]. None is 2 (stacked, implicit) or 1 (gradient).",
        ),
        "step": (
            '{"stacked", "implicit", "gradient"}',
            'How an example is learnt, as for `SALT`. "stacked": by an implicit step, by the kernel beside the two '
            'experts that `SALT` has with "stacked". None is "stacked", or "gradient" where passes are given.',
        ),
        "budget": ("int", 'Number of features: at most 4,096 for "nystroem", and 16,384, even, for "rff".'),
        "strategy": (
            '{"nystroem", "rff"}',
            'What the features are. "nystroem": coordinates in the span of landmarks, the first examples that are not '
            'nearly in the span of those before. "rff": random Fourier features, for the RBF kernel only; quicker, but '
            'it takes a much larger budget for the same quality. None is "nystroem".',
        ),
        "fit_intercept": ("bool", "Add a constant feature to those of the kernel."),
        "intercept_scaling": ("float", "The constant, in (0, 2^20]."),
        "dtype": (
            '{"float32", "float64"}',
            "Type of the weights, of the sums of squares and of the landmarks' values. Scores are summed in float64 in "
            "either case.",
        ),
    }

    eta: float | None = None
    delta: float | None = None
    step: str | None = None
    passes: int | None = None
    passes_per_label: float | None = None
    average: bool = False
    kernel: str = "rbf"
    gamma: float | None = None
    coef0: float = 1.0
    degree: int = 2
    budget: int = 500
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
