"""Shared descriptions of batch learners, inserted into their docstrings."""

from __future__ import annotations

from functools import partial

from manylabel_core import parameters

SHARED = {
    "decided": """\
threshold_ : ndarray of shape (n_labels,), float64
    Decision thresholds, subtracted from `label_scores`; 0 without tuning or if `fit` was stopped.
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
    "privileged_dual": """\
alpha_, beta_ : ndarrays of shape (n_samples, n_labels) and (n_label_sets, n_labels), float64
    Dual variables, with `warm_start`.""",
}
"""Descriptions by name, inserted for lines `{name}` of docstrings."""

documented = partial(parameters.documented, shared=SHARED)
"""Class decorator that puts the parameters and the shared descriptions into the docstring."""
