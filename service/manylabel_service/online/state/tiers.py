"""Tiers of compiled functions that a change of a model, or a request, needs besides those of its spec and state."""

from collections.abc import Iterable, Sequence

from manylabel_core.online.models.linear.sparse_table import is_sparse
from manylabel_service.hosting.examples import Example, Features
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Control, Describe, Regroup, SetPromise
from manylabel_service.online.state.dry_run import SizeDelta, grown_columns
from manylabel_service.online.state.groups import places
from manylabel_service.online.state.model import OnlineModel

_ITEM_BYTES = 8
"""Maximum bytes of a weight."""


def tiers_of_examples(xs: Iterable[Features]) -> tuple[str, ...]:
    """Return the tiers that the features of examples need."""
    return ("vectors",) if any(x.vectors is not None for x in xs) else ()


def tiers_of_model(model: OnlineModel) -> tuple[str, ...]:
    """Return the tiers that a copy of a model needs besides those of its spec, see `tiers_of_arrays`."""
    needs = {
        "vectors": model.features.layout.n_vector_values > 0,
        "groups": bool(model.groups.columns),
        "promise": model.promises.promise is not None,
    }
    return (*(tier for tier, needed in needs.items() if needed), *tiers_of_growth(model, SizeDelta()))


def tiers_of_growth(model: OnlineModel, growth: SizeDelta) -> tuple[str, ...]:
    """Return the tiers that a model may need after it has grown."""
    n_columns, n_labels = grown_columns(model, growth)
    n_columns += model.features.layout.n_vector_values + growth.vectors
    return ("sparse",) if is_sparse(n_columns, 1 + n_labels, _ITEM_BYTES) else ()


def tiers_of_control(change: Control) -> tuple[str, ...]:
    """Return the tiers that a control entry needs besides those of the growth; a rollback needs those of its target."""
    if isinstance(change, SetPromise):
        return () if change.target is None else ("promise",)
    return ("groups",) if isinstance(change, Regroup) else ()


def tiers_of_entries(model: OnlineModel, entries: Sequence[LogEntry]) -> tuple[str, ...]:
    """Return the tiers that the application of entries needs, and perhaps `sparse` although it is not needed."""
    tiers, growth = set[str](), SizeDelta()
    for _, change, checked in entries:
        if isinstance(change, Control):
            tiers.update(tiers_of_control(change))
            growth = growth.plus(SizeDelta(labels=_n_named(change)))
        else:
            tiers.update(tiers_of_examples(example.x for example in change.examples))
            growth = growth.plus(_most_growth(change.examples) if checked is None else checked.growth)
    return (*tiers, *tiers_of_growth(model, growth))


def _n_named(change: Control) -> int:
    """Return the maximum number of labels that a control entry declares."""
    if isinstance(change, Describe):
        return len(change.edits)
    return sum(1 for _ in places(change.groups, change.parents)) if isinstance(change, Regroup) else 0


def _most_growth(examples: Sequence[Example]) -> SizeDelta:
    """Return the growth by examples of which every feature and label is new."""
    features, labels, n_dense, n_vectors = set[str | int](), set[str](), 0, 0
    for x, y, *_ in examples:
        labels.update(y.names)
        if x.names is not None:
            features.update(x.names)
        elif x.indices is not None:
            features.update(x.indices.tolist())
        else:
            n_dense = max(n_dense, len(x.values))
        n_vectors = max(n_vectors, sum(map(len, (x.vectors or {}).values())))
    return SizeDelta(labels=len(labels), columns=len(features) + n_dense, vectors=n_vectors)
