"""Table of the labels of a model: frequency, metrics and decision of each."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Prequential
from manylabel_core.metrics.prequential import GROUP_BOUNDS
from manylabel_core.online.calibration.calibration import PlattParameters
from manylabel_core.online.drift.detectors import Alarms
from manylabel_service.online.state.label_details import NO_DETAILS, DetailsOfLabels

_MEASURES = ("precision", "recall", "f1")
SORTS = (
    *("name", "frequency", "first_seen", "last_seen", *_MEASURES),
    *(*(f"window_{name}" for name in _MEASURES), "threshold", "alarms"),
)
"""Columns by which labels can be sorted."""

NEEDED = GROUP_BOUNDS[1]
"""Number of positive examples below which a label without a title is marked as still being learnt."""

Column = NDArray[np.float64]


class LabelPage(NamedTuple):
    """Page of labels as JSON, and the total number of labels."""

    labels: list[dict[str, Any]]
    total: int


class LabelFacts(NamedTuple):
    """Facts about labels by column; `curves`, `alarms` and `details` are None if missing.

    `old_names` has the old names of labels by column.
    """

    names: Sequence[str]
    measured: Prequential
    retired: Collection[str]
    curves: PlattParameters | None
    alarms: Alarms | None
    old_names: Mapping[int, Sequence[str]] = MappingProxyType({})
    details: DetailsOfLabels | None = None
    paused: Collection[str] = ()


def measured(prequential: Prequential) -> dict[str, Any]:
    """Return the metrics over all labels, and those by the frequency of labels, as JSON."""
    return {**prequential.measures(), "by_seen": prequential.by_seen()}


def label_page(facts: LabelFacts, sort: str, descending: bool, offset: int, limit: int) -> LabelPage:
    """Return a page of labels, sorted by a column in `SORTS`. Labels without a value come last; ties are in order of
    appearance."""
    columns = _columns(facts)
    names = facts.names
    if sort == "name":
        order = np.array(sorted(range(len(names)), key=names.__getitem__, reverse=descending), dtype=np.int64)
    else:
        order = np.argsort(-columns[sort] if descending else columns[sort], kind="stable")  # NaN sorts last
    shown = order[offset : offset + limit]
    rows = {name: _listed(column[shown]) for name, column in columns.items()}
    page = []
    for at, label in enumerate(shown.tolist()):
        row = {name: column[at] for name, column in rows.items()}
        details = NO_DETAILS if facts.details is None else facts.details[label]
        retired = names[label] in facts.retired
        page.append(
            {
                "label": names[label],
                "old_names": list(facts.old_names.get(label, ())),
                "retired": retired,
                "paused": names[label] in facts.paused,
                "learning": None if retired else learning(row["examples"] or 0.0, details.title),
                **_to_json(row),
                **details._asdict(),
            }
        )
    if facts.alarms is None:
        page = [{**row, "drift": None} for row in page]
    return LabelPage(page, len(names))


def _columns(facts: LabelFacts) -> dict[str, Column]:
    """Return a number per label, NaN if missing."""
    n = len(facts.names)
    counted = facts.measured.labels()
    examples, known, first, last = (_padded(array, n) for array in counted[:4])
    columns = {
        "examples": examples,
        "frequency": _ratio(examples, known),
        "first_seen": _or_nan(first),
        "last_seen": _or_nan(last),
        **_measured("", counted.cumulative, n),
        **_measured("window_", counted.window, n),
    }
    for name in ("threshold", "slope", "intercept"):
        columns[name] = _padded(np.empty(0) if facts.curves is None else getattr(facts.curves, name), n, np.nan)
    alarms = facts.alarms or Alarms(*np.zeros((2, 1 + n), dtype=np.int64))
    columns["alarms"], columns["last_alarm"] = _padded(alarms.counts[1:], n), _or_nan(_padded(alarms.last[1:], n))
    return columns


def _measured(prefix: str, counts: NDArray[np.float64], n: int) -> dict[str, Column]:
    measures = measures_of_labels(np.column_stack([_padded(column, n) for column in counts.T]))
    return {prefix + name: column for name, column in measures.items()}


def measures_of_labels(counts: NDArray[np.float64]) -> dict[str, Column]:
    """Return precision, recall and F1 from the numbers of true positives, false positives and false negatives; NaN for
    0/0."""
    tp, fp, fn = counts.T
    values = (_ratio(tp, tp + fp), _ratio(tp, tp + fn), _ratio(2 * tp, 2 * tp + fp + fn))
    return dict(zip(_MEASURES, values, strict=True))


def _padded(array: NDArray[Any], n: int, missing: float = 0.0) -> Column:
    """Return the values of the first labels, followed by `missing` for labels that have no metrics after a rollback, or
    that a thread is adding to the learner.
    """
    padded = np.full(n, missing)
    padded[: len(array)] = array
    return padded


def _ratio(part: Column, whole: Column) -> Column:
    quotients = np.full(len(part), np.nan)
    np.divide(part, whole, out=quotients, where=whole > 0)
    return quotients


def _or_nan(counts: NDArray[Any]) -> Column:
    return np.where(counts > 0, counts.astype(float), np.nan)


def _listed(column: Column) -> Sequence[float | None]:
    return [None if value != value else value for value in column.tolist()]


def learning(examples: float, title: str | None) -> dict[str, float] | None:
    """Return the numbers of positive and of required examples of a label; None if it has enough, or has a title."""
    return None if examples >= NEEDED or title is not None else {"seen": _count(examples), "needed": NEEDED}


def _count(examples: float) -> float:
    return int(examples) if examples.is_integer() else examples


def _to_json(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "examples": _count(row["examples"]),
        "frequency": row["frequency"],
        "first_seen": _whole(row["first_seen"]),
        "last_seen": _whole(row["last_seen"]),
        "cumulative": {measure: row[measure] for measure in _MEASURES},
        "window": {measure: row[f"window_{measure}"] for measure in _MEASURES},
        "threshold": row["threshold"],
        "calibration": None if row["slope"] is None else {part: row[part] for part in ("slope", "intercept")},
        "drift": {"alarms": int(row["alarms"]), "last": _whole(row["last_alarm"])},
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def drift_to_json(counts: NDArray[np.int64], last: NDArray[np.int64], label_names: Sequence[str]) -> dict[str, Any]:
    """Return the alarms of the detector of all labels, and of the labels with alarms.

    Parameters
    ----------
    counts : shape (1 + n_labels,), number of alarms of the detector of all labels, then of the detector of each label.
    last : same shape, number of examples learnt at the last alarm of each; 0 without an alarm.
    label_names : in column order.
    """
    counts_listed, last_listed = counts.tolist(), last.tolist()
    labels = {
        label_names[column - 1]: {"alarms": counts_listed[column], "last": last_listed[column]}
        for column in (1 + np.flatnonzero(counts[1:])).tolist()
    }
    return {"alarms": counts_listed[0], "last": last_listed[0] or None, "labels": labels}
