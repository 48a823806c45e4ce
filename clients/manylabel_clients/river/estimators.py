"""FALT, SALT and kernel FALT as river classifiers, in process."""

from collections.abc import Hashable
from typing import Any

from river import base

import manylabel_core as core
from manylabel_clients.river._columns import Encoder
from manylabel_clients.river._encoding import PredictedLabels


class _OnlineClassifier(base.MultiLabelClassifier):
    """What the three have in common: river's dicts in and out, around a learner of core."""

    def __init__(self, learner: core.FALT | core.SALT | core.KernelFALT) -> None:
        learner.grow(0, 0)  # a parameter that is not allowed raises here and not at the first example
        self._learner = learner
        self._encoder = Encoder(learner.dtype)

    def learn_one(self, x: dict[Hashable, Any], y: dict[Hashable, bool]) -> None:
        """Learn one example.

        Parameters
        ----------
        x : dict
            Numbers or bools by feature. A feature that is missing is 0; one never met before gets a column.
        y : dict
            True or False by label. A label that is missing is unknown, and the loss leaves it out; one never
            met before gets a column.

        Raises
        ------
        TypeError
            A feature that is not a number, a label that is not a bool. Nothing is learnt then.
        ValueError
            A feature that is not finite. Nothing is learnt then.
        """
        encoder = self._encoder
        rows, targets = encoder.example(x, y)
        self._learner.grow(len(encoder.features), len(encoder.labels))
        self._learner.learn(rows, targets)

    def predict_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Hashable, bool]:
        """Return every label met so far: True where its score is above the threshold.

        Features never learnt are left out. Of a label not met so far the answer says False when asked.
        """
        scores = self._learner.score(self._encoder.row(x))[0]
        return PredictedLabels(zip(self._encoder.labels, (scores[1:] > scores[0]).tolist(), strict=True))


class FALT(_OnlineClassifier):
    """First-order adaptive label thresholding: a linear model with a learnt threshold.

    The learner is `manylabel_core.FALT`, which says what it computes; this is its face in river. Features and
    labels may appear at any time, under any hashable key; `y` may leave labels out, they are unknown then.
    There are no probabilities: `predict_proba_one` raises NotImplementedError.

    Parameters
    ----------
    eta : float
        Step size. The default suits examples of unit norm.
    passes : int or float
        Most steps on one example: a number, or as a float a multiple of the number of labels.
    fit_intercept : bool
        Add a constant feature (after scaling).
    intercept_scaling : float
        The constant; set it by the norm of the examples.
    scaling : {"none", "unit", "standard"}
        Scaling of features as part of the model.
    dtype : {"float32", "float64"}
        Type of the weights.

    Raises
    ------
    ValueError
        A parameter is not allowed.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), FALT(), metric)
    MicroAverage(F1): 61.65%
    """

    def __init__(
        self,
        eta: float = 0.25,
        passes: int | float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype
        super().__init__(core.FALT(**self._get_params()))


class SALT(_OnlineClassifier):
    """Second-order adaptive label thresholding: as `FALT`, with a step size for every weight.

    The learner is `manylabel_core.SALT`. Rare features keep large steps, which suits text.

    Parameters
    ----------
    eta : float
        Step size.
    delta : float
        Damps the first steps of a weight.
    passes : int or float
        Most steps on one example: a number, or as a float a multiple of the number of labels.
    fit_intercept : bool
        Add a constant feature (after scaling).
    intercept_scaling : float
        The constant; set it by the norm of the examples.
    scaling : {"none", "unit", "standard"}
        Scaling of features as part of the model.
    dtype : {"float32", "float64"}
        Type of the weights and of their sums of squares.

    Raises
    ------
    ValueError
        A parameter is not allowed.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), SALT(), metric)
    MicroAverage(F1): 61.04%
    """

    def __init__(
        self,
        eta: float = 0.5,
        delta: float = 1.0,
        passes: int | float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.delta = delta
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype
        super().__init__(core.SALT(**self._get_params()))


class KernelFALT(_OnlineClassifier):
    """Kernel adaptive label thresholding: as `FALT`, nonlinear, by support vectors.

    The learner is `manylabel_core.KernelFALT`. Without a budget it keeps every example that had a loss, and
    takes the longer to predict and to learn the more there are.

    Parameters
    ----------
    eta : float
        Step size.
    passes : int or float
        Most steps on one example: a number, or as a float a multiple of the number of labels.
    kernel : {"rbf", "linear", "poly"}
        exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.
    gamma : float
        Kernel coefficient. The default suits examples of unit norm.
    coef0 : float
        Constant of "poly".
    degree : int
        Degree of "poly".
    budget : int or None
        Most support vectors kept.
    fit_intercept : bool
        Add a constant to the kernel.
    intercept_scaling : float
        The root of that constant.
    scaling : {"none", "unit", "standard"}
        Scaling of features as part of the model.
    dtype : {"float32", "float64"}
        Type of the coefficients and of the support vectors' values.

    Raises
    ------
    ValueError
        A parameter is not allowed.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), KernelFALT(), metric)
    MicroAverage(F1): 61.99%
    """

    def __init__(
        self,
        eta: float = 0.5,
        passes: int | float = 1.0,
        kernel: str = "rbf",
        gamma: float = 2.0,
        coef0: float = 1.0,
        degree: int = 2,
        budget: int | None = None,
        fit_intercept: bool = False,
        intercept_scaling: float = 0.3,
        scaling: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.eta = eta
        self.passes = passes
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.scaling = scaling
        self.dtype = dtype
        super().__init__(core.KernelFALT(**self._get_params()))
