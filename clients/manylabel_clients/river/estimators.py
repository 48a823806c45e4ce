"""The online learners of core as river classifiers, in process.

Each has the name and the parameters of a learner in `manylabel_core`, whose docstring describes them; an invalid value
raises ValueError. Features and labels can appear at any time, under any hashable key; a label omitted from `y` is
unknown. All estimators also have these parameters:

scaling     feature scaling; None: "auto", or "none" with `passes`
missing     replacement of a missing quantity: "mean" or "zero"
calibrate   calibrated probabilities, for `predict_proba_one`
optimise    metric for which decision thresholds are tuned: "micro_f1", "macro_f1", "hamming", or "none"
text        text options of records (`x` with strings, lists and dicts): settings of
            `manylabel_core.records.TextSettings`, such as ``{"fields": ["title"]}``
drift       "adwin": detect drift per label and over all labels; `on_drift`: reaction to an alarm
"""

import manylabel_core as core
from manylabel_clients.river.online_classifier import OnlineClassifier, of_core


class FALT(OnlineClassifier):
    """First-order adaptive label thresholding: a linear model with a learnt threshold.

    Parameters are those of `manylabel_core.FALT`; the defaults suit any stream.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), FALT(), metric)
    MicroAverage(F1): 62.98%

    Probabilities of labels:

    >>> model = FALT()
    >>> for x, y in datasets.Yeast().take(600):
    ...     model.learn_one(x, y)
    >>> {label: round(p[True], 2) for label, p in model.predict_proba_one(x).items() if p[True] > 0.5}
    {'Class2': 0.56, 'Class12': 0.88, 'Class13': 0.88}
    """

    __init__ = of_core(core.FALT)


class SALT(OnlineClassifier):
    """Second-order adaptive label thresholding: like `FALT`, with a step size per weight.

    Parameters are those of `manylabel_core.SALT`. Rare features keep large steps, which suits text.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), SALT(), metric)
    MicroAverage(F1): 62.88%
    """

    __init__ = of_core(core.SALT)


class KernelFALT(OnlineClassifier):
    """Kernel adaptive label thresholding: nonlinear `FALT` with support vectors, combined with linear experts.

    Parameters are those of `manylabel_core.KernelFALT`. Without a budget it stores every example that had a loss, so
    predicting and learning get slower.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), KernelFALT(), metric)
    MicroAverage(F1): 64.11%
    """

    __init__ = of_core(core.KernelFALT)


class KernelSALT(OnlineClassifier):
    """Kernel SALT: `SALT` on kernel features, nonlinear and of fixed size.

    Parameters are those of `manylabel_core.KernelSALT`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), KernelSALT(), metric)
    MicroAverage(F1): 63.34%
    """

    __init__ = of_core(core.KernelSALT)


class PassiveAggressive(OnlineClassifier):
    """Passive-aggressive binary relevance: a separate linear model for each label; a baseline.

    Parameters are those of `manylabel_core.PassiveAggressive`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), PassiveAggressive(), metric)
    MicroAverage(F1): 56.74%
    """

    __init__ = of_core(core.PassiveAggressive)


class KernelPassiveAggressive(OnlineClassifier):
    """Kernel passive-aggressive binary relevance: `PassiveAggressive` with support vectors.

    Parameters are those of `manylabel_core.KernelPassiveAggressive`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(600), KernelPassiveAggressive(), metric)
    MicroAverage(F1): 60.03%
    """

    __init__ = of_core(core.KernelPassiveAggressive)
