"""Validation of the untrusted state of a prequential evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics import _prequential
from manylabel_core.metrics.history import check_history
from manylabel_core.metrics.measures import DEPTHS
from manylabel_core.metrics.packed_codes import first_codes, lengths_of, recent_counts
from manylabel_core.metrics.reliability import check_bins, check_label_bins
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT

_FIELDS = {
    "window": (np.int64, (1,)),
    "counts": (np.int64, (2, None, 3)),
    "totals": (np.int64, (2, _prequential.LABELS + 1)),
    "sums": (np.float64, (2, _prequential.N_SUMS)),
    "ring": (np.int64, (2, None, _prequential.N_FIELDS)),
    "codes": (np.int32, (None,)),
    "baseline_codes": (np.int32, (None,)),
    "seen": (np.int64, (None, _prequential.ORDER)),
    "bins": (np.float64, (_prequential.N_BINS, _prequential.N_BIN_SUMS)),
    "groups": (np.int64, (_prequential.N_GROUPS, 3)),
    "label_bins": (np.float64, (None, _prequential.N_BINS, _prequential.N_BIN_SUMS)),
    "covered": (np.int64, (None,)),
    "points": (np.float64, (None, 2, 2, _prequential.N_BASIC)),
    "alarms": (np.int64, (None, 2)),
}
_MODEL, _BASELINE = _prequential.MODEL, _prequential.BASELINE

MAX_EXAMPLES = 2**37
"""Upper bound of the examples of a stream, so that sums of units stay below 2^63."""

MAX_UNITS = int(MAX_EXAMPLE_WEIGHT) * _prequential.UNIT
"""Maximum weight of an example in units."""


def codes_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the outcomes of labels in the window, of the predictions and of the baseline."""
    return arrays["codes"], arrays["baseline_codes"]


def check_state(arrays: Mapping[str, NDArray[Any]], window: int) -> list[NDArray[np.int64]]:
    """Return the counts of labels in the window, of the predictions and of the baseline.

    Raises ValueError unless these are the arrays of a measurement with this window.
    """
    for name, (dtype, shape) in _FIELDS.items():
        array = arrays.get(name)
        if (
            array is None
            or array.dtype != dtype
            or len(array.shape) != len(shape)
            or not all(due in (None, found) for due, found in zip(shape, array.shape, strict=True))
        ):
            raise ValueError(f"{name}: expected an array of {dtype.__name__} of shape {shape}")
    if arrays["window"][0] != window:
        raise ValueError(f"window: the state has a window of {arrays['window'][0]}, not {window}")
    _check_totals(arrays, window)
    recent = []
    for of, codes in enumerate(codes_of(arrays)):
        _check_ring(arrays["ring"][of], arrays["counts"].shape[1])
        recent.append(_checked_counts(codes, arrays["ring"][of], arrays["counts"][of]))
    _check_seen(arrays["seen"], arrays["totals"][_MODEL])
    check_bins("bins", arrays["bins"], arrays["totals"][_MODEL])
    check_label_bins(arrays["label_bins"], arrays["bins"], arrays["counts"], arrays["totals"][_MODEL])
    check_history(arrays)
    return recent


def _check_totals(arrays: Mapping[str, NDArray[Any]], window: int) -> None:
    totals, counts, sums = arrays["totals"], arrays["counts"], arrays["sums"]
    shared = [at for at in range(_prequential.LABELS + 1) if at not in (_prequential.ONE_ERRORS, _prequential.EXACT)]
    examples, given = (int(totals[_MODEL, at]) for at in (_prequential.EXAMPLES, _prequential.GIVEN))
    if not 0 <= examples <= given < MAX_EXAMPLES or arrays["ring"].shape[1] != min(examples, window):
        raise ValueError("totals: the number of examples differs from the length of ring")
    if (totals[_MODEL, shared] != totals[_BASELINE, shared]).any():
        raise ValueError("totals: the model and the baseline must count the same examples")
    if totals[_MODEL, _prequential.LABELS] != counts.shape[1]:
        raise ValueError("totals: the labels do not match counts")
    weighed, most = int(totals[_MODEL, _prequential.WEIGHED]), MAX_UNITS * given
    if not examples <= weighed <= MAX_UNITS * examples or not 0 <= totals[_MODEL, _prequential.COMPLETE] <= most:
        raise ValueError("totals: weights must be possible for the number of examples")
    errors = totals[:, [_prequential.ONE_ERRORS, _prequential.EXACT]]
    for name, array in (("totals", errors), ("counts", counts), ("sums", sums * _prequential.UNIT)):
        if not ((array >= 0) & (array <= weighed)).all():
            raise ValueError(f"{name}: expected values from 0 to the number of examples")
    groups = arrays["groups"]
    if (groups < 0).any() or (groups.sum(axis=0) != counts[_MODEL].sum(axis=0)).any():
        raise ValueError("groups: the outcomes do not match counts")
    if not ((totals[:, _prequential.RANKED] >= 0) & (totals[:, _prequential.RANKED] <= weighed)).all():
        raise ValueError("totals: expected values from 0 to the number of examples")
    truths = counts[:, :, [_prequential.TP, _prequential.FN]].sum(axis=2)
    if (truths[_MODEL] != truths[_BASELINE]).any():
        raise ValueError("counts: the model and the baseline must count the same labels")


