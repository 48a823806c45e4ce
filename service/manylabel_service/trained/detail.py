"""Details of a version, for people."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.state import DamagedState
from manylabel_service.errors import VersionDamaged
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.predictor import read_estimator, takes_views
from manylabel_service.trained.version import Version

MAX_CORRELATED = 200
"""Maximum number of labels in the matrix of correlations: the labels with the strongest correlation to another
label."""


@dataclass(frozen=True, slots=True)
class LabelCorrelation:
    """Correlations of labels: values of shape (n_labels, n_labels), float64."""

    labels: list[str]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of one version.

    Attributes
    ----------
    version : number of the version.
    label_scores : scores on held-out rows, by label; None if missing.
    label_decisions : by label, the ``threshold`` of its scores, and the ``calibration`` of its probability, a slope and
        an intercept, or None.
    label_correlation : correlation of labels; None if the trainer does not learn it.
    view_weights : weights by view; None if the trainer has none.
    convergence : convergence of the fit.
    """

    version: Version
    label_scores: dict[str, dict[str, float]] | None
    label_decisions: dict[str, dict[str, Any]]
    label_correlation: LabelCorrelation | None
    view_weights: dict[str, float] | None
    convergence: Convergence


def read_detail(name: str, version: Version, data: bytes) -> Detail:
    """Return the detail from the artifact of a version of model `name`; raises VersionDamaged."""
    try:
        contents = ModelArtifact.from_bytes(data)
        estimator = read_estimator(contents.estimator)
    except DamagedState as error:
        raise VersionDamaged(name, version.number, str(error)) from error
    scores = contents.label_scores
    return Detail(
        version,
        None if scores is None else {label: dict(measures) for label, measures in scores.items()},
        _decisions(estimator, contents.labels),
        _correlation(estimator, contents.labels),
        _view_weights(estimator),
        contents.convergence,
    )


def _decisions(estimator: Any, labels: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    curves = estimator.curves_
    known = [None] * len(labels) if curves is None else [{"slope": a, "intercept": b} for a, b in curves.T.tolist()]
    return {
        label: {"threshold": threshold, "calibration": calibration}
        for label, threshold, calibration in zip(labels, estimator.threshold_.tolist(), known, strict=True)
    }


def _correlation(estimator: Any, labels: tuple[str, ...]) -> LabelCorrelation | None:
    values = getattr(estimator, "label_correlation_", None)
    if values is None:
        return None
    strength = (np.abs(values) - np.eye(len(values))).max(axis=1, initial=0.0)
    chosen = np.sort(np.argsort(-strength, kind="stable")[:MAX_CORRELATED])
    return LabelCorrelation([labels[column] for column in chosen], values[np.ix_(chosen, chosen)])


def _view_weights(estimator: Any) -> dict[str, float] | None:
    if not takes_views(estimator):
        return None
    return dict(zip(map(str, estimator.view_names_), estimator.view_weights_.tolist(), strict=True))
