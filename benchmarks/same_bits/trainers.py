"""Batch trainers of `manylabel_core`: predictions and all fitted arrays, also of interrupted fits."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.same_bits import streams
from benchmarks.same_bits.digest import print_digests
from manylabel_core import FALT, batch, metrics, priors
from manylabel_core.batch.segments import fit_in_segments

FITTED = (
    "coef_", "intercept_", "dual_coef_", "support_", "support_vectors_", "gamma_", "n_iter_", "duality_gap_",
    "label_covariance_", "label_correlation_", "basis_", "view_weights_", "threshold_", "relative_change_",
)  # fmt: skip
"""Compared attributes of estimators, without traces, whose precision may change."""

KERNELS: list[dict[str, Any]] = [
    {},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
]
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "M3L": [{}, {"C": 0.05}, {"C": 20.0}, {"fit_intercept": False}, {"tol": 1e-6}, {"n_threads": 2}],
    "MLRL": [{"lam": 1e-3}, {"lam": 0.05}, {"lam": 1e-3, "tol": 1e-5}, {"lam": 1e-3, "n_threads": 2}],
    "SSMLRL": [{"lam1": 1e-3, "lam2": 1e-5}, {"lam1": 0.02, "lam2": 1e-3}],
    "PrML": [
        {},
        {"rank": 2},
        {"C": 0.3, "rho": 0.5, "gamma2": 1.0},
        {"C": 0.1, "rho": 1.0},
        {"gamma1": 3.0, "n_threads": 2},
        {"random_state": 3},
    ],
    "PrBR": [{}, {"C": 0.3, "rho": 0.5, "gamma2": 1.0}, {"tol": 1e-4}],
}
OF_VIEWS: list[dict[str, Any]] = [
    {"n_components": 3},
    {},
    {"n_components": 4, "gamma": 0.5, "ridge": 0.2},
    {"n_components": 3, "r": 3.0},
    {"n_components": 12, "beta": 0.2},
    {"n_components": 3, "random_state": 4, "n_threads": 2},
]


def fitted(estimator: Any, new: Any, **options: Any) -> dict[str, Any]:
    """Return the predictions and the fitted arrays of an estimator."""
    values = {name: np.asarray(getattr(estimator, name)) for name in FITTED if hasattr(estimator, name)}
    again = type(estimator).from_bytes(estimator.to_bytes())
    return {
        **values,
        "scores": estimator.decision_function(new, **options),
        "predictions": estimator.predict(new, **options),
        "scores when read again": again.decision_function(new, **options),
    }


def fit(name: str, parameters: Mapping[str, Any], make: Callable[[], streams.Labelled]) -> dict[str, Any]:
    """Fit in one call."""
    rows = make()
    estimator = getattr(batch, name)(**parameters)
    _fit(estimator, rows)
    return fitted(estimator, rows.new)


def fit_with_prior(prior: str, make: Callable[[], streams.Labelled]) -> dict[str, Any]:
    """Fit M3L with a matrix of relations."""
    rows = make()
    n_labels = rows.Y.shape[1]
    known = np.eye(n_labels) + 0.3
    R: Any = {
        "matrix": lambda: known,
        "label_correlation": lambda: priors.label_correlation(rows.Y),
        "category_attributes": lambda: priors.category_attributes(rows.Y[:9], eps=0.1),
        "from_mlrl": lambda: priors.from_mlrl(batch.MLRL(lam=1e-3).fit(rows.X, rows.Y)),
    }[prior]()
    estimator = batch.M3L(R=R).fit(rows.X, rows.Y)
    return {"R": np.asarray(getattr(R, "R", R)), **fitted(estimator, rows.new)}


def fit_precomputed(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Fit on a precomputed Gram matrix."""
    rows = streams.dense_set()
    estimator = getattr(batch, name)(kernel="precomputed", **parameters).fit(rows.X @ rows.X.T, rows.Y)
    return fitted(estimator, rows.new @ rows.X.T)


def fit_stopped(name: str, parameters: Mapping[str, Any], make: Callable[[], streams.Labelled]) -> dict[str, Any]:
    """Fit in segments: stop after the first, and resume from the serialised state."""
    rows = make()
    estimator = getattr(batch, name)(**parameters)
    held: list[Any] = []

    def keep(reached: Any) -> None:
        held.append((estimator.to_bytes(), reached))

    # The whole fit in short segments, with a checkpoint after each.
    fit_in_segments(estimator, lambda tell: _fit(estimator, rows, tell), 2, checkpoint=keep)
    values = fitted(estimator, rows.new)
    if held:
        content, reached = held[0]
        later = type(estimator).from_bytes(content)
        fit_in_segments(later, lambda tell: _fit(later, rows, tell), 2, reached=reached)
        values |= {f"{key} of the one gone on": value for key, value in fitted(later, rows.new).items()}
    return values


