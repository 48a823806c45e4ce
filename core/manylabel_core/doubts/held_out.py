"""Probabilities of the labels of learnt examples, by models that have not learnt these examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import Rows, Targets

BLOCK_ROWS = 1_000
"""Maximum number of examples that are learnt or scored at a time."""
BLOCK_NUMBERS = 2**20
"""Maximum numbers in a block of probabilities, unless a single example has more labels."""

Judges = tuple[Pipeline, Pipeline]
"""Two untrained models with all features and labels; each learns one half of the examples, see `half_of`."""


class HeldOut(NamedTuple):
    """Block of examples with their probabilities by the judge that has not learnt them."""

    judge: int
    """Number of the judge."""
    rows: NDArray[np.int64]
    """(n_rows,): numbers of the examples."""
    probabilities: NDArray[np.float64]
    """(n_rows, n_labels): NaN if the judge has learnt no example with the label."""


def take_rows(rows: Rows, chosen: NDArray[np.int64]) -> Rows:
    """Return a copy of the examples with the given numbers."""
    indptr, at = _places(rows.indptr, chosen)
    return Rows(indptr, rows.indices[at], rows.values[at])


def take_targets(targets: Targets, chosen: NDArray[np.int64]) -> Targets:
    """Return a copy of the true labels of the examples with the given numbers."""
    indptr, at = _places(targets.indptr, chosen)
    weights = targets.weights[chosen] if len(targets.weights) else targets.weights
    facts = targets.complete[chosen], targets.n_labels[chosen], weights
    return Targets(indptr, targets.indices[at], targets.signs[at], *facts)


def weights_of(targets: Targets) -> NDArray[np.float64]:
    """Return the weight of each example."""
    return targets.weights if len(targets.weights) else np.ones(len(targets.complete))


def known(targets: Targets, n_labels: int) -> NDArray[np.int8]:
    """Return the truth, (n_rows, n_labels): 1 for a true label, -1 for a false one, 0 for an unknown one."""
    truth = np.zeros((len(targets.complete), n_labels), dtype=np.int8)
    truth[targets.complete] = -1
    truth[np.repeat(np.arange(len(truth)), np.diff(targets.indptr)), targets.indices] = targets.signs
    return truth


def learn_halves(
    rows: Rows, targets: Targets, judges: Judges, n_labels: int, report: Callable[[int], Any]
) -> NDArray[np.int64]:
    """Let each judge learn its half, and return the number of examples with each label that it has learnt.

    Parameters
    ----------
    report : callback with the number of examples of a block that were learnt.

    Returns
    -------
    ndarray of shape (2, n_labels)
    """
    seen = np.zeros((2, n_labels), dtype=np.int64)
    for k, judge in enumerate(judges):
        for chosen in _blocks(k, len(targets.complete), n_labels):
            learnt = take_targets(targets, chosen)
            judge.learn(take_rows(rows, chosen), learnt)
            seen[k] += np.bincount(learnt.indices[learnt.signs > 0], minlength=n_labels)
            report(len(chosen))
    return seen


def held_out(rows: Rows, judges: Judges, seen: NDArray[np.int64], report: Callable[[int], Any]) -> Iterator[HeldOut]:
    """Yield the probabilities of all examples, block by block; `seen` and `report` as in `learn_halves`."""
    for k, judge in enumerate(judges):
        for chosen in _blocks(1 - k, len(rows.indptr) - 1, seen.shape[1]):
            probabilities = judge.probabilities(judge.score(take_rows(rows, chosen)))
            probabilities[:, seen[k] == 0] = np.nan
            yield HeldOut(k, chosen, probabilities)
            report(len(chosen))


def half_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the half, 0 or 1, to which each of the numbered examples belongs.

    Each half gets one of two successive examples, in an order without a period. So both halves are alike even if the
    stream has a period, for example because two sources feed it by turns.
    """
    turn = (rows >> 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(63)
    return (rows & 1) ^ turn.astype(np.int64)


def judge_of(judges: Sequence[Pipeline], row: int) -> Pipeline:
    """Return the judge that has not learnt an example."""
    return judges[1 - int(half_of(np.array([row]))[0])]


def _blocks(half: int, n_rows: int, n_labels: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the examples of a half, in blocks."""
    step = min(BLOCK_ROWS, max(1, BLOCK_NUMBERS // (1 + n_labels)))
    chosen = np.flatnonzero(half_of(np.arange(n_rows)) == half)
    return (chosen[at : at + step] for at in range(0, len(chosen), step))


def _places(indptr: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the chosen rows end in a copy of them, and the indices of their values."""
    lengths = indptr[chosen + 1] - indptr[chosen]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return ends, np.repeat(indptr[chosen] - ends[:-1], lengths) + np.arange(ends[-1])
