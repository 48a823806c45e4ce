"""Report on the account of a promise: applied labels, remaining errors, and possible coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.promise import _gate, _pass
from manylabel_core.promise.promise import Promise

CURVE = (0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99)
"""Precisions for which the recall is estimated."""
MAX_LISTED = 100
"""Maximum number of labels listed."""


def report(promise: Promise, names: Sequence[str]) -> dict[str, Any]:
    """Return the account of a promise as JSON values; `names` has the names of labels, by column."""
    target, counts = promise.target, promise.memory.counts.tolist()
    labels, examples = promise.memory.gates.tolist()
    settled = None
    if target.settled is not None:
        settled = _gate_report(promise, 1, target.settled)
        if settled["state"] == "open" and counts[_pass.BUCKET] < 1.0:
            settled["state"] = "closed"
            settled["why"] = "waits for more true labels: too many were missed, or too few arrived"
    return {
        **target._asdict(),
        "gate": _gate_report(promise, 0, target.precision),
        "settled_gate": settled,
        "total": _numbers(
            labels[_gate.COUNTED],
            labels[_gate.WRONG],
            counts[_pass.TRUE],
            counts[_pass.FOUND],
            counts[_pass.EXAMPLES],
            examples[_gate.COUNTED],
            examples[_gate.WRONG],
            counts[_pass.MISSED],
        ),
        "last_1000": _recent(promise),
        "audited": int(counts[_pass.AUDITS]),
        "labels": _by_label(promise, names),
        "curve": curve(promise),
    }


def _gate_report(promise: Promise, which: int, precision: float) -> dict[str, Any]:
    """Return the state of a gate, its reason, and the remaining errors."""
    gate, bins = promise.memory.gates[which], promise.memory.bins[which]
    unit = ("label", "labels") if which == 0 else ("example", "examples")
    if gate[_gate.OPEN] > 0.0:
        room = max(0, math.floor(gate[_gate.ACCOUNT] / precision - 1.0 + 1e-9))
        why = f"room for {room} more {'error' if room == 1 else 'errors'} before it stops"
        return {"state": "open", "why": why, "room": room, "openings": int(gate[_gate.OPENINGS])}
    state = "closed" if gate[_gate.OPENINGS] > 0 else "learning"
    alpha = 1.0 - precision
    needed = math.ceil(_gate.OPENS_AT / alpha - 1e-9)
    reached = min(needed, math.floor(gate[_gate.SHADOW] / alpha + 1e-9))
    why = f"{reached} of {needed} correct in shadow mode"
    if _gate.threshold(bins, gate, precision) == _gate.NO_THRESHOLD:
        why = f"no {unit[0]} is sure enough yet"
    return {"state": state, "why": why, "room": 0, "openings": int(gate[_gate.OPENINGS])}


def _numbers(
    applied: float,
    wrong: float,
    true: float,
    found: float,
    examples: float,
    settled: float,
    faulty: float,
    missed: float,
) -> dict[str, Any]:
    return {
        "applied": int(applied),
        "wrong": int(wrong),
        "precision": _share(applied - wrong, applied),
        "true": int(true),
        "recall": _share(found, true),
        "examples": int(examples),
        "settled": int(settled),
        "settled_share": _share(settled, examples),
        "settled_right": _share(settled - faulty, settled),
        "missed": int(missed),
        "missed_share": _share(missed, true),
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _recent(promise: Promise) -> dict[str, Any]:
    """Return the figures for the last 1,000 applied labels, and for the last 1,000 examples."""
    memory = promise.memory
    n_applied = min(_pass.RECENT, int(memory.gates[0, _gate.COUNTED]))
    n_examples = min(_pass.RECENT, int(memory.counts[_pass.LEARNT]))
    wrong = int(memory.recent_applied[:n_applied].sum())
    rows: NDArray[np.int64] = memory.recent_examples[:n_examples].astype(np.int64)
    true, found, missed, _ = rows.sum(axis=0).tolist()
    settled, faulty = int((rows[:, 3] > 0).sum()), int((rows[:, 3] == 1).sum())
    return _numbers(n_applied, wrong, true, found, n_examples, settled, faulty, missed)


def _by_label(promise: Promise, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the applied labels, those with the lowest precision first."""
    table = promise.memory.labels[:, : min(promise.n_labels, len(names))]
    applied, wrong = table[_pass.LABEL_APPLIED], table[_pass.LABEL_WRONG]
    columns = np.flatnonzero(applied)
    precision = 1.0 - wrong[columns] / applied[columns]
    order = np.lexsort((columns, -applied[columns], precision))[:MAX_LISTED]
    return [
        {
            "label": names[columns[at]],
            "applied": int(applied[columns[at]]),
            "wrong": int(wrong[columns[at]]),
            "precision": float(precision[at]),
        }
        for at in order.tolist()
    ]


def curve(promise: Promise, precisions: Sequence[float] = CURVE) -> list[dict[str, float]]:
    """Return the recall at other targets, estimated from recent decisions (5,000 candidates)."""
    bins, gate = promise.memory.bins[0], promise.memory.gates[0].copy()
    gate[[_gate.OPEN, _gate.LEDGER]] = 0.0  # equal to the recall without an account
    true, found = float(gate[_gate.TRUE]), []
    for precision in precisions:
        edge = float(_gate.threshold(bins, gate, precision))
        first = _gate.BINS if edge == _gate.NO_THRESHOLD else round((edge + 1.0) * 8.0)
        applied = float(bins[0, first:].sum())
        found.append({"precision": precision, "recall": min(1.0, applied / true) if true > 0.0 else 0.0})
    return found
