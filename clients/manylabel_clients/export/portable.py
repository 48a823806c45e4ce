"""Linear model as plain values: the contents of the JSON export, and the source of the other exports.

docs/export.md describes them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.explanation import NotLinear
from manylabel_core.online import LEARNERS
from manylabel_core.online.calibration._logistic import KNOT
from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.records.number_fields import SETTLED, NumberFields
from manylabel_core.scaling.ranks import RankCurves
from manylabel_core.state import State

FORMAT = "manylabel-linear-1"

ONLINE = {name: learner for name, learner in LEARNERS.items() if not issubclass(learner, KernelLearner)}
"""The learners whose models are linear, by the names of their algorithms."""

MAX_WEIGHTS = 50_000_000
"""Maximum number of weights (features times labels) of an exported model; a weight takes about 40 bytes."""

Portable = dict[str, Any]

_NO_GROUPS = b"\x92\x90\x90"
"""Placeholder in a state without groups and parents."""


class CannotExport(ValueError):
    """Error for a model that cannot be exported; the message gives the reason."""


def portable_online(model: str, snapshot: bytes) -> Portable:
    """Return an online model from a snapshot of it.

    Raises CannotExport if it is not linear, hashes its features, has learnt nothing, uses groups, parents or titles, or
    has more weights than `MAX_WEIGHTS`; DamagedState if the bytes are no snapshot.
    """
    arrays, header = State.from_bytes(snapshot)
    spec = header["spec"]
    if spec["algorithm"] not in ONLINE:
        raise CannotExport(f"{model} is a {spec['algorithm']}, which is not linear: only {', '.join(ONLINE)} are")
    limit = (spec.get("limits") or {}).get("features") or {}
    if limit.get("policy") == "hash":
        raise CannotExport(f"{model} hashes its features, so they have no names")
    if arrays["groups"].tobytes() != _NO_GROUPS:
        raise CannotExport(f"{model} has groups or parents of labels, which the exported program does not support")
    if header["layout"].get("vectors"):
        raise CannotExport(f"{model} has learnt from vectors, which the exported program does not support")
    if not header["updates"]:
        raise CannotExport(f"{model} has not learnt anything yet")
    labels, names = _texts(_group(arrays, "labels")), _texts(_group(arrays, "features"))
    numbered = header["layout"]["kind"] == "numbered"
    features: list[Any] = arrays["features.indices"].tolist() if numbered else names
    _check_size(model, len(features), len(labels))
    learner: OnlineLearner = ONLINE[spec["algorithm"]](
        **spec["params"], scaling=spec["scaling"], missing=spec["missing"]
    )
    learner.restore(_group(arrays, "learner"))
    try:
        weights, intercept, slope, offset, bend, curves, of_ranks = learner.pipeline.linear_form()
    except NotLinear as error:
        advice = "to export a copy without them, create it from a snapshot and remove titles and descriptions there"
        raise CannotExport(f"{model}: {error}; {advice}") from error
    hidden = {*arrays["retired"].tolist(), *arrays["paused"].tolist()}
    kept = [column for column in range(len(labels)) if column not in hidden]
    declared = header["layout"]["fixed"] or "features" in header["declared"]
    room = 0 if declared else max(0, limit["most"] - len(features)) if limit.get("policy") == "ignore" else None
    return {
        "format": FORMAT,
        "model": model,
        "learnt": header["updates"],
        "labels": [labels[column] for column in kept],
        "features": {
            "numbered": numbered,
            "names": features,
            "unseen": room,
            "numbers": None if numbered else _number_fields(arrays, header["layout"], declared).to_json(),
        },
        "text": None if numbered else spec["text"],
        "scaling": _online_scaling(learner, _group(arrays, "learner"), len(features)),
        **_weights(weights[:, kept], intercept[kept], _part(slope, kept), _part(offset, kept), bend),
        **_ranks(learner, curves, of_ranks[:, kept]),
    }


def portable_trained(model: str, version: int, data: bytes) -> Portable:
    """Return a version of a trained model from its file with names; raises like `portable_online`."""
    arrays, header = State.from_bytes(data)
    estimator_bytes = arrays["estimator"].tobytes()
    kind = State.header_of(estimator_bytes)["estimator"]
    trainer = next(one for one in TRAINERS.values() if one.estimator_class().__name__ == kind)
    if trainer.views:
        raise CannotExport(f"{model} is an LSA-MML of several views, which is not one linear model")
    estimator = trainer.estimator_class().from_bytes(estimator_bytes)
    if not hasattr(estimator, "coef_"):
        raise CannotExport(f"{model} has a kernel, {estimator.kernel}: only a linear one can be exported")
    _check_size(model, estimator.coef_.shape[1], estimator.coef_.shape[0])
    coef = estimator.coef_.toarray() if hasattr(estimator.coef_, "toarray") else np.asarray(estimator.coef_)
    weights = coef.T.astype(np.float64)
    intercept = np.asarray(estimator.intercept_ - estimator.threshold_, dtype=np.float64)
    slope = offset = None
    if estimator.curves_ is not None:
        slope = estimator.curves_[0]
        offset = estimator.curves_[1] + slope * estimator.threshold_
    scaling, weights, intercept = _trained_scaling(estimator.scaling_, weights, intercept)
    ((_, width),) = header["views"]
    features: list[Any] = _texts(_group(arrays, "features.0")) if width is None else list(range(width))
    return {
        "format": FORMAT,
        "model": model,
        "version": version,
        "labels": _texts(_group(arrays, "labels")),
        "features": {"numbered": width is not None, "names": features, "unseen": 0, "numbers": None},
        "text": header["text"] if width is None else None,
        "scaling": scaling,
        **_weights(weights, intercept, slope, offset),
    }


def _number_fields(arrays: Mapping[str, NDArray[Any]], layout: Mapping[str, Any], declared: bool) -> NumberFields:
    facts = layout.get("numbers")
    if declared or facts is None or not facts["counted"]:
        return NumberFields(None)
    names, is_always = _texts(_group(arrays, "features.numbers")), arrays["features.numbers.always"].tolist()
    always = frozenset(name for name, is_in in zip(names, is_always, strict=True) if is_in)
    return NumberFields(dict.fromkeys(names, SETTLED), always if facts["begun"] else None, facts["of_records"])


def _check_size(model: str, n_features: int, n_labels: int) -> None:
    """Raise CannotExport if a dense table of weights would not fit the memory of a client."""
    if n_features * n_labels > MAX_WEIGHTS:
        counts = f"{n_features:,} features and {n_labels:,} labels, which are {n_features * n_labels:,} weights"
        raise CannotExport(f"{model} has {counts}: at most {MAX_WEIGHTS:,}; limit its features")


def _online_scaling(learner: OnlineLearner, arrays: Mapping[str, NDArray[Any]], n_features: int) -> dict[str, Any]:
    params = learner.resolved_params()
    kind = params["scaling"]
    if kind != "auto":
        return {"kind": kind}
    return _statistics(params["missing"], int(arrays["scaling.count"][0]), arrays["scaling.moments"], n_features)


def _statistics(missing: str, count: int, moments: NDArray[np.float64], n_features: int) -> dict[str, Any]:
    """Return the statistics of a stream; features without a learnt example have no statistics."""
    whole = np.zeros((n_features, moments.shape[1]))
    whole[: len(moments)] = moments[:n_features]
    names = ("values", "mean", "squares", "having", "since", "run", "last", "same")
    columns = {name: whole[:, column].tolist() for column, name in enumerate(names)}
    return {"kind": "auto", "missing": missing, "count": count, **columns}


def _trained_scaling(
    scaling: Any, weights: NDArray[np.float64], intercept: NDArray[np.float64]
) -> tuple[dict[str, Any], NDArray[np.float64], NDArray[np.float64]]:
    """Return the scaling of a trained model; shifts and factors are folded into weights and intercept."""
    if scaling is None:
        return {"kind": "none"}, weights, intercept
    arrays = scaling.arrays()
    if "centre" in arrays:
        weights = weights / arrays["scale"][:, np.newaxis]
        return {"kind": "none"}, weights, intercept - arrays["centre"] @ weights
    moments = arrays["scaling.moments"]
    return _statistics("mean", int(arrays["scaling.count"][0]), moments, len(weights)), weights, intercept


def _weights(weights: Any, intercept: Any, slope: Any, offset: Any, bend: float = 1.0) -> dict[str, Any]:
    likely = None
    if slope is not None:
        likely = {"slope": slope.tolist(), "offset": offset.tolist(), "knot": KNOT, "bend": bend}
    return {"weights": weights.tolist(), "intercept": intercept.tolist(), "probability": likely}


def _ranks(learner: OnlineLearner, curves: RankCurves, weights: NDArray[np.float64]) -> dict[str, Any]:
    """Return the ranks that have an effect, with the points of their curves; may be empty."""
    if not len(weights):
        return {}
    points, ranks = ([each.tolist() for each in own] for own in (curves.values, curves.ranks))
    own = {"features": curves.features.tolist(), "values": points, "ranks": ranks, "weights": weights.tolist()}
    return {"ranks": {**own, "zero_is_missing": learner.pipeline.zero_is_missing}}


def _part(values: NDArray[np.float64] | None, kept: Sequence[int]) -> NDArray[np.float64] | None:
    return None if values is None else values[list(kept)]


def _group(arrays: Mapping[str, NDArray[Any]], part: str) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _texts(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the names of a vocabulary."""
    data = arrays["bytes"].tobytes()
    return [data[first:last].decode() for first, last in pairwise(arrays["offsets"].tolist())]


__all__ = ["FORMAT", "CannotExport", "NotLinear", "Portable", "portable_online", "portable_trained"]