def _check_seen(seen: NDArray[np.int64], totals: NDArray[np.int64]) -> None:
    first, last = seen[:, _prequential.FIRST], seen[:, _prequential.LAST]
    if len(seen) != totals[_prequential.LABELS]:
        raise ValueError("seen: the labels do not match counts")
    told, given = seen[:, _prequential.PARTIAL], int(totals[_prequential.GIVEN])
    if not ((seen >= 0).all() and (told <= MAX_UNITS * given).all() and (seen[:, _prequential.FIRST :] <= given).all()):
        raise ValueError("seen: expected values from 0 to the number of examples")
    if ((first == 0) != (last == 0)).any() or (first > last).any():
        raise ValueError("seen: the last example of a label must not be before its first one")


def _check_ring(ring: NDArray[np.int64], n_labels: int) -> None:
    known, pairs = ring[:, _prequential.KNOWN], ring[:, _prequential.PAIRS]
    if not ((ring >= 0) & (ring[:, :4] <= n_labels).all(axis=1, keepdims=True)).all():
        raise ValueError("ring: expected counts of labels")
    if (ring[:, : _prequential.KNOWN].sum(axis=1) > known).any() or (pairs > known * known).any():
        raise ValueError("ring: an example has more labels than are known")
    if (ring[:, _prequential.MISRANKED] > pairs).any() or (ring[:, _prequential.ONE_ERROR] > 1).any():
        raise ValueError("ring: an example has more ranking errors than are possible")
    best, gain = ring[:, _prequential.BEST], ring[:, _prequential.GAIN]
    bits, n_best = best & ((1 << _prequential.PLACES) - 1), best >> _prequential.PLACES
    n_relevant = ring[:, [_prequential.TP, _prequential.FN]].sum(axis=1)
    most = np.minimum(n_relevant, DEPTHS[-1])
    if (n_best > most).any() or (_prequential.HITS[bits] > n_best).any():
        raise ValueError("ring: an example has more true labels among the best than in all")
    if not ((gain >= _prequential.GAINS[bits]) & (gain <= _prequential.IDEAL[n_best])).all():
        raise ValueError("ring: the gain does not match the labels among the best")
    if not ((ring[:, _prequential.WEIGHT] >= 1) & (ring[:, _prequential.WEIGHT] <= MAX_UNITS)).all():
        raise ValueError("ring: a weight must be above 0 and at most 1,000")


def _checked_counts(codes: NDArray[np.int32], ring: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts of labels in the window; raise ValueError if the outcomes of labels are invalid."""
    runs = codes < 0
    if runs[:1].any() or (runs[1:] & runs[:-1]).any():
        raise ValueError("codes: each number of labels must follow the code of a label")
    firsts, lengths, found = first_codes(codes), lengths_of(codes), ring[:, : _prequential.KNOWN]
    if ((firsts >> 2) + lengths > len(counts)).any() or (firsts & 3 > _prequential.FN).any():
        raise ValueError("codes: a code refers to a label or an outcome that does not exist")
    ends = np.cumsum(found.sum(axis=1))
    held = np.zeros(1 + len(lengths), dtype=np.int64)
    np.cumsum(lengths, out=held[1:])
    total = ends[-1] if len(ends) else 0
    if total != held[-1]:
        raise ValueError(f"codes: must have {total} labels, as many as ring, not {held[-1]}")
    begins = np.searchsorted(held, np.concatenate([[0], ends]))
    if (held[begins[1:]] != ends).any() or runs[begins[begins < len(codes)]].any():
        raise ValueError("codes: the first code of each example must be a label")
    outcomes, examples = np.zeros_like(found), np.searchsorted(ends, held[1:])
    np.add.at(outcomes, (examples, firsts & 3), lengths)
    recent = recent_counts(firsts, lengths, ring[examples, _prequential.WEIGHT], len(counts))
    if (outcomes != found).any() or (recent > counts).any():
        raise ValueError("codes: the outcomes do not match ring and counts")
    return recent
