"""The most memory that a model can take, from its spec alone."""

import sys
from collections.abc import Sequence

from manylabel_core import Prequential, Vocabulary
from manylabel_service.online.spec.limits import UNLIMITED, FeatureLimit, LabelLimit
from manylabel_service.online.spec.spec import MAX_NAME_BYTES, ModelSpec
from manylabel_service.online.state.idempotency_window import IdempotencyWindow
from manylabel_service.online.state.integrity import MAX_UPDATES
from manylabel_service.online.state.labelled_ids import LabelledIds
from manylabel_service.online.state.stream_offsets import StreamOffsets
from manylabel_service.settings import Settings

_LARGEST_NAME = "\N{GRINNING FACE}" + "x" * (MAX_NAME_BYTES - 4)
"""Of the names of so many bytes in UTF-8, one that takes most memory: 4 bytes for each character because of one."""


def bytes_at_most(spec: ModelSpec, settings: Settings) -> int | None:
    """What `StreamModel.nbytes` can come to at most, on a server with these settings; None where nothing bounds it.

    There is a bound where features and labels are limited or declared, and the learner does not keep examples without
    end. Columns have the longest names, windows are full.
    """
    n_features, n_labels = most_features(spec), most_labels(spec)
    if n_features is None or n_labels is None:
        return None
    learner = spec.learner().nbytes_after(n_features, n_labels, MAX_UPDATES, MAX_UPDATES * n_features)
    if learner >= MAX_UPDATES:  # it takes memory for each of them
        return None
    names = _names_at_most(spec.features, _n_named(spec, n_features)) + _names_at_most(spec.labels, n_labels)
    measures = Prequential(window=spec.window).nbytes_at_most(n_labels)
    requests = LabelledIds.nbytes_at_most() + StreamOffsets.nbytes_at_most()
    return learner + names + measures + requests + IdempotencyWindow.nbytes_at_most(_answer_bytes(n_labels, settings))


def most_features(spec: ModelSpec) -> int | None:
    """Most features that a model can have, or None."""
    return _most(spec.features, (spec.limits or UNLIMITED).features)


def most_labels(spec: ModelSpec) -> int | None:
    """Most labels that a model can have, or None."""
    return _most(spec.labels, (spec.limits or UNLIMITED).labels)


def _most(declared: Sequence[str] | int | None, limit: FeatureLimit | LabelLimit | None) -> int | None:
    if declared is not None:
        return declared if isinstance(declared, int) else len(declared)
    return None if limit is None else limit.most


def _n_named(spec: ModelSpec, n_features: int) -> int:
    """How many of the features can have names that are kept."""
    return 0 if (spec.limits or UNLIMITED).hashes or isinstance(spec.features, int) else n_features


def _names_at_most(declared: Sequence[str] | int | None, n_names: int) -> int:
    if isinstance(declared, Sequence):
        return Vocabulary.nbytes_at_most(n_names, sum(map(_name_bytes, declared)))
    return Vocabulary.nbytes_at_most(n_names, n_names * _name_bytes(_LARGEST_NAME))


def _name_bytes(name: str) -> int:
    """Memory of a string, with the copy in UTF-8 that it gets where it is written."""
    return sys.getsizeof(name) + len(name.encode()) + 1


def _answer_bytes(n_labels: int, settings: Settings) -> int:
    """Of the largest answer that is remembered for a retry: that of one example, or of a batch."""
    scores = max(1 + 2 * n_labels, settings.max_answer_scores + settings.max_batch_examples)
    return 8 * scores + IdempotencyWindow.names_at_most(n_labels, MAX_NAME_BYTES)
