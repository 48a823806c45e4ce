"""Maximum size of a model, computed from its spec."""

from collections.abc import Sequence

from manylabel_service.online.spec.limits import UNLIMITED, FeatureLimit, LabelLimit
from manylabel_service.online.spec.spec import ModelSpec

_MANY_EXAMPLES = 2**53
"""More examples than any stream has."""


def max_learner_bytes(spec: ModelSpec) -> int:
    """Return the maximum memory of the learner that follows from a spec; dimensions without a limit are not counted."""
    n_features, n_labels = max_features(spec) or 0, max_labels(spec) or 0
    learner = spec.learner()
    nbytes = learner.nbytes_after(n_features, n_labels, _MANY_EXAMPLES, _MANY_EXAMPLES * n_features)
    if nbytes < _MANY_EXAMPLES:
        return nbytes
    return learner.nbytes_after(n_features, n_labels, 0, 0)  # its memory grows with each example, without a bound


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
