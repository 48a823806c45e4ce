"""Checks of a model's state whose bytes may come from anybody: its parts have to agree with each other.

What each part relies on by itself is checked where it is restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from manylabel_service.online.spec.spec import MAX_NAME_BYTES
from manylabel_service.storage import position_key

if TYPE_CHECKING:
    from manylabel_service.online.state.model import OnlineModel

MAX_UPDATES = 2**53
"""More examples than any stream has."""
_MAX_POSITION = 64
_EXAMPLES = ("scaling.count", "n_seen", "drift.seen")
"""Parts of a learner, where it has them, that begin with the number of examples it has learnt."""
_LABELS = "calibration.existing"
"""The one that is the number of labels in the latest."""


def check_names(given: set[str], due: set[str]) -> None:
    """Raise ValueError unless a state has just the parts that are due."""
    if given != due:
        raise ValueError(f"parts are missing or too many: {', '.join(sorted(given ^ due)[:3])}")


def check_position(position: Any) -> str:
    """A position as it is.

    Raises
    ------
    ValueError
        It is none.
    """
    if not isinstance(position, str) or len(position) > _MAX_POSITION:
        raise ValueError(f"a position is a string of at most {_MAX_POSITION} characters")
    position_key(position)
    return position


def check_rollbacks(rollbacks: Any, most: int) -> list[tuple[str, str]]:
    """The list of rollbacks; raises ValueError if it is none."""
    if not isinstance(rollbacks, list) or len(rollbacks) > most:
        raise ValueError(f"rollbacks: a list of at most {most:,} is due")
    checked = [(check_position(at), check_position(to)) for at, to in rollbacks]
    keys = [position_key(at) for at, _ in checked]
    if any(position_key(to) >= at for at, (_, to) in zip(keys, checked, strict=True)):
        raise ValueError("rollbacks: each goes back to an earlier position")
    if any(a >= b for a, b in pairwise(keys)):
        raise ValueError("rollbacks: positions ascend")
    return checked


def check_facts(model: OnlineModel, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless the parts of a restored model agree."""
    check_position(model.position)
    if type(model.updates) is not int or not 0 <= model.updates < MAX_UPDATES:
        raise ValueError("updates: a count is due")
    if model.rollbacks and position_key(model.rollbacks[-1][0]) > position_key(model.position):
        raise ValueError("rollbacks: not after the position")
    _check_columns(model)
    _check_counts(model, arrays)
    for part in ("features", "labels"):
        lengths = np.diff(arrays[f"{part}.offsets"])
        if not ((lengths >= 1) & (lengths <= MAX_NAME_BYTES)).all():
            raise ValueError(f"{part}: a name has 1 to {MAX_NAME_BYTES} bytes")


def _check_columns(model: OnlineModel) -> None:
    learner, due = model.learner, (len(model.features), len(model.labels))
    untouched = model.updates == learner.n_features_ == 0  # memory for features is taken when they are learnt
    if learner.n_labels_ != due[1] or not (untouched or learner.n_features_ == due[0]):
        raise ValueError(f"the learner has {learner.n_features_} features and {learner.n_labels_} labels, not {due}")
    declared = model.spec.labels
    if declared is not None and model.labels.names != tuple(declared):
        raise ValueError("labels: not those declared")
    if not untouched and model.features.layout.kind is None:
        raise ValueError("layout: settled by the first example")


def _check_counts(model: OnlineModel, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check counts of labels, of which some are not measured after a rollback, and counts of examples."""
    counts = {"measures": len(arrays["prequential.counts"])}
    if (existing := arrays.get(f"learner.{_LABELS}")) is not None:
        counts[_LABELS] = existing[0]
    n_labels = len(model.labels) if model.updates else 0
    for part, count in counts.items():
        if count > n_labels:
            raise ValueError(f"{part}: {count} labels, where the model has {n_labels}")
    if model.prequential.measures()["cumulative"]["examples"] > model.updates:
        raise ValueError("the measures count more examples than were learnt")
    for name in _EXAMPLES:
        if (counted := arrays.get(f"learner.{name}")) is not None and counted[0] != model.updates:
            raise ValueError(f"{name}: expected {model.updates}, not {counted[0]}")
