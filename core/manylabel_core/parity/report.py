"""Report on the account of a promise of parity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from manylabel_core.parity import _rule
from manylabel_core.parity.parity import Parity

MAX_LISTED = 20
"""Maximum number of labels listed."""


def report(parity: Parity, names: Sequence[str], n_waiting: int = 0) -> dict[str, Any]:
    """Return the account of a promise of parity as JSON values.

    Parameters
    ----------
    parity : Parity
    names : sequence of str
        Names of labels, by column.
    n_waiting : int
        Number of audits that wait for the teacher's answer.
    """
    target, numbers = parity.target, parity.memory.numbers.tolist()
    openings, answered = int(numbers[_rule.OPENINGS]), int(numbers[_rule.ANSWERED])
    asked = int(numbers[_rule.UNSURE] + numbers[_rule.AUDITS])
    credit = _rule.CREDIT - 1.0 + openings - 1 if openings else 0.0
    return {
        **target._asdict(),
        "state": "open" if parity.open else "closed" if openings else "learning",
        "audit_rate_now": parity.audit_rate,
        "answered": answered,
        "empty_share": _share(numbers[_rule.EMPTY], answered),
        "asked": asked,
        "calls_saved": _share(answered, answered + asked),
        "audits": int(numbers[_rule.AUDITS]),
        "audits_waiting": n_waiting,
        "audits_without_answer": int(numbers[_rule.EXPIRED]),
        "estimated_wrong": numbers[_rule.WRONG],
        "spread": math.sqrt(numbers[_rule.SQUARES]),
        "allowed": (1.0 - target.parity) * numbers[_rule.STOOD_FOR] + credit,
        "openings": openings,
        "people": _by_people(numbers),
        "labels": _by_label(parity, names),
    }


def _by_people(numbers: list[float]) -> dict[str, Any]:
    """Return the judgements of people, and the interval of the share of right answers, from the answers drawn for a
    check."""
    counts = [int(number) for number in numbers[_rule.PEOPLE :]]
    right, wrong = counts[_rule.DRAWN - _rule.PEOPLE :]
    low, high = wilson(right, right + wrong)
    names = ("model_right", "model_wrong", "teacher_right", "teacher_wrong")
    return {
        **dict(zip(names, counts, strict=False)),
        "checked": right + wrong,
        "right_share": _share(right, right + wrong),
        "right_low": low,
        "right_high": high,
    }


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share; 0 to 1 without examples.

    Examples
    --------
    >>> low, high = wilson(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    """
    if whole == 0:
        return 0.0, 1.0
    share, z2 = part / whole, 1.96**2
    middle, spread = share + z2 / (2 * whole), 1.96 * math.sqrt((share * (1.0 - share) + z2 / (4 * whole)) / whole)
    divisor = 1.0 + z2 / whole
    return max(0.0, (middle - spread) / divisor), min(1.0, (middle + spread) / divisor)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _by_label(parity: Parity, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the labels about which the model and the teacher disagreed in audits, the most frequent first."""
    table = parity.memory.labels[:, : min(parity.n_labels, len(names))]
    differ = table.sum(axis=0)
    order = np.lexsort((np.arange(len(differ)), -differ))[:MAX_LISTED]
    return [
        {"label": names[column], "added": int(table[0, column]), "missed": int(table[1, column])}
        for column in order.tolist()
        if differ[column] > 0
    ]