def fit_views(parameters: Mapping[str, Any], stop: bool) -> dict[str, Any]:
    """Fit LSA-MML; with `stop`, in two calls."""
    rows = streams.views()
    estimator = batch.LSAMML(warm_start=stop, **parameters)
    if stop:
        estimator.fit(rows.X, rows.Y, rows.labelled, rows.missing, progress=lambda now: now.iteration >= 3)
    estimator.fit(rows.X, rows.Y, rows.labelled, rows.missing)
    missing = {"sound": np.arange(40) % 3 == 0}
    return {
        **fitted(estimator, rows.new, missing=missing),
        "label scores": estimator.label_scores(rows.new),
        "representation": estimator.transform(rows.new),
        "scores of one view": estimator.decision_function({"text": rows.new["text"]}),
    }


def go_on_as_stream(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Learn a stream, initialised from the weights of a batch model."""
    rows = streams.dense_set()
    learner = FALT.from_linear(batch.M3L().fit(rows.X, rows.Y), **parameters)
    learner.partial_fit(rows.X[:50], rows.Y[:50])
    return {"scores": learner.decision_function(rows.new)}


def measured(name: str) -> dict[str, Any]:
    """Return one metric on tied scores, empty label sets and a label that never occurs."""
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(300, 9)).round(1)
    Y, P = (rng.random((300, 9)) < 0.3).astype(int), (scores > 0.4).astype(int)
    Y[:, 8] = 0
    Y[:10] = 0
    ranked = name in ("average_precision", "coverage", "one_error", "ranking_loss", "macro_auc")
    return {"value": np.float64(getattr(metrics, name)(Y, scores if ranked else P)).reshape(1)}


def _fit(estimator: Any, rows: streams.Labelled, progress: Any = None) -> None:
    unlabelled = {"X_unlabelled": rows.new} if isinstance(estimator, batch.SSMLRL) else {}
    estimator.fit(rows.X, rows.Y, progress=progress, **unlabelled)


def _cases() -> dict[str, Callable[[], Mapping[str, Any]]]:
    cases: dict[str, Callable[[], Mapping[str, Any]]] = {}
    for name, listed in PARAMETERS.items():
        kernels = KERNELS if name in ("M3L", "MLRL", "SSMLRL") else [{}]
        for make in (streams.dense_set, streams.sparse_set):
            for parameters in ({**given, **kernel} for given in listed for kernel in kernels):
                cases[f"{name} {parameters} {make.__name__}"] = partial(fit, name, parameters, make)
            for kernel in kernels[:2]:
                parameters = {**listed[0], **kernel, "tol": 1e-6}
                cases[f"{name} in segments {parameters} {make.__name__}"] = partial(fit_stopped, name, parameters, make)
    for prior in ("matrix", "label_correlation", "category_attributes", "from_mlrl"):
        for make in (streams.dense_set, streams.sparse_set):
            cases[f"M3L with {prior} {make.__name__}"] = partial(fit_with_prior, prior, make)
    for name, parameters in (("M3L", {"C": 2.0}), ("MLRL", {"lam": 1e-3})):
        cases[f"{name} precomputed"] = partial(fit_precomputed, name, parameters)
        rows_anew = {**parameters, "kernel": "rbf", "cache_mb": 0.01}
        cases[f"{name} {rows_anew}"] = partial(fit, name, rows_anew, streams.dense_set)
    for parameters in OF_VIEWS:
        for stop in (False, True):
            cases[f"LSAMML {parameters} {stop}"] = partial(fit_views, parameters, stop)
    for parameters in ({}, {"eta": 0.01}, {"step": "implicit"}, {"scaling": "unit"}, {"passes": 3}):
        cases[f"FALT.from_linear {parameters}"] = partial(go_on_as_stream, parameters)
    for name in metrics.__all__:
        if name != "Prequential":
            cases[f"metrics {name}"] = partial(measured, name)
    return cases


if __name__ == "__main__":
    print_digests(_cases())
