"""Limits on the size of a new model. `Admission` checks later growth."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from manylabel_service.errors import check_limit
from manylabel_service.online.spec.limits import UNLIMITED, FeatureLimit, LabelLimit
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings

_MANY_EXAMPLES = 2**53
"""Upper bound of the number of examples."""


def max_learner_bytes(spec: ModelSpec) -> int:
    """Return the maximum memory of the learner of a spec; dimensions without a limit are not counted."""
    n_features, n_labels = max_features(spec) or 0, max_labels(spec) or 0
    learner = spec.learner()
    nbytes = learner.pipeline.nbytes_after(n_features, n_labels, _MANY_EXAMPLES, _MANY_EXAMPLES * n_features)
    if nbytes < _MANY_EXAMPLES:
        return nbytes
    return learner.pipeline.nbytes_after(n_features, n_labels, 0, 0)  # memory grows with each example, without limit


def max_features(spec: ModelSpec) -> int | None:
    """Return the maximum number of features of a model, or None."""
    return _most(spec.features, (spec.limits or UNLIMITED).features)


def max_labels(spec: ModelSpec) -> int | None:
    """Return the maximum number of labels of a model, or None."""
    return _most(spec.labels, (spec.limits or UNLIMITED).labels)


def _most(declared: Sequence[str] | int | None, limit: FeatureLimit | LabelLimit | None) -> int | None:
    if declared is not None:
        return declared if isinstance(declared, int) else len(declared)
    return None if limit is None else limit.most


NAME_BYTES = 200
"""Estimated bytes of a name in a vocabulary, without its characters: string object, column and table entries."""


def check_arrays(arrays: Mapping[str, NDArray[Any]], settings: Settings) -> None:
    """Check the arrays of a state before a model is built from them, because the model may need much more memory.
    Raises LimitExceeded."""
    sizes = {name: (*array.shape, 0, 0) for name, array in arrays.items()}
    rows, columns = sizes.get("learner.weights", (0, 0))[:2]
    n_features, n_labels = (sizes.get(f"{kind}.offsets", (1,))[0] - 1 for kind in ("features", "labels"))
    n_indices, n_sparse = (sizes.get(name, (0,))[0] for name in ("features.indices", "learner.weights.ends"))
    check_limit("features of the snapshot", max(n_features, n_indices, rows - 1, n_sparse), settings.max_features)
    check_limit("labels of the snapshot", max(n_labels, columns - 1), settings.max_labels)
    learner_bytes = sum(
        array.nbytes
        for name, array in arrays.items()
        if name.startswith(("learner.", "answers", "details", "groups", "promise"))
    )
    nbytes = learner_bytes + NAME_BYTES * (n_features + n_labels)
    check_limit("bytes of the snapshot", nbytes, settings.max_model_bytes)


def check_size(spec: ModelSpec, state: OnlineModel | None, settings: Settings) -> None:
    """Check the number of columns and the bytes of a new model, from its spec or its initial state.

    A model with limits is checked as if it had reached its limits.
    """
    n_features, n_labels = max_features(spec) or 0, max_labels(spec) or 0
    learner = spec.learner() if state is None or state.updates else state.learner
    nbytes = learner.pipeline.nbytes_after(n_features, n_labels, 0, 0)
    if spec.limits is not None and (spec.limits.features or spec.limits.labels):
        nbytes = max(nbytes, max_learner_bytes(spec))
    if state is not None:
        n_features, n_labels = max(n_features, len(state.features)), len(state.labels)
        nbytes = max(nbytes, state.nbytes)
    check_limit(f"features of model {spec.name!r}", n_features, settings.max_features)
    check_limit(f"labels of model {spec.name!r}", n_labels, settings.max_labels)
    check_limit(f"bytes of model {spec.name!r}", nbytes, settings.max_model_bytes)
