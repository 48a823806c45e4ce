"""Tiers of compiled functions that a change of a model, or a request, needs in addition to those of its spec and
state."""

from collections.abc import Iterable, Sequence

from manylabel_service.hosting.examples import Example, Features
from manylabel_service.online.spec.tiers import tiers_of_size
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.controls import Control, Describe, Regroup, SetPromise
from manylabel_service.online.state.dry_run import SizeDelta, grown_columns
from manylabel_service.online.state.groups import places
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.undo import Undo


def tiers_of_examples(xs: Iterable[Features]) -> tuple[str, ...]:
    """Return the tiers that the features of examples need."""
    return ("vectors",) if any(x.vectors is not None for x in xs) else ()


def tiers_of_model(model: OnlineModel) -> tuple[str, ...]:
    """Return the tiers that a copy of a model needs besides those of its spec, see `tiers_of_arrays`."""
    needs = {
        "vectors": model.features.layout.n_vector_values > 0,
        "groups": bool(model.groups.columns),
        "promise": bool(model.promises),
    }
    return (*(tier for tier, needed in needs.items() if needed), *tiers_of_growth(model, SizeDelta()))


def tiers_of_growth(model: OnlineModel, growth: SizeDelta) -> tuple[str, ...]:
    """Return the tiers that a model may need after it has grown."""
    n_columns, n_labels = grown_columns(model, growth)
    return tiers_of_size(model.spec, n_columns + model.features.layout.n_vector_values + growth.vectors, n_labels)


def tiers_of_control(change: Control) -> tuple[str, ...]:
    """Return the tiers that a control entry needs in addition to those of its growth; a rollback needs the tiers of its
    target."""
    if isinstance(change, SetPromise):
        return () if change.target is None and change.parity is None else ("promise",)
    return ("groups",) if isinstance(change, Regroup) or (isinstance(change, Undo) and change.restores_groups) else ()


def tiers_of_entries(model: OnlineModel, entries: Sequence[LogEntry]) -> tuple[str, ...]:
    """Return the tiers that the application of entries needs; `sparse` may be included although it is not needed."""
    tiers, labels, examples = set[str](), set[str](), list[Example]()
    for _, change, _ in entries:
        if isinstance(change, Control):
            tiers.update(tiers_of_control(change))
            labels.update(_named(change))
        else:
            examples += change.examples
    tiers.update(tiers_of_examples(example.x for example in examples))
    return (*tiers, *tiers_of_growth(model, _max_growth(model, examples, labels)))


def _named(change: Control) -> Iterable[str]:
    """Return the labels that a control entry may declare."""
    if isinstance(change, Describe):
        return change.edits
    return (label for label, _ in places(change.groups, change.parents)) if isinstance(change, Regroup) else ()


def _max_growth(model: OnlineModel, examples: Sequence[Example], labels: set[str]) -> SizeDelta:
    """Return the growth by examples and declared labels if the model ignores none of them."""
    space, names, indices, vectors = model.features, set[str](), set[int](), set[tuple[str, int]]()
    layout = space.layout
    for x, y, *_ in examples:
        labels.update(y.names)
        if x.names is not None and space.keeps_names:
            layout, given = layout.learning(x, layout.numbers_of(x))
            names.update(x.names, given)
        indices.update(space.new_indices(x).tolist())
        vectors.update((name, len(vector)) for name, vector in (x.vectors or {}).items())
    n_values = sum(length for _, length in vectors.difference(space.layout.vectors))
    columns = len(space.names.unknown(names)) + len(indices)
    return SizeDelta(labels=len(model.labels.unknown(labels)), columns=columns, vectors=n_values)
