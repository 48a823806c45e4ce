"""History of a model's metrics, in columns, by the number of examples learnt."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics.history import LabelHistory, MeasureHistory
from manylabel_core.metrics.measures import WITH_HISTORY
from manylabel_service.errors import LabelNotFound
from manylabel_service.online.state.label_table import LabelFacts, measures_of_labels


def metrics_history(facts: LabelFacts, labels: Sequence[str]) -> dict[str, Any]:
    """Return past metrics as JSON, optionally also for some labels; NaN if undefined. Raises LabelNotFound."""
    columns = {name: column for column, name in enumerate(facts.names)} if labels else {}
    if unknown := [name for name in labels if name not in columns]:
        raise LabelNotFound(unknown[0])
    measured = facts.measured
    past = measured.history()
    covered = np.array(past.covered, dtype=np.int64)
    history = {
        "stride": past.stride,
        "examples": past.given,
        "cumulative": _part(past, 0, covered),
        "window": {"size": measured.window, **_part(past, 1, np.minimum(covered, measured.window))},
        "labels": {name: _of_label(measured.label_history(columns[name])) for name in labels},
    }
    if facts.alarms is not None:
        sounded = measured.alarms
        names = [facts.names[column - 1] if column else None for _, column in sounded]
        history["drift"] = {"examples": [number for number, _ in sounded], "labels": names}
    return history


def _part(past: MeasureHistory, part: int, examples: NDArray[np.int64]) -> dict[str, Any]:
    """Return the cumulative metrics (0), or those of the window (1), by name."""
    of_model, of_baseline = (_named(past.measures[:, whose, part], examples) for whose in range(2))
    return {"examples": examples.tolist(), **of_model, "baseline": of_baseline}


def _named(measures: NDArray[np.float64], examples: NDArray[np.int64]) -> dict[str, list[float]]:
    shown = np.where(examples[:, None] > 0, measures, np.nan)
    return {name: column.tolist() for name, column in zip(WITH_HISTORY, shown.T, strict=True)}


def _of_label(past: LabelHistory) -> dict[str, Any]:
    parts = {"cumulative": past.cumulative, "window": past.window}
    measures = {part: measures_of_labels(counts) for part, counts in parts.items()}
    listed = {part: {name: column.tolist() for name, column in named.items()} for part, named in measures.items()}
    return {"stride": past.stride, "examples": past.given, **listed}
