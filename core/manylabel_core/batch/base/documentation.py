"""Shared descriptions of batch learners, inserted into their docstrings."""

from __future__ import annotations

import re
from textwrap import indent
from typing import TypeVar

SHARED = {
    "scaling": """\
How features are scaled before anything else, by the examples of `fit`: "none"; "auto", as the online
learners scale the next example (quantities in deviations from their mean, others by their usual size and
rarity, rows to unit length), for which a NaN, or what sparse X does not store, is missing: a quantity then
stands at its mean; "standard", deviations from the mean, which fills sparse rows up; "max_abs", by the largest
absolute value, which leaves zeros. The fitted scaling is kept as `scaling_` (None for "none"), also in bytes.""",
    "kernel": """\
"linear" works on weights of features and takes sparse X without a Gram matrix. A callable takes two
matrices and gives their kernel values. With "precomputed", X is the Gram matrix of the examples.""",
    "gamma": """\
Of "rbf", exp(-gamma |u - v|^2), and "poly", (gamma u.v + coef0)^degree. "scale" is 1 / (n_features *
variance of X); "mean_distance" is 1 / (2 w^2) with w the mean distance of two examples (of a sample
beyond 10,000), the width in the paper of MLRL.""",
    "resources": """\
cache_mb : float, default=2000
    A Gram matrix larger than this is not stored; its rows are computed again when they are needed. It is stored
    in single precision as long as rounding is a small part of the gap asked for, which is measured.
n_threads : int, default=1
random_state : int, RandomState or None, default=0
    Order in which the solver visits the examples, and the sample of "mean_distance".""",
    "decisions": """\
optimise : {"micro_f1", "macro_f1", "hamming", "none"}, default="micro_f1"
    The measure that decision thresholds are chosen for: one for all labels, or one for each label, as validation
    says, on scores of rows that were not learnt. "none": a label is predicted where its score is above 0.
calibrate : bool, optional
    Whether `predict_proba` is fitted to the scores of those rows. None: where thresholds are chosen.
folds : int, default=3
    Number of further fits for thresholds and probabilities; each holds out a part of the rows. With less than 2 rows a
    fold, or less rows to learn from than labels, there are neither.""",
    "decided": """\
threshold_ : ndarray of shape (n_labels,), float64
    Decision thresholds, subtracted from `label_scores`; 0 if none are tuned or `fit` was stopped.
curves_ : ndarray of shape (2, n_labels), float64, or None
    A label of score s has the probability 1 / (1 + exp(-(slope s + intercept))): slopes, then intercepts.""",
    "model": """\
coef_ : ndarray of shape (n_labels, n_features), float64
    Linear kernel only.
support_, support_vectors_, dual_coef_ : ndarrays or CSR array
    Other kernels: indices of the examples that the model needs, the examples (not with "precomputed"), and
    their coefficients, of shape (n_support, n_labels).
intercept_ : ndarray of shape (n_labels,), float64""",
    "dual": """\
gamma_ : float
alpha_ : ndarray of shape (n_samples, n_labels), float64
    Dual variables, with `warm_start`.""",
    "columns": """\
classes_ : ndarray of shape (n_labels,)
    The columns of Y.
n_features_in_, feature_names_in_, label_names_ : int, ndarray, ndarray
    Names only if they were given.""",
    "privileged": """\
gamma2 : float, default=1.0
    The larger, the less slack is had for labels.
C : float or None, default=None
    Price of the slack that the other labels explain. None takes 3 rho, at which they are mostly idle, and 0.3 where rho
    is infinite.
rho : float, default=0.1
    Price of the rest of the slack, which may be infinite. Search it, the lower the longer the rows (0.1 to 1 for rows
    of unit length).
loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    With "hinge", zeta costs `rho zeta`. The scores of rare labels then gather near -1, and those of different labels
    compare badly, which rankings of labels show.
fit_intercept : bool, default=True
intercept_scaling : float, default=3.16
    B, the scale of the intercepts: the larger, the less they cost.
privileged : "all" or int, default="all"
    A number takes for each label only the nearest labels in Hamming distance.""",
    "privileged_dual": """\
alpha_, beta_ : ndarrays of shape (n_samples, n_labels) and (n_label_sets, n_labels), float64
    Dual variables, with `warm_start`.""",
    "examples": """\
X : array-like or sparse matrix of shape (n_samples, n_features)
Y : array-like or sparse matrix of shape (n_samples, n_labels)
    1 for a relevant label, 0 for an irrelevant one. A label may have one class only.
label_names : iterable of str, optional
    Kept as `label_names_`; None takes the columns of a data frame Y.""",
    "weights": """\
sample_weight : array-like of shape (n_samples,), optional
    Above 0 and at most 1000: the loss of a row counts so often, and so do its labels where thresholds and
    probabilities are chosen. Scales of features count every row once. None: 1 for every row.""",
    "outcome": """\
Returns
-------
self

Raises
------
ValueError
    If a parameter or argument is not allowed; the message names it.""",
}
"""By the names that stand as `%(name)s` on separate lines in docstrings."""

Learner = TypeVar("Learner", bound=type)


def documented(learner: Learner) -> Learner:
    """Insert the shared descriptions into the docstrings of a class and of its `fit`."""
    for described in (learner, learner.fit):  # type: ignore[attr-defined]
        if described.__doc__ is not None:  # Python -OO leaves none
            described.__doc__ = re.sub(r"^( *)%\((\w+)\)s$", _block, described.__doc__, flags=re.MULTILINE)
    return learner


def _block(found: re.Match[str]) -> str:
    return indent(SHARED[found[2]], found[1])
