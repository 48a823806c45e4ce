"""History of a model's metrics, in columns, by the number of examples learnt."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics.history import MeasureHistory
from manylabel_core.metrics.measures import WITH_HISTORY
from manylabel_service.online.state.label_table import LabelFacts


def metrics_history(facts: LabelFacts) -> dict[str, Any]:
    """Return past metrics as JSON; NaN if undefined."""
    measured = facts.measured
    past = measured.history()
    covered = np.array(past.covered, dtype=np.int64)
    history = {
        "stride": past.stride,
        "examples": past.given,
        "cumulative": _part(past, 0, covered),
        "window": {"size": measured.window, **_part(past, 1, np.minimum(covered, measured.window))},
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
